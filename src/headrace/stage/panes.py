"""The open panes of an aggregate, for compiled code: stores by the number of the pane.

A pane belongs to the windows that end at `first`, every `step` later, and at `last`
(`plan.windows`). It takes a spare store when it opens; when its last window was given out, its
store is emptied and is a spare one again. Where there is none, or no room in the directory, `room`
makes some.
"""

from __future__ import annotations

from .memory.records import compiled, i64, i64s, record
from .store import NO_WINDOW, Store, clear_store
from .strings.hashing import hash_int

LAST = (1 << 63) - 1  # later than every window
MOST_SPARE = 8  # closed windows whose memory is kept for new ones


@record
class Panes:
    """The open panes. Written by the thread that runs the operator."""

    step: i64  # from the end of a window to that of the next one of a pane; fixed
    directory: i64  # an open-addressing table of the addresses of open stores; 0 is a free slot
    mask: i64
    due: i64  # memory for as many addresses as the directory has slots
    count: i64  # open panes
    opened: i64  # panes so far, and how often one was emptied: the next serial
    next_end: i64  # the end of the window that is over first
    spare: i64  # the first of the empty stores, which are linked by `next`; 0: there is none
    spares: i64  # how many there are
    gathered: i64  # the store in which the panes of a window are brought together; 0: there is none
    partial: i64  # fixed: windows are given out as partial results, and stay open
    taking: i64  # which pane takes rows that wait for their time (`waiting`)
    queue: i64  # memory for their order,
    queue_room: i64  # for so many,
    waiting: i64  # of which there are
    entry_size: i64  # fixed: of the records of a store,
    chunk_shift: i64  # and how they lie
    keeps_text: i64
    account: i64  # fixed: see Store


# ---- one window ----------------------------------------------------------------------------


@compiled
def find_pane(panes, pane):
    """The address of the store of a pane, or 0."""
    slots = i64s(panes.directory)
    at = hash_int(pane) & panes.mask
    while slots[at] != 0:
        if Store(slots[at]).window == pane:
            return slots[at]
        at = (at + 1) & panes.mask
    return 0


@compiled
def lacks_pane(panes):
    """Must the host make room before another pane can be opened?"""
    return panes.spare == 0 or 2 * (panes.count + 1) > panes.mask + 1


@compiled
def take_spare(panes):
    """An empty store, of which there is one."""
    address = panes.spare
    panes.spare = Store(address).next
    panes.spares -= 1
    return address


@compiled
def open_pane(panes, pane, first, last):
    """Open a pane that is not open, with a spare store, by the ends of its windows. Gives the
    address of the store."""
    address = take_spare(panes)
    store = Store(address)
    store.window, store.first, store.last = pane, first, last
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
    """Put an open pane into the directory."""
    slots = i64s(panes.directory)
    at = hash_int(Store(address).window) & panes.mask
    while slots[at] != 0:
        at = (at + 1) & panes.mask
    slots[at] = address
    panes.count += 1
    panes.next_end = min(panes.next_end, Store(address).first)


@compiled
def spare_pane(panes, address):
    """Empty a store and keep it for another pane."""
    store = Store(address)
    clear_store(store)
    store.next = panes.spare
    panes.spare = address
    panes.spares += 1


# ---- many panes ----------------------------------------------------------------------------


@compiled
def closed_panes(panes, watermark):
    """Note in `panes.due` the panes of which a window ends at or before a watermark, in order; how
    many?"""
    slots, due, count = i64s(panes.directory), i64s(panes.due), 0
    for at in range(panes.mask + 1):
        if slots[at] != 0 and Store(slots[at]).first <= watermark:
            due[count] = slots[at]
            count += 1
    sort_panes(panes, count)
    return count


@compiled
def note_window(panes, watermark):
    """Note in `panes.due` the panes of the window that is over next, in order, if it ends at or
    before a watermark; how many?"""
    slots, panes.next_end = i64s(panes.directory), LAST
    for at in range(panes.mask + 1):
        if slots[at] != 0:
            panes.next_end = min(panes.next_end, Store(slots[at]).first)
    return closed_panes(panes, panes.next_end) if panes.next_end <= watermark else 0


@compiled
def pass_window(panes, count):
    """The window whose panes are noted was given out: a pane goes on to its next one, or closes."""
    due, closed = i64s(panes.due), 0
    for k in range(count):
        store = Store(due[k])
        if store.first >= store.last:
            due[closed] = due[k]
            closed += 1
        else:
            store.first += panes.step
    if closed > 0:
        close_panes(panes, closed)


@compiled
def sort_panes(panes, count):
    """Order what is noted by pane: Shell's sort, for mostly there are one or two."""
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
    """Note in `panes.due` the panes that have records, or (False) those that have none."""
    slots, due, count = i64s(panes.directory), i64s(panes.due), 0
    for at in range(panes.mask + 1):
        if slots[at] != 0 and (Store(slots[at]).count > 0) == records:
            due[count] = slots[at]
            count += 1
    return count


@compiled
def empty_panes(panes, count):
    """Forget the records of the panes that are noted; they stay open."""
    due = i64s(panes.due)
    for k in range(count):
        store = Store(due[k])
        pane = store.window
        clear_store(store)
        store.window = pane
        renew_pane(panes, store)


@compiled
def close_panes(panes, count):
    """Close the panes that are noted: the directory is written anew without them."""
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
