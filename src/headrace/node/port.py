"""Ports: the ring between the unit that makes blocks and the unit that reads them.

Streams fig. 3: a single-producer, single-consumer ring. Its `SPSCEnforcer`, a claim on each end,
is not needed here: a unit is run by one worker at a time (`claims`), and it is the only producer,
or consumer, of its ports. What travels is a descriptor: rows of a block, or a mark (watermark, end
of a split, end, latency marker), all in one order.

**Open slices** (Enjima §3.1.2, variable batching). A producer need not fill a block before anybody
sees it: `open_rows` pushes a descriptor that still grows, `publish_rows` moves its end. A consumer
that peeks cuts off what is there, a slice that never grows again, and the producer goes on behind
it; nobody waits, and neither side writes what the other writes. One order makes this right: a
descriptor is *whole* when it is closed or something lies behind it. The consumer asks that first,
then reads the end: that of a whole descriptor is final, and no row is lost.

Only a whole descriptor leaves the ring; its block is then the consumer's to release
(`readers.release`).
"""

from __future__ import annotations

from typing import Any

from headrace.stage.memory.atomics import (
    exchange,
    load_acquire,
    load_relaxed,
    store_relaxed,
    store_release,
)
from headrace.stage.memory.records import array, compiled, i64, line, record

ROWS, WATERMARK, END, MARKER, SPLIT, SETTLED, PROGRESS, DONE = range(8)


@record
class Mark:
    """What travels between rows: who gets it does its part, then hands it on."""

    kind: i64 = line()
    serial: i64
    value: i64  # a watermark, a place, or how it ended (ENDED, STOPPED)
    channel: i64  # of a SPLIT: whose it was,
    ended: i64  # and whether the channel ends with it (ENDED, STOPPED)
    due: i64  # and when its last row was due, in ns (0: it has none); of a MARKER: since when it is


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
    due: i64  # ns: when the oldest of its rows was due
    mark: Mark = line()  # where it is one


@record
class Port:
    """The ring; its descriptors lie behind it."""

    # Written by the consumer.
    head: i64 = line()  # descriptors that have left the ring
    taken: i64  # rows consumed of the descriptor at the head
    tail_seen: i64
    received: i64  # rows and marks consumed
    # Written by the producer.
    tail: i64 = line()  # descriptors pushed
    head_seen: i64
    sent: i64  # rows and marks pushed
    # Written by both.
    wants_room: i64 = line()  # the producer waits for a place in the ring
    # Fixed.
    capacity: i64 = line()  # of descriptors, a power of two
    mask: i64
    producer: i64  # the number of the unit
    consumer: i64
    ring: array(Descriptor) = line()


@record
class Slice:
    """What a consumer has cut off: its own copy, which nobody changes."""

    kind: i64 = line()
    block: i64
    first: i64
    last: i64
    serial: i64
    whole: i64  # the descriptor leaves the ring when all of this slice is consumed
    end: i64  # of what was there; a consumer may move `last` before it, and take less
    due: i64
    mark: i64  # address of the Mark, as long as it was not consumed


