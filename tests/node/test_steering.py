"""Policies at work in an engine: what they are told, what they may answer, and how they change."""

import gc
import threading
import time
import warnings
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from tests.node.endless import SECONDS, Endless, await_that, engine_of

import headrace as hr
from headrace.control import Policy
from headrace.control.compiling import LOOKS, Priorities
from headrace.control.errors import PolicyWarning
from headrace.control.features import DERIVED, FEATURES, Features
from headrace.control.graph import Graph
from headrace.control.policies import POLICIES, fcfs, highest_rate, multi_class
from headrace.control.scheduling import Decision
from headrace.node import steering
from headrace.node.features import NodeFeatures
from headrace.node.schedulers.priority import Priority
from headrace.options import OptionError

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


# ---- nonsense ------------------------------------------------------------------------------


def raising(features):
    raise RuntimeError("no idea")


def leaving(features):
    raise SystemExit(3)


def writing(features):
    features.cost[0] = 3.0
    return features.cost


NONSENSE = {
    "NaN": (lambda f: f.cost * np.nan, "nan for operator"),
    "infinite": (lambda f: f.cost + np.inf, "inf for operator"),
    "too few": (lambda f: [1.0], r"shape \(1,\)"),
    "too many": (lambda f: np.ones((len(f), 2, 2)), "shape"),
    "nothing": (lambda f: None, "nan|shape|it raised"),
    "text": (lambda f: ["first"] * len(f), "it raised ValueError"),
    "raises": (raising, "it raised RuntimeError: no idea"),
    "exits": (leaving, "it raised SystemExit"),
    "unknown": (lambda f: f.costs, "no feature 'costs'"),
    "writes": (writing, "read-only"),
    "limit": (Policy("mine", lambda f: f.cost, limit=lambda f: -f.cost), "limit: -"),
    "eligible": (Policy("mine", lambda f: f.cost, eligible=lambda f: f.cost + 7), "eligible: 7"),
    "adapt": (Policy("mine", lambda f: f.cost, adapt=raising), "adapt: it raised"),
}


@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_is_given_up_and_no_row_is_lost(what):
    policy, message = NONSENSE[what]
    query = Endless()
    with engine_of() as engine, pytest.warns(PolicyWarning, match=message):
        job = engine.submit(query.output)
        await_that(query.has_rows())
        engine.use(policy)
        await_that(lambda: engine.scheduling().startswith("the default: policy"))
        await_that(query.has_rows())
        assert job.stop(timeout=SECONDS)
        assert "scheduling: the default: policy" in job.explain()
        time.sleep(0.05)  # the warning comes last
    query.check(job)


def test_a_policy_after_one_that_was_given_up():
    query = Endless()
    with engine_of(NONSENSE["raises"][0]) as engine, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        job = engine.submit(query.output)
        await_that(lambda: engine.scheduling().startswith("the default"))
        engine.use("fcfs")
        assert engine.scheduling().startswith("policy 'fcfs'")
        await_that(query.has_rows())
        assert job.stop(timeout=SECONDS)
    query.check(job)


def test_a_policy_that_does_not_answer_holds_nobody_up():
    """Rows flow on, queries come and go, and the engine is closed."""
    asked, answer = threading.Event(), threading.Event()

    def thinking(features):
        asked.set()
        answer.wait(SECONDS)
        return features.cost

    query, other = Endless(), Endless(name="others")
    try:
        with engine_of(thinking) as engine:
            job = engine.submit(query.output)
            assert asked.wait(SECONDS)
            await_that(query.has_rows())
            second = engine.submit(other.output)
            await_that(other.has_rows())
            assert second.stop(timeout=SECONDS) and job.stop(timeout=SECONDS)
    finally:
        answer.set()
    query.check(job)
    other.check(second)


