"""Room for state: memory that compiled code takes where it needs it, without the host.

A kernel allocates nothing. It answers "need memory" and says what for (`task`); whoever runs it
calls `make_room` and goes on, on a worker as on the thread of a stage. Memory comes from the system
in pieces, each with a line in front that says how it is given back, and counts against an account:
that of a query has a limit. Huge pages are not asked for: random looks at 5 M records were at most
a tenth faster with them, but the system may take 5 to 20 ms to find one when it is first touched.
"""

from __future__ import annotations

from headrace.stage.memory.atomics import fetch_add
from headrace.stage.memory.instructions import copy_bytes
from headrace.stage.memory.records import LINE, compiled, i32, i64, i64s, record
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
from headrace.stage.store import (
    CHUNK_BYTES,
    FIRST_SLOTS,
    LARGE_SLOTS,
    NO_WINDOW,
    NOT_ORDERED,
    SLOT_BYTES,
    SPARSE_SLOTS,
    Account,
    Store,
    move_slots,
)
from headrace.stage.strings.heap import (
    BLOCK_HEADER,
    Heap,
    OverflowBlock,
    calloc,
    free,
    malloc,
    release_overflow,
)
from headrace.stage.task import Task

HEAP_BYTES = 1 << 16  # of the first segment of a heap; the next ones are twice as large
STRING_SLACK = 1 << 20  # bytes of strings that are not worth looking after
MANY_RECORDS = 1 << 14  # of a window, from which on its chunks are large,
WIDE_SHIFT = 12  # of so many records, as a power of two
FIRST_ORDER = 256  # records that are sorted without asking for more room
QUEUE_WORDS = 3  # of a row that waits (`waiting`)


@record
class Piece:
    """The line in front of memory that was taken."""

    raw: i64  # what the system gave
    bytes: i64
    next: i64  # the piece that the owner took before


PIECE, STORE, HEAP, NUMBER = Piece.size, Store.size, Heap.size, i32.size


# ---- memory of the system ------------------------------------------------------------------


@compiled
def take_memory(account, count, zeroed):
    """Memory on a cache line. Raises MemoryError where there is none, or it is over the limit.

    >>> account = Account.allocate()
    >>> address = take_memory(account.address, 100, 0)
    >>> address % LINE, account.used
    (0, 100)
    >>> give_memory(account.address, address); account.used
    0
    """
    charge(account, count)
    whole = count + 3 * LINE
    raw = calloc(whole) if zeroed != 0 else malloc(whole)
    if raw == 0:
        charge(account, -count)
        raise MemoryError("the system gives no more memory for state")
    address = (raw + PIECE + LINE - 1) // LINE * LINE
    piece = Piece(address - PIECE)
    piece.raw = raw
    piece.bytes = count
    piece.next = 0
    return address


@compiled
def give_memory(account, address):
    """Give back what `take_memory` gave; 0 is nothing."""
    if address != 0:
        piece = Piece(address - PIECE)
        charge(account, -piece.bytes)
        free(piece.raw)


@compiled
def charge(account, count):
    """Count bytes; MemoryError: they are over the limit."""
    if account == 0:
        return
    book = Account(account)
    used = fetch_add(book, "used", count) + count
    if count > 0 and book.limit != 0 and used > book.limit:
        fetch_add(book, "used", -count)
        raise MemoryError("over the memory budget")


# ---- stores --------------------------------------------------------------------------------


@compiled
def slots_per_record(slots):
    """Slots of an index for each record: memory against probes that the processor guesses wrong."""
    return 4 if slots <= SPARSE_SLOTS else 2


@compiled
def start_store(store, entry_size, chunk_shift, keeps_text, account):
    """Make a record an empty store with little memory."""
    store.entry_size, store.chunk_shift, store.keeps_text = entry_size, chunk_shift, keeps_text
    store.account, store.window, store.epoch = account, NO_WINDOW, 1
    store.changed_at = (entry_size << chunk_shift) + LINE // 2
    store.count, store.capacity, store.changes = 0, 0, 0
    store.chunks, store.directory, store.pieces = 0, 0, 0
    store.index, store.old_index, store.past_index, store.next_index = 0, 0, 0, 0
    store.growing, store.heap, store.retired = 0, 0, 0
    store.live_bytes, store.wanted, store.slot_keys, store.next = 0, 0, 0, 0
    store.given, store.queued, store.sequence, store.sequence_room = NOT_ORDERED, 0, 0, 0
    use_index(store, FIRST_SLOTS)
    add_chunks(store)
    if keeps_text != 0:
        store.heap = take_memory(account, HEAP, 1)
        grow_heap(store, HEAP_BYTES)


