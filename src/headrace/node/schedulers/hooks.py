"""The seam between workers and schedulers: hooks, called by their addresses.

    on_ready(turn)   `turn.unit` has something to do. `turn.how`: it ARRIVED; it is NEAR, as this
                     worker has just written what it reads; or AGAIN, its run ended here and it
                     goes on. 1: another worker could take it, wake one
    next_task(turn)  the number of a unit for this worker, or NO_UNIT; may set `turn.limit`, the
                     most rows of the run (0: as the engine bounds it), and `turn.more`: 1, another
                     worker could take what it leaves, wake one. Where it finds none, `turn.nap`
                     says how long to sleep, in ns, whatever there is; 0: until there is work;
                     below zero: so long, and others look at the clock for units to be woken
    on_done(turn)    `turn.unit` ran: `turn.rows`, `turn.ns`, and its answer. `turn.behind`: who
                     reads what it gave is still listed for what it was given before
    has_work(turn)   1: `next_task` may find something. It never misses what was listed before:
                     after it a worker sleeps. Only who naps may miss it
    give_back(turn)  this worker takes no more: what is kept for it alone is for all from now on

A scheduler is a set of such functions of one argument, the address of a `Turn`, over memory of its
own (`turn.scheduler`). It decides everything but who may run a unit (`claims`): the order, which
worker, how long, and who reads what was just written.

**Changing it.** Workers find the set through one pointer. A new set takes effect at once; each
worker gives back to the old one what that kept for it before it adopts the new one, and the control
thread moves what lies in the old one to the new one until all workers have adopted it, and once
more then: a worker in a long run may still list units where it began. Threads of another desk adopt
nothing; they look after they have listed a unit, and list it again where there is a new set.
"""

from __future__ import annotations

from headrace.node.claims import UnitState, announce, claim, is_running, release_listed
from headrace.node.free_list import NO_UNIT
from headrace.node.parking import Lot, wake_one
from headrace.node.permits import NOBODY, Permits, take_permit, wait_for_permit
from headrace.node.unit import Unit
from headrace.stage.memory.atomics import fetch_add, load_acquire, load_sc, store_release, store_sc
from headrace.stage.memory.calls import call
from headrace.stage.memory.records import compiled, i64, line, record

ARRIVED, NEAR, AGAIN = range(3)  # turn.how
LOOP, AWAIT, RUN = range(3)  # worker.errand
TRIES = 8  # of finding a unit, which may give up (Streams §4.1.3)
COST_UNIT = 16  # of a nanosecond
FIRST_ROWS = 1  # of a unit whose cost is not known yet
ALL_ROWS = 1 << 62


@record
class Hooks:
    """A scheduler: its memory, and the addresses of its hooks. It is never changed."""

    scheduler: i64 = line()
    on_ready: i64
    next_task: i64
    on_done: i64
    has_work: i64
    give_back: i64


@record
class Turn:
    """What a hook is told, and what it answers besides its result. One for each worker."""

    scheduler: i64 = line()
    worker: i64
    unit: i64
    how: i64
    limit: i64  # rows that the unit may take, at most
    rows: i64
    ns: i64
    answer: i64
    behind: i64
    more: i64
    nap: i64  # ns that a worker sleeps which finds nothing
    units: i64  # fixed: the Unit of each number


@record
class Desk:
    """Where threads find units: that of the workers, and that of the host."""

    hooks: i64 = line()  # the Hooks in force; written by the control thread
    changes: i64 = line()  # of them; updated by all who must not miss one
    stop: i64 = line()  # written by the control thread, once
    lot: Lot = line()  # where they sleep


@record
class EngineRecord:
    """What the threads of an engine share."""

    workers: Desk = line()
    hosts: Desk = line()  # of hosted units
    states: i64 = line()  # fixed: the claim on each unit
    units: i64  # fixed: the Unit of each number
    timed: i64  # fixed: numbers of the units that may want to be woken
    timed_count: i64  # written by the control thread
    leaving: i64  # written by the control thread: workers come out, and may be sent in again
    active: i64  # written by the control thread: workers from this number on are suspended
    run_ns: i64  # fixed: how long a run should take, at most; 0: as long as there is work
    bench: Lot = line()  # where suspended workers sleep
    permits: Permits = line()  # for long runs


@record
class Worker:
    """A thread that runs units; everything is written by it."""

    number: i64 = line()
    engine: i64
    desk: i64  # fixed: where it finds units,
    lot: i64  # and where it sleeps: the desk's, or its own
    hooks: i64  # that it has adopted
    errand: i64  # what `worker.work` is to do: LOOP, AWAIT or RUN
    held: i64  # the unit that waits for Python, or that is to be run; NO_UNIT: none
    patience: i64  # ns: how long to AWAIT a unit
    left: i64  # rows that the present run may still take,
    until: i64  # and ns: when it should be over, whatever a row was expected to cost; 0: not known
    permitted: i64  # the present run has a permit
    gave: i64  # a reader was listed for what it gave,
    behind: i64  # and one is still listed for what it was given before
    checked: i64  # ns: when it last looked at the timed units
    turn: Turn = line()


@compiled
def asked(worker, hooks):
    """The turn of a worker, for a call of a hook."""
    turn = worker.turn
    turn.scheduler = hooks.scheduler
    return turn


@compiled
def has_seat(record, worker):
    """Is it a worker, of which a scheduler knows something, not the control thread or one of the
    host?"""
    return worker >= 0 and worker < record.workers


