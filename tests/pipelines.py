"""Random pipelines: sources and a graph of operators over them, made with the public API.

The same choices over other rows give the same plan, so one compiled pipeline can be run on many
inputs: `Shape` holds what does not depend on the rows.
"""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from tests import user_functions as functions
from tests.choices import Choices
from tests.naive import Row, batch_of, key_of
from tests.random_expressions import Expressions
from tests.random_rows import column_type, schema, tables, value
from tests.running import is_ordered

import headrace as hr
from headrace import col
from headrace.plan.build import PlainPythonWarning
from headrace.plan.schema import Field, Schema
from headrace.stream import Stream
from headrace.time import Windows
from headrace.write import Output


def random_pipeline(
    choose: Choices, *, steps: int = 6, most_rows: int = 40, channels: int = 3, name: str = ""
) -> list[Output]:
    """Outputs of a random pipeline over random rows, all from the same choices.

    name: what the names of its sources begin with, where several pipelines run together.
    """
    shape = Shape.of(choose, channels)
    return build(choose, shape, shape.tables(choose, most_rows), steps=steps, name=name)


BOUNDS = {"int64": [0, 5], "string": ["a", "twelve bytes"], "float64": [0.0], "int8": [-1, 0, 3]}


@dataclass(frozen=True)
class Shape:
    """The sources of a pipeline: one schema, and the number of channels of each."""

    schema: Schema
    channels: tuple[int, ...]
    disorder: int  # how far rows are out of order at most
    bound: int  # how far the pipeline waits for them

    @classmethod
    def of(cls, choose: Choices, channels: int = 3) -> Shape:
        """A random shape; mostly one source with one channel."""
        sources = 2 if choose.chance(25) else 1
        many = tuple(choose.pick([1, 1, 1, channels]) for _ in range(sources))
        return cls(schema(choose), many, choose.pick([0, 5, 15]), choose.pick([0, 3, 10, 20]))

    def tables(self, choose: Choices, most: int) -> list[list[pa.Table]]:
        """Random rows for every channel of every source."""
        return [
            tables(choose, self.schema, channels=count, most=most, disorder=self.disorder)
            for count in self.channels
        ]


def build(
    choose: Choices, shape: Shape, data: list[list[pa.Table]], *, steps: int = 6, name: str = ""
) -> list[Output]:
    """Outputs of a random pipeline over given rows."""
    sources = [
        hr.read.memory(parts, schema=shape.schema, name=f"{name}source_{k}")
        for k, parts in enumerate(data)
    ]
    builder = Builder(choose, sources, shape.bound)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PlainPythonWarning)
        for _ in range(choose.number(1, steps)):
            builder.step()
        return builder.outputs()


