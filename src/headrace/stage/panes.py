"""The open windows of an aggregate, for compiled code: stores by window start.

A window takes a spare store when it opens; when it closes, its store is emptied and is a spare one
again. Where there is none, or no room in the directory, `room` makes some.
"""

from __future__ import annotations

from .memory.records import compiled, i64, i64s, record
from .store import NO_WINDOW, Store, clear_store
from .strings.hashing import hash_int

LAST = (1 << 63) - 1  # later than every window
MOST_SPARE = 8  # closed windows whose memory is kept for new ones


@record
class Panes:
    """The open windows. Written by the thread that runs the operator."""

    size: i64  # of a window; fixed
    directory: i64  # an open-addressing table of the addresses of open stores; 0 is a free slot
    mask: i64
    due: i64  # memory for as many addresses as the directory has slots
    count: i64  # open windows
    opened: i64  # windows so far, and how often one was emptied: the next serial
    next_end: i64  # the end of the window that closes first
    spare: i64  # the first of the empty stores, which are linked by `next`; 0: there is none
    spares: i64  # how many there are
    partial: i64  # fixed: windows are given out as partial results, and stay open
    entry_size: i64  # fixed: of the records of a store,
    chunk_shift: i64  # and how they lie
    keeps_text: i64
    account: i64  # fixed: see Store


# ---- one window ----------------------------------------------------------------------------


@compiled
def find_pane(panes, start):
    """The address of the store of a window, or 0."""
    slots = i64s(panes.directory)
    at = hash_int(start) & panes.mask
    while slots[at] != 0:
        if Store(slots[at]).window == start:
            return slots[at]
        at = (at + 1) & panes.mask
    return 0


@compiled
def lacks_pane(panes):
    """Must the host make room before another window can be opened?"""
    return panes.spare == 0 or 2 * (panes.count + 1) > panes.mask + 1


@compiled
def open_pane(panes, start):
    """Open a window that is not open, with a spare store. Gives the address of the store."""
    address = panes.spare
    store = Store(address)
    panes.spare = store.next
    panes.spares -= 1
    store.window = start
    renew_pane(panes, store)
    enter_pane(panes, address)
    return address


@compiled
def renew_pane(panes, store):
    """A new serial: what was known of the records of this store is so no more."""
    panes.opened += 1
    store.serial = panes.opened


@compiled
def enter_pane(panes, address):
    """Put an open window into the directory."""
    slots = i64s(panes.directory)
    start = Store(address).window
    at = hash_int(start) & panes.mask
    while slots[at] != 0:
        at = (at + 1) & panes.mask
    slots[at] = address
    panes.count += 1
    panes.next_end = min(panes.next_end, start + panes.size)


@compiled
def spare_pane(panes, address):
    """Empty a store and keep it for another window."""
    store = Store(address)
    clear_store(store)
    store.next = panes.spare
    panes.spare = address
    panes.spares += 1


# ---- many windows --------------------------------------------------------------------------


@compiled
def closed_panes(panes, watermark):
    """Note in `panes.due` the windows that end at or before a watermark, in order; how many?"""
    slots, due, count = i64s(panes.directory), i64s(panes.due), 0
    for at in range(panes.mask + 1):
        if slots[at] != 0 and Store(slots[at]).window + panes.size <= watermark:
            due[count] = slots[at]
            count += 1
    sort_panes(panes, count)
    return count


@compiled
def sort_panes(panes, count):
    """Order what is noted by window start: Shell's sort, for mostly there are one or two."""
    due = i64s(panes.due)
    gap = count // 2
    while gap > 0:
        for at in range(gap, count):
            moving, place = due[at], at
            start = Store(moving).window
            while place >= gap and Store(due[place - gap]).window > start:
                due[place] = due[place - gap]
                place -= gap
            due[place] = moving
        gap //= 2


@compiled
def panes_with(panes, records):
    """Note in `panes.due` the windows that have records, or (False) those that have none."""
    slots, due, count = i64s(panes.directory), i64s(panes.due), 0
    for at in range(panes.mask + 1):
        if slots[at] != 0 and (Store(slots[at]).count > 0) == records:
            due[count] = slots[at]
            count += 1
    return count


@compiled
def empty_panes(panes, count):
    """Forget the records of the windows that are noted; they stay open."""
    due = i64s(panes.due)
    for k in range(count):
        store = Store(due[k])
        start = store.window
        clear_store(store)
        store.window = start
        renew_pane(panes, store)


@compiled
def close_panes(panes, count):
    """Close the windows that are noted: the directory is written anew without them."""
    slots, due = i64s(panes.directory), i64s(panes.due)
    for k in range(count):
        spare_pane(panes, due[k])
    end = count  # what stays open is noted behind
    for at in range(panes.mask + 1):
        address = slots[at]
        slots[at] = 0
        if address != 0 and Store(address).window != NO_WINDOW:
            due[end] = address
            end += 1
    panes.count, panes.next_end = 0, LAST
    for k in range(count, end):
        enter_pane(panes, due[k])
