"""What sources share whose rows are counted: channels and positions are plain numbers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headrace.plan.connector import Batch
from headrace.plan.errors import DataError

from .clock import Clock, WallClock
from .pacer import Pacer
from .rates import Rate


class NumberedSource:
    """Channels 0 to n-1 with `rows` rows in all, or without end, that are given at a rate.

    A position is the number of rows that a channel has given. Whoever derives from it says in
    `_count` which share of the rows a channel has.
    """

    replayable = True

    def __init__(self, rows: int | None, channels: int, rate: Any, clock: Clock | None) -> None:
        if rows is not None and rows < 0:
            raise DataError(f"rows={rows}: cannot be negative")
        if channels < 1:
            raise DataError(f"channels={channels}: there must be at least one")
        self._rows, self._channels, self._rate = rows, channels, Rate.of(rate)
        self._clock = clock or WallClock()

    def channels(self) -> Sequence[str]:
        """The channels, named by their numbers."""
        return [str(number) for number in range(self._channels)]

    def latest(self) -> dict[str, int | None]:
        """How many rows each channel has; None if endless."""
        return {channel: self._count(int(channel)) for channel in self.channels()}

    def committed(self, channel: str, position: int) -> None:
        """Nothing to do: rows can always be given again."""

    def close(self) -> None:
        """Nothing to do: nothing is held."""

    def _count(self, channel: int) -> int | None:
        """How many of the rows are of a channel; None if endless."""
        raise NotImplementedError

    def _number(self, channel: str) -> int:
        """The number of a channel that there is."""
        if channel not in self.channels():
            raise DataError(f"{self}: no channel {channel!r}")
        return int(channel)

    def _range(self, channel: str, start: int | None, stop: int | None) -> tuple[int, int | None]:
        """From where to where a channel is to be read; None: without end."""
        count = self._count(self._number(channel))
        for position in (start, stop):
            if position is not None and (position < 0 or (count is not None and position > count)):
                raise DataError(f"{self}: channel {channel} has no row {position}")
        return start or 0, count if stop is None else stop

    def _pacer(self, start: int) -> Pacer:
        """Says when the rows of a channel are due that is opened now."""
        return Pacer(self._rate and self._rate.shared(self._channels), self._clock, start)

    def _described(self, what: str, besides: str = "") -> str:
        """The text of a source: what it gives, in how many channels, how fast."""
        channels = f" in {self._channels} channels" if self._channels > 1 else ""
        rate = "" if self._rate is None else f" at {self._rate}"
        return f"{what}{channels}{besides}{rate}"


class NumberedReader:
    """One channel, whose rows are given when they are due."""

    def __init__(self, start: int, stop: int | None, pacer: Pacer) -> None:
        self._position, self._stop, self._pacer = start, stop, pacer
        self._closed = threading.Event()

    def poll(self, max_rows: int, timeout: float) -> Batch:
        """The rows that are due; waits for the first of them at most `timeout` seconds."""
        start = self._position
        if start == self._stop:
            return Batch(None, start, ended=not self._closed.is_set())
        due = self._pacer.due(start, timeout, self._closed)
        if self._closed.is_set() or due <= start:
            return Batch(None, start)
        end = min(start + max_rows, due)
        rows = self._rows(start, end if self._stop is None else min(end, self._stop))
        self._position = start + rows.num_rows
        return Batch(rows, self._position, ended=self._position == self._stop)

    def close(self) -> None:
        """Give no more rows; a poll that waits comes back."""
        self._closed.set()

    def _rows(self, start: int, end: int) -> pa.RecordBatch:
        """The rows from one position to another, or the first of them."""
        raise NotImplementedError
