"""Memory of stores: taken from the system by compiled code where it needs it, without the host.

It comes in pieces, each with a line in front that says how it is given back, and counts against an
account: that of a query has a limit. Huge pages are not asked for: random looks at 5 M records were
at most a tenth faster with them, but the system may take 5 to 20 ms to find one when it is first
touched.
"""

from __future__ import annotations

from headrace.stage.memory.atomics import fetch_add
from headrace.stage.memory.instructions import copy_bytes
from headrace.stage.memory.pages import map_pages, unmap_pages
from headrace.stage.memory.records import LINE, compiled, i32, i64, i64s, record
from headrace.stage.store import (
    CHUNK_BYTES,
    FIRST_SLOTS,
    LARGE_SLOTS,
    NO_WINDOW,
    NOT_LISTED,
    NOT_ORDERED,
    SLOT_BYTES,
    SPARSE_SLOTS,
    Account,
    Store,
    lacks_records,
    move_slots,
    note_text,
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

HEAP_BYTES = 1 << 16  # of the first segment of a heap; the next ones are twice as large
STRING_SLACK = 1 << 20  # bytes of strings that are not worth looking after
MAPPED_BYTES = 1 << 20  # of a piece that has pages of its own, which the system gets back


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
    if whole >= MAPPED_BYTES:
        raw = map_pages(whole)
    else:
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
        whole = piece.bytes + 3 * LINE
        if whole >= MAPPED_BYTES:
            unmap_pages(piece.raw, whole)
        else:
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
    store.place, store.numbered = NOT_LISTED, 0
    use_index(store, FIRST_SLOTS)
    add_chunks(store)
    if keeps_text != 0:
        store.heap = take_memory(account, HEAP, 1)
        grow_heap(store, HEAP_BYTES)
    note_text(store)


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
def reserve_slots(store, records):
    """An index for so many records at once, where there are none yet; no more are expected."""
    slots = FIRST_SLOTS
    while slots // slots_per_record(slots) < records:
        slots *= 2
    if slots > store.mask + 1 and store.count == 0:
        before = store.index
        use_index(store, slots)
        store.limit = slots // slots_per_record(slots)
        give_memory(store.account, before)


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
    store.count, store.capacity, store.text_bytes = 0, 0, 0


@compiled
def grow_store(store):
    """Room for what was lacking: the string that was wanted, a record, or its place in the index.
    Whoever needs more than one of them asks again."""
    if store.wanted > 0:
        heap = Heap(store.heap)
        if heap.used + store.wanted > heap.capacity:
            grow_heap(store, store.wanted)
            note_text(store)
        store.wanted = 0
    elif lacks_records(store):
        add_chunks(store)
    elif store.count >= store.limit:
        grow_index(store)


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
    note_text(store)
