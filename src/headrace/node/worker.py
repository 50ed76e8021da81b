"""The loop of a worker: compiled, without the GIL. It returns only when the host is needed.

A worker takes a unit from the scheduler (`schedulers.hooks`), claims it, and runs it. What it
begins and what it gives, it tells the scheduler, which decides who goes on.
"""

from __future__ import annotations

from headrace.node.batches import run_batches
from headrace.node.claims import UnitState, release, release_listed
from headrace.node.collecting import run_collect
from headrace.node.free_list import NO_UNIT
from headrace.node.gathering import run_gather
from headrace.node.parking import Lot, leave, park, prepare, ring, wake_all
from headrace.node.parting import run_parts
from headrace.node.passing import run_merge, run_pass, run_sink
from headrace.node.permits import give_permit
from headrace.node.reading import run_reader, run_source
from headrace.node.running import run_kernel
from headrace.node.schedulers.hooks import (
    AGAIN as GOES_ON,
)
from headrace.node.schedulers.hooks import (
    ARRIVED,
    AWAIT,
    COST_UNIT,
    RUN,
    Desk,
    EngineRecord,
    Hooks,
    Worker,
    adopt,
    asked,
    done,
    list_next,
    list_unit,
    next_unit,
    ready,
    worth_a_look,
)
from headrace.node.ticks import now, thread_time
from headrace.node.unit import (
    AGAIN,
    BATCHES,
    BLOCKED,
    COLLECT,
    GATHER,
    HOST,
    KERNEL,
    MERGE,
    MIX,
    MORE,
    PASS,
    READER,
    SOURCE,
    STARVED,
    Unit,
)
from headrace.node.worklist import run_shared
from headrace.stage.memory.atomics import (
    load_acquire,
    load_relaxed,
    load_sc,
    pause,
    store_relaxed,
    store_sc,
)
from headrace.stage.memory.calls import call
from headrace.stage.memory.records import compiled, i64s

STOP = 0  # an answer besides HOST
SPINS = 400  # looks for work before sleeping; some microseconds
LOOK_EVERY = 100_000  # ns between looks at the timed units of a busy worker
LONGEST_SLEEP = 250_000_000  # ns
WHOLE = 64  # weight of a run that alone tells what a row costs,
WHOLE_NS = 800_000  # which is one that takes so long; others have that much less
FULL = 16  # the least weight of a run that has taken all rows it was allowed
WATCHED_RUNS = 64  # after one that seemed to be long


@compiled
def run_unit(worker, unit):
    """One run of a unit."""
    if unit.kind == KERNEL:
        if unit.worklist == 0:
            return run_kernel(worker, unit)
        return run_shared(worker, unit) if unit.own_run == 0 else run_parts(worker, unit)
    if unit.kind == SOURCE:
        return run_source(worker, unit)
    if unit.kind == MERGE or unit.kind == MIX:
        return run_merge(worker, unit)
    if unit.kind == PASS:
        return run_pass(worker, unit)
    if unit.kind == GATHER:
        return run_gather(worker, unit)
    if unit.kind == COLLECT:
        return run_collect(worker, unit)
    if unit.kind == READER:
        return run_reader(worker, unit)
    if unit.kind == BATCHES:
        return run_batches(worker, unit) if unit.worklist == 0 else run_shared(worker, unit)
    return run_sink(worker, unit)


@compiled
def work(address):
    """All that threads do inside: the one way into the compiled engine, which is compiled once.

    LOOP: as `work_on`. AWAIT: wait for a hosted unit, gives its number. RUN: run the one that is
    held, once.
    """
    worker = Worker(address)
    if worker.errand == AWAIT:
        return await_hosted(worker, worker.patience)
    if worker.errand == RUN:
        return run_hosted(worker, worker.held)
    return work_on(worker)


@compiled
def work_on(worker):
    """Run units until workers are to come out (STOP) or a unit needs the host, which the worker
    holds meanwhile."""
    engine, desk = EngineRecord(worker.engine), Desk(worker.desk)
    units = Unit(engine.units)
    while True:
        stop = load_acquire(desk, "stop")
        leaving = load_relaxed(engine, "leaving")
        if stop != 0 or leaving != 0:
            return STOP
        adopt(worker)
        active = load_relaxed(engine, "active")
        if worker.number >= active and worker.held == NO_UNIT:
            sit_out(worker, engine)
            continue
        number = worker.held
        if number == NO_UNIT:
            number = find_unit(worker, engine)
            if number == NO_UNIT:
                continue
        unit = units[number]
        worker.held = number
        answer = run_once(worker, unit)
        if answer == HOST:
            return HOST
        worker.held = NO_UNIT
        finish(worker, engine, unit, answer)
        if unit.seen - worker.checked > LOOK_EVERY:
            worker.checked = unit.seen
            wake_timed(worker, engine, unit.seen)


@compiled
def run_once(worker, unit):
    """One run of a unit, and what is noted of it: also what a row costs, for the next one."""
    begun, rows = now(), unit.rows_in
    run_ns = EngineRecord(worker.engine).run_ns
    worker.until = worker.gave = worker.behind = 0
    watched = is_watched(unit)
    on_core = thread_time() if watched else 0
    note_pause(unit, begun)
    answer = run_unit(worker, unit)
    ended = now()
    unit.runs += 1
    unit.busy += ended - begun
    unit.seen, unit.why = ended, answer
    rows = unit.rows_in - rows
    if rows > 0:
        ns = thread_time() - on_core if watched else ended - begun
        note_cost(run_ns, unit, rows, ns, worker.left <= 0)
    unit.last_rows, unit.last_ns = rows, ended - begun
    return answer


