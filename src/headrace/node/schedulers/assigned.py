"""The scheduler `assigned`: Haren's algorithms 1 to 3. Each worker has a list of units of its own.

Execution tasks and scheduling tasks take turns. In an execution task (T_E, algorithm 1) a worker
goes through its list, which is in the order of priorities, and runs what can run; behind a unit
that has run come its equals, then it begins at the head again. Where nothing can run it sleeps,
twice as long each time, and nobody wakes it. When the period P is over the control thread calls a
*meeting* (T_S, algorithms 2 and 3): workers come to it as soon as their runs let them, and a new
*plan*, which says who has which units, takes effect for all of them while nothing runs; then each
worker makes its own list of it, and runs first what has not run for longer than d.

What differs. The last worker that comes, Haren's t*, would read features and ask the policy; here
the control thread does (`steering`), before the meeting, since policies are Python, which takes a
while to answer. It asks for all operators at once, so lists come ranked, and each worker only picks
its own. Nobody waits without end: who does not come to a meeting soon, because it is inside Python
or a row takes long, is counted out until it comes back. That an operator never runs twice at a time
does not hang on it (`claims`).

Units that no plan knows yet, since their query is new, or any more, are run by whoever has nothing
of its own: as in `free_list`, a queue has all units. (Haren gives them to threads at random, §5.)
Copies of an operator go to workers in turns, from the one that the policy names on.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.node.free_list import NO_UNIT, FreeList, length, new_free_list, pick, put
from headrace.node.parking import Lot, leave, park, prepare, wake_all, wake_one
from headrace.node.schedulers.free_list import (
    AT_ONCE,
    Standing,
    find_work,
    offer,
    push_back,
    take,
    take_out,
)
from headrace.node.schedulers.hooks import Desk, Turn, has_seat
from headrace.node.schedulers.priority import ranks_and_limits
from headrace.node.ticks import now
from headrace.node.unit import FINISHED, Unit
from headrace.stage.memory.atomics import (
    load_acquire,
    load_relaxed,
    load_sc,
    store_release,
    store_sc,
)
from headrace.stage.memory.records import compiled, i64, i64s, line, record

if TYPE_CHECKING:
    from headrace.control.scheduling import Decision, Scheduling
    from headrace.node.features import NodeFeatures

FIRST_NAP, LONGEST_NAP = 10_000, 100_000_000  # ns; §5: "a very small sleep", which doubles
PATIENCE = 10_000_000  # ns that a meeting waits for workers
NOBODY = -1
NONE_YET = -1  # Seat.best: nothing has run since the head of the list


@record
class Plan:
    """Who has which units; written by the control thread while it is not in force."""

    count: i64 = line()
    order: i64  # fixed: address of the units, by priority
    threads: i64  # fixed: address of the worker of each unit; NOBODY: any
    ranks: i64  # fixed: address; equal priorities have the same
    limits: i64  # fixed: address of b; 0: as the engine bounds it
    staleness: i64  # ns: d; 0: for ever


@record
class Seat:
    """What is known of one worker, which alone writes it (table 2)."""

    met: i64 = line()  # the epoch whose meeting it has come to
    away: i64  # it is suspended: meetings do without
    epoch: i64  # of its list
    plan: i64 = line()  # address
    count: i64
    list: i64  # fixed: address of its units by priority, the paper's 𝔸
    place: i64  # of the next one
    best: i64  # the rank of op*, the unit that ran last
    ran: i64
    delayed: i64  # units of its list that were looked at for running late ones
    entered: i64  # ns: t_Y, when it left the last meeting
    nap: i64  # ns: the last one


@record
class AssignedRecord:
    """The memory of the scheduler."""

    epoch: i64 = line()  # of the plan in force; written by the control thread
    plan: i64  # address; likewise
    meeting: i64 = line()  # the epoch that is to end; likewise,
    next: i64  # and the plan that comes then
    spent: i64  # ns: in all meetings so far
    lot: Lot = line()  # where the control thread waits for workers
    desk: i64 = line()  # fixed: where workers sleep
    list: i64  # fixed: the queue of all units
    standings: i64  # fixed: of each unit
    seats: i64  # fixed: of each worker
    workers: i64  # fixed


Calling = Callable[[], AbstractContextManager[Callable[[Any], Any]]]


class Assigned:
    """The scheduler; `memory` is the address that its hooks are told.

    calling: a context in which the engine stays in its mode; it gives a compiled function in it.
    threads: how many workers run.
    """

    hooks: tuple[Any, ...]  # on_ready, next_task, on_done, has_work, give_back: set below
    called: tuple[Any, ...]  # by the control thread: set below
    name, period = "assigned", 0.1  # seconds: P; Haren §7.2

    def __init__(
        self, units: int, workers: int, desk: Any, calling: Calling, threads: Callable[[], int]
    ) -> None:
        self._calling, self._threads = calling, threads
        self._desk = desk  # its lot is woken by its address
        self._list, self._standings = new_free_list(units), Standing.allocate(units)
        self._seats, self._record = Seat.allocate(max(workers, 1)), AssignedRecord.allocate()
        self._lists = np.zeros((max(workers, 1), units), np.int64)
        self._plans = [Plan.allocate() for _ in range(2)]
        self._tables = [np.zeros((4, units), np.int64) for _ in range(2)]
        for plan, (order, threads_of, ranks, limits) in zip(self._plans, self._tables, strict=True):
            threads_of[:] = NOBODY
            plan.order, plan.threads = order.ctypes.data, threads_of.ctypes.data
            plan.ranks, plan.limits = ranks.ctypes.data, limits.ctypes.data
        for seat, units_of in zip(self._each_seat(workers), self._lists, strict=False):
            seat.list, seat.plan, seat.away = units_of.ctypes.data, self._plans[0].address, 1
        record = self._record
        record.epoch, record.plan, self._spare = 1, self._plans[0].address, 1
        record.desk, record.list = desk.address, self._list.address
        record.standings, record.seats = self._standings.address, self._seats.address
        record.workers = workers

    def _each_seat(self, workers: int) -> list[Any]:
        return [self._seats[number] for number in range(workers)]

    @property
    def memory(self) -> int:
        """The address of its record."""
        return self._record.address

    @property
    def meeting_ns(self) -> int:
        """How long meetings took so far."""
        return int(self._record.spent)

    def order(
        self, scheduling: Scheduling, decision: Decision, features: NodeFeatures
    ) -> tuple[Any, ...]:
        """What the policy says about each unit, for `rank`; it is asked for f (algorithm 3)."""
        workers = max(1, self._threads())
        threads = (scheduling.assign(workers)[features.entry] + features.copy) % workers
        late = scheduling.policy.staleness if scheduling.features.intrinsic else inf
        staleness = int(1e9 * late) if isfinite(late) else 0
        return *ranks_and_limits(decision, features), threads, staleness

    def rank(
        self,
        units: np.ndarray,
        ranks: np.ndarray,
        limits: np.ndarray,
        threads: np.ndarray,
        staleness: int = 0,
    ) -> None:
        """By the control thread: a meeting, and another plan. Units that it does not name are
        anybody's."""
        plan, (order, threads_of, ranks_of, limits_of) = (
            self._plans[self._spare], self._tables[self._spare],
        )  # fmt: skip
        threads_of[:] = NOBODY
        threads_of[units], ranks_of[units], limits_of[units] = threads, ranks, limits
        order[: len(units)] = units[np.argsort(ranks, kind="stable")]
        plan.count, plan.staleness = len(units), staleness
        self._record.next, self._spare = plan.address, 1 - self._spare
        with self._calling() as of:
            of(meet)(self.memory)


