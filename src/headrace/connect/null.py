"""Rows into nowhere, counted."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headrace.plan.schema import Schema


class NullSink:
    """Throws all rows away and counts them.

    Guarantees: a committed batch is counted exactly once. Each `open` begins anew.

    >>> sink = NullSink()
    >>> sink.open(Schema.of({"n": int}))
    >>> sink.commit("batch", [sink.write(pa.record_batch({"n": [1, 2]}), "batch", "attempt")])
    >>> sink.rows
    2
    """

    exactly_once = True
    distributed = True

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return "null"

    def __reduce__(self) -> Any:
        return NullSink, ()  # what tasks count elsewhere comes back as messages

    @property
    def rows(self) -> int:
        """How many rows were committed."""
        with self._lock:
            return sum(self._counts.values())

    def open(self, schema: Schema) -> None:
        """Begin to count anew."""
        with self._lock:
            self._counts = {}

    def write(self, rows: pa.RecordBatch, batch: str, attempt: str) -> int:
        """Count rows for a commit."""
        return rows.num_rows

    def commit(self, batch: str, messages: Sequence[int]) -> None:
        """Add the counts of a batch, once."""
        with self._lock:
            self._counts.setdefault(batch, sum(messages))

    def abort(self, batch: str, attempt: str) -> None:
        """Nothing to do: only messages count."""

    def close(self) -> None:
        """Nothing to do: the count stays."""
