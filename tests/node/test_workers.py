"""The workers' loop against the reference: random pipelines, interpreted and compiled.

Interpreted, it is the same source on real threads, so thousands of small pipelines go through all
of its ways: full ports, empty pools, splits of one row, suspended rows, windows that fire.
"""

import threading
import time

import pytest
from hypothesis import given
from tests.choices import Seeded, choices
from tests.counts import count
from tests.naive import naive, rows_of
from tests.pipelines import CAPACITIES, Builder, random_pipeline
from tests.running import ROW_ERRORS, assert_same, is_ordered, order_matters

import headrace as hr
from headrace.job import planned
from headrace.node import building, engine
from headrace.node.graph import runs_compiled
from headrace.node.life import Life
from headrace.stage.memory.calls import call

SECONDS = 120.0


class WithoutText:
    """Choices that leave strings and plain Python out, so that the loop runs alone."""

    def __init__(self, choices):
        self.number, self.chance, self._choices = choices.number, choices.chance, choices

    def pick(self, among):
        return self._choices.pick([each for each in among if not _has_text(each)] or among)


def _has_text(choice):
    if choice is Builder.map_batches or choice in ("string", "binary"):
        return True
    state = getattr(choice, "state", None) or {}
    kept = state if isinstance(state, dict) else state.__annotations__
    kinds = [*getattr(choice, "takes", ()), *kept.values()]
    return any("str" in str(kind) or "bytes" in str(kind) for kind in kinds)


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    before = set(threading.enumerate())
    yield
    left = [t for t in threading.enumerate() if t not in before and t.name.startswith("headrace")]
    assert not left


def _run(outputs, choose, *, compiled):
    """Run with random sizes of everything."""
    before = building.RING, building.SPLIT_BLOCKS
    building.RING, building.SPLIT_BLOCKS = choose.pick([1, 2, 16]), choose.pick([1, 2, 8])
    try:
        job = hr.start(
            *outputs,
            engine="node",
            workers=choose.number(1, 4),
            capacity=choose.pick(CAPACITIES),
            fuse=choose.pick(["auto", "none"]),
            compiled=compiled,
        )
        assert job.await_termination(SECONDS), "it does not end"
    finally:
        building.RING, building.SPLIT_BLOCKS = before


def _compare(choose, *, compiled, most_rows):
    choose = WithoutText(choose)
    outputs = random_pipeline(choose, most_rows=most_rows)
    if any(order_matters(output.node) for output in outputs):
        return False
    if runs_compiled(planned(outputs)) is not None:
        return False
    try:
        expected = naive(outputs)
    except ROW_ERRORS as error:
        with pytest.raises(type(error)):
            _run(outputs, choose, compiled=compiled)
        return True
    _run(outputs, choose, compiled=compiled)
    for output, rows in zip(outputs, expected, strict=True):
        assert_same(rows_of(output.result()), rows, ordered=is_ordered(output.node))
    return True


@given(choices())
def test_random_pipelines(choose):
    if _compare(choose, compiled=False, most_rows=25):
        count("random pipelines in the workers' loop, interpreted")


@pytest.mark.parametrize("seed", range(12))
def test_kernels_that_stall(seed, monkeypatch):
    """Every kernel waits at random: the others overtake it, and find full ports and empty pools.
    There are markers everywhere, also between the rows of a split and in splits without rows."""
    random = Seeded(seed)

    def stalling(address, argument):
        if random.chance(20):
            time.sleep(random.number(0, 3) / 1000)
        return call(address, argument)

    slow = Life(False, call=stalling, MARKER_PERIOD=random.pick([100_000, 5_000_000]))
    monkeypatch.setattr(engine, "life_of", lambda compiled: slow)
    if _compare(random, compiled=False, most_rows=25):
        count("random pipelines with stalls in their kernels")


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(6))
def test_random_pipelines_compiled(seed):
    if _compare(Seeded(seed), compiled=True, most_rows=200):
        count("random pipelines in the workers' loop, compiled")
