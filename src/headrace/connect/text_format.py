"""What formats of text files have in common: lines, and what becomes of those that are wrong."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from headrace.plan.errors import DataError

from .files import Content
from .paths import FilePath

CHUNK_BYTES = 4 << 20  # how much is decoded at a time, which bounds the memory of a reader
LONGEST = 64 << 20  # bytes of one row
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
ON_ERROR = ("fail", "skip")


class TextFormat:
    """Files of lines; one whose last line has no end is still being written.

    `skipped` counts the rows that were left out with `on_error="skip"`; one read twice counts
    twice.
    """

    kind: str
    endings: tuple[str, ...]

    def __init__(self, on_error: str = "fail") -> None:
        if on_error not in ON_ERROR:
            raise DataError(f"on_error={on_error!r}: use one of {', '.join(ON_ERROR)}")
        self._on_error = on_error
        self.skipped = 0

    def open(self, path: FilePath, name: str) -> Content:
        """Open a file."""
        raise NotImplementedError

    def unfinished(self, path: Path) -> str:
        """A file that is whole is empty or ends with a newline."""
        with open(path, "rb") as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                return "" if file.read() == b"\n" else "a newline at its end"
        return ""

    def refuse(self, path: str, wrong: Sequence[tuple[int, str]]) -> None:
        """Fail with the first line that is wrong, or count them; they come with their numbers."""
        if wrong and self._on_error == "fail":
            line, what = wrong[0]
            raise DataError(f"{path}, line {line}: {what}")
        self.skipped += len(wrong)
