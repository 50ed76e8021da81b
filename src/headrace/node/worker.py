"""The loop of a worker: compiled, without the GIL. It returns only when the host is needed.

A worker takes a unit from the scheduler and runs it. What it gave is read next by the same worker,
while it is in this core's cache: readers are run from a small stack, so a source goes block by
block all the way down a chain before it copies the next block (Bobox's immediate tasks; Streams
fig. 6 without its recursion). Only what a worker leaves behind can be taken by others.
"""

from __future__ import annotations

from headrace.node.batches import run_batches
from headrace.node.free_list import LISTED, NO_UNIT, FreeList, next_task, on_done, try_unit
from headrace.node.gathering import run_gather
from headrace.node.parking import Lot, await_work, wake_one
from headrace.node.passing import run_merge, run_pass, run_sink
from headrace.node.reading import run_reader, run_source
from headrace.node.running import run_kernel
from headrace.node.schedulers.hooks import MOST_DEPTH, EngineRecord, Worker, done, next_unit, ready
from headrace.node.ticks import now
from headrace.node.unit import (
    AGAIN,
    BATCHES,
    BLOCKED,
    GATHER,
    HOST,
    KERNEL,
    MERGE,
    MORE,
    PASS,
    READER,
    SOURCE,
    STARVED,
    Unit,
)
from headrace.stage.memory.atomics import load_acquire, load_relaxed, store_relaxed
from headrace.stage.memory.records import compiled, i64s

STOP = 0  # an answer besides HOST
SPINS = 400  # looks for work before sleeping; some microseconds
LOOK_EVERY = 100_000  # ns between looks at the timed units of a busy worker
LONGEST_SLEEP = 250_000_000  # ns


@compiled
def run_unit(worker, unit):
    """One run of a unit."""
    if unit.kind == KERNEL:
        return run_kernel(worker, unit)
    if unit.kind == SOURCE:
        return run_source(worker, unit)
    if unit.kind == MERGE:
        return run_merge(worker, unit)
    if unit.kind == PASS:
        return run_pass(worker, unit)
    if unit.kind == GATHER:
        return run_gather(worker, unit)
    if unit.kind == READER:
        return run_reader(worker, unit)
    if unit.kind == BATCHES:
        return run_batches(worker, unit)
    return run_sink(worker, unit)


@compiled
def work(address):
    """Run units until workers are to come out (STOP) or the unit on top of the stack needs the
    host. What a worker has begun stays on its stack."""
    worker = Worker(address)
    engine = EngineRecord(worker.engine)
    list, units = FreeList(engine.list), Unit(engine.units)
    while True:
        stop = load_acquire(list, "stop")
        leaving = load_relaxed(engine, "leaving")
        if stop != 0 or leaving != 0:
            return STOP
        if worker.depth == 0 and not find_work(worker, engine):
            continue
        unit = units[worker.stack[worker.depth - 1]]
        rows, busy = unit.rows_in, unit.busy
        answer = run_once(worker, unit)
        if answer == HOST:
            return HOST
        if answer != AGAIN:
            worker.depth -= 1
            if answer == MORE:
                ready(worker, unit.number)  # it is ours, so it goes back when it is done
            done(worker, unit.number, unit.rows_in - rows, unit.busy - busy)
        run_next(worker, list)
        if unit.seen - worker.checked > LOOK_EVERY:
            worker.checked = unit.seen
            wake_timed(worker, engine, unit.seen)


@compiled
def run_once(worker, unit):
    """One run of a unit, and what is noted of it."""
    begun = now()
    note_pause(unit, begun)
    answer = run_unit(worker, unit)
    ended = now()
    unit.runs += 1
    unit.busy += ended - begun
    unit.seen, unit.why = ended, answer
    return answer


# ---- threads of the host ---------------------------------------------------------------------


@compiled
def await_hosted(address, ns):
    """Wait, at most `ns`, for a hosted unit; gives the number of one that is this thread's now."""
    worker = Worker(address)
    engine = EngineRecord(worker.engine)
    list = FreeList(engine.hosted)
    unit, _ = next_task(list, worker.number)
    if unit == NO_UNIT:
        await_work(Lot(engine.host_lot), list, 0, ns)
        unit, _ = next_task(list, worker.number)
    return unit


@compiled
def run_hosted(address, number):
    """One run of a hosted unit that is this thread's; HOST: Python has to do something first."""
    worker = Worker(address)
    engine = EngineRecord(worker.engine)
    unit = Unit(engine.units)[number]
    answer = run_once(worker, unit)
    tell_reader(worker)
    if answer == HOST:
        return HOST
    if answer == AGAIN or answer == MORE:
        ready(worker, number)  # it is ours, so it goes back when it is done
    listed = on_done(FreeList(engine.hosted), number, worker.number, 0, 0)
    if listed == LISTED:
        wake_one(Lot(engine.host_lot))
    return answer


@compiled
def tell_reader(worker):
    """Readers are run by workers: this thread keeps none for itself."""
    unit = worker.local
    if unit != NO_UNIT:
        worker.local = NO_UNIT
        ready(worker, unit)


@compiled
def note_pause(unit, begun):
    """What the unit did between its last run and this one."""
    if unit.why == STARVED:
        unit.starved += begun - unit.seen
    elif unit.why == BLOCKED:
        unit.blocked += begun - unit.seen


@compiled
def run_next(worker, list):
    """The reader of what was just given comes next, unless another worker has it."""
    unit = worker.local
    if unit == NO_UNIT:
        return
    worker.local = NO_UNIT
    if worker.depth < MOST_DEPTH and try_unit(list, unit, worker.number):
        worker.stack[worker.depth] = unit
        worker.depth += 1
    else:
        ready(worker, unit)


@compiled
def find_work(worker, engine):
    """Take a unit from the scheduler; sleep if there is none."""
    unit = next_unit(worker)
    if unit != NO_UNIT:
        worker.stack[0] = unit
        worker.depth = 1
        return True
    moment = now()
    wake = wake_timed(worker, engine, moment)
    if wake > moment:
        ns = min(wake - moment, LONGEST_SLEEP)
        await_work(Lot(engine.lot), FreeList(engine.list), SPINS, ns)
    return False


@compiled
def wake_timed(worker, engine, moment):
    """Make the units ready whose time has come; gives the time of the next one."""
    units, timed = Unit(engine.units), i64s(engine.timed)
    soonest = moment + LONGEST_SLEEP
    for k in range(engine.timed_count):
        if timed[k] < 0:
            continue
        unit = units[timed[k]]
        wake = unit.wake_at
        if wake == 0:
            continue
        if wake <= moment:
            store_relaxed(unit, "wake_at", 0)
            ready(worker, unit.number)
            soonest = moment
        else:
            soonest = min(soonest, wake)
    return soonest
