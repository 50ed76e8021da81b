"""A bounded list of values in order: what `collect` and `top_k` keep.

An item lies before another one if its rank is less. Of equal ranks, items go as they came, numbers
by a second word, or strings by their bytes (`BY_ARRIVAL` and the others). Of more than `most`
items the last ones are left out. The bytes of long strings lie behind the items, by their place
there; those of items that were left out stay until the list is copied.
"""

from __future__ import annotations

from headrace.stage.memory.instructions import copy_bytes
from headrace.stage.memory.records import compiled, f32s, f64s, i32s, i64, record
from headrace.stage.strings.heap import take
from headrace.stage.strings.words import (
    LENGTH_MASK,
    SHORT,
    byte_length,
    compare_words,
    make_words,
    write_words,
)

FIRST_ITEMS = 4
BY_WORD, BY_ARRIVAL, BY_BYTES, BY_BYTES_DOWN = 0, 1, 2, 3  # of equal ranks
VIEWS, FLOAT32 = 0, -4  # instead of the width of items, in bytes
NULL_VIEW, NULL_NUMBER = -1, 1  # the head of a string that is null, and the tail of a number


@record
class Ranked:
    """The head of a list; the items, in order, and the bytes of long strings follow."""

    label: i64  # never changes
    count: i64  # items
    room: i64  # and how many there may be
    used: i64  # bytes of long strings,
    live: i64  # of which items need so many,
    bytes: i64  # and for how many there is room
    order: i64  # fixed: how values of one rank are ordered,
    width: i64  # and how an item lies in a column of lists


@record
class Item:
    """A value, and where it belongs."""

    rank: i64
    head: i64  # the bytes of a number, or the first word of a string
    tail: i64  # the second word of the order, or of the string: the place of a long one's bytes


HEADER, ITEM, LENGTH = Ranked.size, Item.size, 4
HEAD = Item.fields["head"].offset


@compiled
def ranked_room(head, tail, more, long_bytes, most, fails):
    """Fresh bytes that are needed for so many more items; 0: there is room. An error where they
    are too many and that is one (`fails`)."""
    count = 0 if head == 0 else Ranked(tail).count
    if fails != 0 and count + more > most:
        raise ValueError("there are more values than the limit of the list")
    if head != 0:
        made = Ranked(tail)
        if min(count + more, most) <= made.room and made.used + long_bytes <= made.bytes:
            return 0
    items = _items_for(head, tail, more, most)
    return HEADER + items * ITEM + _bytes_for(head, tail, long_bytes)


@compiled
def _items_for(head, tail, more, most):
    if head == 0:
        return min(max(FIRST_ITEMS, more), most)
    made = Ranked(tail)
    wanted = min(made.count + more, most)
    return made.room if wanted <= made.room else min(2 * wanted, most)


@compiled
def _bytes_for(head, tail, long_bytes):
    return long_bytes if head == 0 else 2 * (Ranked(tail).live + long_bytes)


@compiled
def _item(made, place):
    return Item(made.address + HEADER + place * ITEM)


@compiled
def _long_bytes(made):
    """Where the bytes of long strings lie."""
    return made.address + HEADER + made.room * ITEM


@compiled
def _long_length(head, width):
    """The bytes of a value that are kept beside its item."""
    count = head & LENGTH_MASK
    return count if width == VIEWS and count > SHORT and head != NULL_VIEW else 0


@compiled
def _tail(made, item):
    """The second word of a value, as a string has it."""
    is_long = _long_length(item.head, made.width) > 0
    return _long_bytes(made) + item.tail if is_long else item.tail


@compiled
def _roomy(head, tail, more, long_bytes, most, order, width, heap):
    """The words of a list with room for so many more items: this one, or a larger copy, without
    the bytes that no item needs."""
    size = ranked_room(head, tail, more, long_bytes, most, 0)
    if size == 0:
        return head, tail
    address = take(heap, size)
    made = Ranked(address)
    made.label, made.count, made.used, made.live = 0, 0, 0, 0
    made.order, made.width = order, width
    made.room = _items_for(head, tail, more, most)
    made.bytes = _bytes_for(head, tail, long_bytes)
    if head != 0:
        old = Ranked(tail)
        made.count = old.count
        copy_bytes(address + HEADER, old.address + HEADER, old.count * ITEM)
        for place in range(old.count):
            item = _item(made, place)
            _keep_bytes(made, item, _tail(old, item))
    return make_words(address, size)


