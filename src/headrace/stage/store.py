"""Records found by key: the state of operators, open windows and static tables.

Records lie dense, in order of arrival, in chunks that never move. An open-addressing index of
one word per slot finds them: the record's number in the high half, the low half of the key's hash
as a tag. The index grows step by step: a larger one is put beside the old one, and every insert
moves a few slots over. Compiled code allocates nothing: it answers "need memory" and `KeyedStore`,
the owner, makes room.

What depends on the layout of the key (find, insert) is generated: `generate/stores.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .memory.instructions import clear_bytes, prefetch
from .memory.records import LINE, compiled, i32s, i64, i64s, line, record
from .strings.heap import Heap, empty_heap, new_heap
from .strings.words import SHORT, byte_length, equal_words, keep_words

TAG = 0xFFFFFFFF  # the low half of a hash
NUMBER_SHIFT = 32
SLOT_BYTES = i64.size
FIRST_SLOTS = 64
SPARSE_SLOTS = 1 << 16  # up to so many, a quarter of the slots is used: few probes go wrong
MOVED_PER_INSERT = 16  # at least 8, so that the old index is empty before the next one is due
HEAP_BYTES = 1 << 16
NO_WINDOW = -(1 << 63)  # a store that is no open window
CHUNK_BYTES = 1 << 24  # at most so much memory is taken at a time

GROUPS = 128  # key groups (Ordered's partitions): the unit of ownership and of saved state
GROUP_SHIFT = 57  # the group is the top seven bits of the hash


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
    changed: i64  # address of the numbers of the records changed in it
    changes: i64
    heap: i64  # address of the Heap with the bytes of long strings
    window: i64  # start of the window, for a store that is an open window
    serial: i64  # of that window: no two have the same
    wanted: i64  # bytes of string that did not fit
    repeated: i64  # row whose key was there already
    initial: i64  # address of a user state record as it is in the beginning
    next: i64  # of a spare store (`panes`): the next one


def key_groups(hashes: np.ndarray) -> np.ndarray:
    """The key groups of hashes.

    >>> key_groups(np.array([-1, 0])).tolist()
    [127, 0]
    """
    return (hashes >> GROUP_SHIFT) & (GROUPS - 1)


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
        store.old_index = 0


@compiled
def is_full(store):
    """Must the owner make room before another record can come?"""
    return store.count >= store.capacity or store.count >= store.limit


@compiled
def lacks_bytes(store, count):
    """Must the owner make room before `count` bytes of string can be kept?"""
    heap = Heap(store.heap)
    if heap.used + count <= heap.capacity:
        return False
    store.wanted = count
    return True


@compiled
def add_number(store, key_hash):
    """Take the next record for a key that is not there; room has been checked. Gives its number."""
    number = store.count
    store.count = number + 1
    if store.old_index != 0:
        move_slots(store)
    put_slot(store.index, store.mask, key_hash & TAG, number)
    return number


@compiled
def clear_store(store):
    """Forget all records but keep the memory."""
    store.count = 0
    store.changes = 0
    store.old_index = 0
    store.window = NO_WINDOW
    if store.heap != 0:
        empty_heap(Heap(store.heap))
    clear_bytes(store.index, (store.mask + 1) * SLOT_BYTES)


@compiled
def note_change(store, entry, number):
    """Remember that a record was changed in this interval; `entry` has an `epoch`."""
    if entry.epoch != store.epoch:
        entry.epoch = store.epoch
        i32s(store.changed)[store.changes] = number
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
    """Ask for the record that the first slot of a key points to."""
    slot = i64s(index)[(key_hash & TAG) & mask]
    if slot != 0:
        prefetch(entry_at(chunks, shift, (slot >> NUMBER_SHIFT) - 1, size))


def _slots_per_record(slots: int) -> int:
    """Slots of an index for each record: memory against probes that the processor guesses wrong."""
    return 4 if slots <= SPARSE_SLOTS else 2


class KeyedStore:
    """Owns the memory of a store whose records have a given size, and makes room in it."""

    def __init__(self, entry: Any, *, chunk_records: int = 256, keeps_text: bool = False) -> None:
        self.entry, self.keeps_text = entry, keeps_text
        self.header = Store.allocate()
        self._chunk_shift = chunk_records.bit_length() - 1
        self.reset()

    def reset(self) -> None:
        """Forget all records and start with little memory."""
        header = self.header
        self._pieces: list[np.ndarray] = []  # memory of the chunks
        self.heaps: list[Any] = []
        self.live_bytes = 0  # of strings, when they were last copied together
        header.count = header.capacity = header.changes = header.old_index = 0
        header.chunk_shift, header.window = self._chunk_shift, NO_WINDOW
        header.epoch = 1
        self._addresses: list[int] = []
        self._use_index(FIRST_SLOTS)
        self._add_chunks()
        if self.keeps_text:
            self._add_heap(HEAP_BYTES)

    @property
    def count(self) -> int:
        """Records in use."""
        return self.header.count

    @property
    def size_bytes(self) -> int:
        """Memory of records, index and strings."""
        pieces = sum(piece.nbytes for piece in self._pieces)
        return pieces + self._index.nbytes + self.heap_bytes

    def make_room(self) -> None:
        """Room for at least one more record and for the string that was wanted."""
        header = self.header
        if header.count >= header.capacity:
            self._add_chunks()
        if header.count >= header.limit:
            self._grow_index()
        if header.wanted:
            heap = self.heaps[-1]
            if heap.used + header.wanted > heap.capacity:
                self._add_heap(header.wanted)
            header.wanted = 0

    def reserve(self, records: int) -> None:
        """Room for so many records in all, at once."""
        while self.header.capacity < records:
            self._add_chunks()
        slots = FIRST_SLOTS
        while slots // _slots_per_record(slots) < records:
            slots *= 2
        if slots > self.header.mask + 1 and self.header.count == 0:
            self._use_index(slots)

    def _use_index(self, slots: int) -> None:
        self._index = np.zeros(slots, np.int64)
        header = self.header
        header.index, header.mask = self._index.ctypes.data, slots - 1
        header.limit = slots // _slots_per_record(slots)

    def _grow_index(self) -> None:
        header, self._old_index = self.header, self._index
        while header.old_index:  # only where inserts came too fast for the steps
            move_slots(header)
        old, old_mask = header.index, header.mask
        self._use_index(2 * (old_mask + 1))
        header.old_index, header.old_mask, header.moved = old, old_mask, 0

    def _add_chunks(self) -> None:
        """Double the chunks, by at most CHUNK_BYTES at a time."""
        header = self.header
        chunk_bytes = self.entry.size << self._chunk_shift
        more = max(1, min(len(self._addresses), CHUNK_BYTES // chunk_bytes))
        piece = np.zeros(chunk_bytes * more + LINE, np.uint8)
        start = -(-piece.ctypes.data // LINE) * LINE
        self._pieces.append(piece)
        self._addresses.extend(start + k * chunk_bytes for k in range(more))
        self._directory = np.array(self._addresses, np.int64)
        header.chunks = self._directory.ctypes.data
        header.capacity = len(self._addresses) << self._chunk_shift
        changed = np.empty(header.capacity, np.int32)
        if header.changes:
            changed[: header.changes] = self._changed[: header.changes]
        self._changed = changed
        header.changed = changed.ctypes.data

    def _add_heap(self, wanted: int) -> None:
        last = self.heaps[-1].capacity if self.heaps else HEAP_BYTES // 2
        heap = new_heap(max(wanted, min(2 * last, CHUNK_BYTES)))
        self.heaps.append(heap)
        self.header.heap = heap.address

    @property
    def heap_bytes(self) -> int:
        """Bytes of all string heaps."""
        return sum(heap.capacity for heap in self.heaps)

    def use_heap(self, heap: Any, live_bytes: int) -> None:
        """All strings have been copied to one heap.

        The old heaps live on until this happens again: the row in work may still read them.
        """
        self._retired, self.heaps, self.live_bytes = self.heaps, [heap], live_bytes
        self.header.heap = heap.address

    def put_keys_beside_slots(self, keys: np.ndarray) -> None:
        """For a table that stays as it is: `keys` are those of its records, in order. A key is
        then found without a look at its record."""
        numbers = (self._index >> NUMBER_SHIFT) - 1
        self._slot_keys = np.where(numbers >= 0, keys[numbers], 0) if len(keys) else numbers
        self.header.slot_keys = self._slot_keys.ctypes.data

    # ---- snapshots ---------------------------------------------------------------------------

    def changed_numbers(self) -> np.ndarray:
        """Numbers of the records changed since the last `next_epoch`, in order of first change."""
        return self._changed[: self.header.changes].copy()

    def next_epoch(self) -> None:
        """Start a new interval: nothing has changed in it yet."""
        self.header.epoch += 1
        self.header.changes = 0
