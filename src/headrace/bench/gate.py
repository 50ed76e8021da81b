"""`headrace bench gate`: important queries beside others on Spark, with and without a gate.

Three HIGH queries get few rows every half a second, five LOW ones have more rows than the machine
can work on. Latency is that of the oldest row of a batch, from when it was due until its results
were there.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import headrace as hr
from headrace import col
from headrace.handle import AnyJob
from headrace.spark.pools import in_pool, pool_of
from headrace.workloads.due import DueSource

from . import report
from .figure import Figure, Found, Skipped, by_name
from .node.bench import Settings
from .spark.context import Context, opened

HIGHS, LOWS = 3, 5
HIGH_RATE, LOW_RATE = 2_000.0, 50e6  # rows per second
HIGH_TRIGGER = "500 milliseconds"
LOW_BATCH = 2_000_000  # rows
WORK = 100  # steps for each row of a LOW query
WARM_BATCHES = 2
WARM_SECONDS = 300.0  # at most; queries start one after the other
MEASURED = 1  # times of --seconds
LEAST_LATENCIES = 3  # of each HIGH query


@hr.udf
def stirred(n: int) -> int:
    """Some work on a number."""
    for _ in range(WORK):
        n = n ^ (n << 3) & 0xFFFF ^ n >> 1
    return n


class High:
    """A query that somebody waits for; its sink knows when its rows were due."""

    priority = "high"

    def __init__(self, start: float) -> None:
        self._source = DueSource(HIGH_RATE, start)
        self.latencies: list[float] = []
        self._next, self.correct = 0, True
        rows = hr.read.source(self._source, name="high")
        self.output = rows.with_columns(m=col("n") * 2).write.callback(self._take)
        self.options: dict[str, Any] = {"trigger": HIGH_TRIGGER}

    def _take(self, rows: Any) -> None:
        numbers = rows["n"].to_numpy()
        self.latencies.append(time.time() - self._source.due(int(numbers[0])))
        self.correct &= bool(
            numbers[0] == self._next and (rows["m"].to_numpy() == 2 * numbers).all()
        )
        self._next = int(numbers[-1]) + 1


class Low:
    """A query with more rows than can be worked on."""

    priority = "normal"

    def __init__(self, start: float) -> None:
        rows = hr.read.source(DueSource(LOW_RATE, start), name="low")
        even = rows.with_columns(s=stirred(col("n"))).filter((col("n") % 2 == 0) & (col("s") >= 0))
        self.output = even.write.null()
        self.options: dict[str, Any] = {"batch_rows": LOW_BATCH}


@dataclass(frozen=True)
class Side:
    """What was seen of all queries while they were watched."""

    latencies: list[float]
    low_rows: list[int]
    low_batches: list[int]
    seconds: float
    correct: bool
    said: str = ""

    @property
    def p95(self) -> float:
        """Of the latencies of HIGH queries."""
        return percentile(self.latencies, 0.95)

    @property
    def low_rate(self) -> float:
        """Rows per second of all LOW queries."""
        return sum(self.low_rows) / self.seconds


def percentile(values: Sequence[float], share: float) -> float:
    """The least of the values that are as large as that share of them.

    >>> percentile([3.0, 1.0, 2.0], 0.5), percentile(list(range(1, 101)), 0.95)
    (2.0, 95)
    """
    return sorted(values)[math.ceil(share * len(values)) - 1]


@dataclass
class Bench(report.Bench):
    """Spark, and for how long each side is watched."""

    context: Context
    settings: Settings = field(default_factory=Settings)


@contextmanager
def _stopped(jobs: list[AnyJob]) -> Iterator[None]:
    try:
        yield
    finally:
        for job in jobs:
            job.stop()
        for job in jobs:
            job.await_termination(WARM_SECONDS)


def observe(
    bench: Bench,
    around: Callable[[Any], AbstractContextManager[None]],
    gate: hr.Gate | None = None,
) -> Side:
    """Start all queries, each inside of `around` its kind, and watch them when all are warm."""
    start, session = time.time(), bench.context.session
    lows = [Low(start) for _ in range(min(LOWS, bench.settings.queries - 1))]
    highs = [High(start) for _ in range(min(HIGHS, bench.settings.queries - 2))]
    jobs: list[AnyJob] = []
    with _stopped(jobs):
        queries: list[Low | High] = [*highs, *lows]
        for query in queries:  # those that take all of the machine come last
            given = {} if gate is None else {"gate": gate, "priority": query.priority}
            with around(query):
                options = {**query.options, **given, "session": session}
                jobs.append(hr.start(query.output, engine="spark", **options))
            if isinstance(query, High):  # Spark is slow to start Python processes
                _await(jobs, lambda: jobs[-1].progress().batches > 0)
        _await(jobs, lambda: all(job.progress().batches >= WARM_BATCHES for job in jobs))
        for high in highs:
            high.latencies.clear()
        low_jobs = jobs[len(highs) :]
        before, began = [job.progress() for job in low_jobs], time.perf_counter()
        threading.Event().wait(MEASURED * bench.settings.seconds)
        _await(jobs, lambda: all(len(high.latencies) >= LEAST_LATENCIES for high in highs))
        after = [job.progress() for job in low_jobs]
        passed = time.perf_counter() - began
        latencies = [latency for high in highs for latency in high.latencies]
        said = "" if gate is None else gate.scheduling()
    ended = [job.progress() for job in low_jobs]
    correct = all(high.correct for high in highs)
    correct &= all(low.rows_out == -(-low.rows_in // 2) for low in ended)
    rows = [b.rows_in - a.rows_in for a, b in zip(before, after, strict=True)]
    batches = [b.batches - a.batches for a, b in zip(before, after, strict=True)]
    return Side(latencies, rows, batches, passed, correct, said)


def _await(jobs: Sequence[AnyJob], condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WARM_SECONDS
    while not condition():
        for job in jobs:
            job.await_termination(0.05)  # raises what has failed
        if time.monotonic() > deadline:
            raise Skipped(f"not all queries had enough batches in {WARM_SECONDS:g} seconds")


def high(bench: Bench) -> dict[str, Found]:
    """The same queries as Spark runs them, in FAIR pools, and at a gate."""
    spark = bench.context.session.sparkContext
    sides: dict[str, Side] = {}
    bench.say("FIFO")
    sides["fifo"] = observe(bench, lambda query: nullcontext())
    bench.say("FAIR pools")
    pools = {"high": pool_of(1.0), "normal": pool_of(0.0)}
    sides["fair"] = observe(bench, lambda query: in_pool(spark, pools[query.priority]))
    bench.say("a gate")
    with hr.Gate() as gate:
        sides["gate"] = observe(bench, lambda query: nullcontext(), gate)
    gated = sides["gate"]
    starved = min(gated.low_batches) == 0
    details = {
        "fair_ratio": round(sides["fair"].p95 / gated.p95, 3),
        "low_ratio": round(gated.low_rate / sides["fair"].low_rate, 3),
        "high_p95_s": {name: round(side.p95, 3) for name, side in sides.items()},
        "high_p50_s": {name: round(percentile(s.latencies, 0.5), 3) for name, s in sides.items()},
        "low_rows_per_s": {name: round(side.low_rate) for name, side in sides.items()},
        "low_batches": {name: side.low_batches for name, side in sides.items()},
        "gate": gated.said,
        "starved": starved,
    }
    correct = all(side.correct for side in sides.values()) and not starved
    return {"high": Found(sides["fifo"].p95 / gated.p95, correct, details)}


FIGURES = by_name(Figure("high", "p95 of HIGH queries, overloaded: FIFO to a gate", 3.0))

SUITE = report.Suite("headrace bench gate: queries of a Spark session", FIGURES, {("high",): high})


def run(
    names: Sequence[str] = (),
    *,
    settings: Settings | None = None,
    session: Any = None,
    **shown: Any,
) -> list[report.Result]:
    """Measure figures (all, without names), print them as `report.run` does, and give them."""
    with opened(session=session) as context:
        return report.run(SUITE, Bench(context, settings or Settings()), names, **shown)
