"""Queries of two classes under overload (Haren §7.4, scenario 2): HIGH ones come in bursts.

Three HIGH and ten LOW queries, chains of twelve operators each. Together LOW ones ask for all that
the machine can do; HIGH ones ask for half of it, a quarter of the time. With a thread for each
operator, as the paper's side without Haren, all get their share; with the policy, FCFS among HIGH
and highest rate among LOW ones, HIGH ones come first.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import headrace as hr
from headrace import col
from headrace.bench.figure import Found
from headrace.bench.latency import latencies_so_far, worst_of
from headrace.bench.queries import How, Queries
from headrace.control.policies.fcfs import fcfs
from headrace.control.policies.highest_rate import highest_rate
from headrace.control.policies.multi_class import multi_class
from headrace.write import Output

from .bench import ENGINE, Bench
from .beside import spin
from .policies import Counted

HIGH, LOW = 3, 10  # queries
OPERATORS = 12  # of each; §7.2: L = 12
TURNS = 1000  # of `spin` for a row: some microseconds
TABLE_ROWS = 10_000
DEMAND = 0.5  # of what the machine can do: that of HIGH queries in a burst
BURST = 0.25  # of the time: the paper has 5 seconds of 20
BURSTS = 1
SETTLE_SECONDS = 1.0  # until the first burst
PLAIN = How(ENGINE, 2, "none")
THREADS = replace(PLAIN, scheduler="dedicated")


def ours() -> How:
    """Haren's scheduler and policy."""
    policy = multi_class({1: fcfs(), 0: highest_rate()})
    return replace(PLAIN, scheduler="assigned", policy=policy)


@dataclass
class Chain:
    """A query: a row costs some microseconds, in one of twelve operators."""

    rate: Any
    counted: Counted = field(default_factory=Counted)

    def output(self) -> Output:
        """Its output; all rows come through."""
        numbers = hr.read.replay({"n": np.arange(TABLE_ROWS)}, rate=self.rate)
        stream = numbers.map(_spun, columns=["n"], output={"n": int})
        for _ in range(OPERATORS - 1):
            stream = stream.with_columns(n=col("n") + 1)
        return stream.write.callback(self.counted.take)


def _spun(n: int) -> int:
    return spin(n + 1, TURNS)


@dataclass(frozen=True)
class Observed:
    """Rows per second of all, the worst latencies of each class, the part of the time in which
    workers met instead of working, and whether all rows came."""

    rate: float
    high_ms: dict[str, Any]
    low_ms: dict[str, Any]
    overhead: float
    correct: bool


def observe(how: How, high: Any, low: Any, seconds: float) -> Observed:
    """Run all queries for some seconds, HIGH and LOW ones at these rates."""
    chains = [Chain(rate) for rate in [high] * HIGH + [low] * LOW]
    with Queries([], how) as queries:
        for number, chain in enumerate(chains):
            options = {"priority": "high"} if how.policy is not None and number < HIGH else {}
            queries.submit(chain.output(), **options)
        queries.await_rows()
        queries.await_warm()
        earlier, before = latencies_so_far(queries.jobs), sum(queries.rows())
        began, met = time.perf_counter(), queries.meeting_seconds
        time.sleep(seconds)
        passed, met = time.perf_counter() - began, queries.meeting_seconds - met
        later, rows = latencies_so_far(queries.jobs), sum(queries.rows()) - before
        queries.stop()
        correct = [chain.counted.rows for chain in chains] == queries.rows()
    high_ms = worst_of(later[:HIGH], earlier[:HIGH])["block"]
    low_ms = worst_of(later[HIGH:], earlier[HIGH:])["block"]
    return Observed(rows / passed, high_ms, low_ms, met / passed, correct)


def bursts(rate: float, seconds: float) -> list[tuple[float, str]]:
    """Steps of a rate: next to nothing at first, then bursts.

    >>> bursts(1000, 4.0)
    [(1, '1000ms'), (1000, '1000ms'), (1, '3000ms')]
    """
    cycle = 1000 * seconds / BURSTS
    steps: list[tuple[float, str]] = [(1, f"{round(1000 * SETTLE_SECONDS)}ms")]
    for _ in range(BURSTS):
        steps += [(rate, f"{round(BURST * cycle)}ms"), (1, f"{round((1 - BURST) * cycle)}ms")]
    return steps


def classes(bench: Bench) -> dict[str, Found]:
    """The worst latency of HIGH queries with a thread for each operator, to that with classes."""
    seconds = bench.settings.seconds / BURST
    bench.say("as fast as they go")
    most = observe(PLAIN, None, None, bench.settings.seconds)
    high = bursts(max(1.0, DEMAND * most.rate / HIGH), seconds)
    low = max(1.0, most.rate / LOW)
    found = {}
    for name, how in (("dedicated", THREADS), ("multi_class", ours())):
        bench.say(f"{name}, {most.rate:,.0f} rows/s")
        found[name] = observe(how, high, low, SETTLE_SECONDS + seconds)
    threads, by_class = found["dedicated"], found["multi_class"]
    counts = bool(threads.high_ms["samples"] and by_class.high_ms["samples"])
    ratio = threads.high_ms["max"] / by_class.high_ms["max"] if counts else 0.0
    details = {
        "high_ms": {name: each.high_ms for name, each in found.items()},
        "low_ms": {name: each.low_ms for name, each in found.items()},
        "rows_per_s": {name: round(each.rate) for name, each in found.items()},
        "overhead": round(by_class.overhead, 4),
        "overhead_at_most": 0.02,
    }
    correct = most.correct and all(each.correct for each in found.values())
    return {"multi_class": Found(ratio, correct, details, counts)}
