"""Where in the user's code something was written."""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

_PACKAGE = str(Path(__file__).resolve().parent.parent)


@dataclass(frozen=True)
class Site:
    """A line of the user's code.

    >>> Site("pipeline.py", 3, "x = 1")
    pipeline.py:3: x = 1
    """

    file: str
    line: int
    text: str = ""

    def __repr__(self) -> str:
        place = f"{self.file}:{self.line}"
        return f"{place}: {self.text}" if self.text else place


def caller_site() -> Site:
    """The innermost line on the stack that does not belong to headrace."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return _site(frame.f_code.co_filename, frame.f_lineno)


def code_site(code: CodeType) -> Site:
    """The line where a function begins."""
    return _site(code.co_filename, code.co_firstlineno)


def _is_ours(file: str) -> bool:
    return file.startswith(_PACKAGE) or file.startswith("<frozen") or file == "<string>"


def _site(file: str, line: int) -> Site:
    short = file if file.startswith("<") else Path(file).name
    return Site(short, line, linecache.getline(file, line).strip())