@compiled
def use_index(store, slots):
    """A new, empty index."""
    set_index(store, take_memory(store.account, slots * SLOT_BYTES, 1), slots)


@compiled
def set_index(store, index, slots):
    """Use an index that is empty. The one after it is asked for early where it is large."""
    store.index, store.mask = index, slots - 1
    store.limit = slots // slots_per_record(slots)
    if 2 * slots >= LARGE_SLOTS:
        store.limit -= store.limit // 4


@compiled
def grow_index(store):
    """An index twice as large; slots move over step by step (`store.work_ahead`).

    A large one is taken before it is needed: the system clears its pages when they are first used,
    all of which a few rows would do.
    """
    old, slots = store.index, store.mask + 1
    if store.next_index == 0:
        store.next_index = take_memory(store.account, 2 * slots * SLOT_BYTES, 1)
        if store.count < slots // slots_per_record(slots):
            store.limit = slots // slots_per_record(slots)
            store.touched, store.growing = 0, 1
            return
    while store.old_index != 0:  # inserts came too fast for the steps
        move_slots(store)
    give_memory(store.account, store.past_index)  # that one is empty
    store.past_index, store.old_index, store.old_mask, store.moved = 0, old, slots - 1, 0
    set_index(store, store.next_index, 2 * slots)
    store.next_index, store.growing = 0, 1


