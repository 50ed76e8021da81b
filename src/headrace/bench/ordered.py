"""`headrace bench ordered`: several workers on one operator, whose rows stay in order (Ordered).

Sides run in turns on the node engine, over rows in memory; the result of every run is compared, row
by row and in order, with what NumPy computes.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.node.appending import FEW
from headrace.stream import Stream
from headrace.workloads import ysb

from . import partitioned, report
from .figure import Figure, Found, by_name
from .harness import Duel, Run, in_turns
from .operators import Bench, Settings
from .queries import Column, How, finish, finish_into

STEPS = 8_000  # of a row of `heavy`: about 10 µs
ADDEND, MASK = 12_345, (1 << 31) - 1
NUMBERS = 1_000  # that `heavy` begins with
WINDOW = 1_000  # rows
REORDER_ROWS = 8_000_000
LIGHT_STEPS = 100  # of a row that takes about 0.1 µs
SELECTIVITY, FIFTY_STEPS = 50, 100
SLOWED_SHARE = 2  # one in so many rows: they take longer
STRAGGLER_EVERY, STRAGGLER_STEPS = 4_096, 200_000  # about 0.25 ms
KEPT = 16  # one in so many rows comes to the sink
TEXTS, TEXT_BYTES = 16, 30  # that are copied again where a row is sent
YSB_ROWS, OVERHEAD_ROWS = 4_000_000, 96_000_000


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


def light(n, steps):  # type: ignore[no-untyped-def]  # compiled
    """A row that takes so many steps; few are hardly longer than to be put in order."""
    for _ in range(steps):
        n = (n * n + ADDEND) & MASK
    yield n


def fifty(n, steps):  # type: ignore[no-untyped-def]  # compiled
    """Many rows for one, as in fig. 13."""
    for _ in range(SELECTIVITY):
        for _ in range(steps):
            n = (n * n + ADDEND) & MASK
        yield n


def stepped(numbers: np.ndarray, steps: int) -> np.ndarray:
    """What `light` makes of numbers.

    >>> stepped(np.array([1, 2]), 1).tolist(), list(light(2, 1))
    ([12346, 12349], [12349])
    """
    for _ in range(steps):
        numbers = (numbers * numbers + ADDEND) & MASK
    return numbers


@dataclass(frozen=True)
class Case:
    """A stream, what its last column is, in order, and how its rows are laid out."""

    stream: Stream
    expected: np.ndarray
    rows: int
    capacity: int | None = None


def _shared(columns: dict[str, Any], function: Callable[..., Any]) -> Stream:
    """A function that all workers share, behind an exchange to one owner."""
    table = pa.table(columns)
    rows = hr.read.memory(table).limit(table.num_rows)
    return rows.flat_map(function, output={"made": hr.int64}, columns=["n", "steps"])


def _light(rows: int) -> Case:
    numbers = np.arange(rows)
    columns = {"n": numbers, "steps": np.full(rows, LIGHT_STEPS)}
    return Case(_shared(columns, light), stepped(numbers, LIGHT_STEPS), rows)


def _fifty(rows: int) -> Case:
    rows = max(1, rows // SELECTIVITY)
    numbers = np.arange(rows)
    made = [stepped(numbers, FIFTY_STEPS)]
    while len(made) < SELECTIVITY:
        made.append(stepped(made[-1], FIFTY_STEPS))
    columns = {"n": numbers, "steps": np.full(rows, FIFTY_STEPS)}
    return Case(_shared(columns, fifty), np.stack(made, axis=1).ravel(), rows)


def _slowed(rows: int) -> Case:
    """Rows whose strings are copied when they are sent, which takes as long as to make them: blocks
    are small enough for that. Now and then a row takes long, and what is behind it piles up. The
    strings are read behind it, by an operator of its own; few rows come to the sink, as
    Python would take more time for small blocks than all else."""
    rows = max(1, rows // SLOWED_SHARE)
    numbers, steps = np.arange(rows), np.zeros(rows, np.int64)
    late = numbers[STRAGGLER_EVERY // 2 :: STRAGGLER_EVERY]
    steps[late] = STRAGGLER_STEPS
    made = numbers.copy()
    made[late] = stepped(late, STRAGGLER_STEPS)
    texts = {f"text_{k}": hr.lit("x" * TEXT_BYTES + str(k)) for k in range(TEXTS)}
    stream = _shared({"n": numbers, "steps": steps}, light).with_columns(texts)
    read = functools.reduce(operator.and_, (hr.col(name) != "" for name in texts))
    kept = read & (hr.col("made") % KEPT == 0)
    stream = stream.filter(kept, on_error="skip").select("made")  # not fused with what is before
    return Case(stream, made[made % KEPT == 0], rows, FEW)


def _duel(bench: Bench, case: Case, sides: dict[str, How]) -> tuple[Duel, bool]:
    """Two ways to run a stream; its last column is compared row by row, in order."""

    made = Column(len(case.expected))

    def side(how: How) -> Callable[[], Run]:
        how = replace(how, capacity=case.capacity)
        expected = in_order(case.expected, how)

        def run() -> Run:
            seconds = finish_into(case.stream, how, made)
            right = np.array_equal(in_order(made.values, how), expected)
            return Run(case.rows, seconds, right and made.rows == len(expected))

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
    rows = bench.settings.rows or REORDER_ROWS
    cases = {"light": _light(rows), "selectivity 50": _fifty(rows), "slowed send": _slowed(rows)}
    how = How("node", bench.settings.workers)
    sides = {"non-blocking": how, "lock": replace(how, reorder="lock")}
    found = {name: _duel(bench, case, sides) for name, case in cases.items()}
    duels = {name: duel for name, (duel, _) in found.items()}
    correct = all(right for _, right in found.values())
    details = {"rows": rows, **{name: duel.said() for name, duel in duels.items()}}
    worst = min(duel.ratio for duel in duels.values())
    return {
        "reorder": Found(worst, correct, details),
        "reorder_slowed": Found(duels["slowed send"].ratio, correct, duels["slowed send"].said()),
    }


def _overhead(bench: Bench) -> dict[str, Found]:
    """The same events again and again, so that a round lasts long enough to tell something."""
    rows = bench.settings.rows or OVERHEAD_ROWS
    times = max(1, rows // YSB_ROWS)
    data = ysb.make(min(rows, YSB_ROWS))
    events = pa.concat_tables([data.events] * times)
    views = ysb.views(hr.read.memory(events), data.campaigns)
    stream = views.select("ad_id", "campaign_id", "event_time")
    is_view = data.events["event_type"].to_numpy() == ysb.VIEW
    expected = np.tile(data.events["event_time"].to_numpy()[is_view], times)
    how = How("node", bench.settings.workers)
    sides = {name: replace(how, ordering=name) for name in ("total", "none")}
    duel, correct = _duel(bench, Case(stream, expected, events.num_rows), sides)
    return {"overhead": Found(duel.ratio, correct, {**duel.said(), "rows": events.num_rows})}


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
