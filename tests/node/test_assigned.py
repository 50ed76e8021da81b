"""The scheduler `assigned`: Haren's algorithms 1 to 3, and the invariants that they promise."""

import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.node.endless import SECONDS, Endless, await_that, engine_of
from tests.node.explore import planted
from tests.node.small import NAPS, SmallEngine, no_clock

from headrace.control import Policy
from headrace.control.errors import PolicyWarning
from headrace.node import engine as node_engine
from headrace.node.free_list import NO_UNIT
from headrace.node.mode import Mode
from headrace.node.parking import leave, park, prepare, wake_one
from headrace.node.schedulers.assigned import (
    FIRST_NAP,
    NOBODY,
    PATIENCE,
    Assigned,
    Seat,
    are_here,
    await_all,
    give_back,
    is_at_meeting,
    is_ready,
    leave_meeting,
    meet,
    next_task,
    on_done,
    on_ready,
    unknown_unit,
)
from headrace.node.schedulers.hooks import ARRIVED, Desk, Turn
from headrace.node.unit import STARVED, Run, Unit
from headrace.node.worker import run_unit, stop_all
from headrace.stage.memory.atomics import load_sc
from headrace.stage.memory.records import compiled, interpreted

UNITS, WORKERS = 6, 2
pytestmark = pytest.mark.usefixtures("no_thread_is_left")


@contextmanager
def calling():
    """Meetings do not wait for workers: here they are only asked, and do not run."""
    yield lambda function: interpreted(function, PATIENCE=0)


def assigned(units=UNITS, workers=WORKERS, desk=None, threads=None):
    return Assigned(units, workers, desk or Desk.allocate(), calling, lambda: threads or workers)


def rank(scheduler, ranks, threads, limits=None, staleness=0):
    units = np.arange(len(ranks))
    limits = np.zeros(len(ranks), np.int64) if limits is None else np.array(limits)
    scheduler.rank(units, np.array(ranks), limits, np.array(threads), staleness)


# ---- one thread ----------------------------------------------------------------------------


class Asked:
    """A scheduler and the turns of its workers, interpreted; all are at every meeting."""

    def __init__(self, units=UNITS, workers=WORKERS):
        self.scheduler, self.units = assigned(units, workers), Unit.allocate(units)
        self.turns = {}
        for worker in range(-1, workers):
            turn = self.turns[worker] = Turn.allocate()
            turn.scheduler, turn.worker = self.scheduler.memory, worker
            turn.units = self.units.address

    def plan(self, ranks, threads, **given):
        rank(self.scheduler, ranks, threads, **given)

    def ready(self, unit):
        turn = self.turns[-1]
        turn.unit, turn.how = unit, ARRIVED
        assert interpreted(on_ready)(turn.address) == 0  # nobody is woken

    def next(self, worker=0):
        self.turns[worker].limit = 0
        return interpreted(next_task)(self.turns[worker].address)

    def run(self, worker=0):
        """A run after which the unit has nothing to do."""
        unit = self.next(worker)
        if unit != NO_UNIT:
            turn = self.turns[worker]
            turn.unit, turn.answer = unit, STARVED
            interpreted(on_done)(turn.address)
        return unit


@given(
    ranks=st.lists(st.integers(0, 2), min_size=UNITS, max_size=UNITS),
    threads=st.lists(st.integers(0, WORKERS - 1), min_size=UNITS, max_size=UNITS),
    steps=st.lists(st.tuples(st.sets(st.integers(0, UNITS - 1)), st.integers(0, 1)), max_size=12),
)
def test_a_worker_goes_through_its_list(ranks, threads, steps):
    """Against algorithm 1, written out: its own units only, equals behind the one that ran."""
    asked = Asked()
    asked.plan(ranks, threads)
    listed = sorted(range(UNITS), key=lambda unit: ranks[unit])
    naive = [_Naive([u for u in listed if threads[u] == w], ranks) for w in range(WORKERS)]
    ready = set()
    for arrived, worker in steps:
        for unit in arrived - ready:
            asked.ready(unit)
        ready |= arrived
        expected = naive[worker].next(ready)
        assert asked.run(worker) == expected
        ready.discard(expected)


