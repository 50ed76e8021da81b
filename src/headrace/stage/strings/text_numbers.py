"""Numbers from and to strings inside users' functions: float(s), int(s) and str(x)."""

from __future__ import annotations

from numba import types
from numba.extending import overload, overload_method, register_jitable

from headrace.stage.strings.heap import Heap, free, malloc, start_heap
from headrace.stage.strings.numerals import (
    INVALID,
    TOO_LARGE,
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
def memory_for_text(count):
    """Memory in which a text is made."""
    memory = malloc(count)
    if memory == 0:
        raise MemoryError("no memory for text")
    return memory


@register_jitable
def owned_text(head, tail, memory):
    """A Numba str of a text that was made in memory, which is given back."""
    made = str(text(head, tail))
    free(memory)
    return made


@register_jitable
def _text_of_float(value):
    """repr(x), by way of a small heap of its own."""
    memory = memory_for_text(HEAP_BYTES + ROOM)
    heap = Heap(memory)
    start_heap(heap, memory + HEAP_BYTES, ROOM)
    head, tail = write_float(value, heap)
    return owned_text(head, tail, memory)


@overload_method(types.Float, "__str__")
@overload_method(types.Float, "__repr__")
def _str(value):
    return lambda value: _text_of_float(float(value))
