"""Lists of bounded length in the state of a user's function: `append`, `popleft`, `clear`, and all
that lists can do that functions are given.

A list of a state lies as `items` says, found by two words like a string. What changes it makes a
copy in the heap of the row, which is kept when the row has succeeded, as new strings are; so a row
that fails changes no list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from headrace.plan.functions import Limit

from .items import (
    ITEMS,
    LENGTH,
    WIDTHS,
    first_item,
    item_address,
    item_count,
    items,
)
from .memory.arithmetic import float_bits
from .memory.extensions import extension
from .memory.instructions import copy_bytes
from .memory.kinds import Kind, i64
from .memory.records import compiled, flags, i32s, i64s, interpreted
from .strings.heap import Heap, take
from .strings.text_values import words
from .strings.words import SHORT, View, byte_length, make_words, write_words

NO_ITEM = "None is no item of a list"
BEHIND_LENGTH = LENGTH  # where in its words the bytes of a short list lie


@compiled
def bytes_of(view):
    """Where the bytes of the list lie whose words are at an address."""
    found = View(view)
    return found.tail if byte_length(found.head) > SHORT else view + BEHIND_LENGTH


@compiled
def _copied(view, heap, dropped, more):
    """(address, bytes) of a copy without the first items and with room for another one of so many
    bytes behind; -1: for none."""
    old = bytes_of(view)
    kept, first = item_count(old) - dropped, item_address(old, dropped, 0)
    kept_bytes = old + byte_length(View(view).head) - first
    count = kept if more < 0 else kept + 1
    size = LENGTH * (1 + count) + kept_bytes + max(more, 0)
    address = take(Heap(heap), size)
    i32s(address)[0] = count
    copy_bytes(address + LENGTH, old + LENGTH * (1 + dropped), LENGTH * kept)
    if more >= 0:
        i32s(address + LENGTH * (1 + kept))[0] = more
    copy_bytes(first_item(address), first, kept_bytes)
    return address, size


@compiled
def _put(view, address, size):
    found = View(view)
    found.head, found.tail = make_words(address, size)


@compiled
def _with_room(view, heap, length, most, fails):
    """A copy with room for an item of so many bytes at its end."""
    count = item_count(bytes_of(view))
    if fails and count >= most:
        raise ValueError("the list has as many items as its limit allows")
    return _copied(view, heap, max(count + 1 - most, 0), length)


@compiled
def append_number(view, heap, bits, width, most, fails):
    """Add a number, given as a word, of so many bytes."""
    address, size = _with_room(view, heap, width, most, fails)
    if width == 1:
        flags(address + size - width)[0] = bits != 0
    else:
        i64s(address + size - width)[0] = bits
    _put(view, address, size)


@compiled
def append_words(view, heap, head, tail, most, fails):
    """Add a string."""
    length = byte_length(head)
    address, size = _with_room(view, heap, length, most, fails)
    write_words(head, tail, address + size - length)
    _put(view, address, size)


@compiled
def drop_first(view, heap):
    """Leave out the first item."""
    address, size = _copied(view, heap, 1, -1)
    _put(view, address, size)


@compiled
def clear_list(view):
    """Leave out all items."""
    found = View(view)
    found.head, found.tail = LENGTH, 0


class BoundedItems:
    """A list of a state, as interpreted functions get it."""

    __slots__ = ("_heap", "_kind", "_view")

    def __init__(self, view: int, heap: int, kind: BoundedKind) -> None:
        self._view, self._heap, self._kind = view, heap, kind

    def _items(self) -> list[Any]:
        return items(interpreted(bytes_of)(self._view), self._kind.code)

    def __len__(self) -> int:
        return len(self._items())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items())

    def __getitem__(self, place: int) -> Any:
        return self._items()[place]

    def append(self, value: Any) -> None:
        """Add an item behind the others; see the limit."""
        if value is None:
            raise ValueError(NO_ITEM)
        kind = self._kind
        limit = kind.limit.most, kind.limit.fails
        if kind.width == 0:
            heap = Heap(self._heap)
            interpreted(append_words)(self._view, self._heap, *words(value, heap), *limit)
            return
        bits = float_bits(float(value)) if kind.item == "float64" else int(value)
        interpreted(append_number)(self._view, self._heap, bits, kind.width, *limit)

    def popleft(self) -> Any:
        """The first item, which is left out from now on."""
        there = self._items()
        if not there:
            raise IndexError("pop from an empty list")
        interpreted(drop_first)(self._view, self._heap)
        return there[0]

    def clear(self) -> None:
        """Leave out all items."""
        interpreted(clear_list)(self._view)


class BoundedKind(Kind):
    """A field that holds a list.

    code: the type of its items, see `items`.
    """

    size, align = View.size, View.align

    def __init__(self, code: int, limit: Limit) -> None:
        self.code, self.limit, self.item = code, limit, ITEMS[code // 2]
        self.width = WIDTHS[self.item]
        self.tag = ("list", code, limit.most, limit.fails)

    def read_field(self, record_address: int, address: int) -> BoundedItems:
        """See Kind."""
        return BoundedItems(address, i64.read(record_address), self)

    def write_field(self, record_address: int, address: int, value: Iterable[Any]) -> None:
        """See Kind; these items take the place of those that were there."""
        made = self.read_field(record_address, address)
        made.clear()
        for item in value:
            made.append(item)


@extension
def _register() -> None:
    from . import bounded_types  # noqa: F401
