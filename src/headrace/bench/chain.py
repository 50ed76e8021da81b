"""`headrace bench chain`: what one more operator in a chain costs.

Each operator adds one to a column. The last one looks at every row: it lets wrong rows pass, and
of each round of the replayed table the first one, so that little reaches the sink, and what does
tells whether all were right. The cost is the CPU time of the process, which is its own also where
others use the cores. That of source, last operator and sink is that of a chain of no operators; it
is taken off. Short chains get more rows than long ones, for the same work.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import headrace as hr
from headrace import col
from headrace.observe.numbers import short
from headrace.stream import Stream

from .harness import Run
from .queries import How, finish
from .report import Report, right_or_wrong
from .saying import Said, say_nothing

LENGTHS = (10, 1000)
ROWS = 8_000_000  # of the longest chain: until it is full, it is slower
TABLE_ROWS = 65_536
REPEAT = 3


def chain(rows: Stream, operators: int) -> Stream:
    """So many operators, each of which adds one to column `n`; then wrong rows and first rows.

    >>> chain(hr.read.memory({"index": [0, 1], "n": [0, 1]}), 3)
    Stream(index: int64, n: int64)
    """
    for _ in range(operators):
        rows = rows.with_columns(n=col("n") + 1)
    wrong = col("n") != col("index") + operators
    return rows.filter(wrong | (col("index") == 0), name="wrong or first")


def run_chain(operators: int, rows: int, how: How, table_rows: int = TABLE_ROWS) -> Run:
    """Run a chain over so many rows; timed from the first row that is read to the end."""
    index = np.arange(table_rows)
    events = hr.read.replay({"index": index, "n": index}, rows=rows, name="numbers")
    ended = finish(chain(events, operators), how)
    found, rounds = ended.result, -(-rows // table_rows)
    right = ended.rows == rows and found.num_rows == rounds
    right = right and bool((found["index"].to_numpy() == 0).all())
    right = right and bool((found["n"].to_numpy() == operators).all())
    return Run(rows, ended.seconds, right, ended.cpu / ended.seconds)


def measure(
    how: How,
    *,
    lengths: Sequence[int] = LENGTHS,
    rows: int = ROWS,
    repeat: int = REPEAT,
    say: Said = say_nothing,
) -> dict[str, Any]:
    """The cost per row and operator of each length, in nanoseconds of all threads together."""
    lengths = sorted(set(lengths))
    most = rows * lengths[-1]
    plan = {length: most // length for length in lengths}
    found: dict[int, list[Run]] = {length: [] for length in (0, *lengths)}
    for length in found:  # so that kernels are compiled, and what they need is there
        say(f"{length} operators, warming up")
        found[length].append(run_chain(length, TABLE_ROWS, how))
    for number in range(1, repeat + 1):
        for length in found:
            say(f"{length} operators, round {number} of {repeat}")
            found[length].append(run_chain(length, plan.get(length, plan[lengths[0]]), how))
    correct = all(run.correct for runs in found.values() for run in runs)
    timed = {length: runs[1:] for length, runs in found.items()}
    bare = _nanoseconds(timed.pop(0))
    costs = {length: (_nanoseconds(runs) - bare) / length for length, runs in timed.items()}
    with_all = {length: _nanoseconds(runs) / length for length, runs in timed.items()}
    cores = {length: statistics.median(run.cores for run in runs) for length, runs in timed.items()}
    return {
        "workload": "chain",
        "engine": how.engine,
        "workers": how.threads,
        "fuse": how.fuse,
        "operators": lengths,
        "rows": {str(length): plan[length] for length in lengths},
        "repeat": repeat,
        "ns_per_row_and_operator": {str(k): round(cost, 4) for k, cost in costs.items()},
        "ratio": _ratio(costs),
        "ns_with_source_and_sink": {str(k): round(cost, 4) for k, cost in with_all.items()},
        "ratio_with_source_and_sink": _ratio(with_all),
        "source_and_sink_ns_per_row": round(bare, 4),
        "cores": {str(k): round(used, 2) for k, used in cores.items()},
        "correct": correct,
    }


def _nanoseconds(runs: Sequence[Run]) -> float:
    """CPU time of a row through the whole chain: the median run."""
    return statistics.median(run.seconds * run.cores / run.rows for run in runs) * 1e9


def _ratio(costs: dict[int, float]) -> float | None:
    """The longest chain's cost to that of the shortest."""
    shortest, longest = min(costs), max(costs)
    return round(costs[longest] / costs[shortest], 3) if costs[shortest] > 0 else None


def run(
    how: How, *, as_json: bool = False, console: Console | None = None, **sizes: Any
) -> dict[str, Any]:
    """Measure with such `sizes`, print, and give it back."""
    report = Report(as_json, console)
    with report.saying("chain") as say:
        found = measure(how, say=say, **sizes)
    report.add(found)
    ratio = "unknown: too few rows" if found["ratio"] is None else f"{found['ratio']:.2f}"
    report.show(_table(found), f"longest to shortest: {ratio}")
    return found


def _table(found: dict[str, Any]) -> Table:
    made = Table(title=f"headrace bench chain: {found['workers']} workers, fuse {found['fuse']}")
    for heading in ("operators", "rows", "ns per row and operator", ""):
        made.add_column(heading, justify="right", no_wrap=True)
    verdict = right_or_wrong(found["correct"])
    for length in map(str, found["operators"]):
        cost = found["ns_per_row_and_operator"][length]
        made.add_row(length, short(found["rows"][length]), f"{cost:.2f}", verdict)
    return made