# ---- the scheduling task, by the control thread ---------------------------------------------


@compiled
def meet(address):
    """The period is over (algorithm 1, line 16): a meeting. 1: all workers came; 0: some did not,
    and are counted out."""
    record = AssignedRecord(address)
    began = now()
    store_sc(record, "meeting", record.epoch)
    wake_all(Desk(record.desk).lot)
    here = await_all(record, began + PATIENCE)
    store_release(record, "plan", record.next)
    store_sc(record, "epoch", record.epoch + 1)  # the exit barrier of algorithm 3
    wake_all(Desk(record.desk).lot)
    record.spent += now() - began
    return 1 if here else 0


@compiled
def await_all(record, until):
    """Algorithm 3, the entry barrier: are all workers here, in time?"""
    moment = now()
    while moment < until:
        ticket = prepare(record.lot)
        here = are_here(record)
        if not here:
            park(record.lot, ticket, until - moment)
        leave(record.lot)
        if here:
            return True
        moment = now()
    return False


@compiled
def are_here(record):
    """Has everybody come who is not away? Who has not come back since the last meeting is still in
    the run, or in Python, that kept it from coming then. When all are to stop nobody comes."""
    seats = Seat(record.seats)
    stop = load_sc(Desk(record.desk), "stop")
    if stop != 0:
        return True
    for number in range(record.workers):
        seat = seats[number]
        met, away = load_sc(seat, "met"), load_sc(seat, "away")
        known = load_sc(seat, "epoch")
        if known == record.epoch and met != record.epoch and away == 0:
            return False
    return True


# ---- the scheduling task, by a worker -------------------------------------------------------


@compiled
def is_at_meeting(record, seat, epoch):
    """Come to the meeting, if there is one."""
    meeting = load_sc(record, "meeting")
    if meeting != epoch:
        return False
    if seat.met != epoch:
        store_sc(seat, "met", epoch)
        wake_one(record.lot)
    return True


@compiled
def leave_meeting(record, seat, worker, epoch):
    """A plan is in force: make the own list of it (algorithm 2, lines 7 to 9)."""
    plan = Plan(load_acquire(record, "plan"))
    seat.plan, seat.count = plan.address, 0
    store_sc(seat, "epoch", epoch)  # before it looks for the next meeting
    for k in range(plan.count):
        unit = i64s(plan.order)[k]
        if i64s(plan.threads)[unit] == worker:
            i64s(seat.list)[seat.count] = unit
            seat.count += 1
    seat.entered, seat.delayed, seat.nap = now(), 0, 0
    restart(seat)


