"""Strings as 16-byte views of two words.

    head: length in bytes (32 bits), first 4 bytes
    tail: length <= 12: the other 8 bytes, else the address of all bytes

This is Arrow's string_view with an absolute address.  Unused bytes of a short string are zero, so
short strings are equal exactly if their words are.  A view owns nothing: a block keeps the bytes of
its strings alive, and who keeps a string longer copies its bytes (`keep_words`).  The machine is
little-endian.

Generated code handles a string as its two words; what a user's function gets is made by `text`.
"""

from __future__ import annotations

from headrace.stage.memory.instructions import (
    SIGN,
    copy_bytes,
    half_word,
    shift_right,
    signed,
    swap_bytes,
    word,
)
from headrace.stage.memory.records import array, compiled, i64, record, register_place, u8s
from headrace.stage.strings.heap import take

SHORT = 12  # bytes that fit into a view
PREFIX = 4  # bytes of them in the head
LENGTH_MASK = 0xFFFFFFFF
HIGH_BITS = 0x8080808080808080 - 2**64
HIGH_BITS_OF_HEAD = (0x80808080 << 32) - 2**64


@record
class View:
    """A string: see the module."""

    head: i64
    tail: i64


def views(address: int) -> array:
    """The views from an address on.

    >>> column = View.allocate(3)
    >>> views(column.address)[2].head
    0
    """
    return array(View, address=address)


register_place(views, array(View).shape)


# ---- taking apart and making ---------------------------------------------------------------


@compiled
def byte_length(head):
    """
    >>> byte_length(make_words(0, 0)[0])
    0
    """
    return head & LENGTH_MASK


@compiled
def byte_at(head, tail, index):
    """One byte of a string; the index is not checked.

    >>> from headrace.stage.strings.text import new_heap, words
    >>> byte_at(*words("abc", new_heap(0)), 2) == ord("c")
    True
    """
    if head & LENGTH_MASK > SHORT:
        return u8s(tail)[index]
    if index < PREFIX:
        return (head >> (32 + 8 * index)) & 0xFF
    return (tail >> (8 * (index - PREFIX))) & 0xFF


@compiled
def make_words(address, count):
    """The string of `count` bytes at an address; a long one goes on pointing there.

    Reads nothing beyond the bytes.

    >>> from headrace.stage.strings.text import new_heap, text, words
    >>> heap = new_heap(100)
    >>> head, tail = words("a long enough text", heap)
    >>> text(*make_words(tail + 2, 4))
    'long'
    """
    if count > SHORT:
        return half_word(address) << 32 | count, address
    if count >= 8:
        rest = shift_right(word(address + count - 8), 8 * (SHORT - count))
        return half_word(address) << 32 | count, rest
    if count >= PREFIX:
        last = half_word(address + count - PREFIX) & LENGTH_MASK
        return half_word(address) << 32 | count, last >> (8 * (8 - count))
    head = count
    for k in range(count):
        head |= u8s(address)[k] << (32 + 8 * k)
    return head, 0


@compiled
def put_byte(head, tail, at, byte):
    """A short string's words with a byte added at a place that was zero."""
    if at < PREFIX:
        return signed(head | byte << (32 + 8 * at)), tail
    return head, signed(tail | byte << (8 * (at - PREFIX)))


@compiled
def slice_words(head, tail, start, stop):
    """The bytes from start to stop, without copying; the bounds are not checked.

    >>> from headrace.stage.strings.text import new_heap, text, words
    >>> text(*slice_words(*words("headrace", new_heap(0)), 4, 8))
    'race'
    """
    count = stop - start
    if head & LENGTH_MASK > SHORT:
        return make_words(tail + start, count)
    new_head, new_tail = count, 0
    for k in range(count):
        new_head, new_tail = put_byte(new_head, new_tail, k, byte_at(head, tail, start + k))
    return new_head, new_tail


@compiled
def write_words(head, tail, address):
    """Write a string's bytes to an address.

    >>> from headrace.stage.strings.text import new_heap, text, words
    >>> heap = new_heap(100)
    >>> write_words(*words("abc", heap), heap.base)
    >>> text(*make_words(heap.base, 3))
    'abc'
    """
    count = head & LENGTH_MASK
    if count > SHORT:
        copy_bytes(address, tail, count)
        return
    for k in range(count):
        u8s(address)[k] = byte_at(head, tail, k)


@compiled
def keep_words(head, tail, heap):
    """Copy a long string's bytes to a heap: its new tail.

    >>> from headrace.stage.strings.text import new_heap, words
    >>> head, tail = words("a long enough text", new_heap(100))
    >>> heap = new_heap(100)
    >>> keep_words(head, tail, heap) == heap.base
    True
    """
    count = head & LENGTH_MASK
    if count <= SHORT:
        return tail
    address = take(heap, count)
    copy_bytes(address, tail, count)
    return address


@compiled
def concat_words(h1, t1, h2, t2, heap):
    """The words of the two strings joined.

    >>> from headrace.stage.strings.text import new_heap, text, words
    >>> heap = new_heap(100)
    >>> text(*concat_words(*words("head", heap), *words("race", heap), heap))
    'headrace'
    """
    n1, n2 = h1 & LENGTH_MASK, h2 & LENGTH_MASK
    if n1 + n2 > SHORT:
        address = take(heap, n1 + n2)
        write_words(h1, t1, address)
        write_words(h2, t2, address + n1)
        return make_words(address, n1 + n2)
    head, tail = (h1 & ~LENGTH_MASK) | (n1 + n2), t1
    for k in range(n2):
        head, tail = put_byte(head, tail, n1 + k, byte_at(h2, t2, k))
    return head, tail