def test_a_policy_that_thinks_keeps_no_query_alive():
    """What a kernel frees when it goes belongs to its query."""
    asked, answer = threading.Event(), threading.Event()

    def thinking(features):
        asked.set()
        answer.wait(SECONDS)
        return np.zeros(len(features))

    def kernels_of_a_job(engine):
        job = engine.submit(Endless().output)
        assert asked.wait(SECONDS)
        inside = engine._engine
        operators = [o for query in set(inside._queries.values()) for o in query.operators.values()]
        found = [weakref.ref(o.kernel) for o in operators if o.kernel_unit]
        assert found and job.stop(timeout=SECONDS)
        engine.jobs.clear()
        return found

    def are_gone():
        gc.collect()
        return all(kernel() is None for kernel in kernels)

    with engine_of(thinking) as engine:
        try:
            kernels = kernels_of_a_job(engine)
            await_that(are_gone)
        finally:
            answer.set()


def test_an_engine_without_queries_has_no_control_thread():
    """So one that nobody has any more leaves nothing behind."""
    before = set(threading.enumerate())
    with engine_of("fcfs") as engine:
        engine.use("highest_rate")
        assert not any(t.name == "headrace-steering" for t in set(threading.enumerate()) - before)


def test_nobody_is_eligible_and_all_run():
    """Who is not eligible comes last, not never."""
    query = Endless()
    nobody = Policy("nobody", lambda f: f.cost, eligible=lambda f: np.zeros(len(f)))
    with engine_of(nobody) as engine:
        job = engine.submit(query.output)
        await_that(query.has_rows())
        assert job.stop(timeout=SECONDS)
    query.check(job)


@pytest.mark.parametrize("policy", ["best", 3, [], object()])
def test_what_is_no_policy_is_refused(policy):
    for begin in (lambda: hr.Engine(policy=policy), lambda: _run(policy=policy)):
        with pytest.raises(OptionError, match=r"policy=.*\n  fix: a function"):
            begin()


@pytest.mark.parametrize("given", [{"period": 0}, {"period": -1.0}, {"batch": 0}])
def test_a_period_or_batch_that_is_none(given):
    with engine_of("fcfs") as engine, pytest.raises(OptionError, match="must be above zero"):
        engine.use("fcfs", **given)


@pytest.mark.parametrize("priority", ["urgent", float("nan"), True, [1]])
def test_what_is_no_priority_is_refused(priority):
    with pytest.raises(OptionError, match=r'priority=.*\n  fix: "normal" or "high"'):
        _run(priority=priority)


def _run(**options):
    output = hr.read.memory({"n": [1]}).write.collect()
    return hr.run(output, engine="node", workers=1, compiled=False, **options)


# ---- what a policy is told -----------------------------------------------------------------


class Noting:
    """A policy that notes all features, and ranks as it is told."""

    def __init__(self, rank=lambda f: np.zeros(len(f))):
        self.seen, self._rank = [], rank

    def __call__(self, features):
        values = {name: getattr(features, name).copy() for name in [*FEATURES, *DERIVED]}
        self.seen.append((features.graph, features.now, values))
        return self._rank(features)

    def last(self):
        graph, now, values = self.seen[-1]
        rows = zip(*values.values(), strict=True)
        return {
            (query, name): dict(zip(values, row, strict=True), now=now)
            for query, name, row in zip(graph.query, graph.names, rows, strict=True)
        }


def test_features_of_an_engine():
    """A chain whose operators give a third and twice of what they take."""
    noting = Noting()
    numbers = hr.read.replay({"n": np.arange(900)}, rate=30_000, name="numbers")
    kept = numbers.filter(hr.col("n") % 3 == 0, name="kept")
    twice = kept.flat_map(twice_each, output={"m": int}, name="twice")
    output = twice.write.null(name="out")
    with engine_of(noting) as engine:
        job = engine.submit(output, fuse="none", priority=2, capacity=128, deadline="2s")
        await_that(lambda: job.progress().rows_out > 3000)
        await_that(lambda: named(noting.last())["numbers"]["rate"] > 0)
        await_that(lambda: all(f["last_scheduled"] > 0 for f in named(noting.last()).values()))
        found = named(noting.last())
        assert job.stop(timeout=SECONDS)
    assert set(found) == {"numbers", "kept", "twice", "out", "out (merge)"}
    assert found["kept"]["selectivity"] == pytest.approx(1 / 3, rel=0.6)  # a window cuts runs
    assert found["twice"]["selectivity"] == pytest.approx(2, rel=0.6)
    assert found["numbers"]["rate"] < 3e6  # of a window, in which rows may come that were late
    for values in found.values():
        assert values["cost"] > 0 and values["output_cost"] >= values["cost"] * 0.3
        assert 0 <= values["now"] - values["last_scheduled"] < SECONDS
        assert values["pending"] >= 0 and values["output_room"] >= 0
        assert values["head_time"] >= values["now"] - SECONDS
        assert values["user_priority"] == values["query_class"] == values["deadline"] == 2
    assert found["kept"]["parallelism"] == 2 and found["out"]["parallelism"] == 1
    assert found["out"]["output_room"] > 1e9


