"""The seam between workers and schedulers: three hooks, called by their addresses.

    on_ready(turn)   `turn.unit` may have something to do. LISTED: wake a worker
    next_task(turn)  the number of a unit that now is this worker's, or NO_UNIT; sets `turn.limit`
    on_done(turn)    `turn.unit` is no longer this worker's; `turn.rows` and `turn.ns` say what the
                     run did. LISTED: it has more to do, and is in the list again

A scheduler is a set of such functions of one argument, the address of a `Turn`, over memory of its
own (`turn.scheduler`). It may be changed while the engine runs: the addresses are read anew for
every call, and the claim on a unit (`free_list.UnitState`) does not belong to the scheduler.
"""

from __future__ import annotations

from headrace.node.free_list import LISTED, FreeList, on_ready
from headrace.node.parking import Lot, wake_one
from headrace.node.unit import Unit
from headrace.stage.memory.atomics import load_acquire
from headrace.stage.memory.calls import call
from headrace.stage.memory.records import array, compiled, i64, line, record

MOST_DEPTH = 8192  # units that a worker has begun and not finished


@record
class Hooks:
    """A scheduler: its memory, and the addresses of its hooks."""

    scheduler: i64 = line()
    on_ready: i64
    next_task: i64
    on_done: i64


@record
class Turn:
    """What a hook is told, and what it answers besides its result. One for each worker."""

    scheduler: i64 = line()
    worker: i64
    unit: i64
    limit: i64  # rows that the unit may take, at most
    rows: i64
    ns: i64


@record
class EngineRecord:
    """What the workers of an engine share."""

    hooks: Hooks = line()  # written by the control thread
    list: i64 = line()  # fixed: the FreeList with the claims on units
    lot: i64  # fixed: where workers sleep
    hosted: i64  # fixed: the FreeList of hosted units, over the same claims
    host_lot: i64  # fixed: where threads of the host sleep
    units: i64  # fixed: the Unit of each number
    timed: i64  # fixed: numbers of the units that may want to be woken; -1: none
    timed_count: i64  # written by the control thread
    leaving: i64  # written by the control thread: workers come out, and may be sent in again


@record
class Worker:
    """A worker; everything is written by its own thread."""

    number: i64 = line()
    engine: i64
    local: i64  # the unit to run next, because its input is in this core's cache
    depth: i64  # of the stack
    checked: i64  # ns: when it last looked at the timed units
    turn: Turn = line()
    stack: array(i64, MOST_DEPTH) = line()  # units that are this worker's, the last on top


@compiled
def ready(worker, unit):
    """A unit may have something to do: for the list, and for a worker that sleeps."""
    engine, turn = EngineRecord(worker.engine), worker.turn
    if Unit(engine.units)[unit].hosted != 0:
        ready_hosted(engine, unit, worker.number)
        return
    hooks = engine.hooks
    turn.scheduler, turn.unit = hooks.scheduler, unit
    _, listed = call(load_acquire(hooks, "on_ready"), turn.address)
    if listed == LISTED:
        wake_one(Lot(engine.lot))


@compiled
def ready_hosted(engine, unit, number):
    """The same for a hosted unit and the threads of the host."""
    listed = on_ready(FreeList(engine.hosted), unit, number)
    if listed == LISTED:
        wake_one(Lot(engine.host_lot))


@compiled
def next_unit(worker):
    """A unit that is this worker's from now on, or NO_UNIT."""
    engine, turn = EngineRecord(worker.engine), worker.turn
    hooks = engine.hooks
    turn.scheduler = hooks.scheduler
    _, unit = call(load_acquire(hooks, "next_task"), turn.address)
    return unit


@compiled
def done(worker, unit, rows, ns):
    """The unit is no longer this worker's. It needs no wake-up: this worker looks next."""
    engine, turn = EngineRecord(worker.engine), worker.turn
    hooks = engine.hooks
    turn.scheduler, turn.unit, turn.rows, turn.ns = hooks.scheduler, unit, rows, ns
    call(load_acquire(hooks, "on_done"), turn.address)
