"""Ports: the ring between the unit that makes blocks and the unit that reads them.

Streams fig. 3 (`SPSCEnforcer`): a single-producer, single-consumer ring, and a claim on each end,
so that any worker may be the producer or the consumer, one at a time. What travels is a descriptor:
rows of a block, or a mark (watermark, barrier, end, latency marker), all in one order.

**Open slices** (Enjima §3.1.2, variable batching). A producer need not fill a block before anybody
sees it: `open_rows` pushes a descriptor that still grows, `publish_rows` moves its end. A consumer
that peeks cuts off what is there, a slice that never grows again, and the producer goes on behind
it; nobody waits, and neither side writes what the other writes. Two orders make this right:

- The producer moves the end of the rows, then the watermark; the consumer reads the watermark, then
  the end. So a watermark never runs ahead of the rows that it speaks of.
- A descriptor is *whole* when it is closed or something lies behind it. The consumer asks that
  first, then reads watermark and end: of a whole descriptor, both are final, and none is lost.

Only a whole descriptor leaves the ring; its block is then the consumer's to release
(`readers.release`).
"""

from __future__ import annotations

from typing import Any

from headrace.stage.clock import NEVER
from headrace.stage.memory.atomics import (
    cas,
    exchange,
    load_acquire,
    load_relaxed,
    store_relaxed,
    store_release,
)
from headrace.stage.memory.records import array, compiled, i64, line, record

ROWS, WATERMARK, BARRIER, END, MARKER, SPLIT, SETTLED, PROGRESS = range(8)


@record
class Descriptor:
    """What lies in one place of the ring; written by the producer only."""

    block: i64 = line()  # address of a NodeBlock; 0: a mark
    first: i64
    last: i64  # rows [first, last); grows while the descriptor is open
    limit: i64  # where `last` can get to
    closed: i64  # it grows no more
    serial: i64
    kind: i64
    value: i64  # of rows: the watermark after them; of a mark: what it says


@record
class Port:
    """The ring; `slots` behind it."""

    # Written by the consumer.
    head: i64 = line()  # descriptors that have left the ring
    taken: i64  # rows consumed of the descriptor at the head
    tail_seen: i64
    received: i64  # rows and marks consumed
    watermark: i64  # the last one that was consumed with rows
    consuming: i64  # Streams fig. 3: consLocked
    # Written by the producer.
    tail: i64 = line()  # descriptors pushed
    head_seen: i64
    sent: i64  # rows and marks pushed
    producing: i64  # Streams fig. 3: prodLocked
    # Written by both.
    wants_room: i64 = line()  # the producer waits for a place in the ring
    # Fixed.
    capacity: i64 = line()  # of descriptors, a power of two
    mask: i64
    producer: i64  # the number of the unit
    consumer: i64
    slots: array(Descriptor) = line()


@record
class Slice:
    """What a consumer has cut off: its own copy, which nobody changes. One for each worker."""

    kind: i64 = line()
    block: i64
    first: i64
    last: i64
    serial: i64
    value: i64  # of rows: the watermark once all of them are consumed
    whole: i64  # the descriptor leaves the ring when all of this slice is consumed
    end: i64  # of what was there; a consumer may move `last` before it, and take less


def new_port(capacity: int, producer: int = -1, consumer: int = -1) -> Any:
    """A port in memory of its own.

    >>> port, got = new_port(2), Slice.allocate()
    >>> push_mark(port, WATERMARK, 0, 77), pending(port)
    (True, 1)
    >>> pop(port, got), got.kind == WATERMARK, got.value
    (True, True, 77)
    """
    if capacity < 1 or capacity & (capacity - 1):
        raise ValueError(f"the capacity of a port is a power of two, not {capacity}")
    port = Port.allocate(behind=capacity * Descriptor.size)
    start_port(port, capacity, producer, consumer)
    return port


def start_port(port: Any, capacity: int, producer: int, consumer: int) -> None:
    """Make memory an empty port. Every field is set: what a port held before must not be seen."""
    port.head, port.taken, port.tail_seen, port.received = 0, 0, 0, 0
    port.watermark, port.consuming = NEVER, 0
    port.tail, port.head_seen, port.sent, port.producing = 0, 0, 0, 0
    port.wants_room = 0
    port.capacity, port.mask = capacity, capacity - 1
    port.producer, port.consumer = producer, consumer


# ---- claims: Streams fig. 3 ----------------------------------------------------------------


@compiled
def claim_producer(port):
    """Try to become the producer (prodTryLock)."""
    if load_relaxed(port, "producing") != 0:  # a look costs less than a failed swap
        return False
    return cas(port, "producing", 0, 1)


@compiled
def release_producer(port):
    """prodUnlock."""
    store_release(port, "producing", 0)


@compiled
def claim_consumer(port):
    """Try to become the consumer (consTryLock)."""
    if load_relaxed(port, "consuming") != 0:
        return False
    return cas(port, "consuming", 0, 1)


@compiled
def release_consumer(port):
    """consUnlock."""
    store_release(port, "consuming", 0)


# ---- the producer's end; needs its claim ---------------------------------------------------


@compiled
def has_room(port):
    """Is there a place for one more descriptor?"""
    tail = load_relaxed(port, "tail")
    if tail - port.head_seen < port.capacity:
        return True
    head = load_acquire(port, "head")
    port.head_seen = head
    return tail - head < port.capacity


