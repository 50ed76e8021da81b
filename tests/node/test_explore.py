"""The explorer itself: the classical litmus tests, and what it must report."""

import gc
import weakref

import pytest
from tests.node.explore import TooLarge, explore, planted
from tests.node.scripts import Script

from headrace.node import futex
from headrace.stage.memory.atomics import (
    cas,
    fetch_add,
    load_acquire,
    load_relaxed,
    load_sc,
    pause,
    store_relaxed,
    store_release,
    store_sc,
)
from headrace.stage.memory.records import compiled, i64, interpreted, line, record


@record
class Pair:
    x: i64 = line()
    y: i64 = line()


def outcomes(bodies, model):
    seen = set()
    report = explore(bodies, lambda results: seen.add(tuple(results)), model)
    assert not report.failure, report
    return seen


def store_buffering(store, load):
    pair = Pair.allocate()

    def left():
        store(pair, "x", 1)
        return load(pair, "y")

    def right():
        store(pair, "y", 1)
        return load(pair, "x")

    return [left, right]


@pytest.mark.parametrize("model", ["sc", "tso", "weak"])
@pytest.mark.parametrize(
    ("store", "load", "ordered"),
    [
        (store_relaxed, load_relaxed, False),
        (store_release, load_acquire, False),
        (store_sc, load_sc, True),
    ],
)
def test_store_buffering(model, store, load, ordered):
    both_old = (0, 0) in outcomes(store_buffering(store, load), model)
    assert both_old == (model != "sc" and not ordered)


def test_a_release_store_and_a_sequentially_consistent_load_are_not_enough():
    for model in ("tso", "weak"):
        assert (0, 0) in outcomes(store_buffering(store_release, load_sc), model)


@pytest.mark.parametrize("model", ["sc", "tso", "weak"])
@pytest.mark.parametrize("store", [store_relaxed, store_release])
@pytest.mark.parametrize("load", [load_relaxed, load_acquire])
def test_message_passing(model, store, load):
    pair = Pair.allocate()

    def sender():
        store_relaxed(pair, "x", 1)
        store(pair, "y", 1)

    def receiver():
        flag = load(pair, "y")
        return flag, load_relaxed(pair, "x")

    ordered = model != "weak" or (store is store_release and load is load_acquire)
    assert ((None, (1, 0)) in outcomes([sender, receiver], model)) == (not ordered)


def test_what_an_update_hands_on():
    """A release sequence: the reader of the update sees what was released before it."""
    pair = Pair.allocate()

    def sender():
        store_relaxed(pair, "x", 1)
        store_release(pair, "y", 1)

    def relay():
        fetch_add(pair, "y", 1)

    def receiver():
        flag = load_acquire(pair, "y")
        return flag, load_relaxed(pair, "x")

    seen = {results[2] for results in outcomes([sender, relay, receiver], "weak")}
    assert (2, 0) not in seen
    assert {(2, 1), (1, 0), (0, 0)} <= seen  # (1, 0): the relay's one came first


def test_a_plain_race_is_an_error():
    pair = Pair.allocate()

    def sender():
        pair.x = 1
        store_relaxed(pair, "y", 1)

    def receiver():
        return pair.x if load_acquire(pair, "y") else None

    assert "races" in explore([sender, receiver], model="weak").failure


def test_all_interleavings_are_counted():
    """Three atomic steps of each of two threads: 6! / (3! 3!) = 20."""
    pair = Pair.allocate()

    def thread():
        for _ in range(3):
            fetch_add(pair, "x", 1)

    report = explore([thread, thread])
    assert (report.interleavings, report.states) == (20, 16)


def test_lost_updates_are_found():
    pair = Pair.allocate()

    @compiled
    def add(pair):
        before = load_relaxed(pair, "x")
        store_relaxed(pair, "x", before + 1)

    def check(results):
        assert pair.x == 2, f"x is {pair.x}"

    body = interpreted(add)
    report = explore([lambda: body(pair)] * 2, check)
    assert report.failure.startswith("at the end: x is 1")
    assert len(report.trace) == 4
    assert pair.x == 0


