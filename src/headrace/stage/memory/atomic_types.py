"""Numba's side of an atomic: its types, and where its code is made."""

from __future__ import annotations

from collections.abc import Callable

from numba import types
from numba.extending import type_callable

from headrace.stage.memory.numba_internals import lower_builtin, signature
from headrace.stage.memory.record_types import Address, Cell, meaning


def register_numba(
    function: Callable, arity: int, emit: Callable, named: str | None, only_integers: bool
) -> None:
    """See `atomics._register_atomic`."""
    result = named and getattr(types, named)

    def typed(base, which, *values):
        found = base.find(which) if isinstance(base, Address) else None
        if not found or not isinstance(meaning(found[0]), Cell):
            return None
        kind = base.type_of(which)
        if only_integers and isinstance(kind, types.Float):
            return None
        accepted = [base.accepted(which, value) for value in values]
        return signature(result or kind, base, which, *accepted) if all(accepted) else None

    shapes = (
        lambda place, which: typed(place, which),
        lambda place, which, value: typed(place, which, value),
        lambda place, which, expected, new: typed(place, which, expected, new),
    )
    type_callable(function)(lambda context: shapes[arity])

    @lower_builtin(function, Address, types.Any, *[types.Any] * arity)
    def lower(context, b, sig, args):
        typ, which = sig.args[:2]
        tag, _ = typ.find(which)
        cell = meaning(tag)
        pointer = cell.cell(b, tag, typ.pointer(context, b, args[0], which, args[1]))
        raw = emit(b, pointer, *(cell.to_stored(b, tag, value) for value in args[2:]))
        if result is not None:
            return context.get_dummy_value() if result is types.none else raw
        return cell.from_stored(b, tag, raw)