@compiled
def adopt(worker):
    """Follow a change of the scheduler; what the old one kept for this worker goes back to it."""
    desk = Desk(worker.desk)
    current = load_acquire(desk, "hooks")
    if current == worker.hooks:
        return
    if worker.hooks != 0:
        old = Hooks(worker.hooks)
        call(old.give_back, asked(worker, old).address)
    store_release(worker, "hooks", current)


@compiled
def put_in_force(desk, hooks):
    """By the control thread: workers find another set of hooks from now on."""
    store_sc(desk, "hooks", hooks)  # as the last scan before a sleep looks at it
    fetch_add(desk, "changes", 1)


@compiled
def list_unit(worker, unit, how):
    """Give a unit that is LISTED to the scheduler, and wake a thread for it if that makes sense."""
    engine = EngineRecord(worker.engine)
    desk = engine.hosts if Unit(engine.units)[unit].hosted != 0 else engine.workers
    if worker.desk == desk.address:
        tell(worker, desk, worker.hooks, unit, how)
        return
    hooks = load_acquire(desk, "hooks")
    while True:
        tell(worker, desk, hooks, unit, how)
        # An update: either who moves units from an old scheduler sees this one, or we see the new
        # one. Where both happens the unit is proposed twice, which does no harm.
        fetch_add(desk, "changes", 0)
        known, hooks = hooks, load_acquire(desk, "hooks")
        if hooks == known:
            return


@compiled
def tell(worker, desk, known, unit, how):
    """Let a scheduler know of a unit."""
    hooks = Hooks(known)
    turn = asked(worker, hooks)
    turn.unit, turn.how = unit, how
    _, useful = call(hooks.on_ready, turn.address)
    if useful == 1:
        wake_one(desk.lot)


@compiled
def ready(worker, unit):
    """A unit may have something to do."""
    listed = announce_one(worker, unit)
    if listed != NO_UNIT:
        list_unit(worker, listed, ARRIVED)


@compiled
def ready_near(worker, unit):
    """The same for a unit that reads what this worker has just written."""
    listed = announce_one(worker, unit)
    if listed != NO_UNIT:
        worker.gave = 1
        list_unit(worker, listed, NEAR)
    elif worker.gave == 0:
        running = is_running(UnitState(EngineRecord(worker.engine).states)[unit])
        worker.behind = 0 if running else 1


@compiled
def announce_one(worker, unit):
    """Announce a unit; while it runs, also another one of its operator, if there is one that does
    not. Gives the one that has to be listed, or NO_UNIT."""
    engine = EngineRecord(worker.engine)
    states, units = UnitState(engine.states), Unit(engine.units)
    listed = announce(states[unit])
    if listed:
        return unit
    one = unit
    for _ in range(units[unit].crew - 1):
        busy = is_running(states[one])
        if not busy:
            return NO_UNIT  # it is listed, and will look
        one = units[one].peer
        listed = announce(states[one])
        if listed:
            return one
    return NO_UNIT


@compiled
def next_unit(worker):
    """A unit that is this worker's from now on, or NO_UNIT: none was found, which does not mean
    that there is none."""
    engine = EngineRecord(worker.engine)
    hooks = Hooks(worker.hooks)
    for _ in range(TRIES):
        turn = asked(worker, hooks)
        turn.limit, turn.more = 0, 0
        _, unit = call(hooks.next_task, turn.address)
        if unit == NO_UNIT:
            return NO_UNIT
        limit = turn.limit
        if turn.more == 1:
            wake_one(Desk(worker.desk).lot)
        ours = claim(UnitState(engine.states)[unit])
        if ours and may_run(worker, engine, Unit(engine.units)[unit]):
            most = bound(engine, Unit(engine.units)[unit])
            worker.left = min(limit, most) if limit > 0 else most
            return unit
    return NO_UNIT


@compiled
def may_run(worker, engine, unit):
    """May a unit that was claimed run now? One whose single row is longer than a run should be
    needs a permit; without, it is given back and waits."""
    if engine.run_ns == 0 or unit.cost <= engine.run_ns * COST_UNIT:
        return True
    allowed = take_permit(engine.permits)
    if allowed:
        worker.permitted = 1
        return True
    release_listed(UnitState(engine.states)[unit.number])
    list_next(worker, wait_for_permit(engine.permits, unit.number))
    return False


@compiled
def list_next(worker, unit):
    """List a unit that waited for a permit."""
    if unit != NOBODY:
        list_unit(worker, unit, ARRIVED)


@compiled
def bound(engine, unit):
    """Rows of a run: about `run_ns` of work, by what a row of the unit took so far."""
    if engine.run_ns == 0:
        return ALL_ROWS
    if unit.cost == 0:
        return FIRST_ROWS
    return max(1, engine.run_ns * COST_UNIT // unit.cost)


@compiled
def done(worker, unit, rows, ns, answer):
    """Tell the scheduler of a run."""
    hooks = Hooks(worker.hooks)
    turn = asked(worker, hooks)
    turn.unit, turn.rows, turn.ns, turn.answer = unit, rows, ns, answer
    turn.behind = worker.behind
    call(hooks.on_done, turn.address)


@compiled
def worth_a_look(worker):
    """Is there a unit, another scheduler, or something else that a thread must not sleep over?"""
    engine, desk = EngineRecord(worker.engine), Desk(worker.desk)
    stop = load_sc(desk, "stop")
    if stop != 0:
        return True
    leaving = load_sc(engine, "leaving")
    if leaving != 0:
        return True
    current = load_sc(desk, "hooks")
    if current != worker.hooks:
        return True
    hooks = Hooks(worker.hooks)
    _, found = call(hooks.has_work, asked(worker, hooks).address)
    return found == 1
