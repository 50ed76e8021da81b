"""Where in the user's code something was written."""

from __future__ import annotations

import linecache
import re
import sys
from dataclasses import dataclass, field
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
    operator: str = field(default="", compare=False)  # what is written there: map, filter 'views'

    def __repr__(self) -> str:
        place = f"{self.file}:{self.line}"
        return f"{place}: {self.text}" if self.text else place


_SECRET = r"password|passwd|passphrase|secret|token|credential|api_?key|access_?key|private_?key"
# What follows such a name, as keyword, variable or key of a dict: a text, maybe to the line's end.
_SECRET_VALUE = re.compile(
    rf"""(\w*(?:{_SECRET})[\w.]*["']?\]?\s*[=:]\s*)[a-z]{{0,2}}(["'])(?:\\.|(?!\2).)*\2?""",
    re.IGNORECASE,
)
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s\"']*@")


def masked(line: str) -> str:
    """A line of source as it may be shown: without the passwords in it.

    >>> masked('read.kafka(servers, "views", sasl_password="hunter2", start="latest")')
    'read.kafka(servers, "views", sasl_password=***, start="latest")'
    >>> masked('options = {"sasl.password": "hunter2"}; url = "s3://me:hunter2@bucket/rows"')
    'options = {"sasl.password": ***}; url = "s3://***@bucket/rows"'
    """
    return _CREDENTIALS.sub("***@", _SECRET_VALUE.sub(r"\1***", line))


def caller_site() -> Site:
    """The innermost line on the stack that does not belong to headrace."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return _site(frame.f_code.co_filename, frame.f_lineno)


def user_stack_level() -> int:
    """How far up the stack the user's line is, as whoever calls this tells `warnings.warn`."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _is_ours(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return level


def code_site(code: CodeType) -> Site:
    """The line where a function begins."""
    return _site(code.co_filename, code.co_firstlineno)


def _is_ours(file: str) -> bool:
    return file.startswith(_PACKAGE) or file.startswith("<frozen") or file == "<string>"


def _site(file: str, line: int) -> Site:
    short = file if file.startswith("<") else Path(file).name
    return Site(short, line, masked(linecache.getline(file, line).strip()))
