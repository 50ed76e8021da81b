"""The open panes of an aggregate, for compiled code: stores by the number of the pane.

A pane belongs to the windows that end at `first`, every `step` later, and at `last`
(`plan.windows`). It takes a spare store when it opens; when its last window was given out, its
store is emptied and is a spare one again. Where there is none, or no room in the directory, `room`
makes some. A heap has the open panes by their next ends, so that it takes no longer to find the
window that is over next where many are open.
"""

from __future__ import annotations

from .memory.records import compiled, i64, i64s, record
from .store import NOT_LISTED, Store, clear_store
from .strings.hashing import hash_int

LAST = (1 << 63) - 1  # later than every window
WAITING = 1 << 62  # the first pane of rows that wait; all others are numbered by time
MOST_SPARE = 8  # closed windows whose memory is kept for new ones


@record
class Panes:
    """The open panes. Written by the thread that runs the operator."""

    step: i64  # from the end of a window to that of the next one of a pane; fixed,
    delay: i64  # but for the last one, where this is not 0; fixed
    directory: i64  # an open-addressing table of the addresses of open stores; 0 is a free slot
    mask: i64
    due: i64  # memory for as many addresses as the directory has slots
    ends: i64  # likewise: a heap of the addresses of open stores by `first`, but those in `due`
    listed: i64  # how many are in it
    count: i64  # open panes
    emptied: i64  # of these may have no records, since they were given out as partial results
    opened: i64  # panes so far, and how often one was emptied: the next serial
    next_end: i64  # the end of the window that is over first
    spare: i64  # the first of the empty stores, which are linked by `next`; 0: there is none
    spares: i64  # how many there are
    closed_records: i64  # the most of a store since spare ones were looked through; -1: none closed
    headers: i64  # the first of the stores whose memory was given back but for the record, likewise
    gathered: i64  # the store in which the panes of a window are brought together; 0: there is none
    partial: i64  # fixed: windows are given out as partial results, and stay open
    taking: i64  # which pane takes rows that wait for their time (`waiting`)
    queue: i64  # memory for their order (`row_queue`), of two halves,
    queue_room: i64  # each for so many rows,
    waiting: i64  # of which there are
    run: i64  # the first row of those in order,
    run_end: i64  # and behind the last one; both in the first half
    heaped: i64  # rows of the heap, in the other half
    next_row: i64  # which of all of them goes on next
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
    list_end(panes, address)


@compiled
def leave_directory(panes, address):
    """Take an open pane out of the directory; those that lie behind its slot because it was taken
    move up."""
    slots, gap = i64s(panes.directory), hash_int(Store(address).window) & panes.mask
    while slots[gap] != address:
        gap = (gap + 1) & panes.mask
    at = (gap + 1) & panes.mask
    while slots[at] != 0:
        wanted = hash_int(Store(slots[at]).window) & panes.mask
        if (at - wanted) & panes.mask >= (at - gap) & panes.mask:
            slots[gap] = slots[at]
            gap = at
        at = (at + 1) & panes.mask
    slots[gap] = 0
    panes.count -= 1


@compiled
def spare_pane(panes, address):
    """Empty a store and keep it for another pane."""
    store = Store(address)
    panes.closed_records = max(panes.closed_records, store.count)
    clear_store(store)
    store.next = panes.spare
    panes.spare = address
    panes.spares += 1


@compiled
def holds_rows(store):
    """Is an open pane one of rows that wait?"""
    return store.window >= WAITING


# ---- the next ends -------------------------------------------------------------------------


@compiled
def ends_before(one, other):
    """Does a window of one store end before those of another one? Of one window, by pane."""
    if one.first != other.first:
        return one.first < other.first
    return one.window < other.window


@compiled
def list_end(panes, address):
    """Put an open pane into the heap."""
    panes.listed += 1
    rise(panes, address, panes.listed - 1)


@compiled
def rise(panes, address, place):
    """Put a pane into the free `place` of the heap, or up from there."""
    heap, store = i64s(panes.ends), Store(address)
    while place > 0 and ends_before(store, Store(heap[(place - 1) // 2])):
        heap[place] = heap[(place - 1) // 2]
        Store(heap[place]).place = place
        place = (place - 1) // 2
    heap[place], store.place = address, place
    panes.next_end = Store(heap[0]).first


@compiled
def sink(panes, address, place):
    """Put a pane into the free `place` of the heap, or down from there; gives where."""
    heap, store = i64s(panes.ends), Store(address)
    while 2 * place + 1 < panes.listed:
        below = 2 * place + 1
        if below + 1 < panes.listed and ends_before(Store(heap[below + 1]), Store(heap[below])):
            below += 1
        if not ends_before(Store(heap[below]), store):
            break
        heap[place] = heap[below]
        Store(heap[place]).place = place
        place = below
    heap[place], store.place = address, place
    return place


@compiled
def strike_end(panes, store):
    """Take a pane out of the heap, if it is there."""
    if store.place == NOT_LISTED:
        return
    heap, place = i64s(panes.ends), store.place
    panes.listed -= 1
    store.place = NOT_LISTED
    if place < panes.listed:
        last = heap[panes.listed]
        rise(panes, last, sink(panes, last, place))
    panes.next_end = Store(heap[0]).first if panes.listed > 0 else LAST


@compiled
def order_ends(panes):
    """All open panes into the heap: their ends may have changed."""
    slots, heap, panes.listed = i64s(panes.directory), i64s(panes.ends), 0
    for at in range(panes.mask + 1):
        if slots[at] != 0:
            heap[panes.listed] = slots[at]
            panes.listed += 1
    for place in range(panes.listed - 1, -1, -1):
        sink(panes, heap[place], place)
    panes.next_end = Store(heap[0]).first if panes.listed > 0 else LAST


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
    """Take the panes of the window that is over next out of the heap, if it ends at or before a
    watermark, and note them in `panes.due`, in order; how many?"""
    heap, due, count, end = i64s(panes.ends), i64s(panes.due), 0, panes.next_end
    if end > watermark:
        return 0
    while panes.listed > 0 and Store(heap[0]).first == end:
        due[count] = heap[0]
        strike_end(panes, Store(heap[0]))
        count += 1
    return count


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
            store.first = end_behind(panes, store)
            list_end(panes, due[k])
    close_panes(panes, closed)


@compiled
def end_behind(panes, store):
    """When the next window of a pane ends."""
    last_but_one = store.last - panes.delay
    if store.first < last_but_one:
        return min(store.first + panes.step, last_but_one)
    return store.last


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
    panes.emptied += count


@compiled
def close_panes(panes, count):
    """Close the panes that are noted."""
    due = i64s(panes.due)
    for k in range(count):
        strike_end(panes, Store(due[k]))
        leave_directory(panes, due[k])
        spare_pane(panes, due[k])
