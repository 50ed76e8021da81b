"""Columns of numbers from the pages of Parquet files, without Arrow's decoder.

Most of the time that Arrow takes to read numbers that are packed with Snappy goes into unpacking
and into levels that say that no value is null. Column chunks that are stored plainly, and that
have no nulls by their statistics, are read here; Arrow reads all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.plan.errors import DataError

LEAST_BYTES = 1 << 20  # of a column chunk, unpacked: for less, to load a compiler does not pay
SLACK = 64  # bytes around what is unpacked
MOST_UNPACKED = 64  # bytes that a byte may stand for, and more: what says otherwise is damaged

_TYPES = {"INT64": pa.int64(), "INT32": pa.int32(), "DOUBLE": pa.float64(), "FLOAT": pa.float32()}
_DATA, _DATA_2 = 0, 3  # kinds of pages
_PLAIN = 0

# The numbers of fields in Parquet's Thrift definition: of PageHeader,
_KIND, _SIZE, _PACKED_SIZE, _DATA_HEADER, _DATA_HEADER_2 = 1, 2, 3, 5, 8
_VALUES, _ENCODING = 1, 2  # of DataPageHeader,
_VALUES_2, _ENCODING_2, _DEFINITION_BYTES, _REPETITION_BYTES, _IS_PACKED = 1, 4, 5, 6, 7  # and V2
_LENGTH = 4  # bytes that tell how long the levels are


def is_plain(chunk: Any, leaf: Any, kind: pa.DataType) -> bool:
    """Can `PlainColumn` read a column chunk? By its metadata, its column and its Arrow type."""
    statistics = chunk.statistics
    return (
        chunk.compression == "SNAPPY"
        and chunk.total_uncompressed_size >= LEAST_BYTES
        and not chunk.has_dictionary_page
        and _TYPES.get(chunk.physical_type) == kind
        and set(chunk.encodings) <= {"PLAIN", "RLE", "BIT_PACKED"}
        and leaf.max_repetition_level == 0
        and leaf.max_definition_level <= 1
        and statistics is not None
        and statistics.has_null_count
        and statistics.null_count == 0
    )


class PlainColumn:
    """The values of a column chunk, some at a time."""

    def __init__(self, content: pa.Buffer, kind: pa.DataType, optional: bool, where: str) -> None:
        self._content, self._kind, self._where = content, kind, where
        self._width = kind.bit_width // 8
        self._pages = self._unpacked(optional)
        self._page = np.empty(0, np.uint8)  # what is left of the page

    def take(self, count: int) -> pa.Array:
        """The next values."""
        memory = pa.allocate_buffer(count * self._width)
        made = np.frombuffer(memoryview(memory), np.uint8)
        filled = 0
        while filled < len(made):
            if not len(self._page):
                page = next(self._pages, None)
                if page is None:
                    raise self._damaged("it ends too early")
                self._page = page
            part = self._page[: len(made) - filled]
            made[filled : filled + len(part)] = part
            filled += len(part)
            self._page = self._page[len(part) :]
        return pa.Array.from_buffers(self._kind, count, [None, memory], 0)

    def _unpacked(self, optional: bool) -> Iterator[np.ndarray]:
        """The values of one page after the other, in memory that is used again."""
        content = memoryview(self._content).cast("B")
        memory, at = np.empty(0, np.uint8), 0
        while at < len(content):
            try:
                header, at = read_struct(content, at)
                page = _Page.of(header)
            except (IndexError, KeyError, ValueError):
                raise self._damaged("a page has no valid header") from None
            body, at = content[at : at + page.packed], at + page.packed
            if page.values is None:
                continue  # an index, or whatever will be invented
            if page.encoding != _PLAIN or len(body) != page.packed:
                raise self._damaged("a page is not what its header says")
            if len(memory) < page.size + 2 * SLACK:
                memory = np.empty(page.size + 2 * SLACK, np.uint8)
            values = self._unpack(page, body, memory)
            if page.levels is None and optional:
                length = int.from_bytes(values[:_LENGTH].tobytes(), "little")
                values = values[_LENGTH + length :]
            if len(values) != page.values * self._width:
                raise self._damaged("a page does not have the values that it should have")
            yield values

    def _unpack(self, page: _Page, body: memoryview, memory: np.ndarray) -> np.ndarray:
        levels = page.levels or 0
        packed = np.frombuffer(body[levels:], np.uint8)
        if not page.is_packed:
            return packed
        wanted = page.size - levels
        try:
            size, begin = read_number(body[levels:], 0)
        except IndexError:
            size = begin = -1
        source, target = packed.ctypes.data, memory.ctypes.data + SLACK
        if size == wanted:
            size = _unpack()(source + begin, source + len(packed), target, target + size)
        if size != wanted:
            raise self._damaged("a page cannot be unpacked")
        return memory[SLACK : SLACK + wanted]

    def _damaged(self, what: str) -> DataError:
        return DataError(f"{self._where} cannot be read as Parquet: {what}")


@cache
def _unpack() -> Any:
    """Loaded where it is needed: a planner does without a compiler."""
    from .snappy import unpack

    return unpack


@dataclass(frozen=True)
class _Page:
    """What the header of a page says."""

    packed: int  # bytes behind the header
    size: int  # of these, unpacked
    values: int | None = None  # None: a page without values
    encoding: int = _PLAIN
    levels: int | None = None  # bytes of levels that are not packed; None: they are, if any
    is_packed: bool = True

    @classmethod
    def of(cls, header: dict[int, Any]) -> _Page:
        """A header by the numbers of its fields (PageHeader in Parquet's Thrift definition)."""
        kind, size, packed = header[_KIND], header[_SIZE], header[_PACKED_SIZE]
        if not 0 <= size <= packed * MOST_UNPACKED:
            raise ValueError(f"{size} bytes in {packed}")
        if kind == _DATA:
            found = header[_DATA_HEADER]
            return cls(packed, size, found[_VALUES], found[_ENCODING])
        if kind == _DATA_2:
            found = header[_DATA_HEADER_2]
            levels = found[_DEFINITION_BYTES] + found[_REPETITION_BYTES]
            if not 0 <= levels <= packed:
                raise ValueError(f"{levels} bytes of levels in {packed}")
            is_packed = found.get(_IS_PACKED, True)
            return cls(packed, size, found[_VALUES_2], found[_ENCODING_2], levels, is_packed)
        return cls(packed, size)


# ---- Thrift's compact protocol -------------------------------------------------------------------

_TRUE, _FALSE, _BYTE, _I64, _DOUBLE, _BINARY, _STRUCT = 1, 2, 3, 6, 7, 8, 12


def read_number(content: memoryview, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, and the place behind it.

    >>> read_number(memoryview(bytes([0xAC, 0x02])), 0)
    (300, 2)
    """
    found = shift = 0
    while True:
        byte = content[at]
        at += 1
        found |= (byte & 127) << shift
        if byte < 128:
            return found, at
        shift += 7


def read_struct(content: memoryview, at: int) -> tuple[dict[int, Any], int]:
    """The fields of a struct by their numbers, and the place behind it.

    Lists, sets and maps do not occur in the headers of pages: a ValueError.

    >>> read_struct(memoryview(bytes([0x15, 0x06, 0x11, 0x00])), 0)
    ({1: 3, 2: True}, 4)
    """
    fields: dict[int, Any] = {}
    number = 0
    while content[at]:
        step, kind = content[at] >> 4, content[at] & 15
        at += 1
        if step:
            number += step
        else:
            zigzag, at = read_number(content, at)
            number = (zigzag >> 1) ^ -(zigzag & 1)
        fields[number], at = _read_value(content, at, kind)
    return fields, at + 1


def _read_value(content: memoryview, at: int, kind: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, at
    if kind == _STRUCT:
        return read_struct(content, at)
    if kind == _BYTE:
        return content[at], at + 1
    if kind == _DOUBLE:
        return None, at + 8
    if kind == _BINARY:
        length, at = read_number(content, at)
        return None, at + length
    if not _BYTE < kind <= _I64:
        raise ValueError(f"a field of kind {kind}")
    zigzag, at = read_number(content, at)
    return (zigzag >> 1) ^ -(zigzag & 1), at
