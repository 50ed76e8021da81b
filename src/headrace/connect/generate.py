"""Rows that are made from their number: the source under `read.generate`."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.plan.connector import Batch
from headrace.plan.errors import DataError
from headrace.plan.expressions import Expression
from headrace.plan.schema import Field, Schema
from headrace.plan.types import int64

from .clock import Clock, WallClock
from .pacer import Pacer
from .rates import Rate

INDEX = "index"


class IndexSource:
    """One column `index`: 0, 1, 2, ... up to a number of rows, or without end.

    Of n channels, channel c has the indices c, c + n, c + 2 n, ...; a rate is in rows per second,
    over all channels, or steps of rates (`Rate.of`), counted from the moment a channel is opened.

    Guarantees: replayable; a position is the number of rows that a channel has given.

    >>> source = IndexSource(rows=5, channels=2)
    >>> source.open("1").poll(max_rows=10, timeout=0.0).rows["index"].to_pylist()
    [1, 3]
    """

    replayable = True

    def __init__(
        self,
        rows: int | None = None,
        *,
        channels: int = 1,
        rate: Any = None,
        clock: Clock | None = None,
    ) -> None:
        if rows is not None and rows < 0:
            raise DataError(f"rows={rows}: cannot be negative")
        if channels < 1:
            raise DataError(f"channels={channels}: there must be at least one")
        self._rows, self._channels, self._rate = rows, channels, Rate.of(rate)
        self._clock = clock or WallClock()

    def __str__(self) -> str:
        said = "generate, " + ("endless" if self._rows is None else f"{self._rows:,} rows")
        if self._channels > 1:
            said += f" in {self._channels} channels"
        return said if self._rate is None else f"{said} at {self._rate}"

    def schema(self) -> Schema:
        """The one column."""
        return Schema((Field(INDEX, int64),))

    def channels(self) -> Sequence[str]:
        """The channels, named by their numbers."""
        return [str(number) for number in range(self._channels)]

    def latest(self) -> dict[str, int | None]:
        """How many rows each channel has; None if endless."""
        return {channel: self._count(int(channel)) for channel in self.channels()}

    def open(
        self,
        channel: str,
        start: int | None = None,
        stop: int | None = None,
        columns: Sequence[str] | None = None,
        predicate: Expression | None = None,
    ) -> IndexReader:
        """Read a channel from its row `start` to its row `stop`."""
        if channel not in self.channels():
            raise DataError(f"{self}: no channel {channel!r}")
        count = self._count(int(channel))
        for position in (start, stop):
            if position is not None and (position < 0 or (count is not None and position > count)):
                raise DataError(f"{self}: channel {channel} has no row {position}")
        return IndexReader(
            first=int(channel),
            step=self._channels,
            start=start or 0,
            stop=count if stop is None else stop,
            rate=self._rate and self._rate.shared(self._channels),
            clock=self._clock,
            empty=columns is not None and INDEX not in columns,
        )

    def unpaced(self) -> IndexSource:
        """The same rows as fast as they can be made: for a range that was due before.

        >>> str(IndexSource(rows=5, rate=2.0).unpaced())
        'generate, 5 rows'
        """
        return IndexSource(self._rows, channels=self._channels, clock=self._clock)

    def maximum(self, column: str, channel: str, position: int | None) -> int | None:
        """The index of the last row before a position."""
        count = self._count(int(channel)) if position is None else position
        return None if not count else int(channel) + (count - 1) * self._channels

    def committed(self, channel: str, position: int) -> None:
        """Nothing to do: rows can always be made again."""

    def close(self) -> None:
        """Nothing to do."""

    def _count(self, channel: int) -> int | None:
        """How many of the rows are of a channel."""
        if self._rows is None:
            return None
        return max(0, -(-(self._rows - channel) // self._channels))


class IndexReader:
    """One channel of an IndexSource."""

    def __init__(
        self,
        *,
        first: int,
        step: int,
        start: int,
        stop: int | None,
        rate: Rate | None,
        clock: Clock,
        empty: bool,
    ) -> None:
        self._first, self._step = first, step
        self._position, self._stop = start, stop
        self._last = np.iinfo(np.int64).max // step if stop is None else stop
        self._empty = empty  # no column is wanted, only the number of rows
        self._pacer = Pacer(rate, clock, start)
        self._closed = threading.Event()

    def poll(self, max_rows: int, timeout: float) -> Batch:
        """The rows that are due; waits for the first of them at most `timeout` seconds."""
        start = self._position
        if start == self._stop:
            return Batch(None, start, ended=not self._closed.is_set())
        due = self._pacer.due(start, timeout, self._closed)
        if self._closed.is_set() or due <= start:
            return Batch(None, start)
        end = min(start + max_rows, due, self._last)
        self._position = end
        return Batch(self._rows(start, end), end, ended=end == self._stop)

    def close(self) -> None:
        """Give no more rows; a poll that waits comes back."""
        self._closed.set()

    def _rows(self, start: int, end: int) -> pa.RecordBatch:
        first = self._first + start * self._step
        indices = pa.array(np.arange(first, self._first + end * self._step, self._step))
        batch = pa.record_batch([indices], schema=pa.schema([pa.field(INDEX, pa.int64(), False)]))
        return batch.select([]) if self._empty else batch
