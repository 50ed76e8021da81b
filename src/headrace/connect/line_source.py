"""Rows from lines that come over a connection, as they are or by way of a journal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from headrace.plan.connector import Source
from headrace.plan.errors import DataError
from headrace.plan.schema import Schema

from .iterate import IteratorSource
from .journal import JournaledSource
from .json_decode import decode_each
from .json_lines import JsonFormat
from .lines import LINE, LineFormat
from .text_format import ON_ERROR


def line_source(
    said: str,
    lines: Callable[[], Iterator[bytes]],
    *,
    schema: Any = None,
    on_error: str = "fail",
    journal: str | os.PathLike[str] | None = None,
) -> Source:
    """The source of the lines of a connection: JSON objects, or texts where there is no schema."""
    if journal is not None:
        form = LineFormat(on_error) if schema is None else JsonFormat(on_error)
        return JournaledSource(said, lines, os.fspath(journal), form, schema=schema or LINE)
    return LineSource(said, lines(), schema, on_error)


class LineSource(IteratorSource):
    """Lines as they come.

    Guarantees: not replayable; see IteratorSource. A line that is not right is an error, or is left
    out and counted in `skipped`.
    """

    def __init__(self, said: str, lines: Iterator[bytes], schema: Any, on_error: str) -> None:
        self._rows = DecodedLines(said, lines, schema, on_error)
        super().__init__(self._rows, schema=schema or LINE)
        self._said = said

    def __str__(self) -> str:
        return f"{self._said}, not replayable"

    @property
    def skipped(self) -> int:
        """How many lines were left out."""
        return self._rows.skipped


class DecodedLines(Iterator[Any]):
    """A row for each line that is right.

    >>> rows = DecodedLines("here", iter([b'{"n": 1}', b"", b"?"]), {"n": int}, "skip")
    >>> list(rows), rows.skipped
    ([{'n': 1}], 1)
    """

    interruptible = True

    def __init__(self, said: str, lines: Iterator[bytes], schema: Any, on_error: str) -> None:
        if on_error not in ON_ERROR:
            raise DataError(f"on_error={on_error!r}: use one of {', '.join(ON_ERROR)}")
        self._said, self._lines, self._on_error = said, lines, on_error
        self._columns = None if schema is None else Schema.of(schema)
        self._number = self.skipped = 0

    def __next__(self) -> Any:
        for line in self._lines:
            self._number += 1
            found, wrong = self._decoded(line)
            if found is not None:
                return found
            if wrong and self._on_error == "fail":
                raise DataError(f"{self._said}, line {self._number}: {wrong}")
            self.skipped += bool(wrong)
        raise StopIteration

    def close(self) -> None:
        """End the connection."""
        close = getattr(self._lines, "close", None)
        if close is not None:
            close()

    def _decoded(self, line: bytes) -> tuple[Any, str]:
        """A row, or what is wrong with it; neither where the line has nothing."""
        if self._columns is None:
            try:
                return {"line": line.decode()}, ""
            except UnicodeDecodeError as error:
                return None, f"not UTF-8: {error}"
        if not line or line.isspace():
            return None, ""
        rows, _, wrong = decode_each([line], self._columns)
        return (None, wrong[0][1]) if wrong else (rows.to_pylist()[0], "")
