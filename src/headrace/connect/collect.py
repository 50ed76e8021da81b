"""Rows into an Arrow table in memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.schema import Schema


class CollectSink:
    """Keeps all rows, as an Arrow table, in the order in which their batches were committed.

    Guarantees: exactly-once inside one process. Each `open` begins anew.

    >>> sink = CollectSink()
    >>> sink.open(Schema.of({"n": int}))
    >>> message = sink.write(pa.record_batch({"n": [1, 2]}), "batch", "attempt")
    >>> sink.result().num_rows
    0
    >>> sink.commit("batch", [message])
    >>> sink.result().to_pylist()
    [{'n': 1}, {'n': 2}]
    """

    exactly_once = True

    def __init__(self) -> None:
        self._schema: pa.Schema | None = None
        self._staged: dict[str, dict[str, list[pa.RecordBatch]]] = {}
        self._committed: dict[str, list[pa.RecordBatch]] = {}
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return "collect"

    def open(self, schema: Schema) -> None:
        """Begin anew with rows of a schema."""
        with self._lock:
            self._schema = schema.to_arrow()
            self._staged, self._committed = {}, {}

    def write(self, rows: pa.RecordBatch, batch: str, attempt: str) -> str:
        """Keep rows for a commit."""
        if self._schema is None:
            raise DataError(f"{self}: open() comes before write()")
        if not rows.schema.equals(self._schema):
            rows = rows.select(self._schema.names).cast(self._schema)
        with self._lock:
            self._staged.setdefault(batch, {}).setdefault(attempt, []).append(rows)
        return attempt

    def commit(self, batch: str, messages: Sequence[Any]) -> None:
        """Add the rows of these attempts to the result, once."""
        with self._lock:
            staged = self._staged.pop(batch, {})
            if batch not in self._committed:
                attempts = [staged[attempt] for attempt in dict.fromkeys(messages)]
                self._committed[batch] = [rows for attempt in attempts for rows in attempt]

    def abort(self, batch: str, attempt: str) -> None:
        """Forget the rows of an attempt."""
        with self._lock:
            self._staged.get(batch, {}).pop(attempt, None)

    def close(self) -> None:
        """Nothing to do: the result stays."""

    def result(self) -> pa.Table:
        """All rows that were committed so far."""
        if self._schema is None:
            raise DataError("there is no result yet; give the output to hr.run first")
        with self._lock:
            batches = [rows for batch in self._committed.values() for rows in batch]
            return pa.Table.from_batches(batches, self._schema)
