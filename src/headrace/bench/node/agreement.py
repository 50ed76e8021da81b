"""Do the simulator and the node engine agree about policies?

Queries run at saturation on the node engine, and their operators are measured in that run. Then
they run under one policy after the other, really and simulated: the simulator gets nothing but the
profiles of the measured run. What is compared is how many rows a second come out of all queries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

import headrace as hr
from headrace import col
from headrace.bench.figure import Found
from headrace.bench.harness import DISTURBED, undisturbed
from headrace.bench.machine import Usage
from headrace.bench.queries import How, Queries
from headrace.control import Policy, policies
from headrace.control.simulator import Profile, Simulation, Steered, machine_named
from headrace.write import Output

from .bench import ENGINE, Bench
from .beside import FACTOR, MODULUS, spin
from .policies import Counted

MEASURED = "least_recently_used"  # every query gets its turn while operators are measured
POLICIES: dict[str, Callable[[], Policy]] = {
    **{name: policies.POLICIES[name] for name in (MEASURED, "highest_rate", "user_priority")},
    "least_urgent": lambda: Policy("least_urgent", lambda features: -features.user_priority),
    "weighted_classes": policies.POLICIES["weighted_classes"],
}
WORKERS, MACHINE = 2, "here"
CAPACITY = 256  # rows in a block: little waits in queues when a run is over
TABLE_ROWS = 10_000
SETTLE_SECONDS = 0.3  # in which queues fill up
SIMULATED_SECONDS = 1.5
APART = 0.1  # policies whose rates are closer on the engine are equal


@dataclass(frozen=True)
class Query:
    """Steps one behind the other; `turns` of `spin` for a row of each. Behind every step but the
    last one about one row of `keeps` goes on."""

    turns: tuple[int, ...]
    priority: float = 0.0
    keeps: int = 1

    def output(self, counted: Counted) -> Output:
        """Its output, and what counts its results."""
        stream = hr.read.replay({"n": np.arange(1, TABLE_ROWS + 1)}, name="rows")
        for turns in self.turns[:-1]:
            stream = stream.map(_spun(turns), output={"n": int})
            if self.keeps > 1:
                stream = stream.filter(col("n") % self.keeps == 0)
        return stream.map(_spun(self.turns[-1]), output={"n": int}).write.callback(counted.take)

    def results(self, rows: int) -> int:
        """How many results so many rows have.

        >>> Query((10, 1), keeps=1).results(25_000)
        25000
        """
        numbers = np.arange(1, TABLE_ROWS + 1)
        kept = np.ones(TABLE_ROWS, np.bool_)
        for turns in self.turns[:-1]:
            numbers = numbers * pow(FACTOR, turns, MODULUS) % MODULUS  # what `spin` makes of them
            kept &= numbers % self.keeps == 0
        rounds, rest = divmod(rows, TABLE_ROWS)
        return int(rounds * kept.sum() + kept[:rest].sum())


def _spun(turns: int) -> Callable[[int], int]:
    def spun(n: int) -> int:
        return spin(n, turns)

    return spun


@dataclass(frozen=True)
class Workload:
    """Queries that run together."""

    queries: tuple[Query, ...]
    fuse: str = "auto"

    def how(self, policy: str) -> How:
        """How they run on the engine."""
        return How(ENGINE, WORKERS, self.fuse, capacity=CAPACITY, policy=POLICIES[policy]())


WORKLOADS = {
    # a cheap one, and one that is more urgent the dearer it is
    "costs": Workload(tuple(Query((500 * 2**k,), priority=k) for k in range(4))),
    # an urgent query beside others of another cost
    "classes": Workload((Query((2_000,), priority=1), *[Query((500,))] * 3)),
    # operators one by one: those that get rid of rows early, and those that keep them
    "chains": Workload(
        (Query((1_000, 500, 500), 1, keeps=4), Query((500, 500, 1_000)), Query((2_000, 250))),
        fuse="none",
    ),
}


@dataclass(frozen=True)
class Observed:
    """Results per second of each query, what was measured of it, and whether all came."""

    rates: list[float]
    profiles: list[Profile]
    correct: bool
    others: float | None  # cores that other processes used meanwhile


def observe(workload: Workload, policy: str, seconds: float) -> Observed:
    """Run the queries on the node engine for some seconds."""
    counted = [Counted() for _ in workload.queries]
    with Queries([], workload.how(policy)) as queries:
        for query, count in zip(workload.queries, counted, strict=True):
            queries.submit(query.output(count), priority=query.priority)
        queries.await_warm()
        # some may never get a turn, but all are there
        queries.await_that(lambda: all(job.progress().operators for job in queries.jobs))
        time.sleep(SETTLE_SECONDS)
        usage, before, began = Usage(), [count.rows for count in counted], time.perf_counter()
        time.sleep(seconds)
        passed, others = time.perf_counter() - began, usage.others()
        after = [count.rows for count in counted]
        # under others, some queries may have read nothing
        profiles = [job.profile() for job in queries.jobs] if policy == MEASURED else []
        queries.stop()
        ended = zip(workload.queries, counted, queries.rows(), strict=True)
        correct = all(count.rows == query.results(rows) for query, count, rows in ended)
    rates = [(b - a) / passed for a, b in zip(before, after, strict=True)]
    return Observed(rates, profiles, correct, others)


def simulate(profile: Profile, policy: str, seconds: float = SIMULATED_SECONDS) -> list[float]:
    """Results per second of each query of a profile under a policy."""
    scheduler = Steered(POLICIES[policy](), WORKERS)
    simulation = Simulation(profile, machine_named(MACHINE), scheduler)
    result = simulation.simulate(seconds, warm_up=seconds / 2)
    return [query.rows_out / seconds for query in result.queries]


def in_order(real: Mapping[str, float], simulated: Mapping[str, float]) -> tuple[int, int]:
    """Of how many pairs of policies, which differ on the engine, both have the same one first; and
    how many such pairs there are.

    >>> in_order({"a": 1.0, "b": 2.0, "c": 2.01}, {"a": 3.0, "b": 4.0, "c": 1.0})
    (1, 2)
    """
    pairs = [
        (one, other)
        for one, other in combinations(real, 2)
        if abs(real[one] - real[other]) > APART * max(real[one], real[other])
    ]
    same = [(real[a] > real[b]) == (simulated[a] > simulated[b]) for a, b in pairs]
    return sum(same), len(pairs)


@dataclass(frozen=True)
class Compared:
    """Results per second of each query of a workload under each policy, real and simulated."""

    real: dict[str, list[float]]
    simulated: dict[str, list[float]]
    others: dict[str, float | None]
    correct: bool

    @property
    def counts(self) -> bool:
        """Was the machine quiet all the time?"""
        return all(used is None or used <= DISTURBED for used in self.others.values())

    @property
    def totals(self) -> tuple[dict[str, float], dict[str, float]]:
        """Of all queries together."""
        first, second = (
            {policy: sum(rates) for policy, rates in side.items()}
            for side in (self.real, self.simulated)
        )
        return first, second

    @property
    def pairs(self) -> tuple[int, int]:
        """Policies in the same order; see `in_order`."""
        return in_order(*self.totals)

    @property
    def difference(self) -> float:
        """Of the rate that is farthest from what is real, as a part of it."""
        real, simulated = self.totals
        return max(abs(simulated[name] - rate) / max(rate, 1.0) for name, rate in real.items())

    def said(self) -> dict[str, Any]:
        """What is reported."""
        same, pairs = self.pairs
        real, simulated = (
            {policy: [round(rate) for rate in rates] for policy, rates in side.items()}
            for side in (self.real, self.simulated)
        )
        return {
            "engine_rows_per_s": real,
            "simulated_rows_per_s": simulated,
            "in_order": f"{same} of {pairs}",
            "difference": round(self.difference, 3),
            "cores_of_others": self.others,
        }


def compare(bench: Bench, name: str, workload: Workload) -> Compared:
    """Run a workload under every policy, really and simulated."""
    seconds = bench.settings.seconds / 3
    bench.say(f"{name}, warming up")
    found = Compared({}, {}, {}, observe(workload, MEASURED, 0.0).correct)  # machine code is there
    measured: list[Profile] = []
    for policy in POLICIES:
        bench.say(f"{name}, {policy}")
        seen = undisturbed(partial(observe, workload, policy, seconds))
        found = replace(found, correct=found.correct and seen.correct)
        measured = measured or seen.profiles
        found.real[policy], found.others[policy] = seen.rates, seen.others
        found.simulated[policy] = simulate(Profile.together(measured), policy)
    return found


def agreement(bench: Bench) -> dict[str, Found]:
    """The share of pairs of policies that both rank alike, and how far rates are apart."""
    found = {name: compare(bench, name, workload) for name, workload in WORKLOADS.items()}
    same, pairs = (sum(each) for each in zip(*(compared.pairs for compared in found.values())))
    correct = all(compared.correct for compared in found.values())
    details = {"pairs": pairs, "workloads": {name: each.said() for name, each in found.items()}}
    difference = max(compared.difference for compared in found.values())
    quiet = all(compared.counts for compared in found.values())
    return {
        "agreement": Found(same / max(pairs, 1), correct, details, quiet and pairs > 0),
        "agreement_rates": Found(difference, correct, details, quiet),
    }
