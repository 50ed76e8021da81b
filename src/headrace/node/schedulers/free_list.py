"""The scheduler `free_list`: Streams' dynamic threading model (figs. 4 to 6), as it is printed.

A lock-free queue has *all* units that were ever ready, not only those that are. A worker that looks
for work pops one after the other until it finds one that nobody has and that has something to do,
and pushes all others back (fig. 5). It stays with a unit until that has nothing more to do; then
the unit goes to the back, so the least recently run is the next (fig. 4). Where nothing is found,
or another worker was faster, it sleeps, ten times as long each time, up to ten milliseconds; nobody
wakes it. So a look costs as much as there are units: `near` does without.

Where a unit finds a port full, its worker runs the reader, for a quarter of what lies in the port,
and then the unit again (fig. 6), without looking at the queue.

What differs. The figures run the reader inside `push`, and try again while another thread has it. A
run never waits here: the unit ends BLOCKED, and the reader comes next; where another worker has
the reader, this one looks for other work. A run is bounded by the engine (`run_us`): a unit that
has used up its time goes to the back, too. Sources, which have threads of their own there, are
units like all others.

Nothing is lost: a unit is in the queue, in the hand of who looks at it, or taken (OUT); of those
that are taken, each is told again (`on_done`, or `on_ready` where it could not be run), and whoever
changes OUT to IN pushes it.
"""

from __future__ import annotations

from typing import Any

from headrace.node.free_list import NO_UNIT, FreeList, length, new_free_list, pick, put
from headrace.node.port import Port, pending
from headrace.node.schedulers.hooks import AGAIN, Turn, has_seat
from headrace.node.unit import AGAIN as GOES_ON
from headrace.node.unit import BLOCKED, FINISHED, Output, Run, Unit
from headrace.node.worklist import Worklist
from headrace.stage.memory.atomics import cas, load_relaxed, store_release
from headrace.stage.memory.records import array, compiled, i64, i64s, line, record

OUT, IN = 0, 1  # Standing.place
FIRST_NAP, LONGEST_NAP = 1_000, 10_000_000  # ns; fig. 5: `delay *= 10`; §4.1.3: "ten milliseconds"
AT_ONCE = 1  # ns: a unit was found, but another worker has it
RESCHEDULED = 4  # fig. 6: RESCHED_LIMIT is a quarter of the queue (§4.1.4)
MOST_ASIDE = 64  # units that a worker means to run next


@record
class Standing:
    """How a unit stands; written by everybody."""

    ready: i64  # it has something to do, and nobody has taken it
    place: i64  # IN: it is in the queue, or in the hand of who looks at it


@record
class Aside:
    """A unit that a worker means to run without looking at the queue, if it is ready by then."""

    unit: i64
    limit: i64


@record
class Seat:
    """What is known of one worker, which alone writes it."""

    going: i64 = line()  # the unit that it stays with
    depth: i64
    aside: array(Aside, MOST_ASIDE) = line()  # the last one first


@record
class FreeUnitsRecord:
    """The memory of the scheduler."""

    list: i64 = line()  # fixed: the queue, `freePorts` of fig. 3
    standings: i64  # fixed: of each unit
    seats: i64  # fixed: of each worker
    workers: i64  # fixed


class FreeUnits:
    """The scheduler; `memory` is the address that its hooks are told.

    >>> scheduler = FreeUnits(units=8, workers=1)
    >>> turn = Turn.allocate()
    >>> turn.scheduler, turn.worker = scheduler.memory, -1
    >>> for turn.unit in (5, 3):
    ...     _ = on_ready(turn.address)
    >>> [(next_task(turn.address), turn.nap) for _ in range(4)]
    [(5, 1), (3, 1), (-1, 1000), (-1, 10000)]
    """

    hooks: tuple[Any, ...]  # on_ready, next_task, on_done, has_work, give_back: set below

    def __init__(self, units: int, workers: int) -> None:
        self._list, self._record = new_free_list(units), FreeUnitsRecord.allocate()
        self._standings, self._seats = Standing.allocate(units), Seat.allocate(max(workers, 1))
        for number in range(workers):
            self._seats[number].going = NO_UNIT
        record = self._record
        record.list, record.standings = self._list.address, self._standings.address
        record.seats, record.workers = self._seats.address, workers

    @property
    def memory(self) -> int:
        """The address of its record."""
        return self._record.address


# ---- the queue of all units ----------------------------------------------------------------


@compiled
def offer(record, unit):
    """A unit has something to do: whoever comes to it in the queue may take it."""
    store_release(Standing(record.standings)[unit], "ready", 1)
    push_back(record, unit)


@compiled
def push_back(record, unit):
    """To the back of the queue, unless it is there."""
    outside = cas(Standing(record.standings)[unit], "place", OUT, IN)
    if outside:
        put(FreeList(record.list), unit)


