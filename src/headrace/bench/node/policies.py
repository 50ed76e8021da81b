"""Policies on the node engine: what they cost, and what they do for the latency of many queries."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from headrace import col
from headrace.bench.figure import Found
from headrace.bench.harness import DISTURBED, Duel, in_turns, undisturbed
from headrace.bench.latency import latencies_so_far
from headrace.bench.machine import Usage
from headrace.bench.queries import How, Queries, Results
from headrace.control.policies import POLICIES
from headrace.workloads import ysb
from headrace.write import Output

from .bench import ENGINE, Bench, ysb_side
from .beside import spin

DEFAULT = "default"
CHOSEN = "latency_optimized"
SATURATION = 0.9  # of what the queries get where nothing holds them back
TURNS = 100  # of `spin` for a row: some tenths of a microsecond
OF_EACH_KIND = {"windows": 4, "clicks": 2, "spun": 2}  # queries
AGAIN, MORE_ROUNDS = 3, 5  # policies that are measured again, and in how many times the rounds
SETTLE_SECONDS = 0.5  # in which rows that were due are worked off


def cost(bench: Bench) -> dict[str, Found]:
    """The Yahoo query alone, under each policy and under none, in turns; the slowest policy. The
    least of many measurements is less than what is measured, so those that seem slowest are
    measured again, more often."""
    seconds, rounds = bench.settings.seconds / 10, bench.settings.rounds
    correct = True

    def duel(name: str, rounds: int) -> Duel:
        nonlocal correct
        sides = {
            name: ysb_side(bench.ysb, How(ENGINE, 2, policy=name), seconds),
            DEFAULT: ysb_side(bench.ysb, How(ENGINE, 2), seconds),
        }
        turns = in_turns(sides, rounds, warm_up=False, say=bench.say)
        correct &= turns.correct
        return turns.duel(name, DEFAULT)

    duels = {name: duel(name, rounds) for name in POLICIES}
    again = sorted(duels, key=lambda name: duels[name].ratio)[:AGAIN]
    duels |= {name: duel(name, MORE_ROUNDS * rounds) for name in again}
    slowest = min((duels[name] for name in again), key=lambda duel: duel.ratio)
    ratios = {name: round(duel.ratio, 3) for name, duel in duels.items()}
    details = {**slowest.said(), "slowest": slowest.name, "again": again, "by_policy": ratios}
    return {"cost": Found(slowest.ratio, correct, details)}


# ---- many queries ----------------------------------------------------------------------------


@dataclass
class Counted:
    """How many rows a query gave."""

    rows: int = 0

    def take(self, batch: pa.RecordBatch) -> None:
        """A sink's callback."""
        self.rows += batch.num_rows


@dataclass
class Mixed:
    """Queries over the events of the Yahoo benchmark: windows, a filter, and a function for each
    click. `rates`: rows per second of each, or as fast as they are taken."""

    data: ysb.Ysb
    rates: Sequence[float | None]
    outputs: list[Output] = field(default_factory=list)
    _given: list[tuple[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        kinds = [kind for kind, count in OF_EACH_KIND.items() for _ in range(count)]
        for kind, rate in zip(kinds, self.rates, strict=True):
            events = ysb.replayed(self.data, rate=rate)
            given: Any = Results() if kind == "windows" else Counted()
            if kind == "windows":
                stream = ysb.pipeline(events, self.data.campaigns)
            else:
                stream = events.filter(col("event_type") == 1).select("user_id", "ad_type")
            if kind == "spun":
                stream = stream.map(_spun, columns=["ad_type"], output={"end": int})
            self.outputs.append(stream.write.callback(given.take))
            self._given.append((kind, given))

    def are_right(self, read: Sequence[int]) -> bool:
        """Did all results of so many rows of each query come?"""
        is_click = self.data.events["event_type"].to_numpy() == 1
        return all(
            self.data.is_right(given.table(output), rows)
            if kind == "windows"
            else given.rows == _clicks(is_click, rows)
            for (kind, given), output, rows in zip(self._given, self.outputs, read, strict=True)
        )


def _spun(ad_type: int) -> int:
    return spin(ad_type + 1, TURNS)


def _clicks(is_click: np.ndarray, rows: int) -> int:
    rounds, rest = divmod(rows, len(is_click))
    return int(rounds * is_click.sum() + is_click[:rest].sum())


@dataclass(frozen=True)
class Observed:
    """What was seen of all queries: rows per second of each, and their mean latency."""

    rates: list[float]
    mean_ms: float
    correct: bool
    others: float | None  # cores that other processes used meanwhile

    @property
    def rate(self) -> float:
        """Rows per second, of all."""
        return sum(self.rates)


def observe(bench: Bench, policy: str | None, rates: Sequence[float | None]) -> Observed:
    """Run the queries for some seconds under a policy."""
    mixed = Mixed(bench.ysb.data, rates)
    with Queries(mixed.outputs, How(ENGINE, 2, policy=policy)) as queries:
        queries.await_rows()
        queries.await_warm()
        time.sleep(SETTLE_SECONDS)
        before, earlier = queries.rows(), latencies_so_far(queries.jobs)
        usage, began = Usage(), time.perf_counter()

        def latencies() -> list[Any]:
            later = latencies_so_far(queries.jobs)
            return [b["block"].since(a["block"]) for a, b in zip(earlier, later, strict=True)]

        time.sleep(bench.settings.seconds)
        queries.await_that(lambda: all(each.count for each in latencies()))
        seconds, taken, others = time.perf_counter() - began, latencies(), usage.others()
        seen = [(b - a) / seconds for a, b in zip(before, queries.rows(), strict=True)]
        queries.stop()
        correct = mixed.are_right(queries.rows())
    return Observed(seen, statistics.fmean(each.mean for each in taken) / 1e6, correct, others)


def mixed(bench: Bench) -> dict[str, Found]:
    """Eight queries, near to what the machine can do: the mean latency under the policy that is
    made for it, to the lowest of all."""
    bench.say("as fast as they go")
    most = observe(bench, None, [None] * sum(OF_EACH_KIND.values()))
    rates = [max(1.0, SATURATION * rate) for rate in most.rates]
    found = {}
    for name in (None, *POLICIES):
        bench.say(f"{name or DEFAULT}, {sum(rates) / 1e6:.1f} M rows/s")
        found[name or DEFAULT] = undisturbed(partial(observe, bench, name, rates))
    ours, policies = found[CHOSEN], [found[name] for name in POLICIES]
    lowest = min(each.mean_ms for each in policies)
    details = {
        "mean_ms": {name: round(each.mean_ms, 3) for name, each in found.items()},
        "rows_per_s": {name: round(each.rate) for name, each in found.items()},
        "offered_rows_per_s": round(sum(rates)),
        "throughput_ratio": round(ours.rate / max(each.rate for each in policies), 3),
        "cores_of_others": {name: each.others for name, each in found.items()},
    }
    correct = most.correct and all(each.correct for each in found.values())
    quiet = all(each.others is None or each.others <= DISTURBED for each in found.values())
    return {"mixed": Found(ours.mean_ms / lowest, correct, details, quiet)}
