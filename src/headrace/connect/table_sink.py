"""What sinks into tables of databases have in common: rows are staged in Arrow files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from .arrow_sink import ArrowWriter, rows_in_arrow
from .staging import RowWriter, StagedSink

BATCHES = "headrace_batches"  # the table with the names of the batches that were committed


class TableSink(StagedSink):
    """A table; a commit inserts the rows of a batch and its name in one transaction."""

    ending = ".arrow"

    def _writer(self, path: Path, schema: pa.Schema) -> RowWriter:
        return ArrowWriter(path, schema)

    def _rows_in(self, path: Path) -> int:
        return rows_in_arrow(path)

    def _folders(self) -> list[Path]:
        return [self._staging, self._staging.parent]


def staged_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The rows of a staged file."""
    with pa.OSFile(os.fspath(path), "r") as file:
        reader = pa.ipc.open_file(file)
        yield from map(reader.get_batch, range(reader.num_record_batches))


def quoted(name: str) -> str:
    """A name as SQL has it.

    >>> quoted('a "b" c')
    '"a ""b"" c"'
    """
    return '"' + name.replace('"', '""') + '"'
