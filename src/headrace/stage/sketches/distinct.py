"""A set of values: an open-addressing table of strings, with the bytes of long ones behind it.

A slot is a view (`strings.words`), whose tail is the place of the bytes where they are more than
a view holds. Numbers are strings of eight bytes. In a large set a value waits, in a ring in front
of the slots, while its slot is prefetched: it enters when some others have come.
"""

from __future__ import annotations

from headrace.stage.memory.arithmetic import float_bits
from headrace.stage.memory.instructions import (
    clear_bytes,
    copy_bytes,
    prefetch,
    shift_right,
    signed,
)
from headrace.stage.memory.records import compiled, i64, record
from headrace.stage.strings.hashing import hash_words
from headrace.stage.strings.heap import take
from headrace.stage.strings.words import LENGTH_MASK, SHORT, View, equal_words, make_words, views

FIRST_SLOTS = 4
FULL = 2  # slots for each value, at least
NAN_WORD = -1  # as for hashes
AHEAD = 16  # values that wait, a power of two
LARGE = 1 << 12  # slots of a set from which on they do


@record
class Distinct:
    """The head of a set; the ring of a large one, slots and bytes follow."""

    label: i64  # never changes
    count: i64  # values in slots
    slots: i64  # a power of two
    used: i64  # bytes of long strings,
    room: i64  # and how many there may be
    has_empty: i64  # the empty string, which looks like a free slot
    came: i64  # values that have come to the ring,
    went: i64  # and gone on


HEADER, SLOT, WORD = Distinct.size, View.size, i64.size


@compiled
def word_view(value):
    """A number as a string of eight bytes.

    >>> word_view(1), word_view(-1)
    ((4294967304, 0), (-4294967288, 4294967295))
    """
    return signed((value & LENGTH_MASK) << 32 | WORD), shift_right(value, 32)


@compiled
def float_word(value):
    """A float as a number that is the same for equal ones: all NaN are, and -0.0 is 0.0.

    >>> float_word(-0.0) == float_word(0.0), float_word(1.0) == float_word(2.0)
    (True, False)
    """
    return NAN_WORD if value != value else float_bits(value + 0.0)


@compiled
def distinct_count(head, tail):
    """How many values there are."""
    if head == 0:
        return 0
    made = Distinct(tail)
    _enter_waiting(made)
    return made.count + made.has_empty


@compiled
def distinct_room(head, tail, values, long_bytes):
    """Fresh bytes that are needed for so many more values; 0: there is room."""
    if head == 0:
        return _size(_slots_for(values), long_bytes)
    made = Distinct(tail)
    count = _most(made) + values
    if FULL * count <= made.slots and made.used + long_bytes <= made.room:
        return 0
    return _size(_slots_for(count), _bytes_for(made.used + long_bytes))


@compiled
def _most(made):
    """How many values are in slots, or may come there."""
    return made.count + made.came - made.went


@compiled
def _slots_for(values):
    slots = FIRST_SLOTS
    while slots < FULL * values:
        slots *= 2
    return slots


@compiled
def _bytes_for(used):
    return 2 * used


@compiled
def _size(slots, room):
    return HEADER + _ring_size(slots) + slots * SLOT + room


@compiled
def _ring_size(slots):
    return AHEAD * SLOT if slots >= LARGE else 0


@compiled
def _slots(made):
    return views(made.address + HEADER + _ring_size(made.slots))


@compiled
def _roomy(head, tail, values, long_bytes, heap):
    """The words of a set with room for so many more values: this one, or a larger copy."""
    size = distinct_room(head, tail, values, long_bytes)
    if size == 0:
        return head, tail
    address = take(heap, size)
    clear_bytes(address, size)
    made = Distinct(address)
    if head == 0:
        made.slots, made.room = _slots_for(values), long_bytes
    else:
        old = Distinct(tail)
        made.slots = _slots_for(_most(old) + values)
        made.room = _bytes_for(old.used + long_bytes)
        _enter_all(made, old)
    return make_words(address, size)


@compiled
def _text_at(made, view):
    """The tail of the string in a slot."""
    if view.head & LENGTH_MASK <= SHORT:
        return view.tail
    return _slots(made)[made.slots].address + view.tail


@compiled
def _enter(made, head, tail):
    """Put a value in, if it is not there; there is room."""
    if head == 0:
        made.has_empty = 1
        return
    slots = _slots(made)
    at = hash_words(head, tail) & (made.slots - 1)
    while slots[at].head != 0:
        if equal_words(head, tail, slots[at].head, _text_at(made, slots[at])):
            return
        at = (at + 1) & (made.slots - 1)
    slots[at].head, slots[at].tail = head, tail
    count = head & LENGTH_MASK
    if count > SHORT:
        slots[at].tail = made.used
        copy_bytes(_text_at(made, slots[at]), tail, count)
        made.used += count
    made.count += 1


@compiled
def _come(made, head, tail):
    """Put a value in now, or soon."""
    if made.slots < LARGE or head == 0 or head & LENGTH_MASK > SHORT:
        _enter(made, head, tail)
        return
    if made.came - made.went == AHEAD:
        _enter_next(made)
    waiting = views(made.address + HEADER)[made.came & (AHEAD - 1)]
    waiting.head, waiting.tail = head, tail
    made.came += 1
    prefetch(_slots(made)[hash_words(head, tail) & (made.slots - 1)].address)


@compiled
def _enter_next(made):
    """Let the value in that has waited longest."""
    waiting = views(made.address + HEADER)[made.went & (AHEAD - 1)]
    made.went += 1
    _enter(made, waiting.head, waiting.tail)


@compiled
def _enter_waiting(made):
    """Let all values in that wait."""
    while made.went < made.came:
        _enter_next(made)


@compiled
def _enter_all(made, other):
    slots, ring = _slots(other), views(other.address + HEADER)
    for at in range(other.slots):
        if slots[at].head != 0:
            _come(made, slots[at].head, _text_at(other, slots[at]))
    for number in range(other.went, other.came):
        waiting = ring[number & (AHEAD - 1)]
        _come(made, waiting.head, waiting.tail)
    if other.has_empty != 0:
        made.has_empty = 1


@compiled
def distinct_add(head, tail, value_head, value_tail, long_bytes, heap):
    """The words of a set with a value more.

    >>> from headrace.stage.strings.text import new_heap, words
    >>> heap, head, tail = new_heap(1000), 0, 0
    >>> for text in ["a", "", "a long enough text", "a", "a long enough text"]:
    ...     value = words(text, heap)
    ...     head, tail = distinct_add(head, tail, *value, len(text), heap)
    >>> distinct_count(head, tail)
    3
    """
    head, tail = _roomy(head, tail, 1, long_bytes, heap)
    _come(Distinct(tail), value_head, value_tail)
    return head, tail


@compiled
def distinct_merge_room(head, tail, other_head, other_tail):
    """Fresh bytes that are needed for the values of another set."""
    if other_head == 0:
        return 0
    other = Distinct(other_tail)
    return distinct_room(head, tail, _most(other), other.used)


@compiled
def distinct_merge(head, tail, other_head, other_tail, heap):
    """The words of a set with those of another one."""
    if other_head == 0:
        return head, tail
    other = Distinct(other_tail)
    head, tail = _roomy(head, tail, _most(other), other.used, heap)
    _enter_all(Distinct(tail), other)
    return head, tail
