"""Functions of numbers, as methods of every expression."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..plan.errors import PipelineError
from ..plan.expressions import Binary, Builtin, Expression, Unary, When

if TYPE_CHECKING:
    from .values import Expr


class Mathematics:
    """The part of `Expr` that works on numbers."""

    __slots__ = ()

    node: Expression

    def abs(self) -> Expr:
        """The absolute value.

        >>> from headrace.expr import col
        >>> col("a").abs()
        Expr(abs(a))
        """
        return _expr(Unary("abs", self.node))

    def round(self, decimals: int = 0) -> Expr:
        """Rounded to some decimals, half to even; whole numbers stay as they are.

        >>> from headrace.expr import col
        >>> col("a").round(2)
        Expr(round(a, 2))
        """
        if isinstance(decimals, bool) or not isinstance(decimals, int):
            raise _mistake(f"round({decimals!r}) needs a whole number", "round(2)")
        return builtin("round", self, decimals)

    def floor(self) -> Expr:
        """The largest whole number that is not above; floats stay floats.

        >>> from headrace.expr import col
        >>> col("a").floor()
        Expr(floor(a))
        """
        return builtin("floor", self)

    def ceil(self) -> Expr:
        """The smallest whole number that is not below; floats stay floats.

        >>> from headrace.expr import col
        >>> col("a").ceil()
        Expr(ceil(a))
        """
        return builtin("ceil", self)

    def sqrt(self) -> Expr:
        """The square root; NaN of negative numbers.

        >>> from headrace.expr import col
        >>> col("a").sqrt()
        Expr(sqrt(a))
        """
        return builtin("sqrt", self)

    def exp(self) -> Expr:
        """e to this power.

        >>> from headrace.expr import col
        >>> col("a").exp()
        Expr(exp(a))
        """
        return builtin("exp", self)

    def log(self, base: float | None = None) -> Expr:
        """The logarithm, natural or to a base; -inf of 0, NaN of negative numbers.

        >>> from headrace.expr import col
        >>> col("a").log(), col("a").log(10), col("a").log(2)
        (Expr(log(a)), Expr(log10(a)), Expr(log(a) / 0.6931471805599453))
        """
        if base is None:
            return builtin("log", self)
        if isinstance(base, bool) or not isinstance(base, int | float) or base <= 0 or base == 1:
            raise _mistake(f"log({base!r}) is no base", "log(), log(2) or log(10)")
        return builtin("log10", self) if base == 10 else self.log() / math.log(base)

    def log10(self) -> Expr:
        """The logarithm to base 10.

        >>> from headrace.expr import col
        >>> col("a").log10()
        Expr(log10(a))
        """
        return builtin("log10", self)

    def pow(self, exponent: Any) -> Expr:
        """This number to a power, also `**`.

        Whole numbers stay whole if the exponent is a constant from 0 on; else it is a float.

        >>> from headrace.expr import col
        >>> col("a").pow(2), col("a") ** 0.5
        (Expr(power(a, 2)), Expr(power(a, 0.5)))
        """
        return builtin("power", self, exponent)

    def clip(self, lower: Any = None, upper: Any = None) -> Expr:
        """The value, or the bound that it lies beyond; null and NaN stay.

        >>> from headrace.expr import col
        >>> col("a").clip(0, 10)
        Expr(when((a < 0): 0, (a > 10): 10, else a))
        """
        bounds = [("<", lower), (">", upper)]
        given = [(op, _node(bound)) for op, bound in bounds if bound is not None]
        if not given:
            raise _mistake("clip() needs a bound", "clip(0, 10), clip(lower=0) or clip(upper=10)")
        conditions = tuple(Binary(op, self.node, bound) for op, bound in given)
        return _expr(When(conditions, tuple(bound for _, bound in given), self.node))

    def sign(self) -> Expr:
        """-1, 0 or 1; NaN stays.

        >>> from headrace.expr import col
        >>> col("a").sign()
        Expr(when((a > 0): 1, (a < 0): -1, else a))
        """
        zero, one, minus = _node(0), _node(1), _node(-1)
        conditions = (Binary(">", self.node, zero), Binary("<", self.node, zero))
        return _expr(When(conditions, (one, minus), self.node))

    def is_nan(self) -> Expr:
        """Is it a float that is not a number? (Null is not NaN.)

        >>> from headrace.expr import col
        >>> col("a").is_nan()
        Expr(is_nan(a))
        """
        return builtin("is_nan", self)

    def is_finite(self) -> Expr:
        """Is it a number, and not infinite?

        >>> from headrace.expr import col
        >>> col("a").is_finite()
        Expr(is_finite(a))
        """
        return builtin("is_finite", self)


# `values` builds on this module, so that it is asked for when it is needed.


def builtin(op: str, *operands: Any) -> Expr:
    """A call of a function of `plan.builtins`."""
    return _expr(Builtin(op, tuple(map(_node, operands))))


def _expr(node: Expression) -> Expr:
    from .values import Expr

    return Expr(node)


def _node(value: Any) -> Expression:
    from .values import as_node

    return value.node if isinstance(value, Mathematics) else as_node(value)


def _mistake(what: str, fix: str) -> PipelineError:
    from .values import mistake

    return mistake(what, fix)
