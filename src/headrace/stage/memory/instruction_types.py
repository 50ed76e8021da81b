"""Numba's side of an instruction: its types, and where its code is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import type_callable

from headrace.stage.memory.numba_internals import lower_builtin, signature


def register_numba(function: Callable, arity: int, result: str, emit: Callable, kind: str) -> None:
    """See `instructions.register_instruction`."""
    given, parameter = getattr(types, result), getattr(types, kind)
    numbers: tuple[Any, ...] = (types.Integer, types.Boolean)
    if isinstance(parameter, types.Float):
        numbers += (types.Float,)

    def typed(*arguments):
        if all(isinstance(t, numbers) for t in arguments):
            return signature(given, *[parameter] * arity)

    shapes = (
        lambda: typed(),
        lambda a: typed(a),
        lambda a, b: typed(a, b),
        lambda a, b, c: typed(a, b, c),
    )
    type_callable(function)(lambda context: shapes[arity])

    @lower_builtin(function, *[types.Any] * arity)
    def lower(context, b, sig, args):
        done = emit(context, b, *args)
        return context.get_dummy_value() if given is types.none else done
