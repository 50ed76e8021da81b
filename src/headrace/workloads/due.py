"""Rows that are due at a rate, by the clock on the wall: whoever reads late finds them waiting."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.plan.connector import Batch
from headrace.plan.schema import Schema

CHANNEL = "0"


class DueSource:
    """Row n, with n in its only column, is due `n / rate` seconds after `start`; without end.

    >>> source = DueSource(rate=100.0, start=time.time() - 10.0)
    >>> 1000 <= source.latest()["0"] <= 1100
    True
    >>> source.open("0", 5, 8).poll(100, 0.0).rows["n"].to_pylist()
    [5, 6, 7]
    """

    replayable = True

    def __init__(self, rate: float, start: float) -> None:
        """start: seconds since 1970."""
        self._rate, self._start = rate, start

    def __repr__(self) -> str:
        return f"rows that are due at {self._rate:g} a second"

    def due(self, row: int) -> float:
        """When a row is due.

        >>> DueSource(rate=2.0, start=100.0).due(10)
        105.0
        """
        return self._start + row / self._rate

    def schema(self) -> Schema:
        """See Source."""
        return Schema.of({"n": int})

    def channels(self) -> Sequence[str]:
        """See Source."""
        return [CHANNEL]

    def first(self) -> dict[str, int]:
        """Positions are numbers, which can be counted on."""
        return {CHANNEL: 0}

    def latest(self) -> dict[str, int]:
        """How many rows are due by now."""
        return {CHANNEL: max(0, int((time.time() - self._start) * self._rate))}

    def open(
        self,
        channel: str,
        start: int | None = None,
        stop: int | None = None,
        columns: Sequence[str] | None = None,
        predicate: Any = None,
    ) -> DueReader:
        """See Source."""
        return DueReader(self, start or 0, stop)

    def committed(self, channel: str, position: int) -> None:
        """Nothing to do: rows can always be given again."""

    def close(self) -> None:
        """Nothing to do: nothing is held."""


class DueReader:
    """Gives rows of a range, or those that are due."""

    def __init__(self, source: DueSource, start: int, stop: int | None) -> None:
        self._source, self._position, self._stop = source, start, stop

    def poll(self, max_rows: int, timeout: float) -> Batch:
        """See Reader; it does not wait."""
        start = self._position
        last = self._source.latest()[CHANNEL] if self._stop is None else self._stop
        self._position = max(start, min(start + max_rows, last))
        if self._position == start:
            return Batch(None, start, ended=start == self._stop)
        rows = pa.record_batch({"n": np.arange(start, self._position)})
        return Batch(rows, self._position, ended=self._position == self._stop)

    def close(self) -> None:
        """Nothing to do."""