@compiled
def add_chunks(store):
    """Double the chunks, by at most CHUNK_BYTES at a time."""
    shift = store.chunk_shift
    chunk = (store.changed_at + (NUMBER << shift) + LINE - 1) // LINE * LINE
    have = store.capacity >> shift
    more = max(1, min(have, CHUNK_BYTES // chunk))
    if have + more > store.directory:
        room = max(4, 2 * (have + more))
        directory = take_memory(store.account, room * SLOT_BYTES, 0)
        if have > 0:
            copy_bytes(directory, store.chunks, have * SLOT_BYTES)
            give_memory(store.account, store.chunks)
        store.chunks, store.directory = directory, room
    piece = take_memory(store.account, chunk * more, 0)
    Piece(piece - PIECE).next = store.pieces
    store.pieces = piece
    addresses = i64s(store.chunks)
    for k in range(more):
        addresses[have + k] = piece + k * chunk
    store.capacity = (have + more) << shift


@compiled
def grow_heap(store, count):
    """A new segment of the store's heap, for at least `count` bytes. The old ones stay."""
    heap = Heap(store.heap)
    size = max(count, min(2 * heap.capacity, CHUNK_BYTES))
    charge(store.account, size)
    block = malloc(BLOCK_HEADER + size)
    if block == 0:
        raise MemoryError("the system gives no more memory for strings")
    OverflowBlock(block).next = heap.overflow
    heap.overflow = block
    heap.overflow_bytes += size
    heap.base, heap.used, heap.capacity = block + BLOCK_HEADER, 0, size


@compiled
def free_heap(store, address):
    """Give back a heap with all its segments."""
    if address != 0:
        heap = Heap(address)
        charge(store.account, -heap.overflow_bytes)
        release_overflow(heap)
        give_memory(store.account, address)


@compiled
def free_store(store):
    """Give back all memory of a store."""
    piece = store.pieces
    while piece != 0:
        following = Piece(piece - PIECE).next
        give_memory(store.account, piece)
        piece = following
    give_memory(store.account, store.chunks)
    give_memory(store.account, store.index)
    give_memory(store.account, store.old_index)
    give_memory(store.account, store.past_index)
    give_memory(store.account, store.next_index)
    give_memory(store.account, store.sequence)
    free_heap(store, store.heap)
    free_heap(store, store.retired)
    store.pieces, store.chunks, store.directory, store.index, store.old_index = 0, 0, 0, 0, 0
    store.past_index, store.next_index, store.growing = 0, 0, 0
    store.heap, store.retired, store.sequence = 0, 0, 0


@compiled
def grow_store(store):
    """Room for at least one more record and for the string that was wanted."""
    if store.count >= store.capacity:
        add_chunks(store)
    if store.count >= store.limit:
        grow_index(store)
    if store.wanted > 0:
        heap = Heap(store.heap)
        if heap.used + store.wanted > heap.capacity:
            grow_heap(store, store.wanted)
        store.wanted = 0


# ---- strings of a store that nobody needs any more -------------------------------------------


@compiled
def wants_compaction(store):
    """Are most bytes of a store's strings of no use any more, and is room wanted for others?"""
    if store.wanted == 0 or store.heap == 0:
        return False
    return Heap(store.heap).overflow_bytes > 2 * store.live_bytes + STRING_SLACK


@compiled
def begin_compaction(store, live):
    """A new heap for the strings that live; gives its address."""
    address = take_memory(store.account, HEAP, 1)
    old, store.heap = store.heap, address
    grow_heap(store, 2 * live + store.wanted + STRING_SLACK)
    store.heap = old
    return address


@compiled
def end_compaction(store, address, live):
    """All strings were copied. The old heap stays until this happens again: the row in work may
    still read it."""
    free_heap(store, store.retired)
    store.retired, store.heap, store.live_bytes = store.heap, address, live


# ---- windows -------------------------------------------------------------------------------


@compiled
def new_window_store(panes):
    """Another spare store."""
    address = take_memory(panes.account, STORE, 1)
    store = Store(address)
    start_store(store, panes.entry_size, panes.chunk_shift, panes.keeps_text, panes.account)
    store.next = panes.spare
    panes.spare = address
    panes.spares += 1


@compiled
def lay_out_panes(panes, slots):
    """A directory of so many slots, with the windows that are open."""
    before, count, due = panes.directory, panes.mask + 1, panes.due
    panes.directory = take_memory(panes.account, slots * SLOT_BYTES, 1)
    panes.due = take_memory(panes.account, slots * SLOT_BYTES, 0)
    panes.mask, panes.count, panes.next_end = slots - 1, 0, LAST
    if before != 0:
        old = i64s(before)
        for at in range(count):
            if old[at] != 0:
                enter_pane(panes, old[at])
    give_memory(panes.account, before)
    give_memory(panes.account, due)


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
    queue = take_memory(panes.account, QUEUE_WORDS * room * SLOT_BYTES, 0)
    if panes.waiting > 0:
        copy_bytes(queue, panes.queue, QUEUE_WORDS * panes.waiting * SLOT_BYTES)
    give_memory(panes.account, panes.queue)
    panes.queue, panes.queue_room = queue, room


@compiled
def trim_panes(panes):
    """Give back the memory of spare stores, but for a few."""
    while panes.spares > MOST_SPARE:
        free_spare(panes)


@compiled
def free_spare(panes):
    address = panes.spare
    store = Store(address)
    panes.spare = store.next
    panes.spares -= 1
    free_store(store)
    give_memory(panes.account, address)


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
    give_memory(panes.account, panes.directory)
    give_memory(panes.account, panes.due)
    give_memory(panes.account, panes.queue)
    panes.directory, panes.due, panes.count, panes.gathered = 0, 0, 0, 0
    panes.queue, panes.queue_room, panes.waiting = 0, 0, 0


# ---- what a kernel asks for ------------------------------------------------------------------


@compiled
def make_room(task_address):
    """What the kernel lacked when it answered NEED_MEMORY."""
    task = Task(task_address)
    if task.needs_window != 0:
        panes = Panes(task.panes)
        if panes.partial != 0:  # windows that were given out have stayed open
            close_panes(panes, panes_with(panes, False))
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
        give_memory(0, task.order)
        words = 4 * records + COUNTERS  # two halves of (prefix, number), and what sorting needs
        task.order = take_memory(0, words * SLOT_BYTES, 0)
        task.order_room, task.needs_order = records, 0
    else:
        grow_store(Store(task.need))
    return 0