@compiled
def take(record, unit):
    """Fig. 5, consTryLock and pop: has it something to do, and is now this worker's?"""
    standing = Standing(record.standings)[unit]
    ready = load_relaxed(standing, "ready")
    if ready == 0:
        return False
    return cas(standing, "ready", 1, 0)


@compiled
def take_out(record, unit):
    """Take a unit that was popped, or push it back."""
    # OUT before it is taken: who offers it again meanwhile pushes it, or we do
    store_release(Standing(record.standings)[unit], "place", OUT)
    taken = take(record, unit)
    if not taken:
        push_back(record, unit)
    return taken


@compiled
def find_work(record):
    """Fig. 5, findWorkNonBlocking: once around the queue, or until another worker was faster.

    Steps are counted: who waits for the unit that it saw first walks on and on where another worker
    has taken that one meanwhile.
    """
    queue = FreeList(record.list)
    for _ in range(length(queue)):
        unit = pick(queue)
        if unit == NO_UNIT:
            return NO_UNIT
        taken = take_out(record, unit)
        if taken:
            return unit
    return NO_UNIT


# ---- a full port ---------------------------------------------------------------------------


@compiled
def reschedule(seat, unit):
    """Fig. 6, reSchedule: the reader of the fullest port is next, for a part of what lies there,
    then the unit itself."""
    shared = unit.worklist != 0  # what it gives goes through the reorder buffer
    at = Worklist(unit.worklist).buffer.outputs if shared else Run(unit.run).outputs
    outputs = Output(at)
    reader, most = NO_UNIT, 0
    for k in range(unit.output_count):
        for place in range(outputs[k].count):
            port = Port(i64s(outputs[k].ports)[place])
            lying = pending(port)
            if lying > most:
                reader, most = port.consumer, lying
    if reader != NO_UNIT and seat.depth + 2 <= MOST_ASIDE:
        set_aside(seat, unit.number, 0)
        set_aside(seat, reader, max(1, most // RESCHEDULED))


@compiled
def set_aside(seat, unit, limit):
    """The next one for a worker. It stays where it is: others may take it."""
    aside = seat.aside[seat.depth]
    aside.unit, aside.limit = unit, limit
    seat.depth += 1


# ---- the hooks -----------------------------------------------------------------------------


@compiled
def on_ready(address):
    """See hooks. Who looks finds it; nobody is woken (fig. 5)."""
    turn = Turn(address)
    record = FreeUnitsRecord(turn.scheduler)
    if turn.how == AGAIN and has_seat(record, turn.worker):
        seat = Seat(record.seats)[turn.worker]
        if seat.going == NO_UNIT:
            seat.going = turn.unit  # fig. 4, the inner loop
            return 0
    offer(record, turn.unit)
    return 0


@compiled
def next_task(address):
    """See hooks; fig. 5, findWorkBlocking, but for the sleep itself."""
    turn = Turn(address)
    record = FreeUnitsRecord(turn.scheduler)
    nap, turn.nap = turn.nap, AT_ONCE
    if has_seat(record, turn.worker):
        seat = Seat(record.seats)[turn.worker]
        if seat.going != NO_UNIT:
            unit, seat.going = seat.going, NO_UNIT
            return unit
        while seat.depth > 0:
            seat.depth -= 1
            aside = seat.aside[seat.depth]
            taken = take(record, aside.unit)
            if taken:
                turn.limit = aside.limit
                return aside.unit
    unit = find_work(record)
    if unit == NO_UNIT:
        turn.nap = min(max(FIRST_NAP, 10 * nap), LONGEST_NAP)
    return unit


@compiled
def on_done(address):
    """See hooks. A unit that goes on is told again (`on_ready`), one that is finished never."""
    turn = Turn(address)
    record = FreeUnitsRecord(turn.scheduler)
    if turn.answer == BLOCKED and has_seat(record, turn.worker):
        reschedule(Seat(record.seats)[turn.worker], Unit(turn.units)[turn.unit])
    if turn.answer != GOES_ON and turn.answer != FINISHED:
        push_back(record, turn.unit)
    return 0


@compiled
def is_ready(address):
    """has_work; see hooks. Who has found nothing sleeps for a while in any case (§4.1.3)."""
    return 0


@compiled
def give_back(address):
    """See hooks."""
    turn = Turn(address)
    record = FreeUnitsRecord(turn.scheduler)
    turn.nap = 0
    if has_seat(record, turn.worker):
        seat = Seat(record.seats)[turn.worker]
        seat.depth = 0
        if seat.going != NO_UNIT:
            offer(record, seat.going)
            seat.going = NO_UNIT
    return 1


FreeUnits.hooks = (on_ready, next_task, on_done, is_ready, give_back)
