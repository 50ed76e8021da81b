"""`headrace bench ordered`: several workers on one operator, whose rows stay in order (Ordered).

Sides run in turns on the node engine, over rows in memory; the result of every run is compared, row
by row and in order, with what NumPy computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr

from . import report
from .figure import Figure, Found, by_name
from .harness import Run, in_turns
from .operators import Bench, Settings
from .queries import How, finish

STEPS = 8_000  # of a row of `heavy`: about 10 µs
ADDEND, MASK = 12_345, (1 << 31) - 1
NUMBERS = 1_000  # that `heavy` begins with
WINDOW = 1_000  # rows


def heavy(n):  # type: ignore[no-untyped-def]  # compiled
    """A number that takes long: each step needs the one before."""
    n %= NUMBERS
    for _ in range(STEPS):
        n = (n * n + ADDEND) & MASK
    return n


def _stateless(bench: Bench) -> dict[str, Found]:
    rows = bench.settings.rows or 200_000
    numbers = np.arange(rows)
    table = pa.table({"at": numbers, "n": numbers})
    windows = hr.read.memory(table).with_watermark("at", 0).key_by("n").window(hr.tumbling(WINDOW))
    stream = windows.agg(rows=hr.count()).map(heavy, output="made", columns=["n"], carry="n")
    expected = np.array([heavy(n) for n in range(NUMBERS)])[numbers % NUMBERS]

    def side(workers: int) -> Callable[[], Run]:
        def run() -> Run:
            ended = finish(stream, How("node", workers))
            made, order = ended.result["made"].to_numpy(), ended.result["n"].to_numpy()
            right = np.array_equal(made, expected) and np.array_equal(order, numbers)
            return Run(rows, ended.seconds, ended.rows == rows and right)

        return run

    many = f"{bench.settings.workers} workers"
    turns = in_turns(
        {many: side(bench.settings.workers), "1 worker": side(1)},
        bench.settings.repeat,
        say=bench.say,
    )
    duel = turns.duel(many, "1 worker")
    row_us = 1e6 / duel.said()["sides"]["1 worker"]["median"]
    details = {"rows": rows, "row_us": round(row_us, 2)}
    return {"stateless": Found(duel.ratio, turns.correct, {**duel.said(), **details})}


FIGURES = by_name(
    Figure("stateless", "10 µs a row behind an exchange, in order: 2 workers against 1", 1.8),
)

SUITE = report.Suite(
    "headrace bench ordered: several workers on one operator, rows in order",
    FIGURES,
    {("stateless",): _stateless},
)


def run(
    names: Sequence[str] = (), *, settings: Settings | None = None, **shown: Any
) -> list[report.Result]:
    """Measure figures (all, without names), print them as `report.run` does, and give them."""
    return report.run(SUITE, Bench(settings or Settings()), names, **shown)
