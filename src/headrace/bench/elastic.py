"""`headrace bench elastic`: `workers="auto"` on graphs of many operators (Streams §5).

Each operator adds one to a column and is a unit of its own (`fuse="none"`). A graph runs with every
fixed number of workers, then with as many as the engine finds; what counts is its rate when it has
had time to look, to the best of the fixed ones.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace import col
from headrace.options import AUTO
from headrace.stream import Stream

from . import report
from .figure import Figure, Found, by_name
from .node.bench import ENGINE, Bench, Measure, Settings
from .node.engine import long_chain
from .queries import How, Queries, Results

LOOK_SECONDS = 4.0  # in which it may look for the best level, in terms of the measure of all times
TABLE_ROWS = 65_536


@dataclass(frozen=True)
class Shape:
    """A graph: so many branches, each of so many operators."""

    branches: int
    depth: int

    def stream(self, rows: Stream) -> Stream:
        """The graph; of each round of the table and each branch, one row reaches the sink."""
        made = []
        for _ in range(self.branches):
            branch = rows
            for _ in range(self.depth):
                branch = branch.with_columns(n=col("n") + 1)
            made.append(branch)
        united = made[0] if len(made) == 1 else made[0].union(*made[1:])
        return united.filter(col("index") == 0)

    def is_right(self, found: pa.Table, rows: int) -> bool:
        """Are these the results of so many rows?"""
        rounds = -(-rows // TABLE_ROWS)
        complete = found.num_rows == rounds * self.branches
        return complete and bool((found["n"].to_numpy() == self.depth).all())


SHAPES: dict[str, Callable[[int], Shape]] = {
    "pipeline": lambda operators: Shape(1, operators),
    "wide": lambda operators: Shape(operators, 1),
    "mesh": lambda operators: Shape(operators // 10, 10),
}


@dataclass(frozen=True)
class Observed:
    """Rows per second of a graph, how many workers ran, and whether its results were right."""

    rate: float
    workers: int
    correct: bool


def observe(bench: Bench, shape: Shape, workers: int | str, seconds: float) -> Observed:
    """Run a graph, and look at it after some seconds."""
    index, results = np.arange(TABLE_ROWS), Results()
    rows = hr.read.replay({"index": index, "n": index}, name="numbers")
    output = shape.stream(rows).write.callback(results.take)
    with Queries([output], How(ENGINE, workers, "none")) as queries:
        queries.await_rows()
        queries.await_warm()
        time.sleep(seconds)
        before, began = queries.rows()[0], time.perf_counter()
        time.sleep(bench.settings.seconds)
        read, passed = queries.rows()[0] - before, time.perf_counter() - began
        active = queries.active
        queries.stop()
        correct = shape.is_right(results.table(output), queries.rows()[0])
    return Observed(read / passed, active, correct)


def _measure(name: str) -> Measure:
    def measure(bench: Bench) -> dict[str, Found]:
        seconds, fixed = bench.settings.seconds, {}
        shape = SHAPES[name](bench.settings.graph_operators)
        for level in range(1, (os.cpu_count() or 1) + 1):
            bench.say(f"{level} workers")
            fixed[level] = observe(bench, shape, level, seconds / 5)
        bench.say("auto")
        found = observe(bench, shape, AUTO, LOOK_SECONDS * seconds / Settings.seconds)
        details = {
            "rows_per_s": {str(level): round(seen.rate) for level, seen in fixed.items()},
            "auto_rows_per_s": round(found.rate),
            "auto_workers": found.workers,
            "operators": bench.settings.graph_operators,
        }
        correct = found.correct and all(seen.correct for seen in fixed.values())
        best = max(seen.rate for seen in fixed.values())
        return {name: Found(found.rate / best, correct, details)}

    return measure


def growth(bench: Bench) -> dict[str, Found]:
    """What an operator costs among many, to what it costs among few."""
    return {"growth": long_chain(bench)["chain"]}


FIGURES = by_name(
    Figure("pipeline", "1,000 operators in a row: auto to the best fixed level", 0.95),
    Figure("wide", "1,000 operators side by side: auto to the best fixed level", 0.95),
    Figure("mesh", "10 by 100 operators: auto to the best fixed level", 0.95),
    Figure("growth", "cost of an operator among 1,000 to that among 10", 1.3, True),
)

SUITE = report.Suite(
    'headrace bench elastic: workers="auto"',
    FIGURES,
    {
        **{(name,): _measure(name) for name in SHAPES},
        ("growth",): growth,
    },
)


def run(
    names: Sequence[str] = (), *, settings: Settings | None = None, **shown: Any
) -> list[report.Result]:
    """Measure figures (all, without names), print them as `report.run` does, and give them."""
    return report.run(SUITE, Bench(settings or Settings()), names, **shown)
