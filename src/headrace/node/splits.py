"""Splits: the rows of a channel, handed out to workers in order.

A watermark is a function of all rows of a channel before it, so whoever claims a split is told the
largest time before its first row. To know it, the claim itself looks at the times of the rows it
hands out: a quick pass over one column, while the work on the rows is done in parallel.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace

import pyarrow as pa

from headrace.plan.connector import Reader
from headrace.plan.expressions import columns_of
from headrace.plan.nodes import Source
from headrace.stage.blocks.arrow import Feed
from headrace.stage.blocks.block import Block
from headrace.stage.blocks.layout import Layout
from headrace.stage.clock import NEVER, SourceClock

SPLIT_ROWS = 1 << 18
NAP = 0.001  # seconds before a channel that had nothing is asked again


@dataclass(frozen=True)
class Split:
    """Rows of a channel, their place among its splits, and the largest time before them."""

    source: Source
    channel: str
    serial: int
    rows: pa.RecordBatch | None
    largest: int
    ended: bool


class Channel:
    """Hands out the splits of one channel; `claim` may be called by any worker."""

    def __init__(self, source: Source, name: str, reader: Reader, scan: TimeScan | None) -> None:
        self.source, self.name, self._reader, self._scan = source, name, reader, scan
        self._lock = threading.Lock()
        self._serial, self._largest, self._not_before = 0, NEVER, 0.0
        self.ended = False

    def claim(self) -> Split | None:
        """The next rows, or None if there are none now or another worker is claiming."""
        if self.ended or time.monotonic() < self._not_before:
            return None
        if not self._lock.acquire(blocking=False):
            return None
        try:
            return self._claim()
        finally:
            self._lock.release()

    def _claim(self) -> Split | None:
        if self.ended:
            return None
        batch = self._reader.poll(SPLIT_ROWS, 0.0)
        rows = batch.rows if batch.rows is not None and batch.rows.num_rows else None
        if rows is None and not batch.ended:
            self._not_before = time.monotonic() + NAP
            return None
        made = Split(self.source, self.name, self._serial, rows, self._largest, batch.ended)
        self._serial += 1
        self.ended = batch.ended
        if self._scan is not None and rows is not None:
            self._largest = self._scan.largest(rows, self.name)
        return made

    def close(self) -> None:
        """Read no more."""
        self._reader.close()


class TimeScan:
    """The largest time of each channel of a source so far, from its time columns alone."""

    def __init__(self, source: Source, capacity: int, compiled: bool) -> None:
        assert source.clock is not None
        names = [n for n in source.schema.names if n in columns_of(source.clock.time)]
        times = replace(source, schema=source.schema.select(names))
        self._clock = SourceClock(times, capacity, compiled)
        self._layout = Layout.of(times.schema)
        self._block = Block.allocate(self._layout, capacity)
        self._lock = threading.Lock()

    def largest(self, rows: pa.RecordBatch, channel: str) -> int:
        """The largest time of a channel, these rows included."""
        with self._lock:
            feed = Feed(self._layout, rows)
            for start in range(0, feed.rows, self._block.capacity):
                feed.fill(self._block, start, min(self._block.capacity, feed.rows - start))
                self._clock.observe(self._block, channel)
            return self._clock.saved()[channel]
