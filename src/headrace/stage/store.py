"""Records found by key: the state of operators, open windows and static tables.

Records lie dense, in order of arrival, in chunks that never move. An open-addressing index of
one word per slot finds them: the record's number in the high half, the low half of the key's hash
as a tag. The index grows step by step: a larger one is put beside the old one, and every insert
moves a few slots over. Pages of large ones are touched, and given back, step by step, too. What
fills a store allocates nothing: it answers "need memory", and `make_room` makes some.

What depends on the layout of the key (find, insert) is generated: `generate/stores.py`.
"""

from __future__ import annotations

import numpy as np

from headrace.plan.partition import GROUPS

from .memory.atomics import fetch_add
from .memory.instructions import clear_bytes, prefetch
from .memory.pages import PAGE, discard
from .memory.records import compiled, i32s, i64, i64s, line, record
from .strings.hashing import hash_int
from .strings.heap import Heap, OverflowBlock, release_overflow
from .strings.words import SHORT, byte_length, equal_words, keep_words

TAG = 0xFFFFFFFF  # the low half of a hash
NUMBER_SHIFT = 32
SLOT_BYTES = i64.size
FIRST_SLOTS = 64
SPARSE_SLOTS = 1 << 16  # up to so many, a quarter of the slots is used: few probes go wrong
MOVED_PER_INSERT = 16  # at least 8, so that the old index is empty before the next one is due
LARGE_SLOTS = 1 << 17  # of an index, from which on its pages are looked after
TOUCHED_PER_INSERT = 256  # bytes of the next index: all within an eighth of the records
GIVEN_PER_INSERT = 512  # bytes of the index before,
GIVEN_BYTES = 1 << 20  # so many at a time
NO_WINDOW = -(1 << 63)  # a store that is no open window
NOT_ORDERED = -1
NOT_LISTED = -1
CHUNK_BYTES = 1 << 24  # at most so much memory is taken at a time

GROUP_SHIFT = 57  # the key group is the top seven bits of the hash
BELOW_GROUP = (1 << GROUP_SHIFT) - 1


@record
class Account:
    """What the state and the blocks of a query take; everybody writes it."""

    used: i64 = line()
    limit: i64 = line()  # fixed: bytes; 0: there is none


@record
class Store:
    """Header of a store. All fields are written by the one thread that runs its operator."""

    count: i64  # records in use
    capacity: i64  # records that the chunks can take
    chunk_shift: i64  # records in a chunk, as a power of two
    chunks: i64  # address of the chunk addresses
    index: i64  # address of the slots; 0 is a free slot
    mask: i64
    slot_keys: i64  # address of the key beside each slot, for static tables of one integer key
    limit: i64  # records at which the index must grow
    old_index: i64  # the index before this one while it is being moved, else 0
    old_mask: i64 = line()
    moved: i64  # slots of the old index moved so far
    epoch: i64  # number of the current interval between snapshots
    changes: i64  # records changed in it; their numbers lie behind the records, chunk by chunk
    changed_at: i64  # fixed: where in a chunk they lie
    heap: i64  # address of the Heap with the bytes of long strings,
    text_bytes: i64  # and how many it has room for: what the host may look at at any time
    window: i64  # the number of the pane, for a store that is one
    serial: i64  # of that pane: no two have the same
    first: i64  # the end of the first window it belongs to that was not given out,
    last: i64  # and of the last one
    place: i64  # in the heap of these ends (`panes`), or NOT_LISTED
    given: i64  # of a pane whose records end one by one: how many have; NOT_ORDERED: no order yet
    queued: i64  # of a pane of rows that wait (`waiting`): how many were put into the queue
    numbered: i64  # of a pane of a join: the number of the next row that nobody looks for
    sequence: i64  # memory for that order: numbers of records
    sequence_room: i64  # for so many
    wanted: i64  # bytes of string that did not fit
    repeated: i64  # row whose key was there already
    initial: i64  # address of a user state record as it is in the beginning
    next: i64  # of a spare store (`panes`): the next one

    entry_size: i64 = line()  # fixed
    keeps_text: i64  # fixed
    account: i64  # fixed: the Account that its memory counts against; 0: none
    directory: i64  # chunks that there is room for in `chunks`
    pieces: i64  # the last Piece of chunks
    growing: i64  # is there something to be done with every insert?
    past_index: i64  # an index that was moved; given back when the next one is made,
    given_back: i64  # and its pages before that: so many bytes
    next_index: i64  # the one after this one; 0: it was not asked for yet
    touched: i64  # bytes of it
    retired: i64  # a heap whose strings were copied to another one
    live_bytes: i64  # of strings, when they were last copied


