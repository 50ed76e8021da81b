"""Choices, strings put together, and timestamps from numbers."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from ..plan.errors import PipelineError
from ..plan.expressions import Binary, Cast, Coalesce, Expression, Extreme, KeyHash, When
from ..plan.types import timestamp
from .mathematics import builtin
from .values import Expr, as_expr, as_node, column_or_name, mistake


@dataclass(frozen=True, slots=True)
class Case:
    """`when(condition)`, waiting for its `then`."""

    conditions: tuple[Expression, ...]
    values: tuple[Expression, ...] = ()

    def unfinished(self) -> PipelineError:
        """It has no value yet."""
        return mistake("a when(...) without its .then(...)", "when(condition).then(value)")

    def then(self, value: Any) -> Cases:
        """The value where the condition is the first true one.

        >>> from headrace.expr import col
        >>> when(col("a") > 0).then(1)
        Expr(when((a > 0): 1, else null))
        """
        return Cases(When(self.conditions, (*self.values, as_node(value)), None))


class Cases(Expr):
    """`when(...).then(...)`: an expression that can still get more cases; else it is null."""

    __slots__ = ()

    def when(self, condition: Any) -> Case:
        """One more case, tried if those before it are not true.

        >>> from headrace.expr import col
        >>> when(col("a") > 9).then("big").when(col("a") > 0).then("small")
        Expr(when((a > 9): 'big', (a > 0): 'small', else null))
        """
        known = self._cases
        return Case((*known.conditions, as_node(condition)), known.values)

    def otherwise(self, value: Any) -> Expr:
        """The value where no condition is true.

        >>> from headrace.expr import col
        >>> when(col("a") > 0).then(1).otherwise(-1)
        Expr(when((a > 0): 1, else -1))
        """
        known = self._cases
        return Expr(When(known.conditions, known.values, as_node(value)))

    @property
    def _cases(self) -> When:
        assert isinstance(self.node, When)
        return self.node


def when(condition: Any) -> Case:
    """The first case of a choice: `when(c).then(v).when(...).then(...).otherwise(v)`.

    >>> from headrace.expr import col
    >>> when(col("a").is_null()).then(0).otherwise(col("a"))
    Expr(when(is_null(a): 0, else a))
    """
    return Case((as_node(condition),))


def concat(*parts: Any) -> Expr:
    """Strings put together.

    >>> from headrace.expr import col
    >>> concat(col("first"), " ", col("last"))
    Expr(concat(concat(first, ' '), last))
    """
    if len(parts) < 2:
        raise mistake("concat() needs two strings or more", "hr.concat(a, b)")
    return functools.reduce(lambda left, right: builtin("concat", left, right), map(as_expr, parts))


def coalesce(*values: Any) -> Expr:
    """The first of some values that is not null.

    >>> from headrace.expr import col
    >>> coalesce(col("a"), col("b"), 0)
    Expr(coalesce(coalesce(a, b), 0))
    """
    nodes = _several("coalesce", values)
    return Expr(functools.reduce(Coalesce, nodes))


def least(*values: Any) -> Expr:
    """The least of some values, nulls left out; null where all are. NaN is above all numbers.

    >>> from headrace.expr import col
    >>> least(col("a"), col("b"), 10)
    Expr(least(a, b, 10))
    """
    return Expr(Extreme("least", _several("least", values)))


def greatest(*values: Any) -> Expr:
    """The greatest of some values, nulls left out; null where all are. NaN is above all numbers.

    >>> from headrace.expr import col
    >>> greatest(col("a"), 0)
    Expr(greatest(a, 0))
    """
    return Expr(Extreme("greatest", _several("greatest", values)))


def hash_(*values: Any) -> Expr:
    """One hash of some values, the same for ever and everywhere; nulls have one too.

    >>> from headrace.expr import col
    >>> hash_(col("a"), col("b"))
    Expr(hash(a, b))
    """
    if not values:
        raise mistake("hash() needs a value", 'hr.hash(col("user"))')
    return Expr(KeyHash(tuple(map(as_node, values))))


def _several(what: str, values: tuple[Any, ...]) -> tuple[Expression, ...]:
    if len(values) < 2:
        raise mistake(f"{what}() needs two values or more", f'hr.{what}(col("a"), col("b"))')
    return tuple(map(as_node, values))


def from_millis(milliseconds: Expr | str) -> Expr:
    """A timestamp from whole milliseconds since 1970 (UTC); a string names a column.

    >>> from_millis("sent")
    Expr(cast((sent * 1000), timestamp))
    """
    return _from_unit(milliseconds, 1_000)


def from_seconds(seconds: Expr | str) -> Expr:
    """A timestamp from whole seconds since 1970 (UTC); a string names a column.

    >>> from headrace.expr import col
    >>> from_seconds(col("sent") + 1)
    Expr(cast(((sent + 1) * 1000000), timestamp))
    """
    return _from_unit(seconds, 1_000_000)


def _from_unit(value: Expr | str, micros: int) -> Expr:
    return Expr(Cast(Binary("*", column_or_name(value), as_node(micros)), timestamp))
