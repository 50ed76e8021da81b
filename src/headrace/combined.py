"""What a stream becomes together with others: unions, and joins with tables and streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .expr.functions import check_function, plain
from .plan import build, build_by_time, build_groups, build_joins
from .plan.build_functions import Output
from .plan.checks import Place
from .plan.nodes import Node
from .plan.table import Table
from .shown import Shown
from .time import Length, Windows

if TYPE_CHECKING:
    from .stream import Stream


class Combined(Shown):
    """Operators with several inputs."""

    __slots__ = ()

    def _made(self, node: Node) -> Stream:
        made: Stream = type(self)(node)  # type: ignore[call-arg, assignment]
        return made

    def union(self, *others: Stream, name: str | None = None) -> Stream:
        """The rows of this stream and others with the same columns, in any order.

        >>> from headrace.stream import example
        >>> example(a=int, b=str).union(example(b=str, a=int))
        Stream(a: int64, b: string)
        """
        return self._made(build.union(self._with(others, Place("union", name)), name))

    def merge(self, *others: Stream, name: str | None = None) -> Stream:
        """The rows of this stream and others with the same columns and event time, in the order of
        event time: of equal times those of this stream come first, then those of the others in
        turn, and rows of one stream in their order.

        A row comes when the watermarks of all streams are behind it, and waits until then. A row
        before the watermark is late (`late()`). What goes by event time behind it, as windows and
        `process` do, sees rows by time; there is one copy of the operator, as all rows meet.

        >>> from headrace.stream import example
        >>> doors = example(at=int, said=str).with_watermark("at", 5)
        >>> lamps = example(at=int, said=str).with_watermark("at", 60)
        >>> doors.merge(lamps)
        Stream(at: int64, said: string; time at)
        """
        return self._made(build_by_time.merge(self._with(others, Place("merge", name)), name))

    def _with(self, others: Sequence[Stream], place: Place) -> list[Node]:
        for other in others:
            if not isinstance(other, Combined):
                raise place.error(
                    f"{type(other).__name__} is not a stream",
                    f"give each as a stream: a.{place.operator.split()[0]}(b, c); tables and other "
                    "columns come by joins",
                )
        return [self._node, *(other._node for other in others)]

    def join(
        self,
        table: Table,
        on: str | Sequence[str] | Mapping[str, str],
        *,
        right_on: str | Sequence[str] | None = None,
        how: str = "inner",
        name: str | None = None,
    ) -> Stream:
        """Each row with the row of a static table that has its key.

        `on` names the columns of both sides; where they differ, give a dict (the stream's to the
        table's) or `right_on`. The table's key columns are not repeated. Rows without a partner
        are left out ("inner"), or get nulls ("left").

        >>> import pyarrow as pa
        >>> from headrace.plan.schema import Schema
        >>> from headrace.plan.table import Table
        >>> from headrace.stream import example
        >>> ads = Table("ads", Schema.of({"ad": int, "campaign": str}), lambda: pa.table({}))
        >>> example(ad=int).join(ads, on="ad", how="left")
        Stream(ad: int64, campaign: optional(string))
        """
        return self._made(build.join(self._node, table, on, right_on, how, name))

    def window_join(
        self,
        other: Stream,
        on: str | Sequence[str] | Mapping[str, str],
        window: Windows,
        *,
        right_on: str | Sequence[str] | None = None,
        how: str = "inner",
        name: str | None = None,
    ) -> Stream:
        """Each row with every row of another stream that has its key and is in its window.

        `on` and `right_on` are those of `join`. Both streams need an event time; windows follow
        each other (`tumbling`), and pairs come when one is over. Rows without a partner are left
        out ("inner"), or come with nulls: those of this stream ("left"), or of both ("full").

        >>> from headrace.stream import example
        >>> from headrace.time import tumbling
        >>> views = example(ad=int, at=int).with_watermark("at", 5)
        >>> clicks = example(ad=int, clicked=int, price=float).with_watermark("clicked", 5)
        >>> views.window_join(clicks, "ad", tumbling(100)).schema
        Schema(ad: int64, window_start: int64, at: int64, clicked: int64, price: float64)
        """
        place = Place("window_join", name)
        if not isinstance(window, Windows):
            raise place.error(f"{window!r} is not a window", 'use hr.tumbling("10s")')
        right, made = _other(other, place), window.make
        return self._made(
            build_joins.window_join(self._node, right, on, right_on, made, window.given, how, name)
        )

    def co_group(
        self,
        other: Stream,
        on: str | Sequence[str] | Mapping[str, str],
        window: Windows,
        function: Callable[..., Any],
        *,
        output: Output,
        right_on: str | Sequence[str] | None = None,
        how: str = "full",
        limit: int = 100_000,
        name: str | None = None,
    ) -> Stream:
        """Zero or more rows for each key and window, by a compiled generator over all rows of both
        streams that are there.

        A parameter stands for the column of its name: of the key and the window it is a value, and
        of any other column a list of the values in all rows of its side, by event time, nulls
        included. It has a length, can be indexed, and looped over, which is quicker. `on` and
        `right_on` are those of `join`; null is a key like others. Windows are of any kind. Groups
        come when the window is over, by window, then key; the key and the columns of the window
        come by themselves.

        how: which groups there are: those with rows on both sides ("inner"), on this one ("left"),
        or on any ("full"). limit: the most rows of a side in a group; more are an error.

        >>> from headrace.stream import example
        >>> from headrace.time import tumbling
        >>> views = example(ad=int, at=int).with_watermark("at", 5)
        >>> clicks = example(ad=int, clicked=int, price=float).with_watermark("clicked", 5)
        >>> def rate(at, price):
        ...     spent = 0.0
        ...     for each in price:
        ...         spent += each
        ...     yield len(at), spent
        >>> views.co_group(clicks, "ad", tumbling(100), rate, output=["views", "spent"]).schema
        Schema(ad: int64, window_start: int64, views: int64, spent: float64)
        """
        place = Place("co_group", name)
        if not isinstance(window, Windows):
            raise place.error(f"{window!r} is not a window", 'use hr.tumbling("10s")')
        return self._made(
            build_groups.co_group(
                self._node,
                _other(other, place),
                on,
                right_on,
                window.make,
                window.given,
                plain(function),
                output,
                check_function,
                how,
                limit,
                name,
            )
        )

    def interval_join(
        self,
        other: Stream,
        on: str | Sequence[str] | Mapping[str, str],
        *,
        before: Length = 0,
        after: Length = 0,
        right_on: str | Sequence[str] | None = None,
        how: str = "inner",
        name: str | None = None,
    ) -> Stream:
        """Each row with every row of another stream that has its key and is near in event time:
        from `before` this row until `after` it, both included.

        `on` and `right_on` are those of `join`. Pairs come when the watermark of both streams says
        that all partners are there; behind them there is no event time. Rows without a partner
        are left out ("inner"), or come with nulls ("left").

        >>> from headrace.stream import example
        >>> views = example(ad=int, at=int).with_watermark("at", 5)
        >>> clicks = example(ad=int, clicked=int, price=float).with_watermark("clicked", 5)
        >>> views.interval_join(clicks, "ad", after=60)
        Stream(ad: int64, at: int64, clicked: int64, price: float64; key ad)
        """
        right = _other(other, Place("interval_join", name))
        return self._made(
            build_joins.interval_join(self._node, right, on, right_on, before, after, how, name)
        )

    def asof_join(
        self,
        other: Stream,
        on: str | Sequence[str] | Mapping[str, str],
        *,
        tolerance: Length | None = None,
        right_on: str | Sequence[str] | None = None,
        how: str = "inner",
        name: str | None = None,
    ) -> Stream:
        """Each row with the row of another stream that has its key and is the last one by then, in
        event time: the other stream is a table that changes, and each of its rows a new version.

        `on` and `right_on` are those of `join`. A version of the row's own time counts, one that is
        older than `tolerance` does not; of equal times the version that came last. Rows come when
        the watermark of both streams is behind them, in the order of their times, which they keep.
        Rows without a version are left out ("inner"), or come with nulls ("left").

        >>> from headrace.stream import example
        >>> trades = example(share=str, at=int, amount=int).with_watermark("at", 5)
        >>> quotes = example(share=str, since=int, price=float).with_watermark("since", 5)
        >>> trades.asof_join(quotes, "share", tolerance=60).schema
        Schema(share: string, at: int64, amount: int64, since: int64, price: float64)
        """
        right = _other(other, Place("asof_join", name))
        return self._made(
            build_joins.asof_join(self._node, right, on, right_on, tolerance, how, name)
        )


def _other(given: Any, place: Place) -> Node:
    if not isinstance(given, Combined):
        raise place.error(f"{type(given).__name__} is not a stream", "join tables with join(...)")
    return given._node
