"""Rows that are made from their number: the source under `read.generate`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.plan.expressions import Expression
from headrace.plan.schema import Field, Schema
from headrace.plan.types import int64

from .clock import Clock
from .numbered import NumberedReader, NumberedSource
from .pacer import Pacer

INDEX = "index"


class IndexSource(NumberedSource):
    """One column `index`: 0, 1, 2, ... up to a number of rows, or without end.

    Of n channels, channel c has the indices c, c + n, c + 2 n, ...; a rate is in rows per second,
    over all channels, or steps of rates (`Rate.of`), counted from the moment a channel is opened.

    Guarantees: replayable; a position is the number of rows that a channel has given.

    >>> source = IndexSource(rows=5, channels=2)
    >>> source.open("1").poll(max_rows=10, timeout=0.0).rows["index"].to_pylist()
    [1, 3]
    """

    def __init__(
        self,
        rows: int | None = None,
        *,
        channels: int = 1,
        rate: Any = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(rows, channels, rate, clock)

    def __str__(self) -> str:
        many = "endless" if self._rows is None else f"{self._rows:,} rows"
        return self._described(f"generate, {many}")

    def schema(self) -> Schema:
        """The one column."""
        return Schema((Field(INDEX, int64),))

    def open(
        self,
        channel: str,
        start: int | None = None,
        stop: int | None = None,
        columns: Sequence[str] | None = None,
        predicate: Expression | None = None,
    ) -> IndexReader:
        """Read a channel from its row `start` to its row `stop`."""
        begin, end = self._range(channel, start, stop)
        return IndexReader(
            begin,
            end,
            self._pacer(begin),
            first=int(channel),
            step=self._channels,
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

    def _count(self, channel: int) -> int | None:
        if self._rows is None:
            return None
        return max(0, -(-(self._rows - channel) // self._channels))


class IndexReader(NumberedReader):
    """One channel of an IndexSource."""

    def __init__(
        self, start: int, stop: int | None, pacer: Pacer, *, first: int, step: int, empty: bool
    ) -> None:
        super().__init__(start, stop, pacer)
        self._first, self._step = first, step
        self._last = np.iinfo(np.int64).max // step  # no index is larger
        self._empty = empty  # no column is wanted, only the number of rows

    def _rows(self, start: int, end: int) -> pa.RecordBatch:
        end = min(end, self._last)
        first = self._first + start * self._step
        indices = pa.array(np.arange(first, self._first + end * self._step, self._step))
        batch = pa.record_batch([indices], schema=pa.schema([pa.field(INDEX, pa.int64(), False)]))
        return batch.select([]) if self._empty else batch
