"""What a user's function gets for a string: made of its words, and taken apart again.

Interpreted they are plain `str` and `bytes`, see here; compiled, two words with a Numba type, see
`text_types`.
"""

from __future__ import annotations

import ctypes

from headrace.stage.memory.records import interpreted
from headrace.stage.strings.heap import Heap, take
from headrace.stage.strings.words import LENGTH_MASK, PREFIX, SHORT

_interpreted_take = interpreted(take)


def _bytes_of(head: int, tail: int) -> bytes:
    count = head & LENGTH_MASK
    if count > SHORT:
        return ctypes.string_at(tail, count)
    both = head.to_bytes(8, "little", signed=True) + tail.to_bytes(8, "little", signed=True)
    return both[PREFIX : PREFIX + count]


def text(head: int, tail: int) -> str:
    """The value that a user's function gets for a string.

    >>> from headrace.stage.strings.heap import new_heap
    >>> text(*words("né", new_heap(0)))
    'né'
    """
    return _bytes_of(head, tail).decode()


def blob(head: int, tail: int) -> bytes:
    """The value that a user's function gets for bytes.

    >>> from headrace.stage.strings.heap import new_heap
    >>> blob(*words(b"abc", new_heap(0)))
    b'abc'
    """
    return _bytes_of(head, tail)


def words(value: str | bytes, heap: Heap) -> tuple[int, int]:
    """The two words of a value; the bytes of a long one that is no view yet go to the heap.

    >>> from headrace.stage.strings.heap import new_heap
    >>> heap = new_heap(100)
    >>> words("a long enough text", heap)[1] == heap.base
    True
    """
    data = value.encode() if isinstance(value, str) else bytes(value)
    count = len(data)
    if count > SHORT:
        address = _interpreted_take(heap, count)
        ctypes.memmove(address, data, count)
        return int.from_bytes(data[:PREFIX], "little", signed=True) << 32 | count, address
    padded = count.to_bytes(4, "little") + data.ljust(SHORT, b"\0")
    return (
        int.from_bytes(padded[:8], "little", signed=True),
        int.from_bytes(padded[8:], "little", signed=True),
    )