# ---- equality and order --------------------------------------------------------------------


@compiled
def equal_words(h1, t1, h2, t2):
    """
    >>> from headrace.stage.strings.text import new_heap, words
    >>> heap = new_heap(100)
    >>> equal_words(*words("a long enough text", heap), *words("a long enough text", heap))
    True
    """
    if h1 != h2:
        return False
    if t1 == t2:
        return True
    count = h1 & LENGTH_MASK
    if count <= SHORT:
        return False
    difference = word(t1 + count - 8) ^ word(t2 + count - 8)
    for at in range(PREFIX, count - 8, 8):
        difference |= word(t1 + at) ^ word(t2 + at)
    return difference == 0


@compiled
def _byte_order(value):
    """From 8 bytes as stored to an int64 whose order is that of the bytes."""
    return swap_bytes(value) ^ SIGN


@compiled
def order_prefix(head, tail):
    """An int64 whose order agrees with that of the strings, as far as 8 bytes tell.

    >>> from headrace.stage.strings.text import new_heap, words
    >>> heap = new_heap(0)
    >>> order_prefix(*words("a", heap)) < order_prefix(*words("é", heap))
    True
    """
    if head & LENGTH_MASK > SHORT:
        return _byte_order(word(tail))
    return _byte_order(signed(tail << 32) | (head >> 32) & LENGTH_MASK)


@compiled
def compare_words(h1, t1, h2, t2):
    """-1, 0 or 1: the order of the bytes, which for UTF-8 is that of the code points.

    >>> from headrace.stage.strings.text import new_heap, words
    >>> heap = new_heap(0)
    >>> compare_words(*words("ab", heap), *words("b", heap))
    -1
    """
    p1, p2 = order_prefix(h1, t1), order_prefix(h2, t2)
    if p1 != p2:
        return -1 if p1 < p2 else 1
    n1, n2 = h1 & LENGTH_MASK, h2 & LENGTH_MASK
    common = min(n1, n2)
    at = 8
    if common > SHORT:
        while at + 8 <= common:
            p1, p2 = _byte_order(word(t1 + at)), _byte_order(word(t2 + at))
            if p1 != p2:
                return -1 if p1 < p2 else 1
            at += 8
    while at < common:
        p1, p2 = byte_at(h1, t1, at), byte_at(h2, t2, at)
        if p1 != p2:
            return -1 if p1 < p2 else 1
        at += 1
    if n1 == n2:
        return 0
    return -1 if n1 < n2 else 1


# ---- searching -----------------------------------------------------------------------------


@compiled
def starts_with_words(head, tail, needle_head, needle_tail):
    """
    >>> from headrace.stage.strings.text import new_heap, words
    >>> heap = new_heap(0)
    >>> starts_with_words(*words("headrace", heap), *words("head", heap))
    True
    """
    count = needle_head & LENGTH_MASK
    if count > head & LENGTH_MASK:
        return False
    front_head, front_tail = slice_words(head, tail, 0, count)
    return equal_words(front_head, front_tail, needle_head, needle_tail)


@compiled
def ends_with_words(head, tail, needle_head, needle_tail):
    """
    >>> from headrace.stage.strings.text import new_heap, words
    >>> heap = new_heap(0)
    >>> ends_with_words(*words("headrace", heap), *words("race", heap))
    True
    """
    whole, count = head & LENGTH_MASK, needle_head & LENGTH_MASK
    if count > whole:
        return False
    end_head, end_tail = slice_words(head, tail, whole - count, whole)
    return equal_words(end_head, end_tail, needle_head, needle_tail)


@compiled
def find_words(head, tail, needle_head, needle_tail):
    """The index of the byte where the needle is found first, or -1.

    >>> from headrace.stage.strings.text import new_heap, words
    >>> heap = new_heap(0)
    >>> find_words(*words("headrace", heap), *words("race", heap))
    4
    """
    count = needle_head & LENGTH_MASK
    if count == 0:
        return 0
    first = byte_at(needle_head, needle_tail, 0)
    for start in range((head & LENGTH_MASK) - count + 1):
        if byte_at(head, tail, start) == first:
            part_head, part_tail = slice_words(head, tail, start, start + count)
            if equal_words(part_head, part_tail, needle_head, needle_tail):
                return start
    return -1


@compiled
def contains_words(head, tail, needle_head, needle_tail):
    """
    >>> from headrace.stage.strings.text import new_heap, words
    >>> heap = new_heap(0)
    >>> contains_words(*words("headrace", heap), *words("rac", heap))
    True
    """
    return find_words(head, tail, needle_head, needle_tail) >= 0


# ---- characters ----------------------------------------------------------------------------


@compiled
def char_length(head, tail):
    """The number of code points.

    >>> from headrace.stage.strings.text import new_heap, words
    >>> char_length(*words("né", new_heap(0)))
    2
    """
    count = head & LENGTH_MASK
    chars = 0
    if count > SHORT:
        source = u8s(tail)
        for k in range(count):
            chars += (source[k] & 0xC0) != 0x80
        return chars
    for k in range(count):
        chars += (byte_at(head, tail, k) & 0xC0) != 0x80
    return chars


@compiled
def is_ascii_words(head, tail):
    """Are all bytes below 128?

    >>> from headrace.stage.strings.text import new_heap, words
    >>> is_ascii_words(*words("né", new_heap(0)))
    False
    """
    count = head & LENGTH_MASK
    if count <= SHORT:
        return (head & HIGH_BITS_OF_HEAD) | (tail & HIGH_BITS) == 0
    seen = 0
    source = u8s(tail)
    for k in range(count):
        seen |= source[k]
    return seen < 0x80
