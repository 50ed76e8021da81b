"""What the footer of a Parquet file says of its row groups, read without trust.

Arrow reads footers too, but what it makes of the statistics in a damaged one ends the process: its
Python side does not catch what the C++ side throws. Here everything that makes no sense counts as
not there, and a row group of which nothing is known is read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

LONGEST = 1 << 20  # bytes of a footer that is looked at: a second's work, for hundreds of groups
DEEPEST = 16  # structs inside each other; Parquet has five

_MAGIC, _LENGTH = b"PAR1", 4  # at the very end: the length of the footer, and this

# The numbers of fields in Parquet's Thrift definition: of FileMetaData,
_GROUPS = 4
_CHUNKS, _ROWS = 1, 3  # of RowGroup,
_CHUNK_DATA = 3  # of ColumnChunk,
_PHYSICAL_TYPE, _BYTES_IN_ALL, _DICTIONARY, _STATISTICS = 1, 6, 11, 12  # of ColumnMetaData,
_OLD_HIGH, _OLD_LOW, _NULLS, _HIGH, _LOW = 1, 2, 3, 5, 6  # and of Statistics

# How bounds of numbers are stored, by Parquet's number of the type.
_NUMBERS = {1: "<i", 2: "<q", 4: "<f", 5: "<d"}
_BYTES = 6


@dataclass(frozen=True)
class ChunkStatistics:
    """What is known of a column in a row group: bounds as they are stored; None: unknown.

    coded_bytes: how many bytes its values take, not compressed, where it has a dictionary.
    """

    low: int | float | bytes | None = None
    high: int | float | bytes | None = None
    nulls: int | None = None
    coded_bytes: int | None = None


@dataclass(frozen=True)
class GroupStatistics:
    """The rows of a row group, and what is known of its columns, in the order of the schema."""

    rows: int
    chunks: list[ChunkStatistics] = field(default_factory=list)


def footer_statistics(file: BinaryIO) -> list[GroupStatistics]:
    """Of each row group of a file; no row group at all where the footer cannot be understood.

    >>> import io
    >>> import pyarrow
    >>> import pyarrow.parquet
    >>> rows = io.BytesIO()
    >>> table = pyarrow.table({"n": [3, None, 5]})
    >>> pyarrow.parquet.write_table(table, rows, use_dictionary=False)
    >>> footer_statistics(rows)[0].chunks
    [ChunkStatistics(low=3, high=5, nulls=1, coded_bytes=None)]
    >>> footer_statistics(io.BytesIO(b"something else"))
    []
    """
    end = file.seek(0, 2)
    file.seek(max(0, end - _LENGTH - len(_MAGIC)))
    tail = file.read()
    length = int.from_bytes(tail[:_LENGTH], "little")
    begin = end - len(tail) - length
    if tail[_LENGTH:] != _MAGIC or begin < 0 or length > LONGEST:
        return []
    file.seek(begin)
    try:
        groups = read_struct(file.read(length), 0)[0][_GROUPS]
        return [_group(group) for group in groups]
    except (IndexError, KeyError, TypeError, ValueError, AttributeError):
        return []


def _group(found: dict[int, Any]) -> GroupStatistics:
    return GroupStatistics(found[_ROWS], [_chunk(chunk) for chunk in found[_CHUNKS]])


def _chunk(found: dict[int, Any]) -> ChunkStatistics:
    data = found.get(_CHUNK_DATA, {})
    said, kind = data.get(_STATISTICS, {}), data.get(_PHYSICAL_TYPE)
    nulls = said.get(_NULLS)
    low, high = _bound(said.get(_LOW), kind), _bound(said.get(_HIGH), kind)
    if kind in _NUMBERS and (low is None or high is None):  # these have always had one order
        low, high = _bound(said.get(_OLD_LOW), kind), _bound(said.get(_OLD_HIGH), kind)
    is_range = low is not None and high is not None and low <= high
    coded_bytes = data.get(_BYTES_IN_ALL) if _DICTIONARY in data else None
    return ChunkStatistics(
        low if is_range else None, high if is_range else None, _count(nulls), _count(coded_bytes)
    )


def _count(said: Any) -> int | None:
    return said if isinstance(said, int) and said >= 0 else None


def _bound(stored: Any, kind: Any) -> Any:
    if not isinstance(stored, bytes):
        return None
    if kind == _BYTES:
        return stored
    form = _NUMBERS.get(kind)
    if form is None or len(stored) != struct.calcsize(form):
        return None
    return struct.unpack(form, stored)[0]


# ---- Thrift's compact protocol -------------------------------------------------------------------

_TRUE, _FALSE, _BYTE, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 6, 7, 8, 9, 10, 12
_MANY = 15  # in the head of a list: its length follows


def read_number(content: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, and the place behind it.

    >>> read_number(bytes([0xAC, 0x02]), 0)
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


def read_signed(content: bytes, at: int) -> tuple[int, int]:
    """A number whose sign is its lowest bit, and the place behind it.

    >>> read_signed(bytes([0x05]), 0)
    (-3, 1)
    """
    zigzag, at = read_number(content, at)
    return (zigzag >> 1) ^ -(zigzag & 1), at


def read_struct(content: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """The fields of a struct by their numbers, and the place behind it.

    What makes no sense is an IndexError or a ValueError.

    >>> read_struct(bytes([0x15, 0x06, 0x11, 0x00]), 0)
    ({1: 3, 2: True}, 4)
    """
    fields: dict[int, Any] = {}
    number = 0
    if depth > DEEPEST:
        raise ValueError("structs inside each other without end")
    while content[at]:
        step, kind = content[at] >> 4, content[at] & 15
        at += 1
        if step:
            number += step
        else:
            number, at = read_signed(content, at)
        if kind in (_TRUE, _FALSE):
            fields[number] = kind == _TRUE
        else:
            fields[number], at = _read_value(content, at, kind, depth)
    return fields, at + 1


def _read_value(content: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    reader = _READERS.get(kind)
    if reader is None:
        raise ValueError(f"a field of kind {kind}")
    return reader(content, at, depth + 1)


def _read_byte(content: bytes, at: int, depth: int) -> tuple[int, int]:
    return content[at], at + 1


def _read_integer(content: bytes, at: int, depth: int) -> tuple[int, int]:
    return read_signed(content, at)


def _read_double(content: bytes, at: int, depth: int) -> tuple[None, int]:
    return None, at + struct.calcsize("<d")  # none is of use here


def _read_binary(content: bytes, at: int, depth: int) -> tuple[bytes, int]:
    length, at = read_number(content, at)
    if at + length > len(content):
        raise ValueError(f"{length} bytes, and there are {len(content) - at}")
    return content[at : at + length], at + length


def _read_list(content: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    length, kind = content[at] >> 4, content[at] & 15
    at += 1
    if length == _MANY:
        length, at = read_number(content, at)
    if length > len(content) - at:  # each has at least a byte
        raise ValueError(f"a list of {length} in {len(content) - at} bytes")
    items = []
    kind = _BYTE if kind in (_TRUE, _FALSE) else kind
    for _ in range(length):
        item, at = _read_value(content, at, kind, depth)
        items.append(item)
    return items, at


_READERS: dict[int, Callable[[bytes, int, int], tuple[Any, int]]] = {
    _BYTE: _read_byte,
    **dict.fromkeys(range(_BYTE + 1, _I64 + 1), _read_integer),
    _DOUBLE: _read_double,
    _BINARY: _read_binary,
    _LIST: _read_list,
    _SET: _read_list,
    _STRUCT: read_struct,
}