class _Naive:
    """Algorithm 1, lines 2 to 15, a run at a time."""

    def __init__(self, units, ranks):
        self.units, self.ranks, self.steps = units, ranks, self._run()
        self.ready = set()
        next(self.steps)

    def next(self, ready):
        self.ready = ready
        return next(self.steps)

    def _run(self):
        found = None
        while True:
            best, ran = None, False
            if found is None:
                yield None  # the first call
                found = NO_UNIT
            for unit in self.units:
                if best is not None and self.ranks[unit] > best:
                    break
                if unit in self.ready:
                    best, ran = self.ranks[unit], True
                    yield unit
            if not ran:
                yield NO_UNIT


def test_who_finds_nothing_sleeps_twice_as_long():
    asked = Asked()
    asked.plan([0], [0])
    naps = []
    for _ in range(4):
        assert asked.next() == NO_UNIT
        naps.append(asked.turns[0].nap)
    assert naps == [FIRST_NAP, 2 * FIRST_NAP, 4 * FIRST_NAP, 8 * FIRST_NAP]
    asked.plan([0], [0])  # "reset every time a PT enters this task"
    assert asked.next() == NO_UNIT and asked.turns[0].nap == FIRST_NAP


def test_limits_belong_to_units():
    asked = Asked()
    asked.plan([1, 0], [0, 0], limits=[7, 0])
    asked.ready(0)
    asked.ready(1)
    assert [(asked.run(), asked.turns[0].limit) for _ in range(2)] == [(1, 0), (0, 7)]


def test_late_units_run_first():
    """Algorithm 1, lines 19 to 23: whatever their priority is, once after a meeting."""
    asked, d = Asked(), 1_000_000_000
    moment = time.monotonic_ns()
    for unit, ago in enumerate([0, 2 * d, 0, 3 * d]):
        asked.units[unit].seen = moment - ago
    asked.plan([0, 2, 1, 3], [0, 0, 0, 1], staleness=d)
    for unit in range(4):
        asked.ready(unit)
    assert [asked.run() for _ in range(3)] == [1, 0, 2]
    assert asked.run(1) == 3


def test_what_no_plan_knows_is_run_by_who_has_nothing_else():
    asked = Asked()
    asked.plan([0, 0], [0, 1])
    for unit in (0, 1, 4):
        asked.ready(unit)
    assert [asked.run(), asked.run(), asked.run()] == [0, 4, NO_UNIT]  # 1 is the other's
    asked.plan([0] * 5, [1] * 5)
    asked.ready(4)
    assert asked.run() == NO_UNIT and {asked.run(1), asked.run(1)} == {1, 4}


def test_all_is_found_when_another_scheduler_takes_over():
    asked = Asked()
    asked.plan([0, 0, 0], [0, 1, 0])
    for unit in (2, 0, 4, 1):
        asked.ready(unit)
    assert {asked.next(-1) for _ in range(5)} == {0, 1, 2, 4, NO_UNIT}


def test_nothing_runs_at_a_meeting():
    asked = Asked()
    asked.plan([0], [0])
    asked.ready(0)
    record = asked.scheduler._record
    record.meeting = record.epoch
    assert asked.next() == NO_UNIT and asked.turns[0].nap == PATIENCE
    asked.plan([0], [0])
    assert asked.next() == 0


def test_who_does_not_come_is_counted_out():
    asked = Asked()
    asked.next(0)
    asked.next(1)
    record = asked.scheduler._record
    record.meeting = record.epoch
    asked.next(0)
    assert not interpreted(await_all)(record, time.monotonic_ns() + 1)  # 1 is in a long run
    interpreted(give_back)(asked.turns[1].address)  # it is suspended
    assert interpreted(await_all)(record, time.monotonic_ns() + PATIENCE)


def test_who_is_still_away_is_not_waited_for_again():
    asked = Asked()
    record, here = asked.scheduler._record, interpreted(are_here)
    asked.next(0)
    asked.next(1)
    asked.plan([0], [0])  # 1 is in a long run, and does not come
    asked.next(0)
    record.meeting = record.epoch
    asked.next(0)
    assert here(record)
    asked.plan([0], [0])
    asked.next(0)
    asked.next(1)  # it is back
    record.meeting = record.epoch
    asked.next(0)
    assert not here(record)