def twice_each(n):
    yield n
    yield n


def test_what_waits_before_a_sink_that_blocks():
    """Rows behind it pile up: they are pending, have waited, and leave less room."""
    noting, let_go = Noting(), threading.Event()

    def block(batch):
        let_go.wait(SECONDS)

    numbers = hr.read.replay({"n": np.arange(1000)}, rate=5_000, name="numbers")
    output = numbers.filter(hr.col("n") >= 0, name="kept").write.callback(block, name="out")
    with engine_of(noting) as engine:
        try:
            job = engine.submit(output, capacity=16)
            await_that(lambda: noting.seen and named(noting.last())["out"]["pending"] > 30)
            found = named(noting.last())
        finally:
            let_go.set()
        assert job.stop(timeout=SECONDS)
    out = found["out"]
    assert out["input_queue"] == out["pending"] > 30
    assert out["head_time"] <= out["arrival_time"] <= out["now"]
    assert found["out (merge)"]["output_queue"] > 0
    assert found["out (merge)"]["output_room"] < 16 * 16


def named(found):
    """What was seen of the operators of one query, by their names."""
    return {name: values for (_, name), values in found.items()}


def test_queries_come_and_go():
    """Haren's update: a policy is asked about those that are there."""
    noting = Noting()

    def names():
        return {name for _, name in noting.last()} if noting.seen else set()

    first, second = Endless(name="first"), Endless(name="second")
    with engine_of(noting) as engine:
        one = engine.submit(first.output)
        await_that(lambda: "first" in names())
        two = engine.submit(second.output)
        await_that(lambda: {"first", "second"} <= names())
        numbers = {query for query, _ in noting.last()}
        assert len(numbers) == 2
        assert one.stop(timeout=SECONDS)
        await_that(lambda: "second" in names() and "first" not in names())
        assert {query for query, _ in noting.last()} < numbers  # it keeps its number
        await_that(second.has_rows())
        assert two.stop(timeout=SECONDS)
    first.check(one)
    second.check(two)


def ranks_of(engine):
    """The ranks in force of the units of each query, and their limits."""
    inside = engine._engine
    scheduler = inside._scheduler
    in_force = [order.address for order in scheduler._orders].index(scheduler._record.order)
    ranks, limits = scheduler._tables[in_force]
    found = {}
    for number, query in list(inside._queries.items()):
        rank = (int(ranks[number]), int(limits[number]))
        found.setdefault(query.sources[0].name, set()).add(rank)
    return found


@pytest.mark.parametrize("favourite", ["first", "second"])
def test_what_a_policy_answers_is_put_in_force(favourite):
    """Units of a query in front of those of another; its copies are equals. Who is not eligible
    comes behind all who are."""

    def others(features):
        return [not name.startswith(favourite) for name in owners(features.graph)]

    policy = Policy(
        "favourite",
        lambda features: np.array(others(features), float),
        eligible=lambda features: ~np.array(others(features)),
        limit=lambda features: np.full(len(features), 12.0),
    )

    def is_in_force():
        found = ranks_of(engine)
        mine, theirs = found.pop(favourite), found.popitem()[1]
        if (len(mine), len(theirs)) != (1, 1):  # copies, and all of a query, are equals
            return False
        (rank, limit), (their_rank, their_limit) = *mine, *theirs
        return rank < their_rank and limit == their_limit == 12

    first, second = Endless(name="first"), Endless(name="second")
    with engine_of(policy) as engine:
        jobs = [engine.submit(first.output), engine.submit(second.output)]
        await_that(lambda: len(ranks_of(engine)) == 2)
        await_that(is_in_force)
        for job in jobs:  # the favourite may leave nothing for the other one while it reads
            job.stop()
        assert all(job.await_termination(SECONDS) for job in jobs)
    first.check(jobs[0])
    second.check(jobs[1])


