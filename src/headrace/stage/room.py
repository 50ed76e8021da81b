"""Room for state: what a kernel lacks is made by who runs it, without the host.

A kernel allocates nothing. It answers "need memory" and says what for (`task`); whoever runs it
calls `make_room` and goes on, on a worker as on the thread of a stage.
"""

from __future__ import annotations

from headrace.stage.memory.records import compiled, i64s
from headrace.stage.ordering import COUNTERS
from headrace.stage.panes import (
    LAST,
    MOST_SPARE,
    Panes,
    close_panes,
    enter_pane,
    lacks_pane,
    open_pane,
    panes_with,
    spare_pane,
)
from headrace.stage.row_queue import ROW_BYTES, clear_queue, move_queue
from headrace.stage.store import SLOT_BYTES, Store
from headrace.stage.store_room import (
    NUMBER,
    PIECE,
    STORE,
    Piece,
    free_store,
    give_memory,
    grow_store,
    reserve_slots,
    start_store,
    take_memory,
)
from headrace.stage.task import Task

MANY_RECORDS = 1 << 14  # of a window, from which on its chunks are large,
WIDE_SHIFT = 12  # of so many records, as a power of two
FAR_TOO_LARGE = 8  # times the records of the windows that were closed last
FIRST_ORDER = 256  # records that are sorted without asking for more room


@compiled
def new_window_store(panes):
    """Another spare store, for about as many records as the pane has that ends first."""
    address = panes.headers
    if address != 0:
        panes.headers = Store(address).next
    else:
        address = take_memory(panes.account, STORE, 1)
    store = Store(address)
    start_store(store, panes.entry_size, panes.chunk_shift, panes.keeps_text, panes.account)
    store.next = panes.spare
    panes.spare = address
    panes.spares += 1
    if panes.listed > 0:
        reserve_slots(store, Store(i64s(panes.ends)[0]).count)


@compiled
def lay_out_panes(panes, slots):
    """A directory of so many slots, with the windows that are open, and what goes with it, in one
    piece. The one before stays, which the host may look at: all of them together are as large as
    the last one."""
    before, count, size = panes.directory, panes.mask + 1, slots * SLOT_BYTES
    panes.directory = take_memory(panes.account, 3 * size, 1)
    panes.due, panes.ends = panes.directory + size, panes.directory + 2 * size
    panes.mask, panes.count, panes.listed, panes.next_end = slots - 1, 0, 0, LAST
    if before != 0:
        old = i64s(before)
        for at in range(count):
            if old[at] != 0:
                enter_pane(panes, old[at])
    Piece(panes.directory - PIECE).next = before


@compiled
def grow_panes(panes):
    """Room for at least one more window."""
    if panes.spare == 0:
        new_window_store(panes)
    if 2 * (panes.count + 1) > panes.mask + 1:
        lay_out_panes(panes, 2 * (panes.mask + 1))


@compiled
def widen_panes(panes, records):
    """Windows of many records have larger chunks from now on: a directory of a thousand small ones
    is one more miss for every look. Spare stores of before are given back."""
    if records < MANY_RECORDS or panes.chunk_shift >= WIDE_SHIFT:
        return
    panes.chunk_shift = WIDE_SHIFT
    while panes.spare != 0:
        free_spare(panes)


@compiled
def grow_queue(panes, rows):
    """Room for so many rows that wait."""
    room = max(FIRST_ORDER, 2 * rows)
    queue = take_memory(panes.account, 2 * room * ROW_BYTES, 0)
    before = panes.queue
    move_queue(panes, queue, room)
    give_memory(panes.account, before)


@compiled
def enough_room(records):
    """The most room that is kept where there were so many records at last."""
    return max(MANY_RECORDS, FAR_TOO_LARGE * records)


@compiled
def trim_room(task, panes):
    """Give back the memory of spare stores, but for a few. Large ones go, too, and what they were
    sorted in, when the windows that closed last, and the rows that waited, were much fewer: others
    like them are not to be expected."""
    sorted_last = max(panes.closed_records, panes.run_end)
    if panes.closed_records >= 0 and task.order_room > 2 * enough_room(sorted_last):
        give_memory(0, task.order)
        task.order, task.order_room = 0, 0
    trim_panes(panes)


@compiled
def trim_panes(panes):
    """See `trim_room`."""
    while panes.spares > MOST_SPARE:
        free_spare(panes)
    most = enough_room(panes.closed_records)
    if panes.closed_records >= 0:
        kept, panes.closed_records = 0, -1
        while panes.spare != 0:
            store = Store(panes.spare)
            if store.capacity > most:
                free_spare(panes)
            else:
                panes.spare, store.next, kept = store.next, kept, store.address
        panes.spare = kept


@compiled
def free_spare(panes):
    """Give back the memory of a spare store, but for its header: the host may look at it."""
    address = panes.spare
    store = Store(address)
    panes.spare = store.next
    panes.spares -= 1
    free_store(store)
    store.next = panes.headers
    panes.headers = address


@compiled
def free_panes(panes):
    """Give back all memory of windows, open or not."""
    slots = i64s(panes.directory)
    for at in range(panes.mask + 1):
        if slots[at] != 0:
            free_store(Store(slots[at]))
            give_memory(panes.account, slots[at])
    if panes.gathered != 0:
        spare_pane(panes, panes.gathered)
    while panes.spare != 0:
        free_spare(panes)
    while panes.headers != 0:
        address = panes.headers
        panes.headers = Store(address).next
        give_memory(panes.account, address)
    while panes.directory != 0:
        address = panes.directory
        panes.directory = Piece(address - PIECE).next
        give_memory(panes.account, address)
    give_memory(panes.account, panes.queue)
    panes.due, panes.ends, panes.listed, panes.count, panes.gathered = 0, 0, 0, 0, 0
    panes.queue, panes.queue_room = 0, 0
    clear_queue(panes)


# ---- what a kernel asks for ------------------------------------------------------------------


@compiled
def make_room(task_address):
    """What the kernel lacked when it answered NEED_MEMORY."""
    task = Task(task_address)
    if task.needs_window != 0:
        panes = Panes(task.panes)
        if panes.emptied != 0:  # windows that were given out have stayed open
            close_panes(panes, panes_with(panes, False))
            panes.emptied = 0
        if lacks_pane(panes):
            grow_panes(panes)
        open_pane(panes, task.need_window, task.need_first, task.need_last)
        task.needs_window = 0
    elif task.needs_spare != 0:
        new_window_store(Panes(task.panes))
        task.needs_spare = 0
    elif task.needs_queue != 0:
        grow_queue(Panes(task.panes), task.needs_queue)
        task.needs_queue = 0
    elif task.needs_sequence != 0:
        store = Store(task.need)
        give_memory(store.account, store.sequence)
        store.sequence_room = 0  # where the system gives no more
        store.sequence = 0
        store.sequence = take_memory(store.account, store.count * NUMBER, 0)
        store.sequence_room, task.needs_sequence = store.count, 0
    elif task.needs_order != 0:
        records = max(FIRST_ORDER, 2 * task.needs_order)
        before, task.order, task.order_room = task.order, 0, 0  # where the system gives no more
        give_memory(0, before)
        words = 4 * records + COUNTERS  # two halves of (prefix, number), and what sorting needs
        task.order = take_memory(0, words * SLOT_BYTES, 0)
        task.order_room, task.needs_order = records, 0
    else:
        grow_store(Store(task.need))
    return 0