# ---- all interleavings ---------------------------------------------------------------------


def meeting(hook=None, **bugs):
    """A worker without work that sleeps until it is told, and a meeting; then the stop."""
    small = SmallEngine(**bugs)
    scheduler = assigned(1, 1, small.record.workers)
    scheduler._record.next = scheduler._record.plan
    if hook is not None:
        scheduler.hooks = (*scheduler.hooks[:3], hook, scheduler.hooks[4])
    small.hooks = small.new_hooks(scheduler)
    small.record.workers.hooks = small.workers[0].hooks = small.hooks.address
    meeting, stopping = small.mode.of(meet), small.mode.of(stop_all)

    def control():
        here = meeting(scheduler.memory)
        stopping(small.record)
        return here

    def check(results):
        assert results[-1] == 1
        assert small.record.workers.lot.sleepers == scheduler._record.lot.sleepers == 0

    return [small.worker(0), control], check


def test_a_meeting_wakes_who_sleeps_and_ends(explored):
    explored("assigned, a meeting", *meeting())


@compiled
def attend(record, seat, turn, lot, epoch):
    """A worker without work, as `worker.work_on` goes through it, until a plan is in force."""
    while True:
        at = load_sc(record, "epoch")
        if at != epoch:
            leave_meeting(record, seat, turn.worker, at)
            return at
        is_at_meeting(record, seat, epoch)
        ticket = prepare(lot)
        found = is_ready(turn.address)
        if found == 0:
            park(lot, ticket, 1)
        leave(lot)


def attending(**bugs):
    """Two workers that are known, and a meeting of all."""
    desk = Desk.allocate()
    scheduler = assigned(1, 2, desk)
    record, turns = scheduler._record, [Turn.allocate(), Turn.allocate()]
    record.next, seats = record.plan, Seat(record.seats)
    given = {"now": no_clock, **bugs}
    attending, meeting = interpreted(attend, **given), interpreted(meet, **given)
    for number, turn in enumerate(turns):
        turn.scheduler, turn.worker = scheduler.memory, number
        seats[number].away, seats[number].epoch = 0, record.epoch

    def body(number):
        return lambda: attending(record, seats[number], turns[number], desk.lot, 1)

    def check(results):
        assert results == [2, 2, 1]
        assert desk.lot.sleepers == record.lot.sleepers == 0

    return [body(0), body(1), lambda: meeting(scheduler.memory)], check


def test_two_workers_meet(explored):
    explored("assigned, two workers meet", *attending(), models=("sc",))


@pytest.mark.soak
def test_two_workers_meet_where_memory_is_weaker(explored):
    explored("assigned, two workers meet", *attending(), models=("tso", "weak"))


CALLING = "    wake_all(Desk(record.desk).lot)\n    here"
ENDING = "    wake_all(Desk(record.desk).lot)\n    record.spent"


@pytest.mark.parametrize("ring", [CALLING, ENDING], ids=["calling", "ending"])
@pytest.mark.parametrize("bug", ["wake_one", "nobody"])
def test_waking_not_all_workers_is_found(found, ring, bug):
    new = ring.replace("wake_all", "wake_one") if bug == "wake_one" else ring.split("\n")[1]
    ringing = planted(meet, ring, new, wake_one=wake_one)
    assert lost(found(*attending(meet=ringing), models=("sc",)), "sc")


def test_all_that_was_done_before_a_meeting_is_seen_after_it(explored):
    explored("assigned, two come", *asked_for())


def test_a_meeting_without_the_second_worker_is_found(found):
    """Who is not waited for may be in a run while another plan comes into force."""
    bug = planted(are_here, "range(record.workers)", "range(1)")
    assert found(*asked_for(are_here=bug), models=("sc",))


