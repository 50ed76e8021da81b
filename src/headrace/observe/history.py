"""The progress of a job over time, in few points however long it runs."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa

FIRST_INTERVAL = 0.5  # seconds between two points; twice as long whenever there are too many
MOST = 1000


class History:
    """Points of time, each with the rows in, out and late so far, and the rate since the last.

    >>> class Progress:
    ...     seconds, rows_in, rows_out, late_rows = 2.0, 10, 8, 0
    >>> history = History()
    >>> history.add(Progress)
    >>> history.table().to_pylist()[0]["rows_per_second"]
    5.0
    """

    def __init__(self) -> None:
        self._points: list[tuple[float, int, int, int]] = []
        self._interval, self._next = FIRST_INTERVAL, 0.0

    def is_due(self) -> bool:
        """Is it time for another point?"""
        return time.perf_counter() >= self._next

    def add(self, progress: Any) -> None:
        """Add a point; `progress` is what `job.progress()` gives."""
        self._points.append(
            (progress.seconds, progress.rows_in, progress.rows_out, progress.late_rows)
        )
        if len(self._points) > MOST:
            del self._points[1:-1:2]
            self._interval *= 2
        self._next = time.perf_counter() + self._interval

    def table(self) -> pa.Table:
        """All points."""
        seconds, rows_in, rows_out, late = list(zip(*self._points)) or [()] * 4
        rates: list[float] = []
        before: tuple[Any, ...] = (0.0, 0)
        for point in self._points:
            passed = point[0] - before[0]
            rates.append((point[1] - before[1]) / passed if passed > 0 else 0.0)
            before = point
        return pa.table(
            {
                "seconds": pa.array(seconds, pa.float64()),
                "rows_in": pa.array(rows_in, pa.int64()),
                "rows_out": pa.array(rows_out, pa.int64()),
                "late_rows": pa.array(late, pa.int64()),
                "rows_per_second": pa.array(rates, pa.float64()),
            }
        )

    def frame(self) -> Any:
        """The same as a pandas DataFrame, or as one of Polars where there is no pandas."""
        try:
            import pandas  # noqa: F401

            return self.table().to_pandas()
        except ImportError:
            import polars

            return polars.from_arrow(self.table())