@compiled
def push(port, kind, block, first, last, limit, serial, value):
    """Add a descriptor, if there is room. Its block must have been retained for the consumer."""
    if not has_room(port):
        return False
    tail = load_relaxed(port, "tail")
    slot = port.slots[tail & port.mask]
    slot.kind = kind
    slot.block = block
    slot.first = first
    slot.limit = limit
    slot.serial = serial
    store_relaxed(slot, "closed", 1 if last == limit else 0)
    store_relaxed(slot, "last", last)
    store_relaxed(slot, "value", value)
    store_release(port, "tail", tail + 1)
    count_sent(port, last - first if kind == ROWS else 1)
    return True


@compiled
def count_sent(port, things):
    """One writer at a time, so no read-modify-write is needed."""
    sent = load_relaxed(port, "sent")
    store_relaxed(port, "sent", sent + things)


@compiled
def push_rows(port, block, first, last, serial, watermark):
    """Add rows of a block; they do not grow."""
    return push(port, ROWS, block, first, last, last, serial, watermark)


@compiled
def open_rows(port, block, first, last, limit, serial, watermark):
    """Add rows of a block that is still being filled, up to `limit`; see publish_rows."""
    return push(port, ROWS, block, first, last, limit, serial, watermark)


@compiled
def push_mark(port, kind, serial, value):
    """Add a mark: WATERMARK, BARRIER, END or MARKER."""
    return push(port, kind, 0, 0, 0, 0, serial, value)


@compiled
def publish_rows(port, rows, watermark):
    """Let the open slice grow by rows that have been written, maybe none, and give the watermark
    after them. False: there is no open slice, or no room in it; push a new one."""
    tail = load_relaxed(port, "tail")
    if tail == 0:
        return False
    slot = port.slots[(tail - 1) & port.mask]
    if slot.kind != ROWS:
        return False
    closed = load_relaxed(slot, "closed")
    before = load_relaxed(slot, "last")
    last = before + rows
    if closed != 0 or last > slot.limit:
        return False
    # The consumer reads these three the other way round; see the top of this file.
    store_release(slot, "last", last)
    store_release(slot, "value", watermark)
    if last == slot.limit:
        store_release(slot, "closed", 1)
    count_sent(port, rows)
    return True


@compiled
def close_rows(port):
    """Let the open slice grow no more, so that its block comes back though nothing follows."""
    tail = load_relaxed(port, "tail")
    if tail > 0:
        store_release(port.slots[(tail - 1) & port.mask], "closed", 1)


@compiled
def try_push(port, kind, block, first, last, limit, serial, value):
    """Streams fig. 3, `push`: claim, add, and unlock; the figure forgets to unlock on success."""
    claimed = claim_producer(port)
    if not claimed:
        return False
    pushed = push(port, kind, block, first, last, limit, serial, value)
    release_producer(port)
    return pushed


@compiled
def want_room(port):
    """Say that the producer waits for room; is there some after all? If not, the consumer will see
    it (`room_wanted`) and call `on_ready` for the producer."""
    exchange(port, "wants_room", 1)  # an update: either the consumer sees it, or we see its head
    return has_room(port)


# ---- the consumer's end; needs its claim ---------------------------------------------------


@compiled
def peek(port, slice):
    """Cut off the next slice, without consuming it. False: nothing is there.

    Rows may be none: then there is a new watermark, or only the descriptor is to be finished.
    """
    head = load_relaxed(port, "head")
    tail = port.tail_seen
    if tail - head < 2:  # is there a descriptor, and one behind it?
        tail = load_acquire(port, "tail")
        port.tail_seen = tail
        if tail == head:
            return False
    slot = port.slots[head & port.mask]
    slice.kind = slot.kind
    slice.block = slot.block
    slice.serial = slot.serial
    # The order of these three is the heart of it: whole, watermark, end.
    closed = load_acquire(slot, "closed")
    value = load_acquire(slot, "value")
    last = load_acquire(slot, "last")
    first = slot.first + port.taken
    whole = closed != 0 or tail - head > 1
    slice.first = first
    slice.last = last
    slice.end = last
    slice.value = value
    slice.whole = whole
    return whole or first != last or value != port.watermark


@compiled
def consume(port, slice, rows):
    """Take `rows` rows of the slice that was peeked, or its mark, out of the port.

    Gives the block that the consumer is now done with and must release, or 0."""
    head = load_relaxed(port, "head")
    received = load_relaxed(port, "received")
    if slice.kind != ROWS:
        store_relaxed(port, "received", received + 1)
    else:
        store_relaxed(port, "received", received + rows)
        port.taken += rows
        if slice.first + rows != slice.end:
            return 0
        port.watermark = slice.value
        if slice.whole == 0:
            return 0
    port.taken = 0
    block = slice.block
    store_release(port, "head", head + 1)
    return block


@compiled
def is_empty(port):
    """Is nothing in the ring, not even a slice that was read and may grow?"""
    head = load_relaxed(port, "head")
    return load_acquire(port, "tail") == head


@compiled
def pop(port, slice):
    """Peek and consume all of it. If the slice is whole, its block is the caller's to release."""
    found = peek(port, slice)
    if found:
        consume(port, slice, slice.last - slice.first)
    return found


@compiled
def room_wanted(port):
    """Does the producer wait for room? Ask once after having consumed; then call `on_ready`."""
    return exchange(port, "wants_room", 0) != 0


# ---- for anybody ---------------------------------------------------------------------------


@compiled
def pending(port):
    """Rows and marks in the port: a figure for schedulers, true only for a moment. A watermark
    alone is not counted; whether there is something to consume, `peek` says."""
    received = load_relaxed(port, "received")
    return load_relaxed(port, "sent") - received