def new_port(capacity: int, producer: int = -1, consumer: int = -1) -> Any:
    """A port in memory of its own.

    >>> port, got = new_port(2), Slice.allocate()
    >>> push_mark(port, WATERMARK, 0, 77, 0, 0, 0), pending(port)
    (True, 1)
    >>> peek(port, got), got.kind == WATERMARK, Mark(got.mark).value
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
    port.tail, port.head_seen, port.sent, port.wants_room = 0, 0, 0, 0
    port.capacity, port.mask = capacity, capacity - 1
    port.producer, port.consumer = producer, consumer


# ---- the producer's end ---------------------------------------------------------------------


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
def open_rows(port, block, first, last, limit, serial, due):
    """Add rows of a block that may still be filled up to `limit` (see publish_rows), if there is
    room. The block must have been retained for the consumer."""
    if not has_room(port):
        return False
    tail = load_relaxed(port, "tail")
    place = port.ring[tail & port.mask]
    place.kind, place.serial, place.block, place.first, place.limit = (
        ROWS, serial, block, first, limit,
    )  # fmt: skip
    place.due = due
    store_relaxed(place, "closed", 1 if last == limit else 0)
    store_relaxed(place, "last", last)
    store_release(port, "tail", tail + 1)
    count_sent(port, last - first)
    return True


@compiled
def push_mark(port, kind, serial, value, channel, ended, due):
    """Add a mark, if there is room."""
    if not has_room(port):
        return False
    tail = load_relaxed(port, "tail")
    place = port.ring[tail & port.mask]
    place.kind, place.serial, place.block, place.first, place.limit = kind, serial, 0, 0, 0
    store_relaxed(place, "closed", 1)
    store_relaxed(place, "last", 0)
    mark = place.mark
    mark.kind, mark.serial, mark.value = kind, serial, value
    mark.channel, mark.ended, mark.due = channel, ended, due
    store_release(port, "tail", tail + 1)
    count_sent(port, 1)
    return True


@compiled
def count_sent(port, things):
    """One writer at a time, so no read-modify-write is needed."""
    sent = load_relaxed(port, "sent")
    store_relaxed(port, "sent", sent + things)


@compiled
def publish_rows(port, rows):
    """Let the open slice grow by rows that have been written. False: there is no open slice, or no
    room in it; open a new one."""
    tail = load_relaxed(port, "tail")
    if tail == 0:
        return False
    place = port.ring[(tail - 1) & port.mask]
    if place.kind != ROWS:
        return False
    closed = load_relaxed(place, "closed")
    before = load_relaxed(place, "last")
    last = before + rows
    if closed != 0 or last > place.limit:
        return False
    # The consumer reads these two the other way round; see the top of this file.
    store_release(place, "last", last)
    if last == place.limit:
        store_release(place, "closed", 1)
    count_sent(port, rows)
    return True


@compiled
def close_rows(port):
    """Let the open slice grow no more, so that its block comes back though nothing follows."""
    tail = load_relaxed(port, "tail")
    if tail > 0:
        store_release(port.ring[(tail - 1) & port.mask], "closed", 1)


@compiled
def want_room(port):
    """Say that the producer waits for room; is there some after all? If not, the consumer will see
    it (`room_wanted`) and call `on_ready` for the producer."""
    exchange(port, "wants_room", 1)  # an update: either the consumer sees it, or we see its head
    return has_room(port)


# ---- the consumer's end ---------------------------------------------------------------------


@compiled
def peek(port, slice):
    """Cut off the next slice, without consuming it. False: nothing is there.

    Rows may be none: then only the descriptor is to be finished.
    """
    head = load_relaxed(port, "head")
    tail = port.tail_seen
    if tail - head < 2:  # is there a descriptor, and one behind it?
        tail = load_acquire(port, "tail")
        port.tail_seen = tail
        if tail == head:
            return False
    place = port.ring[head & port.mask]
    slice.kind = place.kind
    slice.block = place.block
    slice.serial = place.serial
    slice.due = place.due
    slice.mark = place.mark.address
    # The order of these two is the heart of it: whole, end.
    closed = load_acquire(place, "closed")
    last = load_acquire(place, "last")
    first = place.first + port.taken
    whole = closed != 0 or tail - head > 1
    slice.first = first
    slice.last = last
    slice.end = last
    slice.whole = whole
    return whole or first != last


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
        if slice.first + rows != slice.end or slice.whole == 0:
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
def room_wanted(port):
    """Does the producer wait for room? Ask once after having consumed; then call `on_ready`."""
    return exchange(port, "wants_room", 0) != 0


# ---- for anybody ---------------------------------------------------------------------------


@compiled
def has_room_now(port):
    """Is there a place, or was there one since the producer looked? Neither end is needed."""
    tail = load_relaxed(port, "tail")
    return tail - load_acquire(port, "head") < port.capacity


@compiled
def has_more(port):
    """Is there something to peek at: rows, a mark, or a slice that was read and now is closed?
    Neither end is needed."""
    head = load_relaxed(port, "head")
    waiting = load_acquire(port, "tail") - head
    if waiting != 1:
        return waiting > 1
    closed = load_acquire(port.ring[head & port.mask], "closed")
    return closed != 0 or pending(port) > 0


@compiled
def pending(port):
    """Rows and marks in the port: a figure for schedulers, true only for a moment. Whether there is
    something to consume, `peek` says."""
    received = load_relaxed(port, "received")
    return load_relaxed(port, "sent") - received
