"""Rows into a folder of files with one JSON object per line, each batch published by one rename."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.schema import Field, Schema
from headrace.plan.types import optional

from .folder_sink import FolderSink
from .json_decode import decode_each
from .kafka_encode import json_texts
from .staging import RowWriter


class JsonSink(FolderSink):
    """A folder of files with a JSON object per line, one file for each batch that was committed.

    An attempt stages its rows in `_staging/<batch>/<attempt>/rows.json`; a commit renames that
    file to `part-<batch>.json`, or several attempts to a folder of that name. What other readers
    see is therefore always whole batches.

    Every object has all columns, null included. Timestamps are written as
    `"2024-01-31T12:00:00.000000Z"`, dates as `"2024-01-31"` (years 1 to 9999), times as
    `"12:00:00.000000"`, durations as whole numbers of microseconds, binary values in base64, and
    floats that JSON lacks as "NaN", "Infinity" and "-Infinity", decimals as numbers. `read.json`
    reads all of it back as it was.

    Guarantees: exactly-once, as long as a batch has one name for ever: a batch that is there is
    not published again. Jobs that write to one folder need names of batches that differ.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> sink = JsonSink(folder.name)
    >>> sink.open(Schema.of({"n": int}))
    >>> sink.commit("7", [sink.write(pa.record_batch({"n": [1, 2]}), "7", "first")])
    >>> Path(folder.name, "part-7.json").read_text()
    '{"n":1}\\n{"n":2}\\n'
    >>> folder.cleanup()
    """

    kind = "json"
    ending = ".json"

    def _writer(self, path: Path, schema: pa.Schema) -> RowWriter:
        return JsonWriter(path, Schema.of(schema))

    def _rows_in(self, path: Path) -> int:
        with open(path, "rb") as file:
            return sum(line.endswith(b"\n") for line in file)

    def _check_file(self, path: Path, schema: Schema) -> None:
        with open(path, "rb") as file:
            line = file.readline()
        nullable = Schema(tuple(Field(field.name, optional(field.type)) for field in schema))
        said = [what for _, what in decode_each([line], nullable)[2]] if line else []
        if line and not said:
            said = [
                f"column {n!r} is not in both" for n in set(json.loads(line)) ^ set(schema.names)
            ]
        if said:
            raise DataError(
                f"{self}: {path.name}, which is there already, does not fit: {min(said)}; write to "
                "another folder"
            )


class JsonWriter:
    """Writes rows as lines."""

    def __init__(self, path: Path, schema: Schema) -> None:
        self._schema = schema
        self._file = open(path, "wb")  # noqa: SIM115

    def encoded(self, rows: pa.Table) -> bytes:
        """A line for each row."""
        texts = (text for batch in rows.to_batches() for text in json_texts(batch, self._schema))
        return b"".join(text + b"\n" for text in texts)

    def add(self, encoded: bytes) -> None:
        """Write lines."""
        self._file.write(encoded)
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
