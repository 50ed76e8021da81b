"""Strings as words, in both modes, compared with plain Python strings."""

import ctypes
import gc
import mmap

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.stage.both import STRINGS, mode

from headrace.stage.memory.records import compiled
from headrace.stage.strings import words as w
from headrace.stage.strings.hashing import hash_words
from headrace.stage.strings.heap import new_heap, release_overflow, take
from headrace.stage.strings.letter_case import lower_words, upper_words
from headrace.stage.strings.text import blob, text, words
from headrace.stage.strings.words import View, views

many = settings(max_examples=150, deadline=None)


def sign(a, b):
    return (a > b) - (a < b)


@mode
@many
@given(a=STRINGS, b=STRINGS)
@example(a="a", b="a\0")
@example(a="twelve bytes", b="twelve bytes!")
@example(a="the same first bytes, 1", b="the same first bytes, 2")
def test_pairs(mode, a, b):
    heap = new_heap(1 << 12)
    x, y = words(a, heap), words(b, heap)
    again = words(a, heap)
    assert mode(w.equal_words)(*x, *y) == (a == b)
    assert mode(w.equal_words)(*x, *again)
    assert mode(hash_words)(*x) == mode(hash_words)(*again)
    assert mode(w.compare_words)(*x, *y) == sign(a, b)
    prefixes = mode(w.order_prefix)(*x), mode(w.order_prefix)(*y)
    assert prefixes[0] == prefixes[1] or sign(*prefixes) == sign(a, b)
    assert mode(w.starts_with_words)(*x, *y) == a.startswith(b)
    assert mode(w.ends_with_words)(*x, *y) == a.endswith(b)
    assert mode(w.contains_words)(*x, *y) == (b in a)
    assert text(*mode(w.concat_words)(*x, *y, heap)) == a + b


@mode
@many
@given(a=STRINGS, start=st.integers(0, 40), stop=st.integers(0, 40))
def test_parts_are_found(mode, a, start, stop):
    heap = new_heap(1 << 12)
    x, part = words(a, heap), words(a[start:stop], heap)
    assert mode(w.contains_words)(*x, *part)
    assert mode(w.starts_with_words)(*x, *words(a[:stop], heap))
    assert mode(w.ends_with_words)(*x, *words(a[start:], heap))


@mode
@many
@given(a=STRINGS)
def test_one(mode, a):
    heap = new_heap(1 << 12)
    data = a.encode()
    x = words(a, heap)
    assert text(*x) == a
    assert mode(w.byte_length)(x[0]) == len(data)
    assert mode(w.char_length)(*x) == len(a)
    assert text(*mode(upper_words)(*x, heap)) == a.upper()
    assert text(*mode(lower_words)(*x, heap)) == a.lower()
    kept = x[0], mode(w.keep_words)(*x, heap)
    assert text(*kept) == a
    assert len(data) <= w.SHORT or kept[1] != x[1]
    address = take(heap, len(data))
    mode(w.write_words)(*x, address)
    made = mode(w.make_words)(address, len(data))
    assert mode(w.equal_words)(*made, *x)


@mode
def test_heap_overflows_and_is_freed(mode):
    heap = new_heap(20)
    made = [mode(w.concat_words)(*words("x" * 10, heap), *words(str(k) * 10, heap), heap)
            for k in range(9)]  # fmt: skip
    assert [text(*m) for m in made] == ["x" * 10 + str(k) * 10 for k in range(9)]
    assert heap.overflow_bytes == 160
    mode(release_overflow)(heap)
    assert heap.overflow == 0
    words("z" * 100, heap)
    del heap
    gc.collect()


@mode
def test_views(mode):
    heap = new_heap(100)
    column = View.allocate(3)
    view = views(column.address)[2]
    view.head, view.tail = words("the third of them", heap)

    def read(address):
        view = views(address)[2]
        return text(view.head, view.tail)

    assert mode(compiled(read))(column.address) == "the third of them"


def guarded_page():
    """The end of a page behind which nothing may be read."""
    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + page), page, 0) == 0
    return area, start + page


def test_nothing_is_read_beyond_the_end():
    area, end = guarded_page()
    heap = new_heap(1 << 12)
    for count in range(41):
        data = bytes(range(65, 65 + count))
        ctypes.memmove(end - count, data, count)
        x, y = w.make_words(end - count, count), words(data, heap)
        assert w.equal_words(*x, *y)
        assert w.compare_words(*x, *y) == 0
        assert hash_words(*x) == hash_words(*y)
        assert w.order_prefix(*x) == w.order_prefix(*y)
        assert w.char_length(*x) == count
        assert w.find_words(*x, *words(data[-20:], heap)) == max(0, count - 20)
        assert blob(x[0], w.keep_words(*x, heap)) == data
        assert text(*lower_words(*x, heap)) == data.decode().lower()
    assert len(area) == 2 * mmap.PAGESIZE  # alive until here