def owners(graph):
    """The name of the source of each operator's query."""
    sources = {
        query: graph.names[n] for n, query in enumerate(graph.query) if not graph.upstream[n]
    }
    return [sources[query] for query in graph.query]


class Seen:
    """Three operators of a unit each, of which the last one has not run for two seconds."""

    graph, entry = None, np.arange(3)

    def __len__(self):
        return 3

    def unseen(self, seconds):
        return np.array([False, False, seconds < 2.0])


@pytest.mark.parametrize(
    ("staleness", "intrinsic", "first"),
    [(1.0, True, 2), (1.0, False, 0), (3.0, True, 0), (float("inf"), True, 0)],
)
def test_who_has_not_run_for_the_staleness_comes_first(staleness, intrinsic, first):
    """Where the policy reads what only a run of the operator tells."""
    policy = Policy("mine", lambda features: features.cost, staleness=staleness)
    scheduling = SimpleNamespace(policy=policy, features=SimpleNamespace(intrinsic=intrinsic))
    decision = Decision(np.arange(3), np.arange(3), np.ones(3, bool), np.zeros(3, np.int64))
    ranks, _ = Priority(8, 1).order(scheduling, decision, Seen())
    assert np.argmin(ranks) == first and len(set(ranks.tolist())) == 3


def test_who_waits_unseen():
    features = object.__new__(NodeFeatures)
    features._now = 10.0
    features._counters = SimpleNamespace(
        most=lambda name: np.array([9.5e9, 8.0e9, 8.0e9]), each=lambda name: np.array([1, 1, 0])
    )
    assert features.unseen(1.0).tolist() == [False, True, False]


# ---- changing it ---------------------------------------------------------------------------


def test_a_policy_takes_over_while_jobs_run():
    """The one before is asked no more, and all rows come."""
    query, notes = Endless(), [Noting() for _ in range(3)]
    with engine_of() as engine:
        job = engine.submit(query.output)
        for noting in notes:
            await_that(query.has_rows())
            engine.use(noting, period=0.002)
            await_that(lambda noting=noting: len(noting.seen) > 2)
        asked = len(notes[0].seen)
        await_that(lambda: len(notes[2].seen) > 5)
        assert len(notes[0].seen) == asked
        assert job.stop(timeout=SECONDS)
    query.check(job)


def test_a_batch_bounds_runs():
    """b = 7: as soon as it is in force, no run of the kernel takes more rows."""
    query = Endless()

    def kernel():
        (found,) = [m for m in job.metrics().values() if "operators" in m]
        return found

    with engine_of(workers=1) as engine:
        job = engine.submit(query.output)
        await_that(query.has_rows())
        engine.use("fcfs", batch=7)
        await_that(lambda: {limit for _, limit in ranks_of(engine)["numbers"]} == {7})
        begun = kernel()["blocks"]
        await_that(lambda: kernel()["blocks"] > begun + 1)  # a run that had begun before is over
        before = kernel()
        await_that(lambda: kernel()["rows_in"] > before["rows_in"] + 500)
        after = kernel()
        assert job.stop(timeout=SECONDS)
    query.check(job)
    runs = after["blocks"] - before["blocks"] + 3  # they go on while they are counted
    assert after["rows_in"] - before["rows_in"] <= 7 * runs


@pytest.mark.compiled
@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_compiled(name):
    """In the compiled loop; state, windows, two workers."""
    times = list(range(3000))
    rows = hr.read.memory({"t": times, "k": [n % 7 for n in times]}).with_watermark("t", 5)
    collected = rows.key_by("k").window(hr.tumbling(100)).agg(n=hr.count()).write.collect()
    job = hr.start(collected, engine="node", workers=2, capacity=64, policy=name)
    assert job.await_termination(SECONDS)
    assert sum(collected.result()["n"].to_pylist()) == 3000
    assert f"scheduling: policy {name!r}" in job.explain()


# ---- classes -------------------------------------------------------------------------------