@compiled
def _keep_bytes(made, item, tail):
    """Give an item a copy of its value's bytes, if they are many."""
    count = _long_length(item.head, made.width)
    item.tail = tail
    if count > 0:
        copy_bytes(_long_bytes(made) + made.used, tail, count)
        item.tail = made.used
        made.used += count
        made.live += count


@compiled
def _goes_before(made, rank, head, tail, item):
    """Does a value that comes belong before an item? Of equal ones the one that came first does."""
    if rank != item.rank:
        return rank < item.rank
    if made.order == BY_WORD:
        return tail < item.tail
    if made.order == BY_ARRIVAL:
        return False
    compared = compare_words(head, tail, item.head, _tail(made, item))
    return compared < 0 if made.order == BY_BYTES else compared > 0


@compiled
def _enter(made, rank, head, tail, most):
    """Put a value where it belongs; there is room."""
    low, high = 0, made.count
    if high > 0 and not _goes_before(made, rank, head, tail, _item(made, high - 1)):
        low = high  # mostly values come in order, or are none of the first
    while low < high:
        middle = (low + high) // 2
        if _goes_before(made, rank, head, tail, _item(made, middle)):
            high = middle
        else:
            low = middle + 1
    if low == most:
        return
    if made.count == most:
        made.live -= _long_length(_item(made, most - 1).head, made.width)
    else:
        made.count += 1
    for place in range(made.count - 1, low, -1):
        copy_bytes(_item(made, place).address, _item(made, place - 1).address, ITEM)
    item = _item(made, low)
    item.rank, item.head = rank, head
    _keep_bytes(made, item, tail)


@compiled
def ranked_add(head, tail, rank, value_head, value_tail, most, order, width, heap):
    """The words of a list with a value more.

    >>> from headrace.stage.strings.text import new_heap, words
    >>> heap, head, tail = new_heap(1000), 0, 0
    >>> for rank, text in [(5, "e"), (1, "a long enough text"), (7, "g"), (3, "c")]:
    ...     value = words(text, heap)
    ...     head, tail = ranked_add(head, tail, rank, *value, 3, BY_ARRIVAL, VIEWS, heap)
    >>> made = Ranked(tail)
    >>> [_item(made, place).rank for place in range(made.count)]
    [1, 3, 5]
    """
    long_bytes = _long_length(value_head, width)
    head, tail = _roomy(head, tail, 1, long_bytes, most, order, width, heap)
    _enter(Ranked(tail), rank, value_head, value_tail, most)
    return head, tail


@compiled
def ranked_merge_room(head, tail, other_head, other_tail, most, fails):
    """Fresh bytes that are needed before another list can be merged."""
    if other_head == 0:
        return 0
    other = Ranked(other_tail)
    return ranked_room(head, tail, other.count, other.live, most, fails)


@compiled
def ranked_merge(head, tail, other_head, other_tail, most, heap):
    """The words of a list with the values of another one, which came later."""
    if other_head == 0:
        return head, tail
    other = Ranked(other_tail)
    order, width = other.order, other.width
    head, tail = _roomy(head, tail, other.count, other.live, most, order, width, heap)
    made = Ranked(tail)
    for place in range(other.count):
        item = _item(other, place)
        _enter(made, item.rank, item.head, _tail(other, item), most)
    return head, tail


@compiled
def ranked_list(head, tail, heap):
    """The words of the values in their order, as a column of lists has them (`blocks.packed`)."""
    count, size = 0, LENGTH
    if head != 0:
        count = Ranked(tail).count
        size += count * LENGTH
        for place in range(count):
            size += max(_value_size(Ranked(tail), place), 0)
    address = take(heap, size)
    i32s(address)[0] = count
    at = address + LENGTH * (1 + count)
    for place in range(count):
        made = Ranked(tail)
        item, value_size = _item(made, place), _value_size(made, place)
        i32s(address + LENGTH * (1 + place))[0] = value_size
        if value_size > 0:
            if made.width == FLOAT32:
                f32s(at)[0] = f64s(item.address + HEAD)[0]
            elif made.width != VIEWS:
                copy_bytes(at, item.address + HEAD, value_size)
            else:
                write_words(item.head, _tail(made, item), at)
            at += value_size
    return make_words(address, size)


@compiled
def _value_size(made, place):
    """The bytes of a value; -1: it is null."""
    item = _item(made, place)
    if made.width == VIEWS:
        return -1 if item.head == NULL_VIEW else byte_length(item.head)
    is_null = made.order == BY_ARRIVAL and item.tail == NULL_NUMBER
    return -1 if is_null else abs(made.width)