@compiled
def restart(seat):
    """From the head of the list again (algorithm 1, lines 3 and 4)."""
    seat.place, seat.best, seat.ran = 0, NONE_YET, 0


# ---- the execution task ---------------------------------------------------------------------


@compiled
def late_unit(record, seat, units):
    """Algorithm 1, lines 19 to 23: one that has not run for longer than d, and could."""
    staleness = Plan(seat.plan).staleness
    while staleness > 0 and seat.delayed < seat.count:
        unit = i64s(seat.list)[seat.delayed]
        seat.delayed += 1
        if seat.entered - Unit(units)[unit].seen > staleness:
            taken = take(record, unit)
            if taken:
                return unit
    return NO_UNIT


@compiled
def own_unit(record, seat):
    """Algorithm 1, lines 5 to 13: the next unit of the list that can run, up to the equals of the
    one that ran last."""
    ranks = i64s(Plan(seat.plan).ranks)
    while seat.place < seat.count:
        unit = i64s(seat.list)[seat.place]
        if seat.best != NONE_YET and ranks[unit] > seat.best:
            return NO_UNIT
        seat.place += 1
        taken = take(record, unit)  # canRun
        if taken:
            seat.best, seat.ran = ranks[unit], 1
            return unit
    return NO_UNIT


@compiled
def unknown_unit(record):
    """One that no plan knows, of the queue of all."""
    queue, plan = FreeList(record.list), Plan(load_acquire(record, "plan"))
    for _ in range(length(queue)):
        unit = pick(queue)
        if unit == NO_UNIT:
            return NO_UNIT
        if load_relaxed(i64s(plan.threads), unit) != NOBODY:
            put(queue, unit)
            continue
        taken = take_out(record, unit)
        if taken:
            return unit
    return NO_UNIT


@compiled
def find_assigned(record, seat, units):
    """The next unit for a worker, or NO_UNIT: it is to back off."""
    unit = late_unit(record, seat, units)
    if unit != NO_UNIT:
        return unit
    unit = own_unit(record, seat)
    if unit == NO_UNIT and seat.ran != 0:
        restart(seat)
        unit = own_unit(record, seat)
    if unit != NO_UNIT:
        return unit
    restart(seat)
    return unknown_unit(record)


# ---- the hooks -----------------------------------------------------------------------------


@compiled
def on_ready(address):
    """See hooks. Its worker will come to it; nobody is woken."""
    turn = Turn(address)
    offer(AssignedRecord(turn.scheduler), turn.unit)
    return 0


@compiled
def next_task(address):
    """See hooks."""
    turn = Turn(address)
    record = AssignedRecord(turn.scheduler)
    if not has_seat(record, turn.worker):
        return find_work(record)  # who moves them to another scheduler
    seat = Seat(record.seats)[turn.worker]
    if seat.away != 0:
        store_sc(seat, "away", 0)
    epoch = load_sc(record, "epoch")
    if epoch != seat.epoch:
        leave_meeting(record, seat, turn.worker, epoch)
    at_meeting = is_at_meeting(record, seat, epoch)
    if at_meeting:
        turn.nap = PATIENCE
        return NO_UNIT
    unit = find_assigned(record, seat, turn.units)
    if unit != NO_UNIT:
        turn.nap, seat.nap = AT_ONCE, 0
        turn.limit = i64s(Plan(seat.plan).limits)[unit]
    else:  # line 15; P ends it, too
        turn.nap = seat.nap = min(max(FIRST_NAP, 2 * seat.nap), LONGEST_NAP)
    return unit


@compiled
def on_done(address):
    """See hooks. Where it was taken from the queue it goes back."""
    turn = Turn(address)
    if turn.answer != FINISHED:
        push_back(AssignedRecord(turn.scheduler), turn.unit)
    return 0


@compiled
def is_ready(address):
    """has_work; see hooks. A meeting, or its end, ends a sleep."""
    turn = Turn(address)
    record = AssignedRecord(turn.scheduler)
    if not has_seat(record, turn.worker):
        return 0
    seat = Seat(record.seats)[turn.worker]
    epoch = load_sc(record, "epoch")
    meeting = load_sc(record, "meeting")
    return 1 if epoch != seat.epoch or (meeting == epoch and seat.met != epoch) else 0


@compiled
def give_back(address):
    """See hooks. Meetings do without who takes no more; its units are others' from the next on."""
    turn = Turn(address)
    record = AssignedRecord(turn.scheduler)
    turn.nap = 0
    if has_seat(record, turn.worker):
        store_sc(Seat(record.seats)[turn.worker], "away", 1)
        wake_one(record.lot)
    return 1


Assigned.hooks = (on_ready, next_task, on_done, is_ready, give_back)
Assigned.called = (meet,)
