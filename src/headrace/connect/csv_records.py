"""The bytes of CSV files cut into records: lines, but for newlines inside of quotes.

The rules are those of RFC 4180. A quote inside a value that does not begin with one is a character
like others; behind the quote that ends a value a delimiter or the end of the line must follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import BinaryIO, NamedTuple

import numpy as np

from headrace.plan.errors import DataError
from headrace.stage.strings.separated import CARRIAGE_RETURN, Scan, scan_records

from . import text_format
from .text_format import BYTE_ORDER_MARK

BEHIND_QUOTE = "something follows behind the quote that ends a value; double the quotes in values"
BARE_RETURN = "a carriage return inside a value that is not quoted"


@dataclass(frozen=True)
class Dialect:
    """How values are told apart; `quote` is empty where nothing is quoted.

    >>> Dialect("|").delimiter
    '|'
    """

    delimiter: str = ","
    quote: str = '"'

    def __post_init__(self) -> None:
        for name, sign in (("delimiter", self.delimiter), ("quote", self.quote)):
            if name == "quote" and not sign:
                continue
            if len(sign) != 1 or not sign.isascii() or sign in "\r\n":
                raise DataError(f"{name}={sign!r}: use one ASCII character that ends no line")
        if self.delimiter == self.quote:
            raise DataError(f"delimiter and quote are both {self.quote!r}; they must differ")

    @cached_property
    def record(self) -> re.Pattern[bytes]:
        """A record that is right, with the end of its line."""
        return re.compile(rf"{self._field}(?:{self._delimiter}{self._field})*+\r?\n".encode())

    @cached_property
    def begun(self) -> re.Pattern[bytes]:
        """As much of a record as is right: to its end, to something wrong, or into a value."""
        delimiter, quote = self._delimiter, re.escape(self.quote)
        last = rf"(?:{self._inside}{quote}?|(?!{quote})[^{delimiter}\r\n]*+)\r?"
        return re.compile(rf"(?:{self._field}{delimiter})*+{last}".encode())

    @cached_property
    def _one(self) -> re.Pattern[bytes]:
        return re.compile(self._field.encode())

    def split(self, record: bytes) -> list[str] | None:
        """The values of a record as texts; None where it is not right.

        >>> Dialect().split(b'a,"b, ""c""!",5" pipe\\n')
        ['a', 'b, "c"!', '5" pipe']
        """
        if not self.record.fullmatch(record):
            return None
        values, at = [], -1
        while at < 0 or record[at : at + 1] == self.delimiter.encode():
            found = self._one.match(record, at + 1)
            assert found is not None
            text, at = found[0].decode(errors="replace"), found.end()
            if self.quote and text.startswith(self.quote):
                text = text[1:-1].replace(self.quote * 2, self.quote)
            values.append(text)
        return values

    @property
    def _delimiter(self) -> str:
        return re.escape(self.delimiter)

    @property
    def _inside(self) -> str:
        quote = re.escape(self.quote)
        return rf"{quote}(?:[^{quote}]++|{quote}{quote})*+"

    @property
    def _field(self) -> str:
        delimiter, quote = self._delimiter, re.escape(self.quote)
        if not quote:
            return rf"[^{delimiter}\r\n]*+"
        quoted = rf"{self._inside}{quote}(?={delimiter}|\r?\n)"
        return rf"(?:{quoted}|(?!{quote})[^{delimiter}\r\n]*+)"


@dataclass(frozen=True)
class Chunk:
    """Whole records that follow each other.

    data: their bytes. first: the number of the first. line: that of its first line, from 1. bad:
    what is wrong with the way that some of them are quoted, by their places in the chunk. empty:
    may there be lines without anything?
    """

    data: bytes
    first: int
    line: int
    ends: np.ndarray = field(repr=False)  # for each record where the next one begins
    bad: dict[int, str] = field(default_factory=dict)
    empty: bool = True

    def __len__(self) -> int:
        return len(self.ends)

    @cached_property
    def starts(self) -> np.ndarray:
        """For each record where it begins."""
        return np.concatenate([np.zeros(min(1, len(self.ends)), np.int64), self.ends[:-1]])

    def record(self, number: int) -> bytes:
        """The bytes of a record, with the end of its line."""
        return self.data[self.starts[number] : self.ends[number]]

    def line_of(self, number: int) -> int:
        """The line in which a record begins."""
        return self.line + self.data.count(b"\n", 0, int(self.starts[number]))

    def part(self, start: int, stop: int) -> Chunk:
        """Some of the records."""
        if start == 0 and stop >= len(self):
            return self
        ends = self.ends[start:stop]
        if not len(ends):
            return Chunk(b"", self.first + start, self.line, ends)
        begin = int(self.starts[start])
        bad = {number - start: what for number, what in self.bad.items() if start <= number < stop}
        line, data = self.line_of(start), self.data[begin : int(ends[-1])]
        return Chunk(data, self.first + start, line, ends - begin, bad, self.empty)

    def only(self, kept: np.ndarray) -> bytes:
        """The bytes of those records for which the mask is true."""
        if kept.all():
            return self.data
        pairs = zip(self.starts[kept].tolist(), self.ends[kept].tolist())
        return b"".join(self.data[start:end] for start, end in pairs)

    @cached_property
    def is_empty(self) -> np.ndarray:
        """For each record: is it a line without anything?"""
        if not self.empty:
            return np.zeros(len(self), np.bool_)
        lengths = self.ends - self.starts
        codes = np.frombuffer(self.data, np.uint8)
        behind_return = (lengths == 2) & (codes[self.starts] == CARRIAGE_RETURN)
        return (lengths == 1) | behind_return


def chunks(file: BinaryIO, dialect: Dialect, path: str) -> Iterator[Chunk]:
    """The records of a file, some at a time; a DataError where it is not known where one ends."""
    file.seek(0)
    first, line = 0, 1
    rest = file.read(text_format.CHUNK_BYTES).removeprefix(BYTE_ORDER_MARK)
    while rest:
        more = file.read(text_format.CHUNK_BYTES)
        if not more and not rest.endswith(b"\n"):
            rest += b"\n"
        cut = _cut(rest, dialect, path, line)
        used = int(cut.ends[-1]) if len(cut.ends) else 0
        if used:
            yield Chunk(rest[:used], first, line, cut.ends, cut.bad, cut.empty)
            first, line = first + len(cut.ends), line + cut.lines
        rest = rest[used:]
        if not more and rest:
            raise DataError(f"{path}, line {line}: a quote is opened here and never closed")
        if len(rest) > text_format.LONGEST:
            raise DataError(
                f"{path}, line {line}: longer than {text_format.LONGEST >> 20} MiB; is a quote "
                "missing, or are these not lines?"
            )
        rest += more


class Cut(NamedTuple):
    """Where records end, how many lines they are, which are bad, and whether some may be empty."""

    ends: np.ndarray
    lines: int
    bad: dict[int, str]
    empty: bool


def _cut(data: bytes, dialect: Dialect, path: str, line: int) -> Cut:
    """Where the whole records of some bytes end, how many lines they are, and which are bad."""
    ends = np.empty(len(data), np.int64)  # at most so many; what is not touched takes no memory
    scan = Scan.allocate()
    codes = np.frombuffer(data, np.uint8)
    scan.data, scan.size, scan.ends = codes.ctypes.data, len(data), ends.ctypes.data
    scan.delimiter = ord(dialect.delimiter)
    scan.quote = ord(dialect.quote) if dialect.quote else -1
    scan_records(scan.address)
    if scan.irregular or scan.bare_returns:
        return _walk(data, dialect, path, line)
    return Cut(ends[: scan.records], scan.lines, {}, scan.empty > 0)


def _walk(data: bytes, dialect: Dialect, path: str, line: int) -> Cut:
    """The same, record by record, where quotes are anywhere."""
    ends: list[int] = []
    bad: dict[int, str] = {}
    at, size, quote = 0, len(data), dialect.quote.encode()
    while at < size:
        found = dialect.record.match(data, at)
        if found is None:
            newline = data.find(b"\n", at)
            begun = dialect.begun.match(data, at)
            reached = begun.end() if begun else at
            if newline < 0 or reached == size:
                break  # it goes on behind these bytes
            if newline < reached or data.count(quote, at, newline) % 2:
                number = line + data.count(b"\n", 0, at)
                last = number + data.count(b"\n", at, reached)
                raise DataError(
                    f"{path}, line {number}: a quote is opened here, and something follows behind "
                    f"the next one, in line {last}, so it is not known where the row ends; double "
                    "the quotes in values"
                )
            is_return = data[reached - 1] == CARRIAGE_RETURN
            bad[len(ends)] = BARE_RETURN if is_return else BEHIND_QUOTE
            at = newline + 1
        else:
            at = found.end()
        ends.append(at)
    return Cut(np.array(ends, np.int64), data.count(b"\n", 0, at), bad, True)
