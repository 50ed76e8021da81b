"""How soon throughput follows a change (Enjima §5.2.2, fig. 6): steps of the rate, and a filter
that lets twice as many rows through all of a sudden.

Six queries: a filter, then a function of some microseconds. At each moment it is known how many
rows were due, so it is known how far a query is behind. What counts is how long after a change any
of them is more than a tenth of a second behind.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import headrace as hr
from headrace import col
from headrace.bench.figure import Found
from headrace.bench.queries import How, Queries
from headrace.connect.rates import SECOND, Rate
from headrace.write import Output

from .bench import ENGINE, Bench
from .beside import spin
from .policies import Counted

QUERIES = 6
TURNS = 1000  # of `spin` for a row: some microseconds
LOAD = 0.7  # of what the machine can do, at the most
STEPS = (1, 2, 6, 12)  # of the rate; §5.2.2
PART, DOUBLE = 6, 3  # every so many-th row passes the filter; twice as many
BEHIND = 0.1  # seconds that still count as following
LOOK_SECONDS = 0.02
TABLE_ROWS = 60_000
HOW = How(ENGINE, 2, policy="latency_optimized")


@dataclass
class Filtered:
    """A query over numbers, of which some pass."""

    passes: np.ndarray
    rate: Any
    counted: Counted = field(default_factory=Counted)

    def output(self) -> Output:
        """Its output."""
        table = {"n": np.arange(len(self.passes)), "passes": self.passes}
        stream = hr.read.replay(table, rate=self.rate).filter(col("passes"))
        return stream.map(_spun, columns=["n"], output={"n": int}).write.callback(self.counted.take)

    def is_right(self, read: int) -> bool:
        """Did all come that had to, of so many rows?"""
        rounds, rest = divmod(read, len(self.passes))
        return self.counted.rows == rounds * self.passes.sum() + self.passes[:rest].sum()


def _spun(n: int) -> int:
    return spin(n + 1, TURNS)


def every(part: int, rows: int) -> np.ndarray:
    """A row passes, then so many less one do not.

    >>> every(3, 4).tolist()
    [True, False, False, True]
    """
    return np.arange(rows) % part == 0


@dataclass(frozen=True)
class Seen:
    """How many rows each query had read at some moments, and whether all results came."""

    moments: np.ndarray
    rows: np.ndarray  # a column for each query
    correct: bool

    @property
    def rate(self) -> float:
        """Rows per second, of all."""
        read = self.rows[-1] - self.rows[0]
        return float(read.sum() / (self.moments[-1] - self.moments[0]))


def observe(passes: np.ndarray, rate: Any, seconds: float) -> Seen:
    """Run the queries, each at a rate, and look at them all the time."""
    filtered = [Filtered(passes, rate) for _ in range(QUERIES)]
    moments, rows = [], []
    with Queries([each.output() for each in filtered], HOW) as queries:
        queries.await_rows()
        queries.await_warm()
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            moments.append(time.perf_counter())
            rows.append(queries.rows())
            time.sleep(LOOK_SECONDS)
        queries.stop()
        right = [each.is_right(read) for each, read in zip(filtered, queries.rows(), strict=True)]
    return Seen(np.array(moments), np.array(rows), all(right))


def longest_behind(
    moments: np.ndarray, due: np.ndarray, changes: Sequence[float]
) -> dict[str, float]:
    """Seconds after each change until it is followed. due: when the last row that was read by each
    moment was due, after the start; the start is when a query was least behind.

    >>> moments = np.array([5.0, 6.0, 6.5, 7.0, 7.5])
    >>> longest_behind(moments, np.array([0.0, 1.0, 1.1, 1.8, 2.5]), [1.0])
    {'1s': 1.0}
    """
    passed = moments - (moments - due).min()
    found = {}
    for begin, end in zip(changes, [*changes[1:], np.inf], strict=True):
        behind = (passed >= begin) & (passed < end) & (passed - due > BEHIND)
        found[f"{begin:g}s"] = float(passed[behind].max() - begin) if behind.any() else 0.0
    return found


def _followed(seen: Seen, rate: Rate, changes: Sequence[float]) -> dict[str, float]:
    """The slowest query after each change."""
    found: dict[str, float] = {}
    for read in seen.rows.T:
        due = np.array([rate.due(max(int(rows) - 1, 0)) / SECOND for rows in read])
        for name, seconds in longest_behind(seen.moments, due, changes).items():
            found[name] = max(found.get(name, 0.0), round(seconds, 3))
    return found


def steps(bench: Bench) -> dict[str, Found]:
    """The longest time until throughput follows a change."""
    phase = max(bench.settings.seconds / 2, 5 * LOOK_SECONDS)
    bench.say("as fast as they go")
    few, many = every(PART, TABLE_ROWS), every(DOUBLE, TABLE_ROWS)
    most = [observe(passes, None, phase) for passes in (few, many)]
    top = [max(100.0, LOAD * each.rate / QUERIES) for each in most]
    bench.say(f"steps up to {QUERIES * top[0]:,.0f} rows/s")
    length = f"{round(1000 * phase)}ms"
    rising = Rate.of([(top[0] * step / STEPS[-1], length) for step in STEPS])
    assert rising is not None
    by_rate = observe(few, rising, phase * len(STEPS))
    changes = [k * phase for k in range(1, len(STEPS))]
    bench.say(f"twice as many pass, at {QUERIES * top[1]:,.0f} rows/s")
    steady = Rate.of(top[1])
    assert steady is not None
    half = round(top[1] * phase)
    switching = np.concatenate([every(PART, half), every(DOUBLE, half)])
    by_switch = observe(switching, steady, 4 * phase)
    followed = {
        "rate": _followed(by_rate, rising, changes),
        "selectivity": _followed(by_switch, steady, [phase, 2 * phase, 3 * phase]),
    }
    correct = all(each.correct for each in (*most, by_rate, by_switch))
    longest = max(seconds for found in followed.values() for seconds in found.values())
    details = {"seconds_behind": followed, "rows_per_s": [round(QUERIES * each) for each in top]}
    return {"steps": Found(longest, correct, details)}
