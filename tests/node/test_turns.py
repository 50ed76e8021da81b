"""Calls of Python, by the priorities of their queries."""

import threading

import pytest

import headrace as hr
from headrace import col
from headrace.node import turns as node_turns
from headrace.node.turns import Turns

SECONDS = 60.0


@pytest.fixture
def patient(monkeypatch):
    """Nobody's patience ends."""
    monkeypatch.setattr(node_turns, "PATIENCE", 1000.0)


class Called:
    """Calls on threads of their own, which note when they begin."""

    def __init__(self):
        self.turns, self.begun, self.threads = Turns(), [], []

    def begin(self, name, priority):
        def call():
            with self.turns.call(priority):
                self.begun.append(name)

        before = self.turns.under_way
        self.threads.append(threading.Thread(target=call, name=name))
        self.threads[-1].start()
        while self.threads[-1].is_alive() and self.turns.under_way == before:
            pass

    def end(self):
        for thread in self.threads:
            thread.join(SECONDS)
            assert not thread.is_alive()
        assert self.turns.under_way == 0
        return self.begun


def test_the_more_important_begin_first(patient):
    called = Called()
    with called.turns.call(2.0):
        called.begin("low", 0.0)
        called.begin("high", 1.0)
        assert called.begun == []
    assert called.end() == ["high", "low"]


def test_nobody_waits_for_equals_or_for_less_important_ones(patient):
    called = Called()
    with called.turns.call(0.0):
        called.begin("equal", 0.0)
        called.begin("high", 1.0)
        for thread in called.threads:
            thread.join(SECONDS)
        assert sorted(called.begun) == ["equal", "high"]
    called.end()


def test_who_has_waited_begins_though_others_block():
    called = Called()
    with called.turns.call(1.0):
        called.begin("low", 0.0)
        for thread in called.threads:
            thread.join(SECONDS)
        assert called.begun == ["low"]
    called.end()


def test_a_call_that_fails_ends_its_turn(patient):
    turns = Turns()
    with pytest.raises(ZeroDivisionError), turns.call(1.0):
        raise ZeroDivisionError
    assert turns.under_way == 0


@pytest.mark.parametrize("priority", ["high", -1.0])
def test_sinks_of_an_engine_take_turns(priority):
    """All rows come, whoever waits for whom."""
    seen = {"one": 0, "other": 0}

    def counting(name):
        def take(batch):
            seen[name] += batch.num_rows

        return take

    with hr.Engine(workers=2, policy="user_priority") as engine:
        jobs = [
            engine.submit(
                hr.read.index(rows=3000).filter(col("index") % 3 == 0).write.callback(take),
                capacity=16, **given,
            )
            for take, given in ((counting("one"), {"priority": priority}), (counting("other"), {}))
        ]  # fmt: skip
        for job in jobs:
            assert job.await_termination(SECONDS)
        assert engine._engine.hosts.turns.under_way == 0
    assert seen == {"one": 1000, "other": 1000}
