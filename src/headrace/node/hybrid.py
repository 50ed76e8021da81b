"""The hybrid queue of an operator whose state is partitioned (Ordered §4.3, fig. 7).

Key groups lie in *parts*, each with its own state. A slice is sorted by part; what a part has of it
is an item. Items lie in the queues of their parts, and the master queue holds the numbers of parts,
one for each item, in the order of arrival. Who takes a number counts it (`Part.count`): the first
one has the part until the count is 0 again; the others leave, and have so delegated an item to it.
Nobody waits, and the items of a part are worked on one after the other, in their order.

It differs from the figure in two ways. An item is all that a slice has for a part, not a tuple; who
takes a slice in sorts it (`sort_rows`), several at a time, and only putting in is serial: as in the
reorder buffer (`reorder`), who finds the flag set leaves, and who has it looks again. And a part
may be put down in the middle of an item (`park`), as nobody waits for room: it keeps its count, so
the next items are delegated to whoever goes on with it.

The shared queue (§4.1) is there to be compared with: a number and its part are taken at once, under
a lock (`take_locked`), so where the part is somebody's all wait.

No queue is ever full: a slice that is sorted has a serial inside the window of the reorder buffer.
"""

from __future__ import annotations

from headrace.node.lock import Lock, acquire, release
from headrace.stage.memory.atomics import (
    cas,
    exchange,
    fetch_add,
    load_acquire,
    load_relaxed,
    store_relaxed,
    store_release,
)
from headrace.stage.memory.records import compiled, i32s, i64, i64s, line, record, u8s
from headrace.stage.store import GROUPS, key_group

NO_PART, BUSY = -1, -2


@record
class SortedSlice:
    """A slice in its place of the window. Written by who has sealed it."""

    sorted: i64 = line()  # its serial, plus 1, when the rest is there
    left: i64 = line()  # parts that are not done with it; written by who is
    block: i64 = line()
    first: i64
    count: i64  # of rows; 0: a mark
    split: i64
    due: i64
    hashes: i64  # address of those of its keys,
    places: i64  # and of the places of its rows
    present: i64  # parts that have rows of it
    part_count: i64 = line()  # fixed
    order: i64  # fixed: address of the numbers of these parts, as their first rows come
    parts: i64  # fixed: address of the part of each row
    rows: i64  # fixed: address of the numbers of its rows, those of a part behind each other,
    starts: i64  # fixed: address of where those of each part begin, and in the end of their number,
    ends: i64  # fixed: and, while they are being sorted, of where those so far end


@record
class Part:
    """Some key groups: who works on their rows, and which slices have some."""

    count: i64 = line()  # numbers taken from the master queue whose items are not done
    parked: i64 = line()  # it was put down in the middle of an item
    put: i64 = line()  # items so far; written by who puts them in
    begun: i64 = line()  # items so far; written by who has the part,
    rows: i64  # and the rows that were worked on
    passed: i64 = line()  # the place of a row that has failed: all before it was given
    at: i64 = line()  # the place of the row that sending waits for; written by who sends
    serials: i64 = line()  # fixed: address of the serials of its items, a ring
    run: i64  # fixed: address of its Run,
    port: i64  # and of the port for what its rows become


@record
class HybridQueue:
    """The queue."""

    putting: i64 = line()  # the flag; written by everybody
    next: i64 = line()  # the serial to be put in next; written by who has the flag
    tail: i64 = line()  # of the master queue; likewise
    head: i64 = line()  # written by everybody
    parked: i64 = line()  # how many parts are; written by everybody
    lock: Lock = line()  # of a shared queue
    mask: i64 = line()  # fixed: numbers that the master queue can take, less 1: a power of two
    master: i64  # fixed: address of its ring
    part_count: i64  # fixed
    parts: i64  # fixed: address of the Parts
    window: i64  # fixed: slices at most, less 1: a power of two
    slices: i64  # fixed: address of the SortedSlices
    locks: i64  # fixed: is it a shared one?
    sort: i64  # fixed: address of `sort_rows`
    hash_column: i64  # fixed: of the rows that come: with the hashes of their keys,
    place_column: i64  # and with their places


@compiled
def slice_of(queue, serial):
    """Where the slice with a serial lies."""
    return SortedSlice(queue.slices)[serial & queue.window]


@compiled
def is_sorted(slice, serial):
    """Is the slice with this serial there?"""
    return load_acquire(slice, "sorted") == serial + 1


# ---- sorting -------------------------------------------------------------------------------


