"""Stream: a pipeline under construction.

    >>> from headrace.expr import col, count
    >>> from headrace.stream import Stream, example
    >>> views = example(user=str, price=float).filter(col("price") > 1.0)
    >>> views
    Stream(user: string, price: float64)

Nothing runs while a pipeline is built; mistakes are found all the same, with the line they are on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from .expr import Agg, Expr, named_nodes, plain
from .expr.functions import check_function
from .expr.samples import is_sampled
from .habits import STREAM, unknown
from .plan import build, build_chosen, build_functions, build_keyed
from .plan.build_errors import tolerating
from .plan.checks import Place
from .plan.expressions import Column, Expression
from .plan.nodes import Node, Sink
from .plan.planner import plan
from .plan.schema import Schema
from .plan.windows.counting import Counting
from .plan.windows.everything import Everything
from .time import Length, Windows
from .unfolded import Unfolded
from .windowed import WindowedStream, named_aggregates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .write import Writer

Output = str | Sequence[str] | Mapping[str, Any]
OnError = Literal["fail", "skip", "dead_letter"]


def example(**columns: Any) -> Stream:
    """A stream of some columns that has no rows, to try pipelines on.

    >>> example(user=str, n=int)
    Stream(user: string, n: int64)
    """
    from .connect.memory import MemorySource

    empty = {column: [] for column in columns}  # type: dict[str, list[Any]]
    return Stream(build.source(MemorySource(empty, schema=columns), "example"))


class Stream(Unfolded):
    """Rows to come, with named and typed columns. Immutable: every method gives a new stream.

    Every method that makes an operator takes `name=`; errors, metrics and saved state use it.
    Where the computation of a row can fail (an overflow, a division by zero, a bad cast, an error
    that a function raises), `on_error=` says what happens then: "fail" ends the job, "skip" leaves
    the row out and counts it, and "dead_letter" also gives it to `dead_letters()`.

    >>> example(a=int, b=str).schema
    Schema(a: int64, b: string)
    """

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def node(self) -> Node:
        """The operator of the logical plan that gives these rows."""
        return self._node

    @property
    def schema(self) -> Schema:
        """The columns.

        >>> from headrace.expr import col
        >>> example(a=int).with_columns(b=col("a") / 2).schema
        Schema(a: int64, b: float64)
        """
        return self._node.schema

    def __repr__(self) -> str:
        said = ", ".join(map(repr, self.schema))
        if self._node.key:
            said += f"; key {', '.join(self._node.key)}"
        if self._node.time is not None:
            said += f"; time {self._node.time}"
        return f"Stream({said})"

    def __iter__(self) -> NoReturn:
        raise Place("stream", None).error(
            "a stream has no rows until it runs", "write it somewhere, then hr.run(...)"
        )

    def __getattr__(self, name: str) -> NoReturn:
        raise unknown("a stream", name, STREAM, dir(type(self)))

    @property
    def write(self) -> Writer:
        """Where the rows can go: `stream.write.parquet(...)` and others."""
        from .write import Writer

        return Writer(self)

    def to_spark(
        self,
        *,
        session: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        shards: int | None = None,
        batch_rows: int = 4_000_000,
        fuse: str = "auto",
        capacity: int = 16_384,
        compiled: bool = True,
        name: str | None = None,
    ) -> DataFrame:
        """The rows as a Spark DataFrame, for DataFrame code, SQL and Spark's own sinks.

        It is a batch one if all sources are batch DataFrames (`hr.read.spark`), and otherwise a
        streaming one: write it with `writeStream` in append mode. Where a pipeline only changes
        rows of DataFrames, it belongs to their session. With keys, windows or other sources it
        belongs to a copy of the session with the settings that they need; SQL over it is run by
        `frame.sparkSession.sql(...)`.

        A streaming query that is to go on after a restart needs a folder of ours as `checkpoint`,
        besides its own `checkpointLocation`. `session`, `shards` and `batch_rows` are those of
        `hr.run`.
        """
        from .spark.outgoing import frame_of

        place = Place("to_spark", name)
        rows = self._node
        out = Sink(
            (rows,), rows.schema, place.name, site=place.site, key=rows.key, connector="a DataFrame"
        )
        return frame_of(
            plan([out], fuse=fuse),
            session=session,
            checkpoint=checkpoint,
            shards=shards,
            batch_rows=batch_rows,
            capacity=capacity,
            compiled=compiled,
        )

    # ------------------------------------------------------------ columns

    def filter(
        self, condition: Expr, *, on_error: OnError = "fail", name: str | None = None
    ) -> Stream:
        """The rows for which a condition is true (not those where it is null).

        >>> from headrace.expr import col
        >>> example(a=int).filter((col("a") > 1) & (col("a") < 5))
        Stream(a: int64)
        """
        if not isinstance(condition, Expr):
            raise Place("filter", name).error(
                f"{condition!r} is not a condition on columns", "use e.g. col('price') > 1"
            )
        made = build.filter(self._node, condition.node, check_function, name)
        return Stream(tolerating(made, on_error))

    def sample(
        self,
        fraction: float,
        *,
        by: str | Sequence[str] | None = None,
        seed: int = 0,
        name: str | None = None,
    ) -> Stream:
        """About this share of the rows: the same rows in every run and on every engine.

        Rows are chosen by a hash of all their columns, or of those named in `by`: rows that are
        equal there are chosen together. Another `seed` chooses others.

        >>> example(user=str, price=float).sample(0.1, by="user")
        Stream(user: string, price: float64)
        """
        chosen = is_sampled(self.schema, fraction, by, seed, Place("sample", name))
        return self.filter(chosen, name=name)

    def select(
        self,
        *columns: str | Expr | Mapping[str, Any],
        on_error: OnError = "fail",
        name: str | None = None,
        **made: Any,
    ) -> Stream:
        """Only these columns, in this order: names, and new columns by keyword or in a dict.

        >>> from headrace.expr import col
        >>> example(a=int, b=str).select("b", twice=col("a") * 2)
        Stream(b: string, twice: int64)
        """
        place = Place("select", name)
        chosen: list[tuple[str, Expression]] = []
        for column in columns:
            if isinstance(column, Mapping):
                chosen += named_nodes(column, place)
            elif isinstance(column, Expr):
                if not isinstance(column.node, Column):
                    raise place.error(f"{column.node} has no name", "select(total=...)")
                chosen.append((column.node.name, column.node))
            else:
                chosen.append((column, Column(place.existing(column, self.schema))))
        chosen += named_nodes(made, place)
        return Stream(tolerating(build.select(self._node, chosen, check_function, name), on_error))

    def with_columns(
        self,
        columns: Mapping[str, Any] | None = None,
        *,
        on_error: OnError = "fail",
        name: str | None = None,
        **made: Any,
    ) -> Stream:
        """All columns, and new ones behind; one with the name of an old one takes its place.

        >>> from headrace.expr import col
        >>> example(a=int).with_columns(b=col("a") + 1)
        Stream(a: int64, b: int64)
        """
        named = named_nodes({**(columns or {}), **made}, Place("with_columns", name))
        new = build.with_columns(self._node, named, check_function, name)
        return Stream(tolerating(new, on_error))

    def drop(self, *columns: str, name: str | None = None) -> Stream:
        """All columns but these.

        >>> example(a=int, b=str).drop("b")
        Stream(a: int64)
        """
        return Stream(build.drop(self._node, columns, name))

    def rename(
        self, columns: Mapping[str, str] | None = None, *, name: str | None = None, **new: str
    ) -> Stream:
        """The same columns, some of them under new names: old to new.

        >>> example(a=int, b=str).rename({"a": "n"}, b="text")
        Stream(n: int64, text: string)
        """
        return Stream(build.rename(self._node, {**(columns or {}), **new}, name))

    # ------------------------------------------------------------ user functions

    def map(
        self,
        function: Callable[..., Any],
        *,
        output: Output,
        columns: Sequence[str] | None = None,
        carry: str | Sequence[str] = (),
        on_error: OnError = "fail",
        name: str | None = None,
    ) -> Stream:
        """One row for each row, made by a compiled function that gives one or more values.

        A parameter stands for the column of its name, or for the columns named in `columns`, in
        order. `output` names the values (or maps names to types); `carry` names columns that go
        along unchanged, before them.

        >>> example(a=int, b=int).map(lambda a, b: (a + b, a / 2), output=["total", "half"])
        Stream(total: int64, half: float64)
        """
        made = build_functions.map(
            self._node, plain(function), output, check_function, columns, carry, name
        )
        return Stream(tolerating(made, on_error))

    def flat_map(
        self,
        function: Callable[..., Any],
        *,
        output: Output,
        columns: Sequence[str] | None = None,
        carry: str | Sequence[str] = (),
        on_error: OnError = "fail",
        name: str | None = None,
    ) -> Stream:
        """Zero or more rows for each row: what a compiled generator yields.

        >>> def countdown(n):
        ...     while n > 0:
        ...         yield n
        ...         n -= 1
        >>> example(n=int, user=str).flat_map(countdown, output="left", carry="user")
        Stream(user: string, left: int64)
        """
        made = build_functions.flat_map(
            self._node, plain(function), output, check_function, columns, carry, name
        )
        return Stream(tolerating(made, on_error))

    def process(
        self,
        function: Callable[..., Any],
        *,
        state: Any,
        output: Output,
        columns: Sequence[str] | None = None,
        on_error: OnError = "fail",
        name: str | None = None,
    ) -> Stream:
        """Zero or more rows for each row, by a compiled generator over a state for each key.

        The first parameter is the state record: a class with annotations and defaults, or a dict
        of names and types (or first values). The key's columns come first in the result.

        >>> def running(state, price):
        ...     state.total += price
        ...     yield state.total
        >>> keyed = example(user=str, price=float).key_by("user")
        >>> keyed.process(running, state={"total": float}, output="total")
        Stream(user: string, total: float64; key user)
        """
        made = build_functions.process(
            self._node, plain(function), state, output, check_function, columns, name
        )
        return Stream(tolerating(made, on_error))

    def map_batches(
        self,
        function: Callable[..., Any],
        *,
        schema: Any,
        stateless: bool = False,
        max_in_flight: int | None = None,
        name: str | None = None,
    ) -> Stream:
        """Any Python over Arrow record batches: `function(batch)` gives a batch of `schema`.

        It takes the GIL, so it warns. max_in_flight: on the node engine, the most calls at a time,
        with rows in order; 1, or, if it looks at each batch by itself (stateless), one per worker.

        >>> import warnings
        >>> with warnings.catch_warnings(record=True):
        ...     example(a=int).map_batches(lambda batch: batch, schema={"a": int})
        Stream(a: int64)
        """
        given = function, schema, stateless, max_in_flight, name
        return Stream(build_functions.map_batches(self._node, *given))

    def map_async(
        self,
        function: Callable[..., Any],
        *,
        output: Mapping[str, Any],
        columns: Sequence[str] | None = None,
        carry: str | Sequence[str] = (),
        limit: int = 64,
        timeout: float | None = 30.0,
        retries: int = 0,
        ordered: bool = True,
        name: str | None = None,
    ) -> Stream:
        """One row for each row, made by a coroutine (`async def`): calls of services, say.

        `columns` and `carry` are those of `map`; `output` maps names to types. In each worker at
        most `limit` calls are under way. One that raises, or takes longer than `timeout` seconds,
        is made again up to `retries` times, after a pause that grows; then the job fails with its
        error. Results come in the order of the rows; with `ordered=False`, those of a batch of
        rows come as they are there. After a crash calls are made again for rows that were not
        committed.

        >>> async def looked_up(user):
        ...     return len(user)
        >>> example(user=str).map_async(looked_up, output={"visits": int}, carry="user")
        Stream(user: string, visits: int64)
        """
        from .connect.async_calls import AsyncCalls

        def make(arguments: Sequence[str], carry: Sequence[str], made: Schema) -> AsyncCalls:
            return AsyncCalls(function, arguments, carry, made, limit, timeout, retries, ordered)

        made = build_functions.map_async(self._node, function, output, make, columns, carry, name)
        return Stream(made)

    # ------------------------------------------------------------ some of the rows

    def limit(self, rows: int, *, name: str | None = None) -> Stream:
        """The first `rows` rows, in their order; of several channels, any so many of them.

        What comes behind them is read and left out: where a source never ends, the job does not.

        >>> example(user=str).limit(100)
        Stream(user: string)
        """
        return Stream(build_chosen.limit(self._node, rows, check_function, name))

    def dedup(self, *columns: str, within: Length | None = None, name: str | None = None) -> Stream:
        """The first row of those that are equal in these columns, or else in the key.

        within: a row is left out only if its event time is nearer than this to that of the last
        row that was given for its key, before or behind it.

        The order is that of the rows, in a channel; keys are remembered as long as the job runs.

        >>> example(id=int, at=int).with_watermark("at", 10).dedup("id", within=60)
        Stream(id: int64, at: int64; time at)
        """
        return Stream(build_chosen.dedup(self._node, columns, within, check_function, name))

    # ------------------------------------------------------------ keys and time

    def key_by(self, *columns: str, name: str | None = None) -> Stream:
        """Declare the key: rows with equal values in these columns belong together.

        >>> example(user=str, n=int).key_by("user")
        Stream(user: string, n: int64; key user)
        """
        return Stream(build_keyed.key_by(self._node, columns, name))

    def with_ordering(self, ordering: str, *, name: str | None = None) -> Stream:
        """The order in which sinks behind it see rows: as one worker gives them ("total"), those of
        each key so ("key"), or any ("none"). `hr.run(..., ordering=...)` is for other streams.

        >>> example(user=str, n=int).key_by("user").with_ordering("key")
        Stream(user: string, n: int64; key user)
        """
        return Stream(build_keyed.with_ordering(self._node, ordering, name))

    def with_watermark(
        self, column: str, bound: Length, *, latest: Any = None, name: str | None = None
    ) -> Stream:
        """Declare the event-time column, and how far rows may be out of order.

        The watermark of a source's channel is the largest time so far minus `bound`: a duration
        for a timestamp, a plain number for an int64.

        latest: a time beyond which a row is taken for a mistake, say a datetime of the year 2100:
        it does not move the watermark, which would make all others late, and is late itself.

        >>> import datetime
        >>> example(at=datetime.datetime).with_watermark("at", "5s")
        Stream(at: timestamp; time at)
        """
        return Stream(build_keyed.with_watermark(self._node, column, bound, latest, name))

    def window(self, window: Windows | Counting, *, name: str | None = None) -> WindowedStream:
        """Rows by window of their event time (and by key, if there is one): then call `agg`.

        >>> from headrace.time import sliding
        >>> example(at=int).with_watermark("at", 5).window(sliding(100, every=10))
        WindowedStream(at: int64; time at; sliding(100 every 10))
        """
        if isinstance(window, Counting):
            return WindowedStream(self, window, name)
        if not isinstance(window, Windows):
            raise Place("window", name).error(
                f"{window!r} is not a window", 'use window(hr.tumbling("10s"))'
            )
        planned = build_keyed.window(self._node, window.make, window.given, name)
        return WindowedStream(self, planned, name)

    def agg(
        self,
        aggregates: Mapping[str, Agg] | None = None,
        *,
        reproducible: bool = True,
        name: str | None = None,
        **made: Agg,
    ) -> Stream:
        """One row for each key, or one for all rows: the key and these aggregates.

        It comes when the sources have ended. Where they never end, use `window`.

        >>> from headrace.expr import count, sum_
        >>> example(user=str, price=float).key_by("user").agg(n=count(), spent=sum_("price"))
        Stream(user: string, n: int64, spent: float64; key user)
        """
        given = {**(aggregates or {}), **made}
        return WindowedStream(self, Everything(), name).agg(given, reproducible=reproducible)

    def running(
        self, aggregates: Mapping[str, Agg] | None = None, *, name: str | None = None, **made: Agg
    ) -> Stream:
        """Every row, at once, with these aggregates over all rows of its key up to this one.

        >>> from headrace.expr import count, sum_
        >>> example(user=str, price=float).key_by("user").running(n=count(), spent=sum_("price"))
        Stream(user: string, price: float64, n: int64, spent: float64; key user)
        """
        given = named_aggregates({**(aggregates or {}), **made}, Place("running", name))
        return Stream(build_keyed.running(self._node, given, check_function, name))
