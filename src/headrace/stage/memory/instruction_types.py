"""Numba's side of an instruction: its types, and where its code is made."""

from __future__ import annotations

from collections.abc import Callable

from numba import types
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import signature
from numba.extending import type_callable


def teach_numba(function: Callable, arity: int, result: str, emit: Callable, kind: str) -> None:
    """See `instructions.teach_instruction`."""
    given, parameter = getattr(types, result), getattr(types, kind)
    numbers = (types.Integer, types.Boolean)
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