@compiled
def sort_rows(address):
    """Sort the rows of a slice by part. Called by its address: it is compiled also where the loop
    around it is not yet."""
    slice = SortedSlice(address)
    hashes, parts, order = i64s(slice.hashes), u8s(slice.parts), u8s(slice.order)
    rows, starts, ends = i32s(slice.rows), i32s(slice.starts), i32s(slice.ends)
    share, present = GROUPS // slice.part_count, 0
    for number in range(slice.part_count):
        ends[number] = 0
    for row in range(slice.count):
        number = key_group(hashes[row]) // share
        parts[row] = number
        if ends[number] == 0:
            order[present] = number
            present += 1
        ends[number] += 1
    start = 0
    for number in range(slice.part_count):
        starts[number] = start
        start += ends[number]
        ends[number] = starts[number]
    starts[slice.part_count] = start
    for row in range(slice.count):
        number = parts[row]
        rows[ends[number]] = row
        ends[number] += 1
    slice.present = slice.left = present
    return present


# ---- putting in ----------------------------------------------------------------------------


@compiled
def put_in(queue, serial):
    """A slice, or a mark, is there; put in all that are in turn, unless somebody else does."""
    store_release(slice_of(queue, serial), "sorted", serial + 1)
    while True:
        taken = exchange(queue, "putting", 1)
        if taken != 0:
            return  # who has the flag looks again when it is cleared
        put_in_order(queue)
        exchange(queue, "putting", 0)  # an update: it sees what those have sorted who came
        serial = load_acquire(queue, "next")
        if not is_sorted(slice_of(queue, serial), serial):
            return


@compiled
def put_in_order(queue):
    """Put in slices until one is missing."""
    serial = load_relaxed(queue, "next")
    while is_sorted(slice_of(queue, serial), serial):
        put_slice(queue, slice_of(queue, serial), serial)
        serial += 1
        store_release(queue, "next", serial)


@compiled
def put_slice(queue, slice, serial):
    """The items of a slice: each is in the queue of its part before its number can be taken."""
    order, tail = u8s(slice.order), load_relaxed(queue, "tail")
    for k in range(slice.present):
        number = order[k]
        put_item(queue, Part(queue.parts)[number], serial)
        store_relaxed(i64s(queue.master), tail & queue.mask, number)
        tail += 1
        store_release(queue, "tail", tail)


@compiled
def put_item(queue, part, serial):
    """An item for a part."""
    i64s(part.serials)[part.put & queue.window] = serial
    part.put += 1


# ---- taking out ----------------------------------------------------------------------------


@compiled
def take(queue):
    """A part that is the caller's now, until its items are `done`; NO_PART: there is none.

    >>> queue, part = HybridQueue.allocate(), Part.allocate()
    >>> queue.parts = part.address
    >>> take(queue) == NO_PART
    True
    """
    while True:
        head = load_acquire(queue, "head")
        if head >= load_acquire(queue, "tail"):
            return NO_PART
        number = load_relaxed(i64s(queue.master), head & queue.mask)
        taken = cas(queue, "head", head, head + 1)
        if taken:
            before = fetch_add(Part(queue.parts)[number], "count", 1)
            if before == 0:
                return number


@compiled
def take_locked(queue):
    """The same of a shared queue: the next number together with its part. BUSY: somebody has it,
    and until its item is done nobody goes on. (In fig. 5 an item lies in no queue of its part, so
    without the lock it could be overtaken.)"""
    number = NO_PART
    acquire(queue.lock)
    head = load_relaxed(queue, "head")
    if head < load_acquire(queue, "tail"):
        number = load_relaxed(i64s(queue.master), head & queue.mask)
        held = load_acquire(Part(queue.parts)[number], "count")
        if held != 0:
            number = BUSY
        else:
            store_relaxed(Part(queue.parts)[number], "count", 1)
            store_relaxed(queue, "head", head + 1)
    release(queue.lock)
    return number


@compiled
def next_item(queue, part):
    """The serial of the slice that the next item belongs to. By who has the part: there is one."""
    begun = part.begun
    part.begun = begun + 1
    return i64s(part.serials)[begun & queue.window]


@compiled
def done(part):
    """An item is done. Is there one that was delegated? If not, nobody has the part any more."""
    before = fetch_add(part, "count", -1)
    return before > 1


# ---- parts that are put down ---------------------------------------------------------------


@compiled
def park(queue, part):
    """Put a part down in the middle of an item."""
    fetch_add(queue, "parked", 1)
    store_release(part, "parked", 1)


@compiled
def resume(queue, first):
    """A part, from a number on, that was put down and is the caller's now; NO_PART: none was."""
    parked = load_acquire(queue, "parked")
    if parked == 0:
        return NO_PART
    for number in range(first, queue.part_count):
        part = Part(queue.parts)[number]
        is_parked = load_relaxed(part, "parked")
        if is_parked != 0:
            taken = cas(part, "parked", 1, 0)
            if taken:
                fetch_add(queue, "parked", -1)
                return number
    return NO_PART
