"""Upper and lower case of strings as words: ASCII in place, everything else by way of str."""

from __future__ import annotations

from headrace.stage.memory.records import compiled, u8s
from headrace.stage.strings.heap import take
from headrace.stage.strings.text import text, words
from headrace.stage.strings.words import (
    LENGTH_MASK,
    SHORT,
    byte_at,
    is_ascii_words,
    make_words,
    put_byte,
)


@compiled
def _map_ascii(head, tail, heap, first, last, change):
    """Add `change` to the bytes from first to last of an ASCII string."""
    count = head & LENGTH_MASK
    if count > SHORT:
        address = take(heap, count)
        source, target = u8s(tail), u8s(address)
        for k in range(count):
            byte = source[k]
            target[k] = byte + change if first <= byte <= last else byte
        return make_words(address, count)
    new_head, new_tail = count, 0
    for k in range(count):
        byte = byte_at(head, tail, k)
        byte = byte + change if first <= byte <= last else byte
        new_head, new_tail = put_byte(new_head, new_tail, k, byte)
    return new_head, new_tail


@compiled
def upper_words(head, tail, heap):
    """As str.upper.

    >>> from headrace.stage.strings.heap import new_heap
    >>> heap = new_heap(100)
    >>> text(*upper_words(*words("straße", heap), heap))
    'STRASSE'
    """
    if is_ascii_words(head, tail):
        return _map_ascii(head, tail, heap, 97, 122, -32)
    return words(text(head, tail).upper(), heap)


@compiled
def lower_words(head, tail, heap):
    """As str.lower.

    >>> from headrace.stage.strings.heap import new_heap
    >>> heap = new_heap(100)
    >>> text(*lower_words(*words("ÉCLUSE", heap), heap))
    'écluse'
    """
    if is_ascii_words(head, tail):
        return _map_ascii(head, tail, heap, 65, 90, 32)
    return words(text(head, tail).lower(), heap)
