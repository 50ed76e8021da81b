"""The time of arrival: a column that says when rows were read, by the clock of who reads them.

Event time then is processing time, and everything that goes by event time goes by it. Rows between
two positions arrive at the moment that the later one names; so a range that is read again gives the
same rows, at the same time, whatever the clock says now. Where nothing comes the position moves
nevertheless, now and then, and with it the time (`Batch.reached`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.plan.connector import Batch, Position, Reader, Source, Statistics
from headrace.plan.expressions import Expression, columns_of
from headrace.plan.schema import Field, Schema
from headrace.plan.types import timestamp

from .clock import Clock, EpochClock
from .wrapped import WrappedSource

AT, BEHIND = "at", "position"  # of a position: when the rows before it came, and the source's own


class ArrivalSource(WrappedSource):
    """The rows of another source with the time at which they came, in a column behind the others.

    every: microseconds after which the time goes on where nothing comes.

    Guarantees: those of the source. A range that is read again has the times that it had.

    >>> from headrace.connect.memory import MemorySource
    >>> from headrace.testing.clock import VirtualClock
    >>> source = ArrivalSource(MemorySource({"n": [1]}), "arrived", clock=VirtualClock(5.0))
    >>> batch = source.open("0").poll(10, 0.0)
    >>> batch.rows.to_pylist()[0]["arrived"].second, batch.position
    (5, {'at': 5000000, 'position': 1})
    """

    def __init__(
        self, source: Source, column: str, every: int = 1_000_000, clock: Clock | None = None
    ) -> None:
        super().__init__(source)
        self._column, self._every, self._clock = column, every, clock
        self.replayable = getattr(source, "replayable", False)
        self.bounded = getattr(source, "bounded", False)

    def __str__(self) -> str:
        return f"{self._source}, arrival in {self._column}"

    @property
    def skipped(self) -> int | None:
        """As the source says."""
        return getattr(self._source, "skipped", None)

    def schema(self) -> Schema:
        """That of the source, and the time of arrival."""
        return Schema((*self._source.schema(), Field(self._column, timestamp)))

    def unpaced(self) -> ArrivalSource:
        """The same without a rate."""
        source = self._source
        inner = source.unpaced() if hasattr(source, "unpaced") else source
        return ArrivalSource(inner, self._column, self._every, self._clock)

    def latest(self) -> dict[str, Position]:
        """Not known: rows that are there have not arrived before they are read."""
        return dict.fromkeys(self.channels())

    def maximum(self, column: str, channel: str, position: Position) -> Any:
        """See Statistics: a position knows its time."""
        if column == self._column:
            return None if position is None else position[AT]
        if isinstance(self._source, Statistics):
            return self._source.maximum(column, channel, _behind(position))
        return None

    def open(
        self,
        channel: str,
        start: Position = None,
        stop: Position = None,
        columns: Sequence[str] | None = None,
        predicate: Expression | None = None,
    ) -> ArrivalReader:
        """Read a channel; rows up to `stop` came when it says."""
        wanted = columns is None or self._column in columns
        own = None if columns is None else [name for name in columns if name != self._column]
        if predicate is not None and self._column in columns_of(predicate):
            predicate = None
        reader: Reader | None = None
        if stop is None or _behind(start) != _behind(stop):
            reader = self._source.open(channel, _behind(start), _behind(stop), own, predicate)
        return ArrivalReader(
            reader,
            self._column if wanted else None,
            start,
            stop,
            self._every,
            EpochClock() if self._clock is None else self._clock,
        )

    def committed(self, channel: str, position: Position) -> None:
        """Hand it on."""
        self._source.committed(channel, _behind(position))


class ArrivalReader:
    """Stamps what another reader gives; without one, only the time goes on."""

    def __init__(
        self,
        reader: Reader | None,
        column: str | None,
        start: Position,
        stop: Position,
        every: int,
        clock: Clock,
    ) -> None:
        self._reader, self._column, self._stop = reader, column, stop
        self._every, self._clock = every, clock
        self._at: int | None = None if start is None else start[AT]  # of the last position
        self._position = _behind(start)

    def poll(self, max_rows: int, timeout: float) -> Batch:
        """The next rows, or how far the time has come."""
        if self._reader is None:
            return Batch(None, self._stop, reached=self._stop[AT])
        batch = self._reader.poll(max_rows, timeout)
        self._position = batch.position
        moment = self._now()
        if batch.rows is None and not batch.ended:
            if self._at is not None and moment - self._at < self._every:
                return Batch(None, {AT: self._at, BEHIND: self._position})
            self._at = moment
            return Batch(None, {AT: moment, BEHIND: self._position}, reached=moment)
        self._at = moment
        rows = None if batch.rows is None else self._stamped(batch.rows, moment)
        return Batch(rows, {AT: moment, BEHIND: self._position}, batch.ended)

    def _now(self) -> int:
        """Microseconds since 1970; they never go back, and in a range they stand still."""
        if self._stop is not None:
            return int(self._stop[AT])
        now = int(self._clock.now() * 1_000_000)
        return now if self._at is None else max(now, self._at)

    def _stamped(self, rows: pa.RecordBatch, moment: int) -> pa.RecordBatch:
        if self._column is None:
            return rows
        stamps = pa.array(np.full(rows.num_rows, moment)).cast(timestamp.to_arrow())
        return rows.append_column(pa.field(self._column, stamps.type, nullable=False), stamps)

    def close(self) -> None:
        """Stop reading."""
        if self._reader is not None:
            self._reader.close()


def _behind(position: Position) -> Position:
    """The position of the source itself."""
    return None if position is None else position[BEHIND]