@compiled
def key_group(key_hash):
    """The key group of a hash.

    >>> key_group(-1), key_group(0)
    (127, 0)
    """
    return (key_hash >> GROUP_SHIFT) & (GROUPS - 1)


@compiled
def in_group(key_hash, group):
    """A hash with a key group of its own.

    >>> key_group(in_group(-1, 3)), key_group(in_group(5, 127)), in_group(-1, 127)
    (3, 127, -1)
    """
    signed = (group ^ (GROUPS // 2)) - GROUPS // 2
    return (key_hash & BELOW_GROUP) | (signed << GROUP_SHIFT)


@compiled
def group_of_part(part, parts):
    """The key group of a part, where there are so many; a ValueError where it is none of them.

    >>> [group_of_part(part, 3) for part in range(3)]
    [0, 43, 86]
    """
    if part < 0 or part >= parts:
        raise ValueError("the key is in a part that is not there: 0 is the first one")
    return (part * GROUPS + parts - 1) // parts  # the first group of an owner, if they are as many


def key_groups(hashes: np.ndarray) -> np.ndarray:
    """The key groups of hashes.

    >>> key_groups(np.array([-1, 0])).tolist()
    [127, 0]
    """
    return (hashes >> GROUP_SHIFT) & (GROUPS - 1)


def first_group(owner: int, owners: int) -> int:
    """The first key group of an owner; the last one is before that of the next owner.

    >>> [first_group(k, 3) for k in range(4)]
    [0, 43, 86, 128]
    """
    return -(-owner * GROUPS // owners)


def owners(hashes: np.ndarray, shards: int) -> np.ndarray:
    """The shards that own the key groups of hashes.

    >>> owners(np.array([-1, 0]), 7).tolist()
    [6, 0]
    """
    return (key_groups(hashes) * shards // GROUPS).astype(np.int32)


@compiled
def entry_at(chunks, shift, number, size):
    """Where a record lies; `size` is that of its layout.

    Kernels keep a store's chunks and shift in locals: the compiler cannot know that what they
    write elsewhere leaves the header alone, and would load it again for every row.
    """
    return i64s(chunks)[number >> shift] + (number & ((1 << shift) - 1)) * size


@compiled
def entry_address(store, number, size):
    """Where a record of a store lies."""
    return entry_at(store.chunks, store.chunk_shift, number, size)


@compiled
def first_slot(key_hash, mask):
    """Where the search for a key begins."""
    return key_hash & TAG & mask


@compiled
def number_in(slot):
    """The number of the record that a slot points to; -1 for a free slot."""
    return (slot >> NUMBER_SHIFT) - 1


@compiled
def put_slot(index, mask, tag, number):
    """Enter a record that the index does not hold yet."""
    slots = i64s(index)
    at = tag & mask
    while slots[at] != 0:
        at = (at + 1) & mask
    slots[at] = ((number + 1) << NUMBER_SHIFT) | tag


@compiled
def move_slots(store):
    """Move a few slots from the old index to the new one."""
    slots = i64s(store.old_index)
    end = min(store.moved + MOVED_PER_INSERT, store.old_mask + 1)
    for at in range(store.moved, end):
        slot = slots[at]
        if slot != 0:
            put_slot(store.index, store.mask, slot & TAG, (slot >> NUMBER_SHIFT) - 1)
    store.moved = end
    if end > store.old_mask:
        store.past_index, store.given_back = store.old_index, 0
        store.old_index = 0


@compiled
def work_ahead(store):
    """A little of the work that growing takes, so that it never takes long at once."""
    if store.old_index != 0:
        move_slots(store)
    elif store.past_index != 0 and store.given_back <= store.old_mask * SLOT_BYTES:
        give_pages(store)
    elif store.next_index != 0 and store.touched < 2 * (store.mask + 1) * SLOT_BYTES:
        touch_pages(store)
    else:
        store.growing = 0


@compiled
def give_pages(store):
    """Let the system have pages of the index before this one, now and then."""
    store.given_back += GIVEN_PER_INSERT
    if store.given_back % GIVEN_BYTES == 0:
        first = store.past_index + store.given_back - GIVEN_BYTES
        pages = (first + PAGE - 1) // PAGE * PAGE
        discard(pages, GIVEN_BYTES - PAGE)


@compiled
def touch_pages(store):
    """Let the system clear pages of the index after this one."""
    if store.touched % PAGE == 0:
        i64s(store.next_index)[store.touched // SLOT_BYTES] = 0
    store.touched += TOUCHED_PER_INSERT


@compiled
def lacks_records(store):
    """Must the owner make room before another record can come, which the index does not hold?"""
    return store.count >= store.capacity


@compiled
def is_full(store):
    """Must the owner make room before another record can come?"""
    return lacks_records(store) or store.count >= store.limit


@compiled
def lacks_bytes(store, count):
    """Must the owner make room before `count` bytes of string can be kept?"""
    heap = Heap(store.heap)
    if heap.used + count <= heap.capacity:
        return False
    store.wanted = count
    return True


@compiled
def take_number(store):
    """Take the next record; room has been checked. Gives its number."""
    number = store.count
    store.count = number + 1
    return number


@compiled
def add_number(store, key_hash):
    """The same for a key that is not there, and that can be found from now on."""
    number = take_number(store)
    if store.growing != 0:
        work_ahead(store)
    put_slot(store.index, store.mask, key_hash & TAG, number)
    return number


@compiled
def spread_hash(key_hash, side, number):
    """The hash of one of many records of a key, in the key group of the key. Any of these hashes
    stands for that of the key.

    >>> one, other = spread_hash(-5, 0, 0), spread_hash(-5, 1, 7)
    >>> one == other, key_group(one) == key_group(other) == key_group(-5)
    (False, True)
    >>> spread_hash(one, 1, 7) == other
    True
    """
    tag = hash_int((key_hash >> NUMBER_SHIFT) ^ hash_int(2 * number + side)) & TAG
    return (key_hash & ~TAG) | tag


@compiled
def clear_store(store):
    """Forget all records but keep the memory."""
    store.count = 0
    store.changes = 0
    if store.old_index != 0:
        store.past_index, store.given_back = store.old_index, 0
        store.old_index = 0
    store.window, store.given, store.queued, store.numbered = NO_WINDOW, NOT_ORDERED, 0, 0
    if store.heap != 0:
        keep_last_segment(store, Heap(store.heap))
        note_text(store)
    clear_bytes(store.index, (store.mask + 1) * SLOT_BYTES)


@compiled
def note_text(store):
    """The heap has another size, or is another one."""
    store.text_bytes = Heap(store.heap).overflow_bytes if store.heap != 0 else 0


@compiled
def keep_last_segment(store, heap):
    """Forget all strings; only the newest segment of the heap, the largest, is kept."""
    block = heap.overflow
    if block != 0:
        heap.overflow = OverflowBlock(block).next
        older = heap.overflow_bytes - heap.capacity
        release_overflow(heap)
        OverflowBlock(block).next = 0
        heap.overflow, heap.overflow_bytes = block, heap.capacity
        if store.account != 0:
            fetch_add(Account(store.account), "used", -older)
    heap.used = 0


@compiled
def note_change(store, entry, number):
    """Remember that a record was changed in this interval; `entry` has an `epoch`."""
    if entry.epoch != store.epoch:
        entry.epoch = store.epoch
        shift, at = store.chunk_shift, store.changes
        changed = i32s(i64s(store.chunks)[at >> shift] + store.changed_at)
        changed[at & ((1 << shift) - 1)] = number
        store.changes += 1


@compiled
def kept_bytes(head):
    """Bytes that a string takes in a heap when it is kept: none where it fits its view."""
    count = byte_length(head)
    return count if count > SHORT else 0


@compiled
def changed_bytes(head, tail, kept_head, kept_tail):
    """Bytes needed to keep a string in place of another one."""
    return 0 if equal_words(head, tail, kept_head, kept_tail) else kept_bytes(head)


@compiled
def keep_changed(head, tail, kept_head, kept_tail, heap):
    """The tail of a string that is kept in place of another one; the same string stays."""
    if equal_words(head, tail, kept_head, kept_tail):
        return kept_tail
    return keep_words(head, tail, heap)


@compiled
def prefetch_slot(index, mask, key_hash):
    """Ask for the index slot of a key."""
    prefetch(index + ((key_hash & TAG) & mask) * SLOT_BYTES)


@compiled
def prefetch_entry(index, mask, chunks, shift, key_hash, size):
    """Ask for the record that the first slot of a key points to: it may lie in two lines."""
    slot = i64s(index)[(key_hash & TAG) & mask]
    if slot != 0:
        entry = entry_at(chunks, shift, (slot >> NUMBER_SHIFT) - 1, size)
        prefetch(entry)
        prefetch(entry + size - 1)
