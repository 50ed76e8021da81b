"""The figures of the node engine: what each one measures, and what it must reach."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import headrace as hr
from headrace.workloads import ysb as workload
from headrace.write import Output

from . import chain, first_result
from .machine import Usage
from .queries import How, Queries
from .saying import Said, say_nothing
from .ysb import ROWS, Load, YsbBench

ENGINE = "node"
ROUNDS = 3  # of runs that are compared with each other, in turns
FEWEST_SAMPLES = 10_000  # of a latency
SETTLE_SECONDS = 0.5  # before an idle engine is looked at
SILENT = 0.001  # rows per second


@dataclass(frozen=True)
class Settings:
    """What the user may choose: `seconds` is the measure of all times."""

    seconds: float = 5.0
    rows: int = ROWS
    runs: int = 20
    queries: int = 100
    chain_rows: int = chain.ROWS  # of the longest chain
    chain_lengths: tuple[int, ...] = chain.LENGTHS
    start_rows: int = first_result.ROWS
    starts: int = 5

    @classmethod
    def lasting(cls, seconds: float, rows: int = ROWS) -> Settings:
        """Settings in which chains, too, take a time in proportion to `seconds`."""
        chain_rows = max(1, round(chain.ROWS * seconds / cls.seconds))
        return cls(seconds, rows, chain_rows=chain_rows)


@dataclass(frozen=True)
class Figure:
    """A figure: what it is called, its unit, and what it must reach, from above or from below."""

    name: str
    title: str
    limit: float
    at_most: bool = False
    unit: str = "×"

    def is_reached(self, value: float) -> bool:
        """Is the value as good as it must be?

        >>> Figure("idle", "", 2.0, at_most=True).is_reached(1.5)
        True
        """
        return value <= self.limit if self.at_most else value >= self.limit


@dataclass(frozen=True)
class Found:
    """The value of a figure, whether all results were right, and what else is to be known."""

    value: float | None
    correct: bool
    details: dict[str, Any] = field(default_factory=dict)
    counts: bool = True  # False: too little was seen for the value to count

    def said(self, figure: Figure) -> dict[str, Any]:
        """What is reported."""
        enough = self.correct and self.counts and self.value is not None
        return {
            "figure": figure.name,
            "title": figure.title,
            "value": None if self.value is None else round(self.value, 4),
            "unit": figure.unit,
            "must_reach": figure.limit,
            "at_most": figure.at_most,
            "reached": enough and self.value is not None and figure.is_reached(self.value),
            "correct": self.correct,
            **self.details,
        }


class Bench:
    """What the measurements share: settings, the table of events, who is told what happens."""

    def __init__(self, settings: Settings, say: Said = say_nothing) -> None:
        self.settings, self.say = settings, say

    @cached_property
    def ysb(self) -> YsbBench:
        """The Yahoo benchmark; its events are made when they are first needed."""
        return YsbBench(self.settings.rows, self.say)


Measure = Callable[[Bench], dict[str, Found]]


# ---- throughput ------------------------------------------------------------------------------


def _against_polars(bench: Bench, fuse: str) -> dict[int, list[dict[str, Any]]]:
    """By number of workers: runs in turns, each with Polars before and after it."""
    load = Load(bench.settings.rows, seconds=bench.settings.seconds / 2)
    runs: dict[int, list[dict[str, Any]]] = {1: [], 2: []}
    for number in range(1, ROUNDS + 1):
        for workers, found in runs.items():
            bench.say(f"fuse {fuse}, {workers} workers, round {number} of {ROUNDS}")
            how = How(ENGINE, workers, fuse)
            found.append(bench.ysb.measure(how, load, against_polars=True))
    return runs


def _ratio_to_polars(runs: list[dict[str, Any]]) -> Found:
    ratios = [run["against"]["polars"]["ratio"] for run in runs]
    theirs = [run["against"]["polars"]["events_per_s"] for run in runs]
    details = {
        "events_per_s": round(_rate(runs)),
        "polars_events_per_s": round(statistics.median(theirs)),
        "ratios": ratios,
        "polars_threads": runs[0]["against"]["polars"]["threads"],
        "cores_used": statistics.median(run["cores_used"] for run in runs),
        "copied_columns": runs[0]["copied_columns"],
    }
    return Found(statistics.median(ratios), _all_right(runs), details)


def _fused(bench: Bench) -> dict[str, Found]:
    runs = _against_polars(bench, "auto")
    return {
        "workers_2": _ratio_to_polars(runs[2]),
        "workers_1": _ratio_to_polars(runs[1]),
    }


def _unfused(bench: Bench) -> dict[str, Found]:
    runs = _against_polars(bench, "none")
    pairs = [b["events_per_s"] / max(a["events_per_s"], 1) for a, b in zip(runs[1], runs[2])]
    right = _all_right(runs[1] + runs[2])
    details = {"ratios": [round(pair, 3) for pair in pairs]}
    return {
        "unfused_1": _ratio_to_polars(runs[1]),
        "unfused_2": _ratio_to_polars(runs[2]),
        "unfused_scaling": Found(statistics.median(pairs), right, details),
    }


def _steady(name: str, fuse: str) -> Measure:
    def measure(bench: Bench) -> dict[str, Found]:
        """Many runs in a row; the slowest against the fastest."""
        settings, runs = bench.settings, []
        for number in range(1, settings.runs + 1):
            bench.say(f"run {number} of {settings.runs}")
            load = Load(settings.rows, seconds=0.3 * settings.seconds)
            runs.append(bench.ysb.run(How(ENGINE, 2, fuse), load))
        rates = [run["events_per_s"] for run in runs]
        details = {"runs": settings.runs, "fuse": fuse, "events_per_s": rates}
        return {name: Found(min(rates) / max(max(rates), 1), _all_right(runs), details)}

    return measure


def _many_queries(bench: Bench) -> dict[str, Found]:
    """All queries together, against one that runs alone; in turns."""
    settings = bench.settings
    runs: dict[int, list[dict[str, Any]]] = {1: [], settings.queries: []}
    for number in range(1, ROUNDS + 1):
        for queries, found in runs.items():
            bench.say(f"{queries} queries at once, round {number} of {ROUNDS}")
            load = Load(settings.rows, queries, settings.seconds / 2)
            found.append(bench.ysb.run(How(ENGINE, 2), load))
    alone, together = runs.values()
    details = {
        "queries": settings.queries,
        "events_per_s": round(_rate(together)),
        "events_per_s_alone": round(_rate(alone)),
        "startup_s": together[-1]["startup_s"],
        "rss_mb": together[-1]["rss_mb"],
    }
    ratio = _rate(together) / max(_rate(alone), 1)
    return {"queries": Found(ratio, _all_right(alone + together), details)}


def _rate(runs: list[dict[str, Any]]) -> float:
    return statistics.median(run["events_per_s"] for run in runs)


def _all_right(runs: list[dict[str, Any]]) -> bool:
    return all(run["correct"] for run in runs)


# ---- latency, start, idleness, long chains ---------------------------------------------------


def _latency(bench: Bench) -> dict[str, Found]:
    load = Load(bench.settings.rows, seconds=2 * bench.settings.seconds)  # for many samples
    run = bench.ysb.measure(How(ENGINE, 2), load, half=True, say=bench.say)
    latency = run["latency_ms"]
    kept = {key: value for key, value in run.items() if key.endswith("latency_ms")}
    details = {
        **kept,
        "samples": latency["samples"],
        "rate": run["rate"],
        "max_events_per_s": run["max_events_per_s"],
        "events_per_s": run["events_per_s"],
    }
    enough = latency["samples"] >= FEWEST_SAMPLES
    return {"latency_p99": Found(latency["p99"], run["correct"], details, enough)}


def _starts(bench: Bench) -> dict[str, Found]:
    settings = bench.settings
    starts = first_result.measure(settings.start_rows, settings.starts, bench.say, ENGINE)
    details = {
        "starts": [round(seconds, 3) for seconds in starts.warm],
        "import_s": round(statistics.median(starts.imported), 3),
    }
    return {
        "start_warm": Found(statistics.median(starts.warm), starts.correct, details),
        "start_cold": Found(starts.cold, starts.correct),
    }


def _idle(bench: Bench) -> dict[str, Found]:
    """The processor time of an engine whose sources, replayed and in Python, say nothing."""
    data, how = workload.make(1000), How(ENGINE, 2)

    def outputs(**load: Any) -> list[Output]:
        views = workload.pipeline(workload.replayed(data, **load), data.campaigns)
        return [views.write.null(), hr.read.index(**load).write.null()]

    with Queries(outputs(rows=1000), how) as queries:  # so that nothing is compiled later
        queries.await_end()
        queries.await_warm()
    with Queries(outputs(rate=SILENT), how) as queries:
        queries.await_that(lambda: all(job.progress().operators for job in queries.jobs))
        time.sleep(SETTLE_SECONDS)
        bench.say("sources are silent")
        usage = Usage()
        time.sleep(bench.settings.seconds)
        percent = 100 * usage.cores()
        silent = sum(queries.rows()) == 0
        queries.stop()
    return {"idle": Found(percent, silent, {"seconds": bench.settings.seconds})}


def _chain(bench: Bench) -> dict[str, Found]:
    settings, how = bench.settings, How(ENGINE, 2, "none")
    found = chain.measure(
        how, lengths=settings.chain_lengths, rows=settings.chain_rows, say=bench.say
    )
    ratio, correct = found.pop("ratio"), found.pop("correct")
    return {"chain": Found(ratio, correct, found)}


# ---- all of them -----------------------------------------------------------------------------

FIGURES = {
    figure.name: figure
    for figure in (
        Figure("workers_2", "2 workers, against Polars", 1.2),
        Figure("workers_1", "1 worker, against Polars", 0.6),
        Figure("unfused_1", "1 worker, unfused, against Polars", 0.45),
        Figure("unfused_2", "2 workers, unfused, against Polars", 0.65),
        Figure("unfused_scaling", "2 workers against 1, unfused", 1.3),
        Figure("steady_fused", "20 runs in a row: slowest to fastest", 0.6),
        Figure("steady_unfused", "20 runs in a row, unfused: slowest to fastest", 0.6),
        Figure("latency_p99", "p99 latency at half the maximum rate", 1.0, True, "ms"),
        Figure("start_warm", "start to first result, warm cache", 1.0, True, "s"),
        Figure("start_cold", "start to first result, cold cache", 4.0, True, "s"),
        Figure("idle", "idle engine, of one core", 2.0, True, "%"),
        Figure("queries", "100 queries at once, total against 1", 0.7),
        Figure("chain", "1,000 operators against 10: cost of each", 1.5, True),
    )
}

MEASURES: dict[tuple[str, ...], Measure] = {
    ("workers_2", "workers_1"): _fused,
    ("unfused_1", "unfused_2", "unfused_scaling"): _unfused,
    ("steady_fused",): _steady("steady_fused", "auto"),
    ("steady_unfused",): _steady("steady_unfused", "none"),
    ("latency_p99",): _latency,
    ("start_warm", "start_cold"): _starts,
    ("idle",): _idle,
    ("queries",): _many_queries,
    ("chain",): _chain,
}