def test_intermediate_results_on_the_evaluation_stack_are_kept_apart():
    """Locals and place are the same after the first load, whatever it gave."""
    pair = Pair.allocate()

    def reader():
        return load_relaxed(pair, "x") * 10 + load_relaxed(pair, "y")

    def writer():
        store_relaxed(pair, "x", 1)
        store_relaxed(pair, "y", 1)

    seen = {results[0] for results in outcomes([reader, writer], "sc")}
    assert seen == {0, 1, 10, 11}


def test_a_deadlock_is_found():
    pair = Pair.allocate()

    def thread(first, second):
        while not cas(pair, first, 0, 1):
            pause()
        while not cas(pair, second, 0, 1):
            pause()
        store_release(pair, second, 0)
        store_release(pair, first, 0)

    assert not explore([lambda: thread("x", "y")] * 2).failure
    report = explore([lambda: thread("x", "y"), lambda: thread("y", "x")])
    assert report.failure.startswith("deadlock")


def test_sleeping_and_waking():
    word, pair = futex.Word.allocate(), Pair.allocate()

    def sleeper():
        seen = load_acquire(word, "value")
        if seen == 0:
            futex.wait(word.address, 0, 1)

    def waker():
        fetch_add(word, "value", 1)
        futex.wake(word.address, 1)

    def early_waker():
        futex.wake(word.address, 1)
        fetch_add(word, "value", 1)

    def rude_waker():
        fetch_add(pair, "x", 1)
        futex.wake(word.address, 1)

    assert not explore([sleeper, waker]).failure
    assert "deadlock" in explore([sleeper, early_waker]).failure
    assert "deadlock" in explore([sleeper, rude_waker]).failure
    assert "deadlock" in explore([sleeper, sleeper, waker]).failure  # one is not enough
    assert not explore([sleeper, sleeper, waker, waker], model="tso").failure


def test_bounds_that_are_too_large_are_an_error():
    pair = Pair.allocate()

    def thread():
        for _ in range(9):
            fetch_add(pair, "x", 1)

    with pytest.raises(TooLarge):
        explore([thread] * 3, limit=100)


def test_a_bug_must_have_its_place():
    with pytest.raises(AssertionError, match="0 times"):
        planted(compiled(outcomes), "no such text", "")


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_what_others_threw_away_is_not_taken_for_an_access():
    """A finalizer that reaches for memory may run wherever Python looks for garbage."""
    pair, before = Pair.allocate(), gc.get_threshold()

    class Garbage:
        pass

    held = [Garbage()]
    held[0].itself = held[0]
    weakref.finalize(held[0], lambda: pair.x)

    def body():
        held.clear()
        return len([[number] for number in range(100)])

    gc.set_threshold(1)
    try:
        script = Script(body)
    finally:
        gc.set_threshold(*before)
    assert script.root.operation is None and script.root.outcome == 100


def count_up(pair):
    """A loop whose end is read from memory: how often it runs is part of where it stands."""
    rounds = 0
    for _ in range(pair.x):
        fetch_add(pair, "y", 1)
        rounds += 1
    return rounds


def test_a_loop_over_a_range_that_was_read():
    pair = Pair.allocate()
    pair.x = 2
    assert outcomes([lambda: count_up(pair), lambda: count_up(pair)], "sc") == {(2, 2)}


def test_a_generator_expression():
    """What it has given so far is part of where the thread stands."""
    pairs = [Pair.allocate() for _ in range(2)]

    def look():
        return sum(10 ** (1 - k) * load_acquire(pairs[k], "x") for k in (0, 1))

    def store():
        store_release(pairs[1], "x", 1)
        store_release(pairs[0], "x", 1)

    assert {seen for seen, _ in outcomes([look, store], "sc")} == {0, 1, 11}
