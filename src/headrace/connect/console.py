"""Rows onto the terminal, as an aligned table."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any, TextIO

import pyarrow as pa

from headrace.plan.schema import Schema

WIDEST = 40  # characters of a column; longer values are shortened


class ConsoleSink:
    """Prints the first rows as they come, and in the end how many more there were.

    Guarantees: at-least-once. Rows that are computed again after a failure are printed again.

    >>> sink = ConsoleSink(limit=2, file=sys.stdout)
    >>> sink.open(Schema.of({"user": str, "n": int}))
    >>> sink.write(pa.record_batch({"user": ["ann", "bob", "cyd"], "n": [1, 20, 3]}), "0", "0")
    user   n
    ────  ──
    ann    1
    bob   20
    >>> sink.close()
    … and 1 more row
    """

    exactly_once = False

    def __init__(self, limit: int | None = 20, *, file: TextIO | None = None) -> None:
        self._limit, self._file = limit, file
        self._schema = Schema(())
        self._widths: list[int] = []
        self._shown = self._more = 0
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return "console" if self._limit is None else f"console, {self._limit} rows"

    def __reduce__(self) -> Any:
        return ConsoleSink, (self._limit,)

    def open(self, schema: Schema) -> None:
        """Begin a new table."""
        with self._lock:
            self._schema, self._widths = schema, []
            self._shown = self._more = 0

    def write(self, rows: pa.RecordBatch, batch: str, attempt: str) -> None:
        """Print rows, up to the limit."""
        with self._lock:
            room = rows.num_rows if self._limit is None else max(0, self._limit - self._shown)
            shown = rows.slice(0, room)
            self._shown += shown.num_rows
            self._more += rows.num_rows - shown.num_rows
            if shown.num_rows:
                self._print(shown)

    def commit(self, batch: str, messages: Sequence[Any]) -> None:
        """Nothing to do: the rows are printed."""

    def abort(self, batch: str, attempt: str) -> None:
        """Nothing can be done: the rows are printed."""

    def close(self) -> None:
        """Say how many rows were not shown."""
        with self._lock:
            if self._more:
                self._say(f"… and {self._more:,} more row{'s' if self._more > 1 else ''}")
            self._more = 0

    def _print(self, rows: pa.RecordBatch) -> None:
        cells = [[cell_text(value) for value in column.to_pylist()] for column in rows.columns]
        names = [cell_text(name) for name in self._schema.names]
        needed = [max(map(len, [name, *column])) for name, column in zip(names, cells)]
        if not self._widths:
            self._widths = needed
            self._say(self._line(names))
            self._say("  ".join("─" * width for width in self._widths))
        # A later batch may have longer values: the columns get wider from there on.
        self._widths = [max(pair) for pair in zip(self._widths, needed)]
        for row in zip(*cells):
            self._say(self._line(row))

    def _line(self, cells: Sequence[str]) -> str:
        parts = [
            cell.rjust(width) if field.type.is_numeric else cell.ljust(width)
            for cell, width, field in zip(cells, self._widths, self._schema)
        ]
        return "  ".join(parts).rstrip()

    def _say(self, line: str) -> None:
        print(line, file=self._file or sys.stdout, flush=True)


def cell_text(value: Any) -> str:
    """A value as one short line."""
    if value is None:
        return "null"
    if isinstance(value, float):
        said = f"{value:.6g}"
    elif isinstance(value, str):
        said = "".join(c if c.isprintable() else repr(c)[1:-1] for c in value)
    else:
        said = str(value)
    return said if len(said) <= WIDEST else said[: WIDEST - 1] + "…"