class Builder:
    """Grows a graph: each step puts an operator behind one of the streams made so far."""

    def __init__(self, choose: Choices, sources: Sequence[Stream], bound: int = 5) -> None:
        self.choose, self.bound, self._names = choose, bound, 0
        self.streams = self._timed(list(sources))

    def step(self) -> None:
        """One more operator, mostly behind the last one."""
        last = self.choose.chance(70)
        stream = self.streams[-1] if last else self.choose.pick(self.streams)
        operator = self.choose.pick(OPERATORS)
        self.streams.append(operator(self, stream))

    def outputs(self) -> list[Output]:
        """Outputs of the last stream, and perhaps of some others."""
        chosen = [self.streams[-1]]
        chosen += [self.choose.pick(self.streams) for _ in range(self.choose.pick([0, 0, 1, 2]))]
        return [stream.write.collect() for stream in chosen]

    def fresh(self) -> str:
        """A name that no column has."""
        self._names += 1
        return f"n{self._names}"

    def expressions(self, stream: Stream) -> Expressions:
        return Expressions(self.choose, stream.schema)

    # ---- event time ------------------------------------------------------------------------

    def _timed(self, sources: list[Stream]) -> list[Stream]:
        """Sources with watermarks: declared at once, or behind a filter, a projection, a union."""
        choose = self.choose
        match choose.number(0, 9):
            case 0:
                sources = [self.filter(source) for source in sources]
            case 1:
                sources = [
                    source.with_columns(t=col("t") + _length(source, choose.number(-4, 4)))
                    for source in sources
                ]
            case 2 if len(sources) > 1:
                sources = [sources[0].union(*sources[1:])]
            case 3:
                return sources  # no event time: no windows
        return [source.with_watermark("t", _length(source, self.bound)) for source in sources]

    # ---- operators: each takes a stream and gives one ----------------------------------------

    def filter(self, stream: Stream) -> Stream:
        return stream.filter(self.expressions(stream).bool_())

    def with_columns(self, stream: Stream) -> Stream:
        made = {self.fresh(): self.expressions(stream).any() for _ in range(2)}
        others = [name for name in stream.schema.names if name != stream.node.time]
        if others and self.choose.chance(30):
            made[self.choose.pick(others)] = self.expressions(stream).any(1)
        return stream.with_columns(made)

    def select(self, stream: Stream) -> Stream:
        kept = [n for n in stream.schema.names if n == stream.node.time or self.choose.chance(60)]
        return stream.select(*kept, {self.fresh(): self.expressions(stream).any()})

    def drop(self, stream: Stream) -> Stream:
        names = stream.schema.names
        return stream.drop(self.choose.pick(names)) if len(names) > 1 else self.rename(stream)

    def rename(self, stream: Stream) -> Stream:
        return stream.rename({self.choose.pick(stream.schema.names): self.fresh()})

    def tolerant(self, stream: Stream) -> Stream:
        """Rows that fail are left out, and become a stream of their own."""
        made = {self.fresh(): self.expressions(stream).any() for _ in range(2)}
        try:
            new = stream.with_columns(made, on_error=self.choose.pick(["skip", "dead_letter"]))
        except hr.PipelineError:
            return stream  # what is computed over whole columns cannot be left out
        if new.node.on_error == "dead_letter" and "error_message" not in stream.schema:
            self.streams.append(new.dead_letters().drop("error_message", "error_operator"))
        return new

    def udf(self, stream: Stream) -> Stream:
        entry = self.choose.pick(functions.SCALARS)
        arguments = [self.expressions(stream).exactly(kind) for kind in entry.takes]
        return stream.with_columns({self.fresh(): hr.udf(entry.function)(*arguments)})

    def map(self, stream: Stream) -> Stream:
        entry = self.choose.pick(functions.MAPS)
        stream, columns = self._arguments(stream, entry)
        return stream.map(
            entry.function,
            output=[self.fresh() for _ in range(entry.gives)],
            columns=columns,
            carry=self._some(stream),
        )

    def flat_map(self, stream: Stream) -> Stream:
        time = stream.node.time
        if time is not None and stream.schema[time] == hr.int64 and self.choose.chance(25):
            with_float = stream.with_columns(
                {self.fresh(): self.expressions(stream).exactly("float64")}
            )
            columns = [time, with_float.schema.names[-1]]
            carry = [name for name in self._some(with_float) if name != time]
            return with_float.flat_map(
                functions.twice_in_time, output=[time, self.fresh()], columns=columns, carry=carry
            )
        entry = self.choose.pick(functions.FLAT_MAPS)
        stream, columns = self._arguments(stream, entry)
        return stream.flat_map(
            entry.function,
            output=[self.fresh() for _ in range(entry.gives)],
            columns=columns,
            carry=self._some(stream),
        )

    def asides(self, stream: Stream) -> Stream:
        """Two outputs; either may go on."""
        keyed = self.choose.chance(60) and is_ordered(stream.node)
        names = {"odd": [self.fresh(), self.fresh()]}
        if keyed:
            (entry,) = functions.SIDED
            stream, columns = self._arguments(stream, entry)
            made = stream.key_by(*self._key(stream)).process(
                entry.function,
                state=entry.state,
                output=self.fresh(),
                columns=columns,
                asides=names,
            )
        else:
            stream, columns = self._arguments(stream, functions.PARTED)
            made = stream.flat_map(
                functions.parted, output=self.fresh(), columns=columns, carry=self._some(stream),
                asides=names,
            )  # fmt: skip
        both = [made, made.aside("odd")]
        self.streams.append(both.pop(self.choose.number(0, 1)))
        return both[0]

    def co_group(self, stream: Stream) -> Stream:
        """Groups of two streams, by a function of lists; of a side whose rows have an order."""
        time, key = stream.node.time, self._key(stream)[:1]
        alike = [s for s in self.streams if s.node.time is not None and is_ordered(s.node)]
        alike = [s for s in alike if _names_and_types(s) == _names_and_types(stream)]
        taken = {time, "window_start", "window_end"}  # by the result, or by the other side
        if time is None or not alike or set(key) & taken or not is_ordered(stream.node):
            return self.filter(stream)
        other = self.choose.pick(alike)
        expressions = self.expressions(stream), self.expressions(other)
        values = [each.exactly("int64" if k else "int64?") for k, each in enumerate(expressions)]
        then, on = self.fresh(), self.fresh()
        left = stream.select(*key, time, gx=values[0])
        right = other.select(*key, time, gy=values[1]).rename({time: then, key[0]: on})
        output = [self.fresh(), self.fresh()]
        how = self.choose.pick(["inner", "left", "full"])
        window = self._windows(left, given_once=True)
        return left.co_group(
            right, {key[0]: on}, window, functions.compared, output=output, how=how
        )

    def _opened(self, stream: Stream, column: str) -> Stream:
        """The items of a list, by a function."""
        carry = [name for name in stream.schema.names if name != column]
        output = [self.fresh(), self.fresh()]
        return stream.flat_map(functions.opened, output=output, columns=[column], carry=carry)

    def process(self, stream: Stream) -> Stream:
        time, ordered = stream.node.time, is_ordered(stream.node)
        if time is not None and self.choose.chance(40):  # the event time goes on
            key = [name for name in self._key(stream) if name != time]
            if key:
                output = {time: stream.schema[time], self.fresh(): hr.int64}
                function = functions.timed if ordered else functions.stamped
                return self._key_by(stream, key).process(
                    function, state={"n": int}, output=output, columns=[time]
                )
        entries = [e for e in functions.PROCESSES if ordered or not e.needs_order]
        entry = self.choose.pick(entries)
        stream, columns = self._arguments(stream, entry)
        return self._key_by(stream, self._key(stream)).process(
            entry.function,
            state=entry.state,
            output=[self.fresh() for _ in range(entry.gives)],
            columns=columns,
        )

    def timers(self, stream: Stream) -> Stream:
        """The event time goes on."""
        time = stream.node.time
        key = [name for name in self._key(stream) if name != time]
        if time is None or not key or stream.schema[time].nullable or not is_ordered(stream.node):
            return self.filter(stream)
        return self._key_by(stream, key).process(
            functions.alarmed,
            state={"n": int, "last": int, "due": hr.optional(int)},
            output={time: stream.schema[time], self.fresh(): hr.int64},
            columns=[time],
            timers={"due": functions.rang} if self.choose.chance(75) else {},
            ttl=_length(stream, self.choose.pick([1, 6, 30])) if self.choose.chance(75) else None,
        )

    def asof_join(self, stream: Stream) -> Stream:
        """With versions from one channel: of equal times the last one counts."""
        time, key = stream.node.time, self._key(stream)
        alike = [s for s in self.streams if s.node.time is not None and is_ordered(s.node)]
        alike = [s for s in alike if _names_and_types(s) == _names_and_types(stream)]
        if time is None or not alike or key == [time]:
            return self.filter(stream)
        names = {name: self.fresh() for name in stream.schema.names}
        other = self.choose.pick(alike).rename(names)
        tolerance = _length(stream, self.choose.pick([0, 5])) if self.choose.chance(50) else None
        on = {name: names[name] for name in key}
        how = self.choose.pick(["inner", "left"])
        return stream.asof_join(other, on, tolerance=tolerance, how=how)

    def limit(self, stream: Stream) -> Stream:
        if not is_ordered(stream.node):  # which rows come first is anybody's guess
            return self.filter(stream)
        return stream.limit(self.choose.pick([0, 1, 5, 20, 1000]))

    def dedup(self, stream: Stream) -> Stream:
        if not is_ordered(stream.node):
            return self.filter(stream)
        within = None
        if stream.node.time is not None and self.choose.chance(60):
            within = _length(stream, self.choose.pick([1, 4, 12]))
        return stream.dedup(*self._key(stream), within=within)

    def running(self, stream: Stream) -> Stream:
        if not is_ordered(stream.node):
            return self.filter(stream)
        key = self._key(stream)
        stream = self._key_by(stream, key) if self.choose.chance(75) else stream
        made = {self.fresh(): self._aggregate(stream) for _ in range(self.choose.number(1, 3))}
        listed = self._list(stream, made)
        if self.choose.chance(50):
            result = stream.running(made)
        else:
            result = stream.window(hr.counting(self.choose.pick([1, 2, 5]))).agg(made)
        return result if listed is None else self._opened(result, listed)

    def rebalance(self, stream: Stream) -> Stream:
        return stream.rebalance(self.choose.pick([None, 1, 2]))

    def _key_by(self, stream: Stream, key: Sequence[str]) -> Stream:
        """Keyed, perhaps with keys in ranges: of a type always the same, for streams that meet."""
        bounds = BOUNDS.get(stream.schema[key[0]].name) if len(key) == 1 else None
        ranges = hr.by_range(bounds) if bounds and self.choose.chance(40) else None
        return stream.key_by(*key, partition=ranges)

    def union(self, stream: Stream) -> Stream:
        alike = [s for s in self.streams if _names_and_types(s) == _names_and_types(stream)]
        other = self.choose.pick(alike)
        if self.choose.chance(50):
            other = self.filter(other)
        return self.filter(stream).union(other) if self.choose.chance(50) else stream.union(other)

    def merge(self, stream: Stream) -> Stream:
        """By time, with itself or another stream that has the same event time, or alone."""
        time = stream.node.time
        if time is None:
            return self.filter(stream)
        alike = [s for s in self.streams if s.node.time == time]
        alike = [s for s in alike if _names_and_types(s) == _names_and_types(stream)]
        if self.choose.chance(40):
            return stream.sort_by_time()
        return stream.merge(self.choose.pick(alike), self.filter(stream))

    def join(self, stream: Stream) -> Stream:
        key = self._key(stream)
        fields = [Field(f"k{k}", stream.schema[name]) for k, name in enumerate(key)]
        fields += [Field(self.fresh(), column_type(self.choose)) for _ in range(2)]
        table = self._table(Schema(tuple(fields)), len(key))
        return stream.join(
            table,
            on=key,
            right_on=[f"k{k}" for k in range(len(key))],
            how=self.choose.pick(["inner", "left"]),
        )

    def _table(self, of: Schema, keys: int) -> Any:
        found: dict[Any, Row] = {}
        for _ in range(self.choose.number(0, 12)):
            row = {field.name: value(self.choose, field.type) for field in of}
            found.setdefault(key_of(row, of.names[:keys]), row)
        return hr.table(pa.Table.from_batches([batch_of(list(found.values()), of)]), schema=of)

    def window(self, stream: Stream) -> Stream:
        ends = {"window_start", "window_end", "window_given", "window_early", "window_updated"}
        if ends & set(stream.node.key):
            return self.with_columns(stream)
        if self.choose.chance(75):
            key = [name for name in self._key(stream) if name not in ends]
            stream = self._key_by(stream, key) if key else stream
        made = {}
        for _ in range(self.choose.number(1, 4)):
            made[self.fresh()] = self._aggregate(stream)
        listed = self._list(stream, made)
        if stream.node.time is None or self.choose.chance(8):
            result = stream.agg(made)
            return result if listed is None else self._opened(result, listed)
        result = stream.window(self._windows(stream)).agg(made)
        if self.choose.chance(35):
            self.streams.insert(0, result.late())
        return result if listed is None else self._opened(result, listed)

    def _list(self, stream: Stream, made: dict[str, Any]) -> str | None:
        """Sometimes a list among the aggregates; the name of its column."""
        if not is_ordered(stream.node) or not self.choose.chance(30):
            return None
        name, expressions = self.fresh(), self.expressions(stream)
        operand = expressions.exactly(self.choose.pick(["int64", "string", "float64"]))
        if self.choose.chance(50):
            made[name] = hr.collect(operand, self.choose.pick([1, 3, 100]), on_full="first")
        else:
            by = expressions.exactly("int64") if self.choose.chance(50) else None
            made[name] = hr.top_k(operand, self.choose.pick([1, 2, 5]), by=by)
        return name

    def _windows(self, stream: Stream, *, given_once: bool = False) -> Windows:
        """Windows of any kind; given_once: none with early results, or with late rows."""
        choose, size = self.choose, self.choose.pick([1, 4, 10, 25])
        offset = _length(stream, choose.pick([0, 0, 3]))
        match choose.pick(["tumbling", "sliding", "session", "calendar"]):
            case "sliding":
                every = choose.pick([step for step in (1, 2, 3, 5, 10) if step <= size])
                return hr.sliding(_length(stream, size), _length(stream, every), offset)
            case "session":
                return hr.session(_length(stream, size))
            case "calendar" if stream.schema[stream.node.time].name == "timestamp":
                return hr.tumbling(choose.pick(["1d", "1w", "1mo"]), zone="Europe/Berlin")
        moments = {"early": [None, 1, 3, 7], "lateness": [None, None, 5, 12]}
        if given_once or choose.chance(40) or size < 10 or not is_ordered(stream.node):
            moments = {}
        given = {name: choose.pick(some) for name, some in moments.items()}
        if choose.chance(30) and moments:
            given["early"] = hr.counting(choose.pick([1, 2, 3]))
        elif given.get("early") == 1:
            given["lateness"] = None  # there would be no moment left
        units = {n: u if not isinstance(u, int) else _length(stream, u) for n, u in given.items()}
        return hr.tumbling(_length(stream, size), offset, **units)

    def _aggregate(self, stream: Stream) -> Any:
        in_order = stream.node.time is not None and is_ordered(stream.node)
        kinds = ["count", "count of", "sum", "mean", "min", "max", "count distinct"]
        kind = self.choose.pick([*kinds, "first", "last"] if in_order else kinds)
        expressions = self.expressions(stream)
        if kind == "count":
            return hr.count()
        if kind in ("sum", "mean"):
            # floats add up to the same only in the same order
            use_floats = is_ordered(stream.node) and self.choose.chance(50)
            operand = expressions.float_(1) if use_floats else expressions.int_(1)
            return (hr.sum if kind == "sum" else hr.mean)(operand)
        operand = expressions.column() if self.choose.chance(60) else expressions.any(1)
        made = {"count of": hr.count, "min": hr.min, "max": hr.max}
        made |= {"count distinct": hr.count_distinct}
        return {**made, "first": hr.first, "last": hr.last}[kind](operand)

    def window_and_late(self, stream: Stream) -> Stream:
        result = self.window(stream)
        if result.node.kind == "window":
            self.streams.append(result)
            return result.late()
        return result

    def map_batches(self, stream: Stream) -> Stream:
        if self.choose.chance(50):
            return stream.map_batches(passed, schema=stream.schema)
        name = self.fresh()
        made = Schema((*stream.schema, Field(name, hr.int64)))
        return stream.map_batches(_numbered(name, stream.schema.names[0]), schema=made)

    # ---- parts of operators ------------------------------------------------------------------

    def _arguments(self, stream: Stream, entry: functions.Entry) -> tuple[Stream, list[str]]:
        """A stream with columns of the types that a function takes, and their names."""
        names, made = [], {}
        for kind in entry.takes:
            argument = self.expressions(stream).exactly(kind)
            name = getattr(argument.node, "name", None)
            if not isinstance(name, str):
                name = self.fresh()
                made[name] = argument
            names.append(name)
        return (stream.with_columns(made) if made else stream), names

    def _some(self, stream: Stream) -> list[str]:
        """Columns that are carried along; mostly with the event time."""
        time = stream.node.time
        return [
            name for name in stream.schema.names if self.choose.chance(90 if name == time else 40)
        ]

    def _key(self, stream: Stream) -> list[str]:
        names = list(stream.schema.names)
        key = []
        for _ in range(self.choose.pick([1, 1, 2, 3])):
            if names:
                key.append(names.pop(self.choose.number(0, len(names) - 1)))
        return key


