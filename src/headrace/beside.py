"""Streams beside a stream: rows that came too late, that failed, that a condition leaves out, or
that a function gives to another output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .combined import Combined
from .expr import Expr
from .plan import asides, build_errors, build_keyed

if TYPE_CHECKING:
    from .stream import Stream


class Beside(Combined):
    """Second outputs, most of them of the stream that an operator gave."""

    __slots__ = ()

    def split(self, condition: Expr, *, name: str | None = None) -> tuple[Stream, Stream]:
        """The rows for which a condition is true, and all others: those where it is null, too.

        >>> from headrace.expr import col
        >>> from headrace.stream import example
        >>> cheap, dear = example(price=float).split(col("price") < 10)
        """
        rows = self._made(self._node)
        other = None if name is None else f"{name}.others"
        chosen = rows.filter(condition, name=name)
        return chosen, rows.filter(~condition.fill_null(False), name=other)

    def aside(self, output: str, *, name: str | None = None) -> Stream:
        """The rows that the function of `process` or `flat_map` yielded as `hr.aside(output, ...)`,
        of the stream it gave.

        >>> from headrace.stage.asides import aside
        >>> from headrace.stream import example
        >>> def halves(n):
        ...     if n % 2:
        ...         yield aside("odd", n, "is odd")
        ...     else:
        ...         yield n // 2
        >>> made = example(n=int).flat_map(halves, output="half", asides={"odd": ["n", "why"]})
        >>> made, made.aside("odd")
        (Stream(half: int64), Stream(n: int64, why: string))
        """
        return self._made(asides.aside(self._node, output, name))

    def late(self, *, name: str | None = None) -> Stream:
        """The rows that came too late for their window, of a stream that `agg` gave; or behind the
        watermark, of one that `process` with timers, `merge` or `sort_by_time` gave.

        >>> from headrace.expr import count
        >>> from headrace.stream import example
        >>> from headrace.time import tumbling
        >>> rows = example(at=int, user=str).with_watermark("at", 5)
        >>> rows.window(tumbling(100)).agg(n=count()).late()
        Stream(at: int64, user: string)
        """
        return self._made(build_keyed.late(self._node, name))

    def dead_letters(self, *, name: str | None = None) -> Stream:
        """The rows that an operator with `on_error="dead_letter"` failed on, of the stream it gave.

        They have the columns that came to the operator, its name in `error_operator`, and the
        error in `error_message`.

        >>> from headrace.expr import col
        >>> from headrace.stream import example
        >>> halves = example(a=int).select(half=10 / col("a"), on_error="dead_letter")
        >>> halves.dead_letters()
        Stream(a: int64, error_operator: string, error_message: string)
        """
        return self._made(build_errors.dead_letters(self._node, name))
