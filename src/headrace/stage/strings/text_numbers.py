"""Numbers from and to strings inside users' functions: float(s), str(x) and format(x, ".2f")."""

from __future__ import annotations

import re

from numba import types
from numba.extending import overload, overload_method, register_jitable

from headrace.stage.memory.arithmetic import float_bits
from headrace.stage.memory.records import u8s
from headrace.stage.strings.heap import Heap, free, malloc
from headrace.stage.strings.numerals import (
    INVALID,
    LONGEST_FIXED,
    POINT,
    TOO_LARGE,
    print_fixed,
    read_float,
    read_int,
    write_float,
)
from headrace.stage.strings.text_codec import data_address
from headrace.stage.strings.text_types import TextType
from headrace.stage.strings.text_values import text
from headrace.stage.strings.words import make_words

ROOM = 32  # bytes of the longest float
HEAP_BYTES = Heap.size
_FORMAT = re.compile(r"(0?)(\d*)(?:d|\.(\d+)f)")


@register_jitable
def float_of_words(head, tail):
    """float(s)."""
    status, number = read_float(head, tail)
    if status != 0:
        raise ValueError("could not convert string to float")
    return number


@register_jitable
def int_of_words(head, tail):
    """int(s)."""
    status, number = read_int(head, tail)
    if status == INVALID:
        raise ValueError("invalid literal for int()")
    if status == TOO_LARGE:
        raise OverflowError("the number does not fit in int64")
    return number


@register_jitable
def float_of_str(value):
    """float(s) of a Numba str, whose characters are bytes if they are ASCII."""
    if not value._is_ascii:
        raise ValueError("could not convert string to float")
    head, tail = make_words(data_address(value), len(value))
    return float_of_words(head, tail)


@register_jitable
def int_of_str(value):
    """int(s) of a Numba str."""
    if not value._is_ascii:
        raise ValueError("invalid literal for int()")
    head, tail = make_words(data_address(value), len(value))
    return int_of_words(head, tail)


@overload(int)
def _int(value):
    if isinstance(value, TextType):
        return lambda value: int_of_words(value.head, value.tail)


@register_jitable
def _text_of_float(value):
    """repr(x), by way of a small heap of its own."""
    memory = malloc(HEAP_BYTES + ROOM)
    if memory == 0:
        raise MemoryError("no memory for text")
    heap = Heap(memory)
    heap.base = memory + HEAP_BYTES
    heap.used, heap.capacity = 0, ROOM
    heap.overflow, heap.overflow_bytes = 0, 0
    head, tail = write_float(value, heap)
    made = str(text(head, tail))
    free(memory)
    return made


@overload_method(types.Float, "__str__")
@overload_method(types.Float, "__repr__")
def _str(value):
    return lambda value: _text_of_float(float(value))


@register_jitable
def _fixed(value, decimals):
    """A number with so many decimals."""
    memory = malloc(LONGEST_FIXED)
    if memory == 0:
        raise MemoryError("no memory for text")
    print_fixed(memory, decimals, float_bits(value))
    bytes_of = u8s(memory)
    count = 0
    while bytes_of[count] != 0:
        count += 1
    if decimals > 0 and value - value == 0.0:  # the point may be any locale's
        bytes_of[count - decimals - 1] = POINT
    head, tail = make_words(memory, count)
    made = str(text(head, tail))
    free(memory)
    return made


@overload(format, prefer_literal=True)
def _format(value, spec=""):
    """format(x, spec) of whole numbers ("5d", "05d") and with decimals (".2f", "8.2f", "08.2f")."""
    known = _FORMAT.fullmatch(getattr(spec, "literal_value", "") or "")
    if known is None:
        return None
    width = int(known[2] or 0)
    zeros, decimals = known[1] == "0", known[3]
    is_whole = isinstance(value, types.Integer) and not isinstance(value, types.Boolean)
    if decimals is None:
        if not is_whole:
            return None
        if zeros:
            return lambda value, spec="": str(value).zfill(width)
        return lambda value, spec="": str(value).rjust(width)
    places = int(decimals)
    if places > 30 or not (is_whole or isinstance(value, types.Float)):
        return None
    if zeros:
        return lambda value, spec="": _fixed(float(value), places).zfill(width)
    return lambda value, spec="": _fixed(float(value), places).rjust(width)