@compiled
def is_watched(unit):
    """Does the time on a core tell what a row of it costs?"""
    return unit.watched > 0 or unit.cost == 0


@compiled
def note_cost(run_ns, unit, rows, ns, full):
    """What a row costs, for the next run. The few rows at the end of a split tell little, unless
    the unit has hardly had others: then its cost is the mean over all of them.

    By the clock, a run is long, too, when its thread had to wait for a core; then the next ones
    would be short for no reason, or the unit would wait for a permit behind units whose rows really
    take long. So a unit that seems to have run for too long is *watched* for some runs: their time
    on a core counts, which takes a system call to know. So is one of which nothing is known yet:
    that its rows are long is believed after the first one.
    """
    cost = max(1, ns * COST_UNIT // rows)
    if run_ns > 0 and ns > run_ns:
        believed = is_watched(unit)
        unit.watched = WATCHED_RUNS
        if not believed:
            return
    elif unit.watched > 0:
        unit.watched -= 1
    weight = max(FULL if full else 0, WHOLE * ns // WHOLE_NS, WHOLE * rows // unit.rows_in)
    weight = min(WHOLE, weight)
    unit.cost = cost if unit.cost == 0 else max(1, unit.cost + (cost - unit.cost) * weight // WHOLE)


@compiled
def finish(worker, engine, unit, answer):
    """A run is over: the unit is nobody's, or the scheduler's again if it has more to do."""
    done(worker, unit.number, unit.last_rows, unit.last_ns, answer)
    if worker.permitted != 0:
        worker.permitted = 0
        list_next(worker, give_permit(engine.permits))
    state = UnitState(engine.states)[unit.number]
    if answer == AGAIN or answer == MORE:
        release_listed(state)
        # A writer whose reader is behind comes after it, so that rows stay in the cache.
        goes_on = answer == AGAIN and worker.behind == 0
        list_unit(worker, unit.number, GOES_ON if goes_on else ARRIVED)
        return
    listed = release(state)
    if listed:
        list_unit(worker, unit.number, ARRIVED)


@compiled
def find_unit(worker, engine):
    """A unit of the scheduler's, which is now this worker's; NO_UNIT after a sleep."""
    unit = next_unit(worker)
    if unit != NO_UNIT:
        return unit
    moment = now()
    wake = wake_timed(worker, engine, moment)
    if wake > moment:
        sleep(worker, wake - moment)
    return NO_UNIT


@compiled
def sleep(worker, ns):
    """Sleep until there is work, or as long as the scheduler says; at most `ns`, when a unit is to
    be woken, unless others look at the clock."""
    nap = worker.turn.nap
    if nap == 0:
        await_work(worker, SPINS, min(ns, LONGEST_SLEEP))
    else:
        await_work(worker, 0, min(ns, nap) if nap > 0 else -nap)


@compiled
def await_work(worker, spins, ns):
    """Spin, prepare, scan again, park (`parking`). Gives whether it slept."""
    for _ in range(spins):
        found = worth_a_look(worker)
        if found:
            return False
        pause()
    lot = Lot(worker.lot)
    ticket = prepare(lot)
    found = worth_a_look(worker)
    if not found:
        park(lot, ticket, ns)
    leave(lot)
    return not found


@compiled
def sit_out(worker, engine):
    """A worker that is suspended: others get what was kept for it."""
    hooks = Hooks(worker.hooks)
    call(hooks.give_back, asked(worker, hooks).address)
    ring(Desk(worker.desk).lot, 1)
    ticket = prepare(engine.bench)
    active = load_sc(engine, "active")
    stop = load_sc(Desk(worker.desk), "stop")
    if worker.number >= active and stop == 0:
        park(engine.bench, ticket, LONGEST_SLEEP)
    leave(engine.bench)


@compiled
def let_work(engine, workers):
    """Suspend the workers from a number on, and let the others go on."""
    store_sc(engine, "active", workers)
    wake_everybody(engine)


@compiled
def stop_all(engine):
    """Tell all threads to stop, and wake those that sleep."""
    store_sc(engine.workers, "stop", 1)
    store_sc(engine.hosts, "stop", 1)
    wake_everybody(engine)


@compiled
def wake_everybody(engine):
    """Let all who sleep look again."""
    wake_all(engine.workers.lot)
    wake_all(engine.hosts.lot)
    wake_all(engine.bench)


# ---- threads of the host ---------------------------------------------------------------------


@compiled
def await_hosted(worker, ns):
    """Wait, at most `ns`, for a hosted unit; gives the number of one that is this thread's now."""
    adopt(worker)
    unit = next_unit(worker)
    if unit == NO_UNIT:
        await_work(worker, 0, ns)
        adopt(worker)
        unit = next_unit(worker)
    return unit


@compiled
def run_hosted(worker, number):
    """One run of a hosted unit that is this thread's; HOST: Python has to do something first."""
    engine = EngineRecord(worker.engine)
    unit = Unit(engine.units)[number]
    answer = run_once(worker, unit)
    if answer != HOST:
        finish(worker, engine, unit, answer)
    return answer


@compiled
def note_pause(unit, begun):
    """What the unit did between its last run and this one."""
    if unit.why == STARVED:
        unit.starved += begun - unit.seen
    elif unit.why == BLOCKED:
        unit.blocked += begun - unit.seen


@compiled
def wake_timed(worker, engine, moment):
    """Make the units ready whose time has come; gives the time of the next one."""
    units, timed = Unit(engine.units), i64s(engine.timed)
    soonest = moment + LONGEST_SLEEP
    for k in range(engine.timed_count):
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


@compiled
def ask_hook(hook, turn):
    """Call a hook, for the control thread."""
    _, answer = call(hook, turn)
    return answer
