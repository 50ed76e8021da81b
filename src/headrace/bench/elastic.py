"""`headrace bench elastic`: `workers="auto"` on graphs of many operators (Streams §5).

Each operator adds one to a column and is a unit of its own (`fuse="none"`). A graph runs with every
fixed number of workers and with as many as the engine finds, in turns; what counts is how many rows
a second all of its operators take (Streams fig. 11) when it has had time to look: the median of the
rounds, to the fixed number that it fares worst against. Queues are short: those of 1,000 operators
would fill up for seconds, and be worked off for as long.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace import col
from headrace.options import AUTO
from headrace.stream import Stream

from . import report
from .figure import Figure, Found, by_name
from .harness import DISTURBED, Run, in_turns
from .machine import Usage
from .node.bench import ENGINE, Bench, Measure, Settings
from .node.engine import long_chain
from .queries import How, Queries, Results

LOOK_SECONDS = 4.0  # in which it may look for the best level; less where one second is too long
CAPACITY = 256  # rows in a block
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


def observe(bench: Bench, shape: Shape, workers: int | str, seconds: float) -> Run:
    """Run a graph, and look at it after some seconds: at the rows of all its operators."""
    index, results = np.arange(TABLE_ROWS), Results()
    rows = hr.read.replay({"index": index, "n": index}, name="numbers")
    output = shape.stream(rows).write.callback(results.take)
    # an order would make one operator of branches that meet again
    how = How(ENGINE, workers, "none", capacity=CAPACITY, ordering="none")
    with Queries([output], how) as queries:
        queries.await_rows()
        queries.await_warm()
        queries.await_that(lambda: results.first is not None)  # pools have grown as far as they do
        time.sleep(seconds)
        usage, before, began = Usage(), _taken(queries), time.perf_counter()
        time.sleep(bench.settings.seconds)
        taken, passed = _taken(queries) - before, time.perf_counter() - began
        seen = {"workers": queries.active, "others": usage.others()}
        queries.stop()
        correct = shape.is_right(results.table(output), queries.rows()[0])
    return Run(taken, passed, correct, seen=seen)


def _taken(queries: Queries) -> int:
    (job,) = queries.jobs
    return sum(operator["rows_in"] for operator in job.metrics().values())


def _measure(name: str) -> Measure:
    def measure(bench: Bench) -> dict[str, Found]:
        settings = bench.settings
        shape = SHAPES[name](settings.graph_operators)
        settled = LOOK_SECONDS * min(1.0, settings.seconds)  # all after the same time
        levels = range(1, (os.cpu_count() or 1) + 1)
        sides = {
            str(level): partial(observe, bench, shape, level, settled) for level in (*levels, AUTO)
        }
        turns = in_turns(sides, settings.rounds, warm_up=False, say=bench.say)
        duel = min((turns.duel(AUTO, str(level)) for level in levels), key=lambda each: each.ratio)
        others = [run.seen["others"] for runs in turns.runs.values() for run in runs]
        details = {
            **duel.said(),
            "rows_per_s": {
                side: [round(run.rate) for run in runs] for side, runs in turns.runs.items()
            },
            "auto_workers": [run.seen["workers"] for run in turns.runs[AUTO]],
            "cores_of_others": others,
            "operators": settings.graph_operators,
        }
        quiet = all(used is None or used <= DISTURBED for used in others)
        return {name: Found(duel.ratio, turns.correct, details, quiet)}

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
