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
from typing import TYPE_CHECKING, Any, NoReturn

from .expr import Agg, Expr, named_nodes, plain
from .expr.functions import check_function
from .expr.samples import is_sampled
from .expr.values import no_condition
from .habits import STREAM, unknown
from .keyed import Keyed, OnError, Output
from .plan import build, build_functions, build_keyed
from .plan.build_errors import tolerating
from .plan.build_partition import ByFunction, ByRange
from .plan.checks import Place
from .plan.expressions import Column, Expression
from .plan.nodes import Node, Sink
from .plan.planner import plan
from .plan.schema import Schema
from .plan.windows.counting import Counting
from .plan.windows.everything import Everything
from .time import Length, Windows
from .unfolded import Unfolded
from .windowed import WindowedStream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .connect.clock import Clock
    from .plan.connector import Source
    from .write import Writer


def example(**columns: Any) -> Stream:
    """A stream of some columns that has no rows, to try pipelines on.

    >>> example(user=str, n=int)
    Stream(user: string, n: int64)
    """
    from .connect.memory import MemorySource

    empty = {column: [] for column in columns}  # type: dict[str, list[Any]]
    return Stream(build.source(MemorySource(empty, schema=columns), "example"))


class Stream(Keyed, Unfolded):
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

    def __getitem__(self, column: Any) -> NoReturn:
        raise Place("stream", None).error(
            f"nothing is taken out of a stream by [{column!r}]",
            'use col("n") in expressions, stream.select("n", "m") for some of the columns',
        )

    def __getattr__(self, name: str) -> NoReturn:
        hidden = name.startswith("_")  # asked by Python itself, maybe of one without a node
        columns = {} if hidden else {n: f"the column is col({n!r})" for n in self.schema.names}
        raise unknown("a stream", name, columns | STREAM, dir(type(self)))

    @property
    def write(self) -> Writer:
        """Where the rows can go: `stream.write.parquet(...)` and others.

        >>> example(a=int).write.collect()
        Output(collect)
        """
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

        >>> example(a=int).to_spark(session=spark).printSchema()  # doctest: +SKIP
        root
         |-- a: long (nullable = false)
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
            raise no_condition(condition, Place("filter", name))
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
        place = Place("with_columns", name)
        named = named_nodes(place.by_name(columns, made, 'total=col("price") * 2'), place)
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
        given = Place("rename", name).by_name(columns, new, 'old="new"')
        return Stream(build.rename(self._node, given, name))

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
        asides: Mapping[str, Output] | None = None,
        on_error: OnError = "fail",
        name: str | None = None,
    ) -> Stream:
        """Zero or more rows for each row: what a compiled generator yields.

        asides: other outputs by name, each with its columns as in `output`: `yield hr.aside(name,
        ...)` gives a row to the stream `aside(name)` of the result.

        >>> def countdown(n):
        ...     while n > 0:
        ...         yield n
        ...         n -= 1
        >>> example(n=int, user=str).flat_map(countdown, output="left", carry="user")
        Stream(user: string, left: int64)
        """
        given = plain(function), output, check_function, columns, carry, name, asides, on_error
        return Stream(build_functions.flat_map(self._node, *given))

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

    # ------------------------------------------------------------ keys and time

    def key_by(
        self, *columns: str, partition: ByRange | ByFunction | None = None, name: str | None = None
    ) -> Stream:
        """Declare the key: rows with equal values in these columns belong together.

        partition: which keys have their state and their worker in common, `hr.by_range(...)` or
        `hr.by_function(...)`; without it, their hash says it. No result depends on it.

        >>> example(user=str, n=int).key_by("user")
        Stream(user: string, n: int64; key user)
        """
        made = build_keyed.key_by(self._node, columns, check_function, partition, name)
        return Stream(made)

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

    def with_arrival_time(
        self,
        column: str = "arrived",
        *,
        every: Length = "1s",
        clock: Clock | None = None,
        name: str | None = None,
    ) -> Stream:
        """Processing time: a new column with the time at which rows were read is the event time.

        So windows, joins and timers go by the clock of who reads. Call it right behind `read`. No
        row is late. Where nothing comes, time goes on `every` so often. `clock` is for tests.

        >>> example(user=str).with_arrival_time()
        Stream(user: string, arrived: timestamp; time arrived)
        """
        from .connect.arrival import ArrivalSource

        def make(source: Source, every: int) -> Source:
            return ArrivalSource(source, column, every, clock)

        return Stream(build_keyed.with_arrival_time(self._node, column, every, make, name))

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
        given = Place("agg", name).by_name(aggregates, made, 'total=hr.sum("price")')
        return WindowedStream(self, Everything(), name).agg(given, reproducible=reproducible)
