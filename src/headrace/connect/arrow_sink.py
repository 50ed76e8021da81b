"""Rows into a folder of Arrow IPC files, each batch published by one rename."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa

from .folder_sink import CompressedFolderSink
from .staging import GROUP_ROWS, RowWriter


class ArrowSink(CompressedFolderSink):
    """A folder of Arrow files (the file format), one for each batch that was committed.

    An attempt stages its rows in `_staging/<batch>/<attempt>/rows.arrow`; a commit renames that
    file to `part-<batch>.arrow`, or several attempts to a folder of that name. What other readers
    see is therefore always whole batches.

    Guarantees: exactly-once, as long as a batch has one name for ever: a batch that is there is
    not published again. Jobs that write to one folder need names of batches that differ.

    >>> import tempfile
    >>> from headrace.plan.schema import Schema
    >>> folder = tempfile.TemporaryDirectory()
    >>> sink = ArrowSink(folder.name)
    >>> sink.open(Schema.of({"n": int}))
    >>> sink.commit("7", [sink.write(pa.record_batch({"n": [1, 2]}), "7", "first")])
    >>> pa.ipc.open_file(f"{folder.name}/part-7.arrow").read_all().to_pydict()
    {'n': [1, 2]}
    >>> folder.cleanup()
    """

    kind = "arrow"
    ending = ".arrow"
    compressions = ("none", "lz4", "zstd")
    usual = "none"

    def _writer(self, path: Path, schema: pa.Schema) -> RowWriter:
        return ArrowWriter(path, schema, self._compression)

    def _rows_in(self, path: Path) -> int:
        return rows_in_arrow(path)

    def _schema_of(self, path: Path) -> pa.Schema:
        with pa.OSFile(os.fspath(path), "r") as file:
            return pa.ipc.open_file(file).schema


class ArrowWriter:
    """Writes a file of the file format."""

    def __init__(self, path: Path, schema: pa.Schema, compression: str = "none") -> None:
        chosen: Any = None if compression == "none" else compression
        options = pa.ipc.IpcWriteOptions(compression=chosen)
        self._file = pa.ipc.new_file(os.fspath(path), schema, options=options)

    def encoded(self, rows: pa.Table) -> pa.Table:
        """Rows in one piece."""
        return rows.combine_chunks()

    def add(self, encoded: pa.Table) -> None:
        """Write rows, in pieces of a useful size: readers get them as they lie in the file."""
        self._file.write_table(encoded, max_chunksize=GROUP_ROWS)

    def close(self) -> None:
        """Write the end, and close the file."""
        self._file.close()


def rows_in_arrow(path: Path) -> int:
    """How many rows a file has; one column is read for it."""
    options = pa.ipc.IpcReadOptions(included_fields=[0], use_threads=False)
    with pa.OSFile(os.fspath(path), "r") as file:
        reader = pa.ipc.open_file(file, options=options)
        return sum(reader.get_batch(n).num_rows for n in range(reader.num_record_batches))
