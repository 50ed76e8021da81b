"""The scheduler `priority`: of all units that are ready, the one that a policy ranks first.

Enjima's algorithm 2: a queue that all workers share, ordered by priority. A policy ranks operators,
not units, and looks at everybody at once; so it is asked by the control thread, epoch by epoch
(`node.steering`), and what it answers is a table with a rank for each unit. Who is ready is a bit
for each unit. Who picks looks at the ranks of the bits that are set: the least is the first. So an
epoch changes the order of what is listed already, without a queue that is sorted anew.

Among equals, which copies of one operator are, a worker takes what reads the rows that it has just
written, or goes on with what it has begun: they are in this core's cache. Else they take turns.

There are two tables. The control thread writes the one that is not in force, then changes the
pointer. A worker that is held up in between may see some ranks of the next order: it picks another
unit than it should, never none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.node.free_list import NO_UNIT
from headrace.node.schedulers.hooks import AGAIN, NEAR, Turn, has_seat
from headrace.stage.memory.atomics import (
    cas,
    load_acquire,
    load_relaxed,
    load_sc,
    pause,
    store_relaxed,
)
from headrace.stage.memory.instructions import bit_length
from headrace.stage.memory.records import compiled, i64, i64s, line, record

if TYPE_CHECKING:
    from headrace.control.scheduling import Decision, Scheduling
    from headrace.node.features import NodeFeatures

BITS = 32  # units in a word
PICKS = 8  # that may fail because another worker was faster
ROUNDS = 1 << 24  # of what must be done; each lost round is one that another worker won
LAST_KEY = 1 << 62
NOBODY = -1


@record
class Order:
    """Ranks and limits, by the number of a unit; written by the control thread."""

    ranks: i64 = line()  # fixed: address; 0 comes first
    limits: i64  # fixed: address; rows of a run, 0: as the engine bounds it


@record
class Seat:
    """What is known of one worker, which alone writes it."""

    last: i64 = line()  # the unit that it has taken last
    trusted: i64  # 1 + the unit that was listed without waking anybody: it takes it next


@record
class PriorityRecord:
    """The memory of the scheduler."""

    order: i64 = line()  # the Order in force; written by the control thread
    words: i64 = line()  # of `listed` that are in use; it only grows
    listed: i64 = line()  # fixed: address of words with a bit for each unit
    homes: i64  # fixed: address; who has written for a unit since it was taken, or has begun it
    seats: i64  # fixed: of each worker
    workers: i64  # fixed


class Priority:
    """The scheduler; `memory` is the address that its hooks are told.

    >>> scheduler = Priority(units=8, workers=1)
    >>> scheduler.rank(np.array([0, 1, 2]), ranks=np.array([2, 0, 1]), limits=np.array([0, 50, 0]))
    >>> turn = Turn.allocate()
    >>> turn.scheduler, turn.worker = scheduler.memory, -1
    >>> for turn.unit in range(3):
    ...     _ = on_ready(turn.address)
    >>> [(next_task(turn.address), turn.limit) for _ in range(4)]
    [(1, 50), (2, 0), (0, 0), (-1, 0)]
    """

    hooks: tuple[Any, ...]  # on_ready, next_task, on_done, has_work, give_back: set below
    called: tuple[Any, ...] = ()  # by the control thread
    name, period = "priority", 1e-3  # seconds: Enjima §5.2

    def __init__(self, units: int, workers: int) -> None:
        self._record, self._seats = PriorityRecord.allocate(), Seat.allocate(max(workers, 1))
        self._listed = np.zeros(-(-units // BITS), np.int64)
        self._homes = np.full(units, NOBODY, np.int64)
        self._tables = [np.zeros((2, units), np.int64) for _ in range(2)]
        self._orders = [Order.allocate() for _ in range(2)]
        for order, (ranks, limits) in zip(self._orders, self._tables, strict=True):
            order.ranks, order.limits = ranks.ctypes.data, limits.ctypes.data
        record = self._record
        record.listed, record.homes = self._listed.ctypes.data, self._homes.ctypes.data
        record.seats, record.workers = self._seats.address, workers
        record.order, self._spare = self._orders[0].address, 1

    @property
    def memory(self) -> int:
        """The address of its record."""
        return self._record.address

    def order(
        self, scheduling: Scheduling, decision: Decision, features: NodeFeatures
    ) -> tuple[np.ndarray, np.ndarray]:
        """What the policy says about each unit, for `rank`."""
        ranks, limits = ranks_and_limits(decision, features)
        if scheduling.features.intrinsic:  # Haren's d: only a run tells what is asked for
            late = features.unseen(scheduling.policy.staleness)
            ranks = np.where(late[features.entry], 0, ranks + 1)
        return ranks, limits

    def rank(self, units: np.ndarray, ranks: np.ndarray, limits: np.ndarray) -> None:
        """By the control thread: put another order of units in force; all others come first."""
        table, order = self._tables[self._spare], self._orders[self._spare]
        table[:] = 0
        table[0, units], table[1, units] = ranks, limits
        self._record.order = order.address
        self._spare = 1 - self._spare


def ranks_and_limits(decision: Decision, features: NodeFeatures) -> tuple[np.ndarray, np.ndarray]:
    """Of each unit. Who is not eligible comes behind all who are."""
    ranks = decision.step + np.where(decision.eligible, 0, len(features))
    return ranks[features.entry], decision.limits[features.entry]


# ---- who is ready --------------------------------------------------------------------------


@compiled
def list_bit(record, unit):
    """Set the bit of a unit. The words in use grow first: who does not see that scans before the
    bit is set."""
    place, bit = unit // BITS, 1 << (unit % BITS)
    for _ in range(ROUNDS):
        words = load_relaxed(record, "words")
        if words > place:
            break
        cas(record, "words", words, place + 1)
    for _ in range(ROUNDS):
        bits = load_relaxed(i64s(record.listed), place)
        changed = cas(i64s(record.listed), place, bits, bits | bit)  # also where it is set: a fence
        if changed:
            return
        pause()


@compiled
def take_bit(record, unit):
    """Clear the bit of a unit; False: another worker was faster."""
    place, bit = unit // BITS, 1 << (unit % BITS)
    for _ in range(ROUNDS):
        bits = load_relaxed(i64s(record.listed), place)
        if bits & bit == 0:
            return False
        taken = cas(i64s(record.listed), place, bits, bits & ~bit)
        if taken:
            return True
    return False


@compiled
def first_unit(record, order, worker, last):
    """Of all that are listed, the unit whose rank is least; among equals the one that is near to
    the worker, then the next one behind the last."""
    words = load_acquire(record, "words")
    count = words * BITS
    best, key, distance = NO_UNIT, LAST_KEY, 0
    for place in range(words):
        bits = load_acquire(i64s(record.listed), place)
        while bits != 0:
            rest = bits & (bits - 1)
            unit = place * BITS + bit_length(bits - rest) - 1
            bits = rest
            rank = load_relaxed(i64s(order.ranks), unit)
            home = load_relaxed(i64s(record.homes), unit)
            found = 2 * rank + (0 if home == worker else 1)
            behind = (unit - last - 1) % count
            if found < key or (found == key and behind < distance):
                best, key, distance = unit, found, behind
    return best


# ---- the hooks -----------------------------------------------------------------------------


@compiled
def on_ready(address):
    """See hooks. What a worker has just written is near to it. It will take the first such unit
    itself, so nobody is woken; if it takes another one, somebody is. What goes on is taken by
    whoever is awake, at last by this worker."""
    turn = Turn(address)
    record = PriorityRecord(turn.scheduler)
    useful = 1
    if has_seat(record, turn.worker):
        seat = Seat(record.seats)[turn.worker]
        if turn.how == NEAR:
            store_relaxed(i64s(record.homes), turn.unit, turn.worker)
            if seat.trusted == 0:
                seat.trusted, useful = 1 + turn.unit, 0
        elif turn.how == AGAIN:
            store_relaxed(i64s(record.homes), turn.unit, turn.worker)
            useful = 0
    list_bit(record, turn.unit)
    return useful


@compiled
def next_task(address):
    """See hooks."""
    turn = Turn(address)
    record = PriorityRecord(turn.scheduler)
    seated = has_seat(record, turn.worker)
    seat = Seat(record.seats)[turn.worker if seated else 0]
    last = seat.last if seated else 0
    turn.limit = 0
    for _ in range(PICKS):
        order = Order(load_acquire(record, "order"))
        unit = first_unit(record, order, turn.worker, last)
        if unit == NO_UNIT:
            break
        taken = take_bit(record, unit)
        if taken:
            turn.limit = load_relaxed(i64s(order.limits), unit)
            if seated:
                if seat.trusted != 0 and seat.trusted != 1 + unit:
                    turn.more = 1
                seat.last, seat.trusted = unit, 0
            store_relaxed(i64s(record.homes), unit, NOBODY)
            return unit
    if seated:
        seat.trusted = 0
    return NO_UNIT


@compiled
def on_done(address):
    """See hooks."""
    return 0


@compiled
def is_ready(address):
    """has_work; see hooks."""
    record = PriorityRecord(Turn(address).scheduler)
    words = load_sc(record, "words")
    for place in range(words):
        bits = load_sc(i64s(record.listed), place)
        if bits != 0:
            return 1
    return 0


@compiled
def give_back(address):
    """See hooks. Nothing is kept for a worker alone, but one that takes no more looks no more."""
    turn = Turn(address)
    record = PriorityRecord(turn.scheduler)
    if has_seat(record, turn.worker):
        Seat(record.seats)[turn.worker].trusted = 0
    return 1


Priority.hooks = (on_ready, next_task, on_done, is_ready, give_back)
