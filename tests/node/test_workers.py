"""The workers' loop against the reference: random pipelines, interpreted and compiled.

Interpreted, it is the same source on real threads, so thousands of small pipelines go through all
of its ways: full ports, empty pools, splits of one row, suspended rows, windows that fire.
"""

import time
from contextlib import nullcontext

import pytest
from hypothesis import given
from tests.choices import Seeded, choices, fewer
from tests.counts import count
from tests.naive import naive, rows_of
from tests.node.schedulers import scheduled
from tests.node.sizes import any_sizes
from tests.pipelines import random_pipeline
from tests.running import (
    CAPACITIES,
    ROW_ERRORS,
    assert_same,
    is_ordered,
    order_matters,
    run_staged,
)

import headrace as hr
from headrace.control.policies import POLICIES
from headrace.node import building, engine
from headrace.node.histogram import Histogram
from headrace.node.mode import Mode
from headrace.node.passing import run_sink
from headrace.node.port import END, MARKER, new_port, pending, push_mark
from headrace.node.unit import FINISH, HOST, STARVED, Edge, QueryRecord, Run, Unit
from headrace.stage.memory.calls import call

SECONDS = 120.0

pytestmark = [
    pytest.mark.usefixtures("no_thread_is_left"),
    pytest.mark.filterwarnings("ignore::headrace.control.errors.PolicyWarning"),  # of "governed"
]


def _run(outputs, choose, *, compiled, transport="blocks"):
    """Run with random sizes of everything."""
    with any_sizes(choose):
        job = hr.start(
            *outputs,
            engine="node",
            workers=choose.number(1, 8),
            capacity=choose.pick(CAPACITIES) if transport == "blocks" else None,
            fuse=choose.pick(["auto", "none"]),
            compiled=compiled,
            transport=transport,
        )
        assert job.await_termination(SECONDS), "it does not end"


IN_CI = ("queue_size_throttling",)  # who reads comes last; "governed" goes through all of them
HOW = [
    *("near", "random", "governed", *IN_CI),
    *(
        pytest.param(how, marks=pytest.mark.soak)
        for how in ("free_list", "assigned", "dedicated", "swapped", "suspended", *POLICIES)
        if how not in IN_CI
    ),
]


def _is_left_out(outputs):
    """Does nobody read the column that fails? Then it is not computed."""
    try:
        run_staged(outputs)
    except ROW_ERRORS:
        return False
    return True


def _compare(choose, *, most_rows, **how):
    outputs = random_pipeline(choose, most_rows=most_rows)
    if any(order_matters(output.node) for output in outputs):
        return False
    try:
        expected = naive(outputs)
    except ROW_ERRORS as error:
        fails = nullcontext() if _is_left_out(outputs) else pytest.raises(type(error))
        with fails:
            _run(outputs, choose, **how)
        return True
    _run(outputs, choose, **how)
    for output, rows in zip(outputs, expected, strict=True):
        assert_same(rows_of(output.result()), rows, ordered=is_ordered(output.node))
    return True


@pytest.mark.parametrize("how", HOW)
@fewer
@given(choose=choices())
def test_random_pipelines(how, choose):
    with scheduled(how):
        if _compare(choose, compiled=False, most_rows=25):
            count("random pipelines in the workers' loop, interpreted")


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("seed", range(12))
def test_kernels_that_stall(seed, how, monkeypatch):
    """Every kernel waits at random: the others overtake it, and find full ports and empty pools.
    There are markers everywhere, also between the rows of a split and in splits without rows."""
    random = Seeded(seed)

    def stalling(address, argument):
        if random.chance(20):
            time.sleep(random.number(0, 3) / 1000)
        return call(address, argument)

    slow = Mode(False, call=stalling, MARKER_PERIOD=random.pick([100_000, 5_000_000]))
    monkeypatch.setattr(engine, "_mode", lambda compiled: slow)
    with scheduled(how):
        if _compare(random, compiled=False, most_rows=25):
            count("random pipelines with stalls in their kernels")


@pytest.mark.parametrize("how", ["free_list", "assigned", "dedicated"])
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.compiled)])
def test_random_pipelines_under_every_scheduler(how, compiled):
    """A few seeds, whose kernels are compiled for others; more of them are left to make soak."""
    with scheduled(how):
        for seed in range(3):
            if _compare(Seeded(seed), compiled=compiled, most_rows=200 if compiled else 25):
                count(f"random pipelines under {how}")


def test_rows_that_travel_one_by_one():
    """Enjima's baseline: the same rows in the same order."""
    for seed in range(3):
        if _compare(Seeded(seed), compiled=False, most_rows=25, transport="queues"):
            count("random pipelines over queues of rows")