def asked_for(**bugs):
    """Two workers that are known, of which one comes to the meeting late, behind a run of its own;
    what it wrote there must be seen by who changes the plan."""
    scheduler = assigned(1, 2)
    record_of = scheduler._record
    made = Run.allocate()  # written by a run, read by who has met
    seats = Seat(record_of.seats)
    for number in range(2):
        seats[number].away, seats[number].epoch = 0, record_of.epoch
    coming = interpreted(is_at_meeting, **bugs)
    waiting = interpreted(await_all, now=no_clock, **bugs)
    record_of.meeting = record_of.epoch

    def first():
        coming(record_of, seats[0], record_of.epoch)

    def second():
        made.begun = 1
        coming(record_of, seats[1], record_of.epoch)

    def control():
        here = waiting(scheduler._record, PATIENCE)  # whose seats live as long as it does
        return here, made.begun

    def check(results):
        assert results[-1] == (True, 1)

    return [first, second, control], check


def lost(failures, *models):
    assert set(failures) == set(models)
    return all(failure.startswith("deadlock") for failure in failures.values())


def test_calling_without_ringing_is_found(found):
    ringing = "    wake_all(Desk(record.desk).lot)\n    here"
    assert lost(found(*meeting(meet=planted(meet, ringing, "    here")), models=("sc",)), "sc")


def test_coming_without_telling_is_found(found):
    bug = planted(is_at_meeting, "        wake_one(record.lot)\n", "")
    assert lost(found(*meeting(is_at_meeting=bug), models=("sc",)), "sc")


def test_a_last_scan_that_ignores_meetings_is_found(found):
    bug = planted(is_ready, "or (meeting == epoch and seat.met != epoch)", "")
    assert lost(found(*meeting(hook=bug), models=("sc",)), "sc")


def replanned(before, after, **bugs):
    """A unit whose worker changes while its letter comes: NOBODY, 0, or 1, who is not there. The
    meeting does not wait, as where all are counted out."""
    small = SmallEngine(**{**NAPS, "PATIENCE": 0, **bugs})
    scheduler = assigned(1, 2, small.record.workers)
    for thread in (before, after):
        rank(scheduler, [0], [thread])
    scheduler._record.plan = scheduler._plans[1].address  # the first one was written there
    small.hooks = small.new_hooks(scheduler)
    small.record.workers.hooks = small.workers[0].hooks = small.hooks.address
    scheduler._record.next = scheduler._plans[0].address
    changing = small.mode.of(meet)
    return [small.sender(0), small.worker(0), lambda: changing(scheduler.memory)], small.check


@pytest.mark.parametrize(("before", "after"), [(NOBODY, 0), (1, NOBODY), (1, 0)])
def test_nothing_is_lost_when_a_plan_changes(explored, before, after):
    explored("assigned, another plan", *replanned(before, after), models=("sc",))


def test_a_unit_of_others_that_leaves_the_queue_is_found(found):
    """From the next plan on nobody has it."""
    bug = planted(unknown_unit, "            put(queue, unit)\n", "")
    assert lost(found(*replanned(1, NOBODY, unknown_unit=bug), models=("sc",)), "sc")


# ---- an engine: Haren's invariants ----------------------------------------------------------


class Watched:
    """Engines whose runs are noted: who runs what, and never two the same."""

    def __init__(self, monkeypatch):
        self.running, self.runs, self.twice = {}, [], []
        self._lock = threading.Lock()
        run = interpreted(run_unit)

        def noted(worker, unit):
            number, who = unit.number, worker.number
            with self._lock:
                if number in self.running:
                    self.twice.append(number)
                self.running[number] = who
                self.runs.append((number, who))
            try:
                return run(worker, unit)
            finally:
                with self._lock:
                    self.running.pop(number, None)

        monkeypatch.setattr(node_engine, "_mode", lambda compiled: Mode(False, run_unit=noted))


def assigning(policy, workers=3):
    return engine_of(policy, workers, "assigned")


def epoch_of(engine):
    """How many plans there were so far."""
    return engine._engine._scheduler._record.epoch


def plan_in_force(engine):
    """The worker of each unit that the plan knows."""
    scheduler = engine._engine._scheduler
    place = [plan.address for plan in scheduler._plans].index(scheduler._record.plan)
    _, threads, _, _ = scheduler._tables[place]
    return {number: int(threads[number]) for number in np.flatnonzero(threads >= 0)}


