"""Rows from files of lines: what lies in which line, a piece at a time; and plain lines."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.schema import Schema

from . import text_format
from .file_source import FileSource
from .files import Selection
from .paths import FilePath, whole_path
from .text_format import BYTE_ORDER_MARK, TextFormat, open_text

LINE = Schema.of({"line": str})


class TextSource(FileSource):
    """The rows of files of lines.

    Guarantees: replayable, as long as the files stay as they are; a position is a file and a number
    of lines in it.
    """

    def __init__(self, path: str | os.PathLike[str], form: TextFormat, *, schema: Any) -> None:
        self._text = form
        super().__init__(path, form, schema=schema)

    @property
    def skipped(self) -> int:
        """How many lines the readers of this source have left out; one read twice counts twice."""
        return self._text.skipped


class LineFormat(TextFormat):
    """Files of plain lines, in UTF-8: one column, `line`, without the end of the line."""

    kind = "text"
    endings: tuple[str, ...] = (".txt", ".log")

    def open(self, path: FilePath, name: str) -> PlainContent:
        """Open a file."""
        return PlainContent(path, name, self)


class LineContent(ABC):
    """One open file, whose rows are lines; a format says what becomes of them."""

    schema = None

    def __init__(self, path: FilePath, name: str, form: TextFormat) -> None:
        self.name, self.path, self._format = name, whole_path(path), form
        self._count: int | None = None
        self._file = open_text(path)

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
            full = [row for row, line in enumerate(lines, first) if self._is_row(line)]
            if full:
                texts = [lines[row - first] for row in full]
                rows, kept = self._decode(texts, full, selection.columns)
                if kept:
                    yield rows, np.array(kept) + 1

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _is_row(self, line: bytes) -> bool:
        """Is this line not just left out?"""
        return bool(line) and not line.isspace()

    @abstractmethod
    def _decode(
        self, lines: Sequence[bytes], numbers: Sequence[int], columns: Schema
    ) -> tuple[pa.RecordBatch, Sequence[int]]:
        """The rows of some lines, and the numbers of those that are rows."""

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
                "there one row per line?"
            )


class PlainContent(LineContent):
    """One open file, whose lines are taken as they are."""

    def _is_row(self, line: bytes) -> bool:
        return True

    def _decode(
        self, lines: Sequence[bytes], numbers: Sequence[int], columns: Schema
    ) -> tuple[pa.RecordBatch, Sequence[int]]:
        texts: list[str] = []
        good: list[int] = []
        for number, line in zip(numbers, lines):
            try:
                texts.append(line.removesuffix(b"\r").decode())
                good.append(number)
            except UnicodeDecodeError as error:
                self._format.refuse(self.path, [(number + 1, f"not UTF-8: {error}")])
        rows = pa.record_batch({"line": pa.array(texts, pa.string())})
        return rows.select(list(columns.names)), good
