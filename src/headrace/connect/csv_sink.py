"""Rows into a folder of CSV files, each batch published by one rename."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pcsv

from headrace.plan.errors import DataError
from headrace.plan.schema import Field, Schema

from .csv_files import CsvFormat
from .csv_records import Dialect
from .folder_sink import FolderSink
from .iso import is_iso, texts_of_times
from .kafka_encode import json_column, texts_of_bytes
from .staging import DAY, RowWriter


class CsvSink(FolderSink):
    """A folder of CSV files, one for each batch that was committed.

    An attempt stages its rows in `_staging/<batch>/<attempt>/rows.csv`; a commit renames that file
    to `part-<batch>.csv`, or several attempts to a folder of that name. What other readers see is
    therefore always whole batches.

    The first line of every file names the columns. Texts are quoted, a null is nothing at all, and
    so is told from an empty text. Timestamps are written as `2024-01-31T12:00:00.000000Z`, dates as
    `2024-01-31` (years 1 to 9999), times as `12:00:00.000000`, durations as whole numbers of
    microseconds, binary values in base64, lists and structs in JSON. `read.csv` reads all of it
    back as it was.

    Guarantees: exactly-once, as long as a batch has one name for ever: a batch that is there is
    not published again. Jobs that write to one folder need names of batches that differ.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> sink = CsvSink(folder.name)
    >>> sink.open(Schema.of({"n": int, "text": str}))
    >>> rows = pa.record_batch({"n": [1, 2], "text": ["a", ""]})
    >>> sink.commit("7", [sink.write(rows, "7", "first")])
    >>> Path(folder.name, "part-7.csv").read_text()
    '"n","text"\\n1,"a"\\n2,""\\n'
    >>> folder.cleanup()
    """

    kind = "csv"
    ending = ".csv"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        delimiter: str = ",",
        mode: str = "append",
        keep_staged: float = DAY,
    ) -> None:
        self._dialect = Dialect(delimiter)
        super().__init__(path, mode=mode, keep_staged=keep_staged)

    def _writer(self, path: Path, schema: pa.Schema) -> RowWriter:
        return CsvWriter(path, Schema.of(schema), self._dialect)

    def _rows_in(self, path: Path) -> int:
        form = self._format()
        if form.unfinished(path):
            raise OSError("the last line has no end")
        content = form.open(path, path.name)
        try:
            return content.count()
        finally:
            content.close()

    def _check_file(self, path: Path, schema: Schema) -> None:
        content = self._format().open(path, path.name)
        try:
            said = content.misfit(schema)
        finally:
            content.close()
        if said:
            raise DataError(
                f"{self}: {path.name}, which is there already, does not fit: {said}; write to "
                "another folder"
            )

    def _format(self) -> CsvFormat:
        return CsvFormat(delimiter=self._dialect.delimiter)


class CsvWriter:
    """Writes rows as lines, behind one with the names of the columns."""

    def __init__(self, path: Path, schema: Schema, dialect: Dialect) -> None:
        self._schema = schema
        self._written_as = pa.schema({field.name: _written_as(field) for field in schema})
        self._delimiter = dialect.delimiter
        self._file = open(path, "wb")  # noqa: SIM115
        self.add(self._lines(self._written_as.empty_table(), header=True))

    def encoded(self, rows: pa.Table) -> pa.Buffer:
        """A line for each row."""
        columns = [_texts(field, rows[field.name]) for field in self._schema]
        return self._lines(pa.table(columns, schema=self._written_as), header=False)

    def _lines(self, rows: pa.Table, header: bool) -> pa.Buffer:
        options = pcsv.WriteOptions(include_header=header, delimiter=self._delimiter)
        lines: Any = pa.BufferOutputStream()
        with pcsv.CSVWriter(lines, self._written_as, write_options=options) as writer:
            for batch in rows.to_batches():
                if batch.num_rows:  # Arrow writes what lies in its memory for a batch without rows
                    writer.write_batch(batch)
        made: pa.Buffer = lines.getvalue()
        return made

    def add(self, encoded: pa.Buffer) -> None:
        """Write lines."""
        self._file.write(encoded)
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _written_as(field: Field) -> pa.DataType:
    kind = field.type
    if kind.name == "duration":
        return pa.int64()
    plain = kind.is_numeric or kind.is_decimal or kind.name in ("bool", "uint64")
    return kind.to_arrow() if plain else pa.string()


def _texts(field: Field, column: pa.ChunkedArray) -> Any:
    """A column as Arrow is to write it."""
    if is_iso(field.type):
        return texts_of_times(field, column)
    if field.type.name == "binary":
        return texts_of_bytes(column)
    if field.type.is_nested:
        return pa.chunked_array([json_column(field, chunk) for chunk in column.chunks], pa.string())
    return column.cast(_written_as(field))