def test_each_unit_runs_on_its_worker_and_on_one_at_a_time(monkeypatch):
    """f is always the same, so plans are."""
    watched = Watched(monkeypatch)
    policy = Policy(
        "mine", lambda f: f.pending, assign=lambda f, threads: np.arange(len(f)) % threads,
        period=0.01,
    )  # fmt: skip
    query = Endless()
    with assigning(policy) as engine:
        job = engine.submit(query.output, fuse="none")
        await_that(lambda: plan_in_force(engine))
        met = epoch_of(engine)
        await_that(lambda: epoch_of(engine) > met + 1)
        watched.runs.clear()
        await_that(query.has_rows())
        await_that(lambda: epoch_of(engine) > met + 5)
        ran, plan = set(watched.runs), plan_in_force(engine)
        assert job.stop(timeout=SECONDS)
    query.check(job)
    assert not watched.twice
    on_workers = {(number, who) for number, who in ran if who >= 0}
    assert on_workers and all(plan[number] == who for number, who in on_workers)
    assert len({who for _, who in on_workers}) > 1


def test_another_policy_decides_from_the_next_task_on():
    asked, query = [], Endless()

    def policy(name):
        def noted(features):
            asked.append((name, epoch_of(engine)))
            return features.pending

        return Policy(name, noted, period=0.02)

    with assigning(policy("first")) as engine:
        job = engine.submit(query.output)
        await_that(lambda: len(asked) > 2)
        engine.use(policy("second"))
        begun = epoch_of(engine)
        await_that(lambda: asked[-1][0] == "second")
        assert job.stop(timeout=SECONDS)
    query.check(job)
    first = [epoch for name, epoch in asked if name == "first"]
    assert max(first) <= begun  # the one that was under way, at most


def test_queries_that_come_and_go_are_picked_up():
    first, second = Endless(name="first"), Endless(name="second")
    with assigning("fcfs") as engine:
        engine.use("fcfs", period=0.01)
        one = engine.submit(first.output)
        await_that(lambda: plan_in_force(engine))
        alone = set(plan_in_force(engine))
        two = engine.submit(second.output)
        await_that(lambda: set(plan_in_force(engine)) > alone)
        await_that(second.has_rows())
        assert one.stop(timeout=SECONDS)
        await_that(lambda: not alone & set(plan_in_force(engine)))
        await_that(second.has_rows())
        assert two.stop(timeout=SECONDS)
    first.check(one)
    second.check(two)


def test_copies_go_to_workers_in_turns_and_fewer_workers_have_all():
    """Every worker has a replica; of suspended ones the others get theirs with the next task."""
    query = Endless()
    everything_on_one = Policy("on_one", lambda f: f.pending, assign=lambda f, _: [1] * len(f))
    with assigning(everything_on_one) as engine:
        job = engine.submit(query.output)
        await_that(lambda: set(plan_in_force(engine).values()) == {0, 1, 2})
        engine._engine.suspend(2)
        await_that(lambda: set(plan_in_force(engine).values()) == {0, 1})
        await_that(query.has_rows())
        assert job.stop(timeout=SECONDS)
    query.check(job)


def test_a_policy_that_thinks_holds_nobody_up():
    query, asked, answer = Endless(), threading.Event(), threading.Event()

    def thinking(features):
        if query.batches and not answer.is_set():
            asked.set()
            answer.wait(SECONDS)
        return features.pending

    with assigning(Policy("thinking", thinking, period=0.01)) as engine:
        job = engine.submit(query.output)
        try:
            assert asked.wait(SECONDS)
            await_that(query.has_rows())
        finally:
            answer.set()
        assert job.stop(timeout=SECONDS)
    query.check(job)


@pytest.mark.parametrize("threads", [[7], [-1], ["one"]])
def test_a_worker_that_there_is_not(threads):
    query = Endless()
    policy = Policy("wrong", lambda f: f.pending, assign=lambda f, _: threads * len(f))
    with assigning(policy) as engine, pytest.warns(PolicyWarning, match="assign"):
        job = engine.submit(query.output)
        await_that(lambda: engine.scheduling().startswith("the default: policy 'wrong'"))
        await_that(query.has_rows())
        assert job.stop(timeout=SECONDS)
    query.check(job)


@pytest.mark.compiled
def test_the_hooks_are_compiled():
    functions = (*Assigned.hooks, *Assigned.called)
    assert [each.load(int).result for each in functions] == ["integer"] * len(functions)
