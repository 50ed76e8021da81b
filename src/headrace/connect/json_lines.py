"""Rows from files with one JSON object per line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.schema import Schema

from . import text_format
from .files import FileSource, Selection
from .json_decode import decode, decode_each
from .paths import open_bytes, whole_path
from .text_format import BYTE_ORDER_MARK, TextFormat

FEW_BYTES = 4096  # for less it takes longer to call Arrow's parser than to decode line by line


class JsonSource(FileSource):
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

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> _ = Path(folder.name, "a.json").write_text('{"n": 1}\\n{"n": "x"}\\n{"n": 3}\\n')
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
        self._json = JsonFormat(on_error)
        super().__init__(path, self._json, schema=schema)

    @property
    def skipped(self) -> int:
        """How many lines the readers of this source have left out; one read twice counts twice."""
        return self._json.skipped


class JsonFormat(TextFormat):
    """Files of JSON lines."""

    kind = "json"
    endings: tuple[str, ...] = (".json", ".jsonl", ".ndjson")

    def open(self, path: Path, name: str) -> JsonContent:
        """Open a file."""
        return JsonContent(path, name, self)


class JsonContent:
    """One open file."""

    schema = None

    def __init__(self, path: Path, name: str, form: JsonFormat) -> None:
        self.name, self.path, self._format = name, whole_path(path), form
        self._count: int | None = None
        self._file = open_bytes(path)

    def count(self) -> int:
        """How many lines there are."""
        if self._count is None:
            for _ in self._chunks():
                pass
        return self._count or 0

    def batches(
        self, selection: Selection, start: int, stop: int | None
    ) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        """The rows of the lines from `start` to `stop`; others are not decoded."""
        for number, chunk in self._chunks():
            if stop is not None and number >= stop:
                return
            first = max(start, number)
            end = None if stop is None else max(0, stop - number)
            lines = chunk.removesuffix(b"\n").split(b"\n")[first - number : end]
            full = [row for row, line in enumerate(lines, first) if line and not line.isspace()]
            if full:
                texts = [lines[row - first] for row in full]
                rows, kept = self._decode(texts, full, selection.columns)
                if kept:
                    yield rows, np.array(kept) + 1

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _decode(
        self, lines: Sequence[bytes], numbers: Sequence[int], columns: Schema
    ) -> tuple[pa.RecordBatch, Sequence[int]]:
        """The rows of some lines, and the numbers of those that are rows."""
        if sum(map(len, lines)) > FEW_BYTES:
            rows = decode(lines, columns)
            if rows is not None:
                return rows, numbers
        rows, good, wrong = decode_each(lines, columns)
        self._format.refuse(self.path, [(numbers[i] + 1, what) for i, what in wrong])
        return rows, [numbers[i] for i in good]

    def _chunks(self) -> Iterator[tuple[int, bytes]]:
        """Whole lines, some at a time, each with the number of lines before them."""
        self._file.seek(0)
        first, rest = 0, self._file.read(text_format.CHUNK_BYTES).removeprefix(BYTE_ORDER_MARK)
        while data := self._file.read(text_format.CHUNK_BYTES):
            lines, end, part = rest.rpartition(b"\n")
            self._check_length(rest, first)
            if end:
                yield first, lines + end
                first += lines.count(b"\n") + 1
            rest = part + data
        if rest:
            self._check_length(rest, first)
            yield first, rest
            first += rest.removesuffix(b"\n").count(b"\n") + 1
        self._count = first

    def _check_length(self, content: bytes, number: int) -> None:
        """The first line of a chunk can be one that came in many."""
        end = content.find(b"\n")
        if (len(content) if end < 0 else end) > text_format.LONGEST:
            raise DataError(
                f"{self.path}, line {number + 1}: longer than {text_format.LONGEST >> 20} MiB; is "
                "there one JSON object per line?"
            )
