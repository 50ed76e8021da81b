"""Rows that wait for their time: the panes that hold them. `row_queue` knows which comes next.

Rows enter the *taking* pane in order of arrival; when it is full, or most of its rows have gone on,
another one. A pane closes when all have, so they are forgotten soon, whatever the unit of time. In
such a pane nobody looks for a key: its records have no place in the index, unless they were saved.
In a row's place the side comes before the arrival, so that of equal times a version is there before
the row that asks for it.
"""

from __future__ import annotations

from .memory.records import compiled, i64s
from .panes import (
    LAST,
    WAITING,
    Panes,
    close_panes,
    find_pane,
    holds_rows,
    note_window,
    order_ends,
    rise,
)
from .room import enough_room
from .row_queue import clear_queue, next_time
from .store import NOT_LISTED, Store
from .store_room import give_memory
from .task import RUNNING, window_start
from .windows import give_out, next_window

PANE_ROWS = 1 << 14  # that a pane takes at most
FEW_ROWS = 64  # of which none is worth another pane
ROW_BITS = 24  # of a place; panes that were moved to one owner may hold rows of many
PANE_BITS = 38
LEVELS = 62  # of panes of states, each twice as long as the one before
MOVED = -(1 << 63)  # the timer of a state that lies in another pane now, or nowhere yet
LATEST_TIMER = 1 << 61  # a timer beyond it goes off then, when the sources have ended
MOST_ROUNDS = 10_000  # of timers that timers set, when the sources have ended
ENDLESS_TIMERS = (
    "timers set timers without end, and the sources have ended: set none any more at some time, "
    "say so long after the last row, which the state knows"
)
ROW_MASK, PANE_MASK = (1 << ROW_BITS) - 1, (1 << PANE_BITS) - 1


@compiled
def taking_pane(panes):
    """The address of the pane that takes rows, or 0: it must be opened."""
    address = find_pane(panes, WAITING + panes.taking)
    while address != 0 and Store(address).count >= PANE_ROWS:
        next_taking(panes)
        address = find_pane(panes, WAITING + panes.taking)
    return address


@compiled
def next_taking(panes):
    """Let another pane take rows."""
    panes.taking = (panes.taking + 1) & PANE_MASK


@compiled
def not_queued(panes):
    """Rows that are not in the queue yet."""
    slots, rows = i64s(panes.directory), 0
    for at in range(panes.mask + 1):
        if slots[at] != 0 and holds_rows(Store(slots[at])):
            rows += Store(slots[at]).count - Store(slots[at]).queued
    return rows


@compiled
def wait_until(panes, store, time):
    """A row of a pane goes on when the watermark is behind its time."""
    if time + 1 < store.first:
        store.first = time + 1
        if store.place != NOT_LISTED:  # else rows are going on: `end_waiting` lists it again
            rise(panes, store.address, store.place)


@compiled
def place_of(store, number, is_right):
    """The place of a row among those of equal time and key."""
    pane = store.window - WAITING
    return (0 if is_right else 1 << (ROW_BITS + PANE_BITS)) | (pane << ROW_BITS) | number


@compiled
def row_at(place):
    """The number of a row in its pane."""
    return place & ROW_MASK


@compiled
def pane_at(panes, place):
    """The address of the pane of a row."""
    return find_pane(panes, WAITING + ((place >> ROW_BITS) & PANE_MASK))


# ---- timers --------------------------------------------------------------------------------


@compiled
def is_over(timer, time):
    """Does a timer go off at a time, or did it before?"""
    return min(timer, LATEST_TIMER) <= time


@compiled
def alarm(timer, time):
    """When a timer goes off that is set at a time: never at that time itself."""
    return max(min(timer, LATEST_TIMER), time + 1)


@compiled
def count_row(task):
    """A row has its turn."""
    task.rounds, task.round_left = 0, Panes(task.panes).waiting


@compiled
def count_timer(task):
    """A timer has its turn. When no row will come any more, timers that are set by timers must
    come to an end: those that wait are a round, and those that they set the next one."""
    if task.watermark != LAST or task.suspended != RUNNING or task.calling != 0:
        return
    if task.rounds > MOST_ROUNDS:
        raise RuntimeError(ENDLESS_TIMERS)
    task.round_left -= 1
    if task.round_left <= 0:
        task.rounds, task.round_left = task.rounds + 1, Panes(task.panes).waiting


@compiled
def level_for(needed, size):
    """The level of the panes that are long enough for a state that is needed for so long."""
    level = 0
    while size << level < needed:
        level += 1
    return level


@compiled
def state_pane(time, size, level):
    """The pane of a level that a time falls into; `size` is more than there are levels."""
    return window_start(time, size << level, 0) + level


@compiled
def levels_of(panes, size):
    """The levels that have panes, as bits."""
    slots, levels = i64s(panes.directory), 0
    for at in range(panes.mask + 1):
        if slots[at] != 0 and not holds_rows(Store(slots[at])):
            levels |= 1 << (Store(slots[at]).window % size)
    return levels


@compiled
def forget_states(panes, time):
    """Close the panes of states that nobody asks for at a time or later."""
    slots, due, count = i64s(panes.directory), i64s(panes.due), 0
    for at in range(panes.mask + 1):
        if slots[at] != 0 and Store(slots[at]).last <= time and not holds_rows(Store(slots[at])):
            due[count] = slots[at]
            count += 1
    if count > 0:
        close_panes(panes, count)


# ---- the end -------------------------------------------------------------------------------


@compiled
def end_waiting(task):
    """All rows before the watermark have gone on: panes without rows that wait close, and so do
    versions that nobody asks for any more."""
    panes = Panes(task.panes)
    slots = i64s(panes.directory)
    following = next_time(panes) + 1 if panes.waiting > 0 else LAST
    for at in range(panes.mask + 1):
        if slots[at] != 0 and holds_rows(Store(slots[at])):
            store = Store(slots[at])
            store.first = following
            if store.given == store.count:
                store.first, store.last = task.watermark, task.watermark
            elif store.window == WAITING + panes.taking and store.given > FEW_ROWS:
                if 2 * store.given > store.count:
                    next_taking(panes)
    if panes.waiting == 0 and panes.queue_room > enough_room(panes.run_end):
        give_memory(panes.account, panes.queue)
        panes.queue, panes.queue_room = 0, 0
        clear_queue(panes)
    order_ends(panes)
    give_out(task, panes, note_window(panes, task.watermark))
    while task.due_count > 0:
        next_window(task)
