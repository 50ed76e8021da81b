"""A table in memory, given round after round as an endless stream: the source of benchmarks."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.plan.connector import Rounds
from headrace.plan.durations import in_units_of
from headrace.plan.errors import DataError
from headrace.plan.expression_types import ExpressionError
from headrace.plan.expressions import Expression
from headrace.plan.schema import Schema

from .arrow import as_table, conform, said_of_unread, schema_of_table
from .clock import Clock, WallClock
from .memory import stored_maximum
from .numbered import NumberedReader, NumberedSource
from .pacer import Pacer
from .rates import Rate

PIECE_ROWS = 1 << 18  # times are moved for so many rows at once: 2 MiB, which stay in the cache


class ReplaySource(NumberedSource):
    """The rows of a table again and again, `rows` of them in all, or without end.

    Data is what `MemorySource` takes for one table. In round r, counted from 0, the `time` column
    is moved by r times `span`, which by default is the width of the table: its largest time minus
    its smallest, plus 1. All other columns are slices of the table. Of n channels, channel c has
    the rows c, c + n, c + 2 n, ... of each round. A rate is that of `IndexSource`.

    Guarantees: replayable, as long as the process lives; a position is the number of rows that a
    channel has given.

    >>> source = ReplaySource({"at": [10, 11, 13], "n": [1, 2, 3]}, time="at", rows=8)
    >>> reader = source.open("0", start=2, columns=["at"])
    >>> [reader.poll(max_rows=10, timeout=0.0).rows["at"].to_pylist() for _ in range(3)]
    [[13], [14, 15, 17], [18, 19]]
    """

    def __init__(
        self,
        table: Any,
        *,
        time: str | None = None,
        span: Any = None,
        rows: int | None = None,
        channels: int = 1,
        rate: Any = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(rows, channels, rate, clock)
        found = as_table(table)
        self._schema, self._unread = schema_of_table(found)
        whole = _one_batch(conform(found, self._schema))
        if whole.num_rows < channels:
            raise DataError(f"{whole.num_rows} rows cannot be replayed in {channels} channels")
        self._round = whole.num_rows
        self.time, self.span = time, 0  # the column, and how far a round moves it
        if time is not None:
            whole = _with_plain_times(whole, time, self._schema)
            self.span = self._checked_span(span, whole)
        elif span is not None:
            raise DataError(f"span={span!r}: say which column is the time, with time=")
        self._parts = _shares(whole, channels)

    @property
    def rate(self) -> Rate | None:
        """The rate of each channel, for an engine that keeps it itself (see `unpaced`)."""
        if self._rate is None or not isinstance(self._clock, WallClock):
            return None
        return self._rate.shared(self._channels)

    def unpaced(self) -> ReplaySource:
        """The same rows, all of them due at once."""
        made = copy.copy(self)
        made._rate = None
        return made

    def _checked_span(self, span: Any, whole: pa.RecordBatch) -> int:
        assert self.time is not None
        kind = self._schema[self.time]
        ends = pc.min_max(_numbers(whole[self.time]))
        if not ends["min"].is_valid:
            raise DataError(f"column {self.time!r} has no time that is not null")
        if span is None:
            return int(ends["max"].as_py() - ends["min"].as_py() + 1)
        try:
            made = in_units_of(span, kind, "span")
        except ExpressionError as error:
            raise DataError(f"{error.what}; {error.fix}") from None
        if made < 1:
            raise DataError(f"span={span!r}: must be above zero")
        return made

    def __str__(self) -> str:
        many = "endless" if self._rows is None else f"{self._rows:,} rows in all"
        what = f"replay of {self._round:,} rows, {many}"
        return self._described(what, said_of_unread(self._unread))

    def schema(self) -> Schema:
        """The columns of the table."""
        return self._schema

    def open(
        self,
        channel: str,
        start: int | None = None,
        stop: int | None = None,
        columns: Sequence[str] | None = None,
        predicate: Expression | None = None,
    ) -> ReplayReader:
        """Read a channel from its row `start` to its row `stop`; a predicate is left to others."""
        begin, end = self._range(channel, start, stop)
        part = self._part(channel)
        if columns is not None:
            part = part.select(list(columns))
        moved = None if self.time is None else part.schema.get_field_index(self.time)
        return ReplayReader(
            begin,
            end,
            self._pacer(begin),
            part=part,
            time=None if moved == -1 else moved,
            span=self.span,
        )

    def maximum(self, column: str, channel: str, position: int | None) -> Any:
        """The largest value of a column in the first `position` rows, in stored form."""
        part, kind = self._part(channel)[column], self._schema[column]
        if position is None:
            position = self._count(int(channel))
            if position is None:
                raise DataError(f"{self}: an endless stream has no largest value")
        rounds, rest = divmod(position, len(part))
        span = self.span if column == self.time else 0
        # Of whole rounds, the last has the largest times.
        last = stored_maximum(part, kind) if rounds else None
        begun = stored_maximum(part.slice(0, rest), kind)
        found = [
            value + shift * span if span else value
            for value, shift in ((last, rounds - 1), (begun, rounds))
            if value is not None
        ]
        return max(found, default=None)

    def rounds(self, channel: str) -> Rounds:
        """What a channel gives, for an engine that reads it without polling."""
        count = self._count(int(channel))
        return Rounds(self._part(channel), self.time, self.span, count)

    def _part(self, channel: str) -> pa.RecordBatch:
        return self._parts[self._number(channel)]

    def _count(self, channel: int) -> int | None:
        if self._rows is None:
            return None
        rounds, rest = divmod(self._rows, self._round)
        begun = max(0, -(-(rest - channel) // self._channels))
        return rounds * self._parts[channel].num_rows + begun


class ReplayReader(NumberedReader):
    """One channel. A poll gives a slice; only times are new, moved for many rows at once."""

    def __init__(
        self,
        start: int,
        stop: int | None,
        pacer: Pacer,
        *,
        part: pa.RecordBatch,
        time: int | None,
        span: int,
    ) -> None:
        super().__init__(start, stop, pacer)
        self._part, self._time, self._span = part, time, span
        # The rows of the last round that were made ready, and where they begin and end.
        self._piece, self._begin, self._end = part, 0, 0

    def _rows(self, start: int, end: int) -> pa.RecordBatch:
        """A slice, at most to the end of the round."""
        if start >= self._end:
            self._make_ready(start)
        return self._piece.slice(start - self._begin, min(end, self._end) - start)

    def _make_ready(self, start: int) -> None:
        size = self._part.num_rows
        number, offset = divmod(start, size)
        self._begin = start
        if self._time is None or number == 0:
            self._piece, self._end = self._part.slice(offset), start + size - offset
            return
        piece = self._part.slice(offset, PIECE_ROWS)
        self._end = start + piece.num_rows
        field, times = piece.schema.field(self._time), piece.column(self._time)
        try:
            moved = pc.add_checked(_numbers(times), pa.scalar(number * self._span, pa.int64()))
        except (pa.ArrowInvalid, OverflowError):
            raise DataError(
                f"replay: in round {number}, times of column {field.name!r} leave 64 bits; give "
                "fewer rows= or a smaller span="
            ) from None
        self._piece = piece.set_column(self._time, field, moved.view(times.type))


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    """The rows in one piece, copied only where the table has several."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def _shares(whole: pa.RecordBatch, channels: int) -> list[pa.RecordBatch]:
    """Every n-th row for each of n channels, copied once; one channel has them all as they are."""
    if channels == 1:
        return [whole]
    count = whole.num_rows
    return [whole.take(np.arange(c, count, channels)) for c in range(channels)]


