"""The same functions compiled, on real threads, for about a second each, against what is obvious.

Every loop ends by the stop flag, which the main thread sets, or by its bound.
"""

import threading
import time

import numpy as np
import pytest

from headrace.node.blocks import NodeBlock
from headrace.node.claims import IDLE, UnitState, announce, claim, release_listed
from headrace.node.claims import release as release_claim
from headrace.node.free_list import NO_UNIT, has_work, new_free_list, pick, put
from headrace.node.parking import Lot, leave, park, prepare, wake_all, wake_one
from headrace.node.pool import adopt, available, give, new_pool, take
from headrace.node.port import (
    MARKER,
    Mark,
    Slice,
    close_rows,
    consume,
    new_port,
    open_rows,
    peek,
    publish_rows,
    push_mark,
)
from headrace.node.readers import release, retain
from headrace.stage.memory.atomics import (
    cas,
    fetch_add,
    load_acquire,
    load_relaxed,
    pause,
    store_relaxed,
    store_release,
)
from headrace.stage.memory.records import array, compiled, i64, i64s, line, record

pytestmark = pytest.mark.compiled
SECONDS = 0.7
BOUND = 1 << 40


@record
class Flags:
    stop: i64 = line()
    trouble: i64 = line()
    over: i64 = line()  # workers end
    done: i64 = line()


def run(flags, *calls, seconds=SECONDS):
    """Call each (function, *arguments) on a thread of its own, and stop them after a while."""
    threads = [threading.Thread(target=call[0], args=call[1:]) for call in calls]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    flags.stop = 1
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    assert flags.trouble == 0


# ---- ports: slices of pooled blocks, several workers at each end ---------------------------

CAPACITY = 16  # rows of a block


@record
class Shelf:
    """A block and its rows."""

    block: NodeBlock = line()
    rows: array(i64, CAPACITY) = line()


@record
class Side:
    """What the unit at one end of the port keeps between runs."""

    block: i64 = line()
    filled: i64
    next: i64  # the value of the next row
    blocks: i64
    marks: i64
    claimed: i64 = line()  # by a worker