def test_a_query_of_a_higher_class_comes_first():
    """What waits of a high query is done before anything of a normal one; what is high is said by
    the query, and used by the policy."""
    orders = []

    def noted(features):
        found = multi_class({1: fcfs(), 0: highest_rate()}).priority(features)
        orders.append((features.query_class.tolist(), found[:, 0].tolist()))
        return found

    high, normal = Endless(name="high"), Endless(name="normal")
    with engine_of(Policy("noted", noted)) as engine:
        jobs = [engine.submit(high.output, priority="high"), engine.submit(normal.output)]
        await_that(lambda: orders and len(set(orders[-1][0])) == 2)
        assert orders[-1][0] == orders[-1][1]
        await_that(normal.has_rows())
        assert all(job.stop(timeout=SECONDS) for job in jobs)
    high.check(jobs[0])
    normal.check(jobs[1])


def test_a_priority_brings_a_policy_along():
    query = Endless()
    with engine_of() as engine:
        assert engine.scheduling() == "the default"
        job = engine.submit(query.output, priority="high")
        await_that(query.has_rows())
        assert engine.scheduling().startswith("policy 'user_priority'")
        assert job.stop(timeout=SECONDS)
    query.check(job)


# ---- compiling -----------------------------------------------------------------------------


def in_a_loop(features):
    found = np.empty(len(features.cost))
    for k in range(len(features.cost)):
        found[k] = features.pending[k] / features.output_cost[k] - features.now
    return found


def with_the_graph(features):
    return [float(len(features.graph.downstream[k])) for k in range(len(features))]


def otherwise_compiled(features):
    """Compiled code does not keep what a list has."""
    calls.append(1)
    return features.cost * len(calls)


calls: list[int] = []


def given_features():
    graph = Graph.of("abc", [(0, 1), (1, 2)])
    return Features.given(
        graph, now=3.0, cost=[1.0, 2.0, 3.0], selectivity=[1, 1, 1], pending=[3, 2, 1]
    )


@pytest.mark.compiled
def test_a_slow_function_is_compiled():
    features = given_features()
    asked = Priorities(Policy("looped", in_a_loop), slow=0.0)
    first = [asked(features) for _ in range(LOOKS)][-1]
    assert not asked.is_compiled  # before it is told to
    asked.compile()
    second = asked(features)
    assert asked.is_compiled and first.tolist() == second.tolist()


@pytest.mark.parametrize("function", [with_the_graph, otherwise_compiled])
def test_what_cannot_be_compiled_stays_python(function):
    features = given_features()
    asked = Priorities(Policy("mine", function), slow=0.0, looks=1)
    first = asked(features)
    asked.compile()
    assert len(first) == len(asked(features)) == 3 and not asked.is_compiled


def test_a_fast_function_is_left_alone():
    asked = Priorities(fcfs(), slow=60.0, looks=1)
    asked(Features.given(Graph.of("a", []), head_time=[1.0]))
    asked.compile()
    assert not asked.is_compiled


def test_slow_first_answers_alone_compile_nothing(monkeypatch):
    """They load code and fill caches; one that is fast is enough to leave the function alone."""
    clock = iter([0.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 3.0])
    monkeypatch.setattr("headrace.control.compiling.time.thread_time", lambda: next(clock))
    asked = Priorities(fcfs(), looks=3)
    features = Features.given(Graph.of("a", []), head_time=[1.0])
    for _ in range(8):  # the clock is looked at for the first three only
        asked(features)
        asked.compile()
    assert not asked.is_compiled


def test_the_thread_takes_a_small_part_of_a_core(monkeypatch):
    """What an answer takes decides when the next question comes."""
    waits = []
    made = steering.Steering(
        fcfs(), Priority(8, 1), lambda queries: EmptyFeatures(), None, lambda: None
    )  # fmt: skip
    clock = iter([0.0, 0.004, 1.0, 1.0])
    monkeypatch.setattr(steering.time, "thread_time", lambda: next(clock))
    made._epoch = lambda: (0.001, True)

    def wait(seconds):
        waits.append(seconds)
        made._over = len(waits) == 2

    made._changed.wait = wait
    made._run()
    assert waits == [pytest.approx(0.004 / steering.SHARE), 0.001]


class EmptyFeatures:
    graph = Graph.of([], [])

    def __len__(self):
        return 0