def _with_plain_times(whole: pa.RecordBatch, time: str, schema: Schema) -> pa.RecordBatch:
    """The rows with times that can be added to: int64, or timestamps in microseconds."""
    if time not in schema:
        raise DataError(f"time={time!r}: there is no such column; there are: {schema.names}")
    kind = schema[time]
    if kind.name not in ("int64", "timestamp"):
        raise DataError(f"time={time!r}: a time is a timestamp or an int64, not {kind}")
    times = whole[time]
    if kind.name == "timestamp" and times.type != kind.to_arrow():
        times = _in_microseconds(times).view(kind.to_arrow())
    place = whole.schema.get_field_index(time)
    return whole.set_column(place, pa.field(time, times.type), times)


def _in_microseconds(times: pa.Array) -> pa.Array:
    """As numbers; nanoseconds are rounded down, as stages do."""
    numbers, unit = _numbers(times), times.type.unit
    if unit != "ns":
        scale = {"s": 1_000_000, "ms": 1_000, "us": 1}[unit]
        return pc.multiply_checked(numbers, scale)
    whole = pc.divide(numbers, 1_000)  # towards zero
    below = pc.less(numbers, pc.multiply(whole, 1_000))
    return pc.subtract(whole, below.cast(pa.int64()))


def _numbers(times: pa.Array) -> pa.Array:
    """Times as the whole numbers that they are, without a copy."""
    return times if times.type == pa.int64() else times.view(pa.int64())