@compiled
def produce(port, pool, side, flags, seed, rounds):
    """Claim the producer's unit, write a few rows, publish them, let go."""
    for i in range(rounds):
        if load_relaxed(flags, "stop") != 0:
            return
        if not cas(side, "claimed", 0, 1):
            pause()
            continue
        seed = (seed * 1103515245 + 12345) % (1 << 31)
        make_rows(port, pool, side, 1 + seed // 7 % 5)
        if seed // 64 % 13 == 0 and push_mark(port, MARKER, side.next, side.next, 0, 0, 0):
            side.marks += 1
        store_release(side, "claimed", 0)


@compiled
def make_rows(port, pool, side, wanted):
    if side.block == 0:
        side.block = take(pool)
        side.filled = 0
        if side.block == 0:
            return
    count = min(wanted, CAPACITY - side.filled)
    rows = Shelf(side.block).rows
    for k in range(count):
        rows[side.filled + k] = side.next + k
    published = publish_rows(port, count)
    if not published:
        retain(side.block, 1)
        first, last = side.filled, side.filled + count
        if not open_rows(port, side.block, first, last, CAPACITY, side.blocks, 0):
            release(side.block)  # the rows are not published: written again next time
            return
    side.next += count
    side.filled += count
    if side.filled == CAPACITY:
        release(side.block)
        side.block = 0
        side.blocks += 1


@compiled
def receive(port, side, got, flags, seed, rounds):
    for i in range(rounds):
        if load_relaxed(flags, "stop") != 0:
            return
        if not cas(side, "claimed", 0, 1):
            pause()
            continue
        seed = (seed * 1103515245 + 12345) % (1 << 31)
        if peek(port, got) and not take_slice(port, side, got, seed):
            store_relaxed(flags, "trouble", 1)
        store_release(side, "claimed", 0)


@compiled
def take_slice(port, side, got, seed):
    """Check a slice, and consume it or a part of it."""
    fine = True
    if got.kind == MARKER:
        fine = Mark(got.mark).value == side.next
        side.marks += 1
        consume(port, got, 0)
        return fine
    count = got.last - got.first
    if seed // 64 % 4 == 0:
        count = min(count, 2)
    rows = Shelf(got.block).rows
    for k in range(count):
        value = rows[got.first + k]
        if value != side.next:
            fine = False
        side.next += 1
    block = consume(port, got, count)
    if block != 0:
        side.blocks += 1
        release(block)
    return fine


@pytest.mark.parametrize(("producers", "consumers", "capacity"), [(1, 1, 8), (2, 2, 2)])
def test_ports_pools_and_readers(producers, consumers, capacity):
    port, pool, flags = new_port(capacity), new_pool(6), Flags.allocate()
    shelves = Shelf.allocate(6)
    for i in range(6):
        assert adopt(pool, shelves[i].address)
    sender, receiver = Side.allocate(), Side.allocate()
    slices = [Slice.allocate() for _ in range(consumers)]
    produce(port, pool, sender, flags, 1, 0)
    receive(port, receiver, slices[0], flags, 1, 0)
    run(
        flags,
        *[(produce, port, pool, sender, flags, 7 + i, BOUND) for i in range(producers)],
        *[(receive, port, receiver, got, flags, 99 + i, BOUND) for i, got in enumerate(slices)],
    )
    assert receiver.next > 100  # few where the cores are busy with other things
    # What is left: then everything has arrived, and all blocks are at home.
    flags.stop = 0
    close_rows(port)
    if sender.block:
        release(sender.block)
    for _ in range(20 * capacity * CAPACITY):
        if peek(port, slices[0]):
            assert take_slice(port, receiver, slices[0], 64)
    assert (receiver.next, receiver.marks) == (sender.next, sender.marks)
    assert available(pool) == 6 and [shelves[i].block.readers for i in range(6)] == [0] * 6


# ---- pools ---------------------------------------------------------------------------------


@compiled
def hold(pool, owners, flags, name, rounds):
    """Take up to two blocks and give them back, in the order that makes ABA."""
    taken = 0
    for i in range(rounds):
        if load_relaxed(flags, "stop") != 0:
            return taken
        first = take(pool)
        second = take(pool)
        taken += own(owners, first, name, flags) + own(owners, second, name, flags)
        if first != 0:
            give(pool, first)
        if second != 0:
            give(pool, second)
    return taken


@compiled
def own(owners, block, name, flags):
    if block == 0:
        return 0
    number = NodeBlock(block).number
    owners[number] = name
    for _ in range(3):
        pause()
    if owners[number] != name:
        store_relaxed(flags, "trouble", 1)
    return 1


@pytest.mark.parametrize("threads", [2, 4])
def test_pools_with_many_takers(threads):
    pool, flags = new_pool(3), Flags.allocate()
    blocks = [NodeBlock.allocate() for _ in range(3)]
    for block in blocks:
        adopt(pool, block.address)
    memory = np.zeros(3, np.int64)
    owners = i64s(memory.ctypes.data)
    hold(pool, owners, flags, 1, 0)
    run(flags, *[(hold, pool, owners, flags, n, BOUND) for n in range(1, threads + 1)])
    assert available(pool) == 3
    assert sorted(take(pool) for _ in range(3)) == sorted(block.address for block in blocks)


# ---- free list and parking -----------------------------------------------------------------


@record
class Mail:
    sent: i64 = line()
    read: i64 = line()
    running: i64
    runs: i64


@compiled
def list_unit(lot, units, unit):
    put(units, unit)
    wake_one(lot)


@compiled
def send(lot, units, states, boxes, count, flags, seed, rounds):
    """Letters for random units."""
    for i in range(rounds):
        if load_relaxed(flags, "stop") != 0:
            return
        seed = (seed * 1103515245 + 12345) % (1 << 31)
        unit = seed // 64 % count
        fetch_add(boxes[unit], "sent", 1)
        if announce(states[unit]):
            list_unit(lot, units, unit)
        if seed // 8192 % 64 == 0:
            for _ in range(200):  # let the workers fall asleep now and then
                pause()


@compiled
def run_unit(lot, units, states, box, unit, flags):
    """Nobody else is in here with the same unit."""
    if box.running != 0:
        store_relaxed(flags, "trouble", 1)
    box.running = 1
    letters = load_acquire(box, "sent")
    some = min(letters - box.read, 3)
    store_release(box, "read", box.read + some)
    box.runs += 1
    box.running = 0
    if letters != box.read:  # more to do: to the back
        release_listed(states[unit])
        list_unit(lot, units, unit)
    elif release_claim(states[unit]):
        list_unit(lot, units, unit)


@compiled
def work(lot, units, states, boxes, flags, rounds):
    for i in range(rounds):
        if load_acquire(flags, "over") != 0:
            return
        unit = pick(units)
        if unit != NO_UNIT:
            if claim(states[unit]):
                run_unit(lot, units, states, boxes[unit], unit, flags)
            continue
        ticket = prepare(lot)
        if not has_work(units) and load_acquire(flags, "over") == 0:
            park(lot, ticket, 1_000_000_000)
        leave(lot)


@pytest.mark.parametrize(("senders", "workers", "count"), [(1, 1, 2), (2, 2, 3), (1, 3, 1000)])
def test_no_unit_is_forgotten(senders, workers, count):
    lot, units, flags = Lot.allocate(), new_free_list(count), Flags.allocate()
    states, boxes = UnitState.allocate(count), Mail.allocate(count)
    send(lot, units, states, boxes, count, flags, 1, 0)
    work(lot, units, states, boxes, flags, 0)
    wake_all(Lot.allocate())
    threads = [
        threading.Thread(target=work, args=(lot, units, states, boxes, flags, BOUND))
        for _ in range(workers)
    ]
    for thread in threads:
        thread.start()
    given = lot, units, states, boxes, count, flags
    run(flags, *[(send, *given, 5 + i, BOUND) for i in range(senders)])
    sent = [boxes[i].sent for i in range(count)]

    def found() -> tuple[list[int], set[int]]:
        """Letters read, and states: who was told of a letter that it had read runs once more."""
        return [boxes[i].read for i in range(count)], {states[i].state for i in range(count)}

    give_up = time.perf_counter() + 30
    while found() != (sent, {IDLE}) and time.perf_counter() < give_up:
        time.sleep(0.001)
    assert found() == (sent, {IDLE})
    flags.over = 1
    wake_all(lot)
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert flags.trouble == 0 and lot.sleepers == 0
    assert sum(sent) > 100