OPERATORS: list[Callable[[Builder, Stream], Stream]] = [
    Builder.filter,
    Builder.with_columns,
    Builder.tolerant,
    Builder.select,
    Builder.drop,
    Builder.rename,
    Builder.udf,
    Builder.map,
    Builder.flat_map,
    Builder.process,
    Builder.process,
    Builder.union,
    Builder.join,
    Builder.window,
    Builder.window,
    Builder.window,
    Builder.window_and_late,
    Builder.map_batches,
    Builder.limit,
    Builder.dedup,
    Builder.running,
    Builder.timers,
    Builder.asof_join,
    Builder.merge,
    Builder.rebalance,
    Builder.asides,
    Builder.co_group,
]


def passed(batch: pa.RecordBatch) -> pa.Table:
    """The same rows, as a table."""
    return pa.Table.from_batches([batch])


def _numbered(name: str, column: str) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """A function that adds a column: 0 where another is null, else 1."""

    def numbered(batch: pa.RecordBatch) -> pa.RecordBatch:
        valid = pc.is_valid(batch.column(column)).cast(pa.int64())
        arrays = [*batch.columns, valid]
        return pa.RecordBatch.from_arrays(arrays, names=[*batch.schema.names, name])

    return numbered


def _length(stream: Stream, units: int) -> int | dt.timedelta:
    """A length of time in units of a stream's time column."""
    time = stream.node.time or "t"
    is_timestamp = stream.schema[time].name == "timestamp"
    return dt.timedelta(microseconds=units) if is_timestamp else units


def _names_and_types(stream: Stream) -> dict[str, str]:
    return {field.name: field.type.name for field in stream.schema}
