"""Each committed batch, as one table, into a function of the user's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.schema import Schema

from .collect import CollectSink


class ForeachBatchSink:
    """Calls a function with the rows of each committed batch, and the name of the batch.

    The rows of a batch are in memory until then. A batch without rows is not given.

    Guarantees: at-least-once. Inside one process a batch is given once, and again only if the
    function failed; a batch that was given just before a crash is given again after it, with the
    same name and rows if the source is replayable. A function that remembers names of batches
    together with what it does makes it exactly-once.

    >>> sink = ForeachBatchSink(lambda rows, batch: print(batch, rows.to_pydict()))
    >>> sink.open(Schema.of({"n": int}))
    >>> messages = [sink.write(pa.record_batch({"n": [n]}), "7", "first") for n in (1, 2)]
    >>> sink.commit("7", messages)
    7 {'n': [1, 2]}
    >>> sink.commit("7", messages)
    """

    exactly_once = False

    def __init__(self, function: Callable[[pa.Table, str], Any]) -> None:
        if not callable(function):
            raise TypeError(f"{function!r} is not a function of a table and the name of a batch")
        self._function = function
        self._schema: Schema | None = None
        self._batches: dict[str, CollectSink] = {}
        self._given: set[str] = set()
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return f"foreach_batch {getattr(self._function, '__name__', type(self._function).__name__)}"

    def open(self, schema: Schema) -> None:
        """Begin anew with rows of a schema."""
        with self._lock:
            self._schema, self._batches, self._given = schema, {}, set()

    def write(self, rows: pa.RecordBatch, batch: str, attempt: str) -> str:
        """Keep rows for a commit."""
        return self._rows(batch).write(rows, batch, attempt)

    def commit(self, batch: str, messages: Sequence[Any]) -> None:
        """Call the function with the rows of these attempts."""
        if messages and batch not in self._given:
            kept = self._rows(batch)
            kept.commit(batch, messages)
            table = kept.result()
            if table.num_rows:
                self._function(table, batch)
            self._given.add(batch)
        with self._lock:
            self._batches.pop(batch, None)

    def abort(self, batch: str, attempt: str) -> None:
        """Forget the rows of an attempt."""
        self._rows(batch).abort(batch, attempt)

    def close(self) -> None:
        """Nothing to do."""

    def _rows(self, batch: str) -> CollectSink:
        """What was written of a batch."""
        if self._schema is None:
            raise DataError(f"{self}: open() comes before write()")
        with self._lock:
            if batch not in self._batches:
                self._batches[batch] = CollectSink()
                self._batches[batch].open(self._schema)
            return self._batches[batch]
