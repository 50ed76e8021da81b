"""Rows from files with one JSON object per line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headrace.plan.schema import Schema

from .json_decode import decode, decode_each
from .lines import LineContent, TextSource
from .paths import FilePath
from .text_format import TextFormat

FEW_BYTES = 4096  # for less it takes longer to call Arrow's parser than to decode line by line


class JsonSource(TextSource):
    """The rows of a file with a JSON object per line, of a folder of them, or of those of a glob.

    In a folder, the files whose names end in .json, .jsonl or .ndjson are read, in the order of
    their names. JSON does not tell types, so a schema is needed; other members of the objects are
    left out, a member that is missing is null. Timestamps and dates are texts in ISO 8601 (UTC, if
    they have no zone), durations whole numbers of microseconds, binary values texts in base64, and
    "NaN", "Infinity" and "-Infinity" stand for these floats.

    A line that is not an object, or whose value for a column does not fit the type, is an error
    that names file, line and column; with `on_error="skip"` it is left out and counted in
    `skipped`. Columns that a pipeline does not use are not looked at.

    Guarantees: replayable, as long as the files stay as they are; a position is a file and a number
    of lines in it, `{"file": "part-0.json", "row": 4096}`, empty lines included.

    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> _ = pathlib.Path(folder.name, "a.json").write_text('{"n": 1}\\n{"n": "x"}\\n{"n": 3}\\n')
    >>> source = JsonSource(folder.name, schema={"n": int})
    >>> source.open("files").poll(10, 0.0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    headrace.plan.errors.DataError: .../a.json, line 2: column 'n': 'x' is not a value of int64
    >>> source = JsonSource(folder.name, schema={"n": int}, on_error="skip")
    >>> source.table().to_pylist(), source.skipped
    ([{'n': 1}, {'n': 3}], 1)
    >>> folder.cleanup()
    """

    def __init__(
        self, path: str | os.PathLike[str], *, schema: Any, on_error: str = "fail"
    ) -> None:
        super().__init__(path, JsonFormat(on_error), schema=schema)


class JsonFormat(TextFormat):
    """Files of JSON lines."""

    kind = "json"
    endings: tuple[str, ...] = (".json", ".jsonl", ".ndjson")

    def open(self, path: FilePath, name: str) -> JsonContent:
        """Open a file."""
        return JsonContent(path, name, self)


class JsonContent(LineContent):
    """One open file."""

    def _decode(
        self, lines: Sequence[bytes], numbers: Sequence[int], columns: Schema
    ) -> tuple[pa.RecordBatch, Sequence[int]]:
        if sum(map(len, lines)) > FEW_BYTES:
            rows = decode(lines, columns)
            if rows is not None:
                return rows, numbers
        rows, good, wrong = decode_each(lines, columns)
        self._format.refuse(self.path, [(numbers[i] + 1, what) for i, what in wrong])
        return rows, [numbers[i] for i in good]
