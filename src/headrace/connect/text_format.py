"""What formats of text files have in common: lines, and what becomes of those that are wrong."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.plan.errors import DataError

from .files import Content
from .paths import FilePath, open_bytes, whole_path

CHUNK_BYTES = 4 << 20  # how much is decoded at a time, which bounds the memory of a reader
LONGEST = 64 << 20  # bytes of one row
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
ON_ERROR = ("fail", "skip")
NO_TEXT = {  # how files begin that are taken for text by their names
    b"\x1f\x8b": "compressed by gzip; unpack it",
    b"BZh91AY&SY": "compressed by bzip2; unpack it",
    b"\x28\xb5\x2f\xfd": "compressed by Zstandard; unpack it",
    b"\xfd7zXZ\0": "compressed by xz; unpack it",
    b"PK\x03\x04": "an archive (zip), or a workbook; unpack or export it",
    b"PAR1\x15": "a Parquet file: read.parquet",
    b"ARROW1\0\0": "an Arrow file: read.arrow",
    b"\xff\xfe": "in UTF-16, and not in UTF-8",
    b"\xfe\xff": "in UTF-16, and not in UTF-8",
}


def open_text(path: FilePath) -> Any:
    """Open a file of lines; a DataError where it begins as no text does."""
    file = open_bytes(path)
    begin = file.read(max(map(len, NO_TEXT)))
    for sign, what in NO_TEXT.items():
        if begin.startswith(sign):
            file.close()
            raise DataError(f"{whole_path(path)} is {what}")
    file.seek(0)
    return file


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
