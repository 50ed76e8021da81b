"""Rows into a function of the user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from headrace.plan.schema import Schema


class CallbackSink:
    """Calls a function with each record batch, as soon as it is there.

    Guarantees: at-least-once. Rows that are computed again after a failure are given again.

    >>> sink = CallbackSink(lambda rows: print(rows.num_rows))
    >>> sink.write(pa.record_batch({"n": [1, 2]}), "batch", "attempt")
    2
    """

    exactly_once = False

    def __init__(self, function: Callable[[pa.RecordBatch], Any]) -> None:
        if not callable(function):
            raise TypeError(f"{function!r} is not a function of a record batch")
        self._function = function

    def __str__(self) -> str:
        return f"callback {getattr(self._function, '__name__', type(self._function).__name__)}"

    def open(self, schema: Schema) -> None:
        """Nothing to do."""

    def write(self, rows: pa.RecordBatch, batch: str, attempt: str) -> None:
        """Call the function."""
        self._function(rows)

    def commit(self, batch: str, messages: Sequence[Any]) -> None:
        """Nothing to do: the function was called."""

    def abort(self, batch: str, attempt: str) -> None:
        """Nothing can be done: the function was called."""

    def close(self) -> None:
        """Nothing to do."""
