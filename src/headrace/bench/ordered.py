"""`headrace bench ordered`: several workers on one operator, whose rows stay in order (Ordered).

Sides run in turns on the node engine, over rows in memory; the result of every run is compared, row
by row and in order, with what NumPy computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.stream import Stream
from headrace.workloads import ysb

from . import partitioned, report
from .figure import Figure, Found, by_name
from .harness import Duel, Run, in_turns
from .operators import Bench, Settings
from .queries import How, finish

STEPS = 8_000  # of a row of `heavy`: about 10 µs
ADDEND, MASK = 12_345, (1 << 31) - 1
NUMBERS = 1_000  # that `heavy` begins with
WINDOW = 1_000  # rows
LIGHT_STEPS = 100  # of a row that takes about 0.1 µs
SELECTIVITY = 50
STRAGGLER_EVERY, STRAGGLER_STEPS = 1_000, 400_000  # about 0.5 ms
TEXTS, TEXT_BYTES = 8, 100  # that are copied again where a row is sent


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


# ---- how rows are put in order ---------------------------------------------------------------


def light(n):  # type: ignore[no-untyped-def]  # compiled
    """A row that takes hardly longer than to be put in order."""
    for _ in range(LIGHT_STEPS):
        n = (n * n + ADDEND) & MASK
    yield n


def fifty(n):  # type: ignore[no-untyped-def]  # compiled
    """Many rows for one, as in fig. 13."""
    for k in range(SELECTIVITY):
        yield n * SELECTIVITY + k


def uneven(n):  # type: ignore[no-untyped-def]  # compiled
    """Rows of which one in a thousand takes as long as many: what is behind it piles up."""
    steps = STRAGGLER_STEPS if n % STRAGGLER_EVERY == 0 else LIGHT_STEPS
    m = n
    for _ in range(steps):
        m = (m * m + ADDEND) & MASK
    yield n


def _shared(table: pa.Table, function: Callable[..., Any]) -> Stream:
    """A function that all workers share, behind an exchange to one owner."""
    texts = [name for name in table.column_names if name != "n"]
    rows = hr.read.memory(table).limit(table.num_rows)
    return rows.flat_map(function, output={"made": hr.int64}, columns=["n"], carry=texts)


def _duel(
    bench: Bench, stream: Stream, expected: np.ndarray, rows: int, sides: dict[str, How]
) -> tuple[Duel, bool]:
    """Two ways to run a stream; its last column is compared row by row, in order."""

    def side(how: How) -> Callable[[], Run]:
        def run() -> Run:
            ended = finish(stream, how)
            made = ended.result.column(ended.result.num_columns - 1).to_numpy()
            return Run(rows, ended.seconds, np.array_equal(in_order(made, how), expected))

        return run

    turns = in_turns(
        {name: side(how) for name, how in sides.items()}, bench.settings.repeat, say=bench.say
    )
    return turns.duel(*sides), turns.correct


def in_order(made: np.ndarray, how: How) -> np.ndarray:
    """What was given, to be compared in order; where none was promised, sorted.

    >>> in_order(np.array([2, 1]), How(ordering="none")), in_order(np.array([2, 1]), How())
    (array([1, 2]), array([2, 1]))
    """
    return np.sort(made) if how.ordering == "none" else made


def _reorder(bench: Bench) -> dict[str, Found]:
    rows = bench.settings.rows or 200_000
    numbers = np.arange(rows)
    table, texts = pa.table({"n": numbers}), pa.array(["x" * TEXT_BYTES] * rows)
    wide = pa.table({"n": numbers, **{f"text_{k}": texts for k in range(TEXTS)}})
    lightly = numbers.copy()
    for _ in range(LIGHT_STEPS):
        lightly = (lightly * lightly + ADDEND) & MASK
    many = (numbers[:, None] * SELECTIVITY + np.arange(SELECTIVITY)).ravel()
    cases = {
        "light": (_shared(table, light), lightly),
        "selectivity 50": (_shared(table, fifty), many),
        "slowed send": (_shared(wide, uneven), numbers),
    }
    how = How("node", bench.settings.workers)
    sides = {"non-blocking": how, "lock": replace(how, reorder="lock")}
    found = {
        name: _duel(bench, stream, expected, rows, sides)
        for name, (stream, expected) in cases.items()
    }
    duels = {name: duel for name, (duel, _) in found.items()}
    correct = all(right for _, right in found.values())
    details = {"rows": rows, **{name: duel.said() for name, duel in duels.items()}}
    worst = min(duel.ratio for duel in duels.values())
    return {
        "reorder": Found(worst, correct, details),
        "reorder_slowed": Found(duels["slowed send"].ratio, correct, duels["slowed send"].said()),
    }


def _overhead(bench: Bench) -> dict[str, Found]:
    data = ysb.make(bench.settings.rows or 4_000_000)
    views = ysb.views(hr.read.memory(data.events), data.campaigns)
    stream = views.select("ad_id", "campaign_id", "event_time")
    events = data.events["event_type"].to_numpy() == ysb.VIEW
    expected = data.events["event_time"].to_numpy()[events]
    how = How("node", bench.settings.workers)
    sides = {name: replace(how, ordering=name) for name in ("total", "none")}
    rows = data.events.num_rows
    duel, correct = _duel(bench, stream, expected, rows, sides)
    return {"overhead": Found(duel.ratio, correct, {**duel.said(), "rows": rows})}


FIGURES = by_name(
    Figure("stateless", "10 µs a row behind an exchange, in order: 2 workers against 1", 1.8),
    Figure("process", "order-sensitive state of 100,000 keys, in order: 2 workers against 1", 1.6),
    Figure("skew", "hybrid queue: skewed key groups against even ones (fig. 9), at worst", 0.9),
    Figure("latency", "hybrid queue: median latency to the cost of a row (fig. 10)", 3.0, True),
    Figure("reorder", "non-blocking reordering against a lock (figs. 12, 13), at worst", 0.95),
    Figure("reorder_slowed", "the same where sending is slow and rows pile up", 1.2),
    Figure("overhead", "Yahoo's rows to a sink, without windows: total order against none", 0.85),
)

SUITE = report.Suite(
    "headrace bench ordered: several workers on one operator, rows in order",
    FIGURES,
    {
        ("stateless",): _stateless,
        ("process",): partitioned.process,
        ("skew",): partitioned.skew,
        ("latency",): partitioned.latency,
        ("reorder", "reorder_slowed"): _reorder,
        ("overhead",): _overhead,
    },
)


def run(
    names: Sequence[str] = (), *, settings: Settings | None = None, **shown: Any
) -> list[report.Result]:
    """Measure figures (all, without names), print them as `report.run` does, and give them."""
    return report.run(SUITE, Bench(settings or Settings()), names, **shown)