def test_splits_stay_in_order_where_several_sources_come_together(monkeypatch):
    """The rows of a source that is slow come first where they were claimed first: what another one
    gives meanwhile waits, although it comes another way."""

    def stalling(address, argument):
        if random.chance(30):
            time.sleep(0.002)
        return call(address, argument)

    random, slow = Seeded(1), Mode(False, call=stalling)
    monkeypatch.setattr(engine, "_mode", lambda compiled: slow)
    monkeypatch.setattr(building, "RING", 2)
    monkeypatch.setattr(building, "SPLIT_BLOCKS", 1)
    numbers = list(range(300))
    one = hr.read.memory({"n": numbers}).filter(hr.col("n") >= 0).filter(hr.col("n") < 1000)
    other = hr.read.memory({"n": [-n for n in numbers]})
    collected = one.union(other).write.collect()
    job = hr.start(collected, engine="node", workers=3, compiled=False, capacity=3, fuse="none")
    assert job.await_termination(SECONDS), "it does not end"
    found = collected.result()["n"].to_pylist()
    assert [n for n in found if n > 0] == numbers[1:]
    assert [-n for n in found if n < 0] == numbers[1:]


def test_partial_results_of_sessions_come_before_a_watermark_that_needs_them(monkeypatch):
    """A session that ends at the watermark may go on in the pane behind, which itself ends later:
    its partial results must not stay in front of the exchange."""
    monkeypatch.setattr(building, "RING", 1)
    monkeypatch.setattr(building, "SPLIT_BLOCKS", 2)
    times = [4, 2, 8, 13, 13, 16, 15, 19, 21, 25, 23, 30, 27, 28, 35, 30]
    keys = [1, 0, 0, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0]
    rows = {"t": times, "k": keys, "j": [n % 3 for n in range(16)]}

    def stamped(state, t):
        yield t, t

    keyed = hr.read.memory(rows).with_watermark("t", 3).key_by("k", "j")
    output = {"t": hr.int64, "n": hr.int64}
    timed = keyed.process(stamped, state={"n": int}, output=output, columns=["t"])
    collected = timed.key_by("k").window(hr.session(4)).agg(n=hr.count()).write.collect()
    (expected,) = naive([collected])
    job = hr.start(collected, engine="node", workers=1, compiled=False, capacity=2)
    assert job.await_termination(SECONDS), "it does not end"
    assert_same(rows_of(collected.result()), expected, ordered=True)


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("bound", [0, 300, 10_000])
def test_many_windows_are_open_at_once(compiled, bound):
    """More than the directory has room for at first, and more than are kept for later; they close
    one by one, some at a time, or all together at the end."""
    times = [10 * n + (7 * n) % 5 for n in range(400)]
    rows = hr.read.memory({"time": times, "key": [n % 3 for n in range(400)]})
    windows = rows.with_watermark("time", bound).key_by("key").window(hr.tumbling(20))
    collected = windows.agg(n=hr.count(), last=hr.max("time")).write.collect()
    (expected,) = naive([collected])
    job = hr.start(collected, engine="node", workers=2, capacity=16, compiled=compiled)
    assert job.await_termination(SECONDS), "it does not end"
    assert_same(rows_of(collected.result()), expected, ordered=True)


def test_a_sink_ends_with_the_last_of_its_inputs():
    """What comes on one edge keeps no other one waiting, and the host hears of the end once."""
    mode, unit, edges = Mode(False), Unit.allocate(), Edge.allocate(2)
    ports, query, markers = [new_port(2), new_port(2)], QueryRecord.allocate(), Histogram.allocate()
    for edge, port in zip(edges_of(edges), ports, strict=True):
        edge.port = port.address
    under_way = Run.allocate()
    unit.query, unit.edges, unit.edge_count = query.address, edges.address, 2
    unit.run = under_way.address
    unit.markers, unit.turn = markers.address, 1
    run = mode.of(run_sink)
    push_mark(ports[0], MARKER, 0, 0, 0, 0, 0)
    push_mark(ports[1], END, 0, 0, 0, 0, 0)
    assert run(None, unit) == STARVED and markers.count == 1
    push_mark(ports[0], END, 0, 0, 0, 0, 0)
    assert (run(None, unit), under_way.request) == (HOST, FINISH)
    assert run(None, unit) == STARVED
    assert [pending(port) for port in ports] == [0, 0]


def edges_of(edges):
    return [edges[k] for k in range(2)]


@pytest.mark.compiled
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("seed", range(6))
def test_random_pipelines_compiled(seed, how):
    with scheduled(how):
        if _compare(Seeded(seed), compiled=True, most_rows=200):
            count("random pipelines in the workers' loop, compiled")
