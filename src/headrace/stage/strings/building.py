"""Strings written byte by byte, when their length is known: short ones in their words, long ones
on a heap.

    head, tail = begin_text(count, heap)
    head, tail = put(head, tail, 0, byte) ...
    head, tail = end_text(head, tail)
"""

from __future__ import annotations

from headrace.stage.memory.instructions import copy_bytes
from headrace.stage.memory.records import compiled, u8s
from headrace.stage.strings.heap import take
from headrace.stage.strings.words import LENGTH_MASK, SHORT, byte_at, make_words, put_byte


@compiled
def begin_text(count, heap):
    """A string of `count` bytes to be put."""
    if count > SHORT:
        return count, take(heap, count)
    return count, 0


@compiled
def put(head, tail, at, byte):
    """Put a byte at a place where there is none yet."""
    if head & LENGTH_MASK > SHORT:
        u8s(tail)[at] = byte
        return head, tail
    return put_byte(head, tail, at, byte)


@compiled
def put_piece(head, tail, at, from_head, from_tail, start, stop):
    """Put some bytes of another string."""
    if head & LENGTH_MASK > SHORT and from_head & LENGTH_MASK > SHORT:
        copy_bytes(tail + at, from_tail + start, stop - start)
        return head, tail
    for k in range(start, stop):
        head, tail = put(head, tail, at + k - start, byte_at(from_head, from_tail, k))
    return head, tail


@compiled
def put_digits(head, tail, at, number, count):
    """Put a number that is not negative with so many digits, zeros in front."""
    for k in range(count):
        head, tail = put(head, tail, at + count - 1 - k, 48 + number % 10)
        number //= 10
    return head, tail


@compiled
def end_text(head, tail):
    """The string's words, now that all bytes are put.

    >>> from headrace.stage.strings.text import new_heap, text
    >>> heap = new_heap(100)
    >>> head, tail = begin_text(13, heap)
    >>> text(*end_text(*put_digits(head, tail, 0, 42, 13)))
    '0000000000042'
    """
    count = head & LENGTH_MASK
    if count > SHORT:
        return make_words(tail, count)
    return head, tail
