"""The free list: units that are ready to run, least recently run first (Streams figs. 4-6).

Streams keeps all input ports in one lock-free queue and walks it for one that has input and is not
taken (fig. 5). Here only units that are ready are in the queue, each at most once (`claims`), so a
pick costs the same among ten units and among thousands; a unit is put at the back when it becomes
ready, or is still ready after a run, which gives the same order: least recently used.
"""

from __future__ import annotations

from typing import Any

from headrace.stage.memory.atomics import (
    cas,
    load_acquire,
    load_relaxed,
    load_sc,
    pause,
    store_release,
)
from headrace.stage.memory.records import array, compiled, i64, line, record

NO_UNIT = -1
ROUNDS = 1 << 24  # of what must be done; seconds


@record
class Entry:
    """A place of the queue. `turn` says whose turn it is: position (free), position + 1 (full)."""

    turn: i64
    unit: i64


@record
class FreeList:
    """A bounded queue for many producers and consumers (Vyukov); `entries` behind it."""

    tail: i64 = line()  # written by who puts
    head: i64 = line()  # written by who picks
    capacity: i64 = line()  # fixed: a power of two, at least twice the units
    mask: i64
    entries: array(Entry) = line()


def new_free_list(units: int) -> Any:
    """A queue with room for so many units.

    >>> units = new_free_list(3)
    >>> put(units, 2), put(units, 0)
    (True, True)
    >>> [pick(units) for _ in range(3)]
    [2, 0, -1]
    """
    capacity = 1 << max(2 * units - 1, 1).bit_length()
    made = FreeList.allocate(behind=capacity * Entry.size)
    made.capacity, made.mask = capacity, capacity - 1
    start_entries(made)
    return made


@compiled
def start_entries(list):
    """All places are free, and the first round begins."""
    for i in range(list.capacity):
        list.entries[i].turn = i


@compiled
def put(list, unit):
    """Add a unit at the back. There is room: a unit is in it at most once. Only a worker that was
    stopped in the middle of `pick`, a whole round ago, is waited for."""
    for _ in range(ROUNDS):
        tail = load_relaxed(list, "tail")
        entry = list.entries[tail & list.mask]
        turn = load_acquire(entry, "turn")
        if turn == tail:
            won = cas(list, "tail", tail, tail + 1)
            if won:
                entry.unit = unit
                store_release(entry, "turn", tail + 1)
                return True
        pause()
    return False


@compiled
def pick(list):
    """Take the unit at the front; NO_UNIT: there is none, or another worker was faster."""
    head = load_relaxed(list, "head")
    entry = list.entries[head & list.mask]
    turn = load_acquire(entry, "turn")
    if turn != head + 1:
        return NO_UNIT
    won = cas(list, "head", head, head + 1)
    if not won:
        return NO_UNIT
    unit = entry.unit
    store_release(entry, "turn", head + list.capacity)
    return unit


@compiled
def has_work(list):
    """Is a unit in the queue? Never misses one that was put before; for the last scan."""
    head = load_sc(list, "head")
    tail = load_sc(list, "tail")
    return tail != head


@compiled
def length(list):
    """How many units are in the queue; true only for a moment."""
    head = load_acquire(list, "head")
    return load_relaxed(list, "tail") - head
