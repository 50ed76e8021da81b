"""Rows into a folder of Parquet files, each batch published by one rename."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .folder_sink import CompressedFolderSink
from .staging import RowWriter


class ParquetSink(CompressedFolderSink):
    """A folder of Parquet files, one for each batch that was committed.

    An attempt stages its rows in `_staging/<batch>/<attempt>/rows.parquet`; a commit renames that
    file to `part-<batch>.parquet`. Where several attempts wrote parts of one batch, they become
    a folder of that name, again by one rename. What other readers see is therefore always whole
    batches. (Spark reads such folders with `recursiveFileLookup`.)

    Guarantees: exactly-once, as long as a batch has one name for ever: a batch that is there is
    not published again. Jobs that write to one folder need names of batches that differ. Staged
    rows of a batch are removed with its commit, and those that nobody committed for a day when
    the folder is next opened.

    >>> import tempfile
    >>> from headrace.plan.schema import Schema
    >>> folder = tempfile.TemporaryDirectory()
    >>> sink = ParquetSink(folder.name)
    >>> sink.open(Schema.of({"n": int}))
    >>> message = sink.write(pa.record_batch({"n": [1, 2]}), "7", "first")
    >>> sink.commit("7", [message])
    >>> sink.commit("7", [message])
    >>> [path.name for path in Path(folder.name).glob("*.parquet")]
    ['part-7.parquet']
    >>> folder.cleanup()
    """

    kind = "parquet"
    ending = ".parquet"
    compressions = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")
    usual = "zstd"

    def _writer(self, path: Path, schema: pa.Schema) -> RowWriter:
        # Texts repeat; to look for repeated numbers costs more than all the rest of the writing.
        texts = [f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_binary(f.type)]
        # Whole numbers often rise, or are near each other: their differences take a third of the
        # time to write, and less room.
        whole = {field.name: "DELTA_BINARY_PACKED" for field in schema if _is_whole(field.type)}
        options: Any = {"compression": self._compression, "use_dictionary": texts or False}
        writer = pq.ParquetWriter(path, schema, column_encoding=whole or None, **options)
        return ParquetRowsWriter(writer)

    def _rows_in(self, path: Path) -> int:
        return int(pq.read_metadata(path).num_rows)

    def _schema_of(self, path: Path) -> pa.Schema:
        return pq.read_schema(path)


class ParquetRowsWriter:
    """Writes row groups. Arrow's writer encodes what it writes, so one thread does both."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def encoded(self, rows: pa.Table) -> pa.Table:
        """The rows as they are."""
        return rows

    def add(self, encoded: pa.Table) -> None:
        """Write rows."""
        self._writer.write_table(encoded)

    def close(self) -> None:
        """Write the footer, and close the file."""
        self._writer.close()


def _is_whole(kind: pa.DataType) -> bool:
    """Does Parquet have a flat column of this type as whole numbers of 32 or 64 bits?"""
    kinds = pa.types
    return kinds.is_integer(kind) or kinds.is_temporal(kind)
