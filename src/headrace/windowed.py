"""A stream cut into windows, as users write it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from .expr import Agg
from .expr.functions import check_function
from .habits import WINDOWED, unknown
from .plan import build_keyed
from .plan.checks import Place
from .plan.expressions import Aggregate
from .plan.windows.base import Window
from .plan.windows.counting import Counting

if TYPE_CHECKING:
    from .stream import Stream


class WindowedStream:
    """A stream cut into windows, waiting for its aggregates."""

    __slots__ = ("_name", "_stream", "_window")

    def __init__(self, stream: Stream, window: Window | Counting, name: str | None) -> None:
        self._stream, self._window, self._name = stream, window, name

    def __getattr__(self, name: str) -> NoReturn:
        raise unknown("a stream cut into windows", name, WINDOWED, dir(type(self)))

    def __repr__(self) -> str:
        return f"WindowedStream({repr(self._stream)[len('Stream(') : -1]}; {self._window})"

    def agg(
        self,
        aggregates: Mapping[str, Agg] | None = None,
        *,
        reproducible: bool = True,
        name: str | None = None,
        **made: Agg,
    ) -> Stream:
        """One row for each key and window: the key, `window_start`, and these aggregates.

        Results of sessions have `window_end`, too, and those of windows by count have neither.

        `reproducible=False` lets sums and means of floats be added up in any order, which is
        faster on many cores and may change the last digits.

        >>> from headrace.expr import count, max_
        >>> from headrace.stream import example
        >>> from headrace.time import tumbling
        >>> rows = example(at=int, user=str).with_watermark("at", 5).key_by("user")
        >>> rows.window(tumbling(100)).agg(n=count(), last=max_("at")).schema
        Schema(user: string, window_start: int64, n: int64, last: int64)
        """
        name = self._name if name is None else name
        found = named_aggregates(aggregates, made, Place("agg", name))
        rows, window = self._stream.node, self._window
        if isinstance(window, Counting):
            counted = build_keyed.counted(rows, window.rows, found, check_function, name)
            return type(self._stream)(counted)
        return type(self._stream)(
            build_keyed.aggregate(rows, window, found, check_function, reproducible, name)
        )


def named_aggregates(
    aggregates: Mapping[str, Any] | None, made: Mapping[str, Any], place: Place
) -> list[tuple[str, Aggregate]]:
    """Aggregates as a user gave them, by the names of their results.

    >>> from headrace.expr import count
    >>> [name for name, _ in named_aggregates(None, {"n": count()}, Place("agg", None))]
    ['n']
    """
    given = place.by_name(aggregates, made, 'total=hr.sum("price")')
    for column, aggregate in given.items():
        if not isinstance(aggregate, Agg):
            raise place.error(
                f"{column}={aggregate!r} is not an aggregate",
                "use hr.count(), hr.sum(...), hr.mean(...), hr.min(...), hr.max(...), ...",
            )
    return [(column, aggregate.node) for column, aggregate in given.items()]
