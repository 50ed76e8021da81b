"""Whole numbers in users' functions: what does not fit in 64 bits raises, as in expressions.

Numba wraps around without a word, and gives anything for what a machine cannot do (shifts by 64
bits, the lowest number // -1). So the operators of two int64 are compiled into those of
expressions. What Numba compiles besides, for its own ends, stays as it is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import overload

from headrace.stage.memory.arithmetic import (
    absolute,
    add,
    floor_divide,
    left_shift,
    multiply,
    remainder,
    right_shift,
    subtract,
)
from headrace.stage.memory.numba_internals import (
    CompilerBase,
    DefaultPassBuilder,
    Lower,
    NativeLowering,
    PassManager,
    ir,
    register_pass,
)
from headrace.stage.numbers import whole_power

_TWO = types.int64(types.int64, types.int64)
CHECKED: dict[Any, Callable[..., Any]] = {
    operator.add: add,
    operator.sub: subtract,
    operator.mul: multiply,
    operator.floordiv: floor_divide,
    operator.mod: remainder,
    operator.pow: whole_power,  # negative exponents are refused (`silent`)
    operator.lshift: left_shift,
    operator.rshift: right_shift,
}
_calls: dict[Any, Callable[..., Any]] = {}  # one for each, as Numba compiles each object anew


class _CheckedLower(Lower):
    """Numba's way from operations to instructions, but for those above."""

    def lower_binop(self, resty: types.Type, expr: ir.Expr, op: Any) -> Any:
        if op not in CHECKED or _plain(self.fndesc.calltypes[expr]) != _TWO:
            return super().lower_binop(resty, expr, op)
        return self._call(CHECKED[op], self._whole(expr.lhs), self._whole(expr.rhs), resty)

    def lower_expr(self, resty: types.Type, expr: ir.Expr) -> Any:
        negated = expr.op == "unary" and expr.fn is operator.neg
        if not negated or _plain(self.fndesc.calltypes[expr]) != types.int64(types.int64):
            return super().lower_expr(resty, expr)
        nothing = self.context.get_constant(types.int64, 0)
        return self._call(subtract, nothing, self._whole(expr.value), resty)

    def _whole(self, given: ir.Var) -> Any:
        """The value of a variable as an int64."""
        value, kind = self.loadvar(given.name), self.typeof(given.name)
        return self.context.cast(self.builder, value, kind, types.int64)

    def _call(self, function: Callable[..., Any], a: Any, b: Any, resty: types.Type) -> Any:
        call = _calls.setdefault(function, lambda a, b: function(a, b))
        made = self.context.compile_internal(self.builder, call, _TWO, (a, b))
        return self.context.cast(self.builder, made, types.int64, resty)


def _plain(asked: Any) -> Any:
    """A signature without what is known of the values."""
    return types.unliteral(asked.return_type)(*map(types.unliteral, asked.args))


@register_pass(mutates_CFG=True, analysis_only=False)
class _CheckedLowering(NativeLowering):
    _name = "headrace_checked_lowering"

    @property
    def lowering_class(self) -> type[Lower]:
        return _CheckedLower


class CheckedCompiler(CompilerBase):
    """Compiles a user's function: as Numba does, but for the above."""

    def define_pipelines(self) -> list[PassManager]:
        """Numba's own steps, with another lowering."""
        given = DefaultPassBuilder.define_nopython_pipeline(self.state)
        steps = PassManager("headrace_user")
        for step, said in given.passes:
            steps.add_pass(_CheckedLowering if step is NativeLowering else step, said)
        steps.finalize()
        return [steps]


# ---- builtins ------------------------------------------------------------------------------


def checked_abs(x):  # type: ignore[no-untyped-def]
    """`abs`, for compiled functions."""
    return abs(x)


def checked_pow(x, y):  # type: ignore[no-untyped-def]
    """`pow` of two, likewise."""
    return x**y


@overload(checked_abs)
def _overload_abs(x):  # type: ignore[no-untyped-def]
    if isinstance(x, types.Integer):
        return lambda x: absolute(x)
    return lambda x: abs(x)


@overload(checked_pow)
def _overload_pow(x, y):  # type: ignore[no-untyped-def]
    if isinstance(x, types.Integer) and isinstance(y, types.Integer):
        return lambda x, y: whole_power(x, y)
    return lambda x, y: x**y
