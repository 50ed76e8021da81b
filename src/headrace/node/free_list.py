"""The free list: units that are ready to run, least recently run first (Streams figs. 4-6).

Streams keeps all input ports in one lock-free queue and walks it for one that has input and is not
taken (fig. 5). Here only units that are ready are in the queue, each at most once, so a pick costs
the same among ten units and among thousands; a unit is put at the back when it becomes ready, or is
still ready after a run, which gives the same order: least recently used.

Each unit has a word of three bits. QUEUED: it is in the queue. RUNNING: a worker has it, which is
Streams' consumer lock for the whole unit. NOTIFIED: something arrived while it ran, so it goes back
to the queue after the run. Every change, also "nothing to change", is an atomic update of the word:
what was published before `on_ready` is seen by the run that `on_ready` relied on.

The three hooks of the scheduler `lru`:

    on_ready(list, unit, worker)             input arrived, output has room, or a run has more to do
    next_task(list, worker) → (unit, limit)  a unit to run and how many rows at most; NO_UNIT: none
    on_done(list, unit, worker, rows, ns)    the run is over

and `try_unit`, Streams fig. 6: the worker that found a port full runs its consumer next.
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
from headrace.stage.memory.records import array, compiled, i64, line, record, ref

IDLE, QUEUED, RUNNING, NOTIFIED = 0, 1, 2, 4

NO_UNIT = -1
DRAIN = 1 << 62  # limit of rows: all there are (Streams fig. 4 drains)
NOTHING_TO_DO, LISTED, GAVE_UP = 0, 1, -1  # answers of on_ready and on_done

TRIES = 8  # of next_task, which may give up (Streams §4.1.3)
ROUNDS = 1 << 24  # of what must be done; seconds


@record
class UnitState:
    """QUEUED | RUNNING | NOTIFIED of one unit; written by everybody."""

    state: i64 = line()


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
    stop: i64 = line()  # written by the control thread, once
    capacity: i64 = line()  # fixed: a power of two, at least twice the units
    mask: i64
    units: i64
    states: ref(UnitState)
    entries: array(Entry) = line()


def new_free_list(units: int, states: Any = None) -> tuple[Any, Any]:
    """(free list, its unit states); keep both alive. Two lists may share the states of their units.

    >>> units, states = new_free_list(3)
    >>> on_ready(units, 2, 0), on_ready(units, 0, 0), on_ready(units, 2, 0)
    (1, 1, 0)
    >>> [next_task(units, 0)[0] for _ in range(3)]
    [2, 0, -1]
    """
    capacity = 1 << max(2 * units - 1, 1).bit_length()
    states = UnitState.allocate(max(units, 1)) if states is None else states
    made = FreeList.allocate(behind=capacity * Entry.size)
    made.capacity, made.mask, made.units, made.states = capacity, capacity - 1, units, states
    start_entries(made)
    return made, states


@compiled
def start_entries(list):
    """All places are free, and the first round begins."""
    for i in range(list.capacity):
        list.entries[i].turn = i


# ---- the queue -----------------------------------------------------------------------------


@compiled
def put(list, unit):
    """Add a unit at the back. There is room: a unit is in it at most once. Only a worker that was
    stopped in the middle of `pick`, a whole round ago, is waited for. False: stopped."""
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
        stop = load_relaxed(list, "stop")
        if stop != 0:
            return False
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


# ---- the hooks -----------------------------------------------------------------------------


@compiled
def on_ready(list, unit, worker):
    """The unit may have something to do. LISTED: wake a worker."""
    state = list.states[unit]
    for _ in range(ROUNDS):
        before = load_relaxed(state, "state")
        after = before
        if before == IDLE:
            after = QUEUED
        elif before == RUNNING:
            after = RUNNING | NOTIFIED
        changed = cas(state, "state", before, after)  # also when after == before, see above
        if changed:
            if before != IDLE:
                return NOTHING_TO_DO
            there = put(list, unit)
            return LISTED if there else GAVE_UP
        pause()
    return GAVE_UP


@compiled
def next_task(list, worker):
    """Streams fig. 5, findWorkNonBlocking: a unit that is ready and not taken, and now is ours.

    NO_UNIT means that there was none, or contention: not that there is nothing to do."""
    for _ in range(TRIES):
        unit = pick(list)
        if unit == NO_UNIT:
            return NO_UNIT, 0
        ours = start_picked(list, unit)
        if ours:
            return unit, DRAIN
    return NO_UNIT, 0


@compiled
def start_picked(list, unit):
    """Make a unit from the queue RUNNING. If a worker already runs it (`try_unit`), it is told to
    put the unit back."""
    state = list.states[unit]
    for _ in range(ROUNDS):
        before = load_relaxed(state, "state")
        free = before & RUNNING == 0
        after = RUNNING if free else RUNNING | NOTIFIED
        changed = cas(state, "state", before, after)
        if changed:
            return free
        pause()
    return False


@compiled
def try_unit(list, unit, worker):
    """Streams fig. 6, reSchedule: take a unit, wherever it is, unless a worker runs it. If it is in
    the queue, it stays there. Call on_done after the run."""
    state = list.states[unit]
    for _ in range(TRIES):
        before = load_relaxed(state, "state")
        if before & RUNNING:
            return False
        changed = cas(state, "state", before, before | RUNNING)
        if changed:
            return True
    return False


@compiled
def on_done(list, unit, worker, rows, ns):
    """Streams fig. 4, after the drain: unlock, and to the back of the list if there is more to do:
    somebody called on_ready during the run, maybe the worker itself. LISTED: as in on_ready."""
    state = list.states[unit]
    for _ in range(ROUNDS):
        before = load_relaxed(state, "state")
        after = before & QUEUED
        if before & NOTIFIED:
            after = QUEUED
        changed = cas(state, "state", before, after)
        if changed:
            if before & QUEUED or after == IDLE:
                return NOTHING_TO_DO
            there = put(list, unit)
            return LISTED if there else GAVE_UP
        pause()
    return GAVE_UP
