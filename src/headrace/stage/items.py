"""What a user's function gets for a list: interpreted a Python list, compiled a view of the bytes.

A list lies as `blocks.packed` says: how many items it has, the length of each, and their bytes; a
null has the length -1. The type of items is a number here, the place of its name in `ITEMS` times
two, plus one where they may be null, so that generated code can say it.
"""

from __future__ import annotations

from typing import Any

from headrace.plan.types import DataType

from .memory.extensions import extension
from .memory.records import compiled, f32s, f64s, flags, i8s, i16s, i32s, i64s, interpreted, u8s
from .strings.heap import take
from .strings.text_values import blob, text
from .strings.words import SHORT, byte_length, make_words, write_words

LENGTH = 4  # bytes that say how many items, and how long one is
WIDTHS = {
    "bool": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1, "uint16": 2, "uint32": 4,
    "float32": 4, "float64": 8, "date": 4, "timestamp": 8, "duration": 8, "time": 8,
    "string": 0, "binary": 0,
}  # fmt: skip
ITEMS = tuple(WIDTHS)  # types of items, with their bytes; 0: as many as their length says


def item_code(kind: DataType) -> int:
    """The number of a type of items; -1: functions know none of it.

    >>> from headrace.plan.types import int8, optional, uint64
    >>> item_code(int8), item_code(optional(int8)), item_code(uint64)
    (2, 3, -1)
    """
    return 2 * ITEMS.index(kind.name) + kind.nullable if kind.name in WIDTHS else -1


@compiled
def list_address(head, tail, heap):
    """Where the bytes of a list lie; those of a short one are put into a heap. A null has none:
    it gets those of an empty list, since interpreted kernels look at the items in any case."""
    count = byte_length(head)
    if count > SHORT:
        return tail
    address = take(heap, SHORT)
    i32s(address)[0] = 0
    write_words(head, tail, address)
    return address


@compiled
def item_count(address):
    """How many items a list has."""
    return int(i32s(address)[0])


@compiled
def item_length(address, place):
    """The bytes of an item; -1: it is null."""
    return int(i32s(address + LENGTH * (1 + place))[0])


@compiled
def first_item(address):
    """Where the first item lies."""
    return address + LENGTH * (1 + item_count(address))


@compiled
def item_address(address, place, width):
    """Where an item lies. width: of all items; 0: they have different ones, or are null."""
    if width > 0:
        return first_item(address) + place * width
    at = first_item(address)
    for before in range(place):
        at += max(item_length(address, before), 0)
    return at


@compiled
def _bool(address, length):
    return bool(flags(address)[0])


@compiled
def _int8(address, length):
    return int(i8s(address)[0])


@compiled
def _int16(address, length):
    return int(i16s(address)[0])


@compiled
def _int32(address, length):
    return int(i32s(address)[0])


@compiled
def _int64(address, length):
    return int(i64s(address)[0])


@compiled
def _uint8(address, length):
    return int(u8s(address)[0])


@compiled
def _uint16(address, length):
    return int(i16s(address)[0]) & 0xFFFF


@compiled
def _uint32(address, length):
    return int(i32s(address)[0]) & 0xFFFFFFFF


@compiled
def _float32(address, length):
    return float(f32s(address)[0])


@compiled
def _float64(address, length):
    return float(f64s(address)[0])


@compiled
def _string(address, length):
    head, tail = make_words(address, length)
    return text(head, tail)


@compiled
def _binary(address, length):
    head, tail = make_words(address, length)
    return blob(head, tail)


# The value of an item, by its address and length.
READERS = {
    "bool": _bool, "int8": _int8, "int16": _int16, "int32": _int32, "int64": _int64,
    "uint8": _uint8, "uint16": _uint16, "uint32": _uint32, "float32": _float32,
    "float64": _float64, "date": _int32, "timestamp": _int64, "duration": _int64, "time": _int64,
    "string": _string, "binary": _binary,
}  # fmt: skip


def items(address: int, code: int) -> list[Any]:
    """The list at an address, as an interpreted function gets it."""
    read = interpreted(READERS[ITEMS[code // 2]])
    count, length = interpreted(item_count)(address), interpreted(item_length)
    made: list[Any] = []
    at = interpreted(first_item)(address)
    for place in range(count):
        size = length(address, place)
        made.append(read(at, size) if size >= 0 else None)
        at += max(size, 0)
    return made


@extension
def _register() -> None:
    from . import item_types  # noqa: F401
