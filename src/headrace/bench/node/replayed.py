"""Tables that are replayed to an end: sums by many keys, and the pipeline of the README.

All sides get the same rows: so many rounds of the table that the fastest side takes about a
second. What each side gives for one round is checked before anything is timed, and what it gives
in the timed runs behind them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import pyarrow as pa

from headrace.bench.figure import Found
from headrace.bench.harness import Run, Turns, in_turns
from headrace.bench.queries import How, finish
from headrace.stream import Stream
from headrace.workloads import keyed, readme

from .bench import ENGINE, Bench, Measure, workers

SHARE = 0.2  # of the settings' seconds: how long the fastest side runs
MOST_ROUNDS = 200
PROCESS = "process, 1 worker"


class Table(Protocol):
    """Rows that can be replayed in rounds."""

    @property
    def rows(self) -> pa.Table:
        """A round of them."""

    def replayed(self, rounds: int) -> Stream:
        """So many rounds, one after the other."""


@dataclass(frozen=True)
class Query:
    """A pipeline over rounds of a table, and whether it gave what it must."""

    table: Table
    pipeline: Callable[[Stream], Stream]
    is_right: Callable[[pa.Table, int], bool]

    def run(self, count: int, rounds: int) -> Run:
        """Run it to its end with so many workers; all columns are copied in."""
        ended = finish(self.pipeline(self.table.replayed(rounds)), How(ENGINE, count))
        rows = rounds * self.table.rows.num_rows
        right = ended.rows == rows and self.is_right(ended.result, rounds)
        return Run(ended.rows, ended.seconds, right)


def _process(bench: Bench) -> Query:
    return Query(bench.keyed, keyed.pipeline, bench.keyed.are_totals)


def _windows(bench: Bench) -> Query:
    return Query(bench.keyed, keyed.windowed, bench.keyed.are_windows)


def _readme(bench: Bench) -> Query:
    return Query(bench.readme, readme.pipeline, bench.readme.is_right)


def _by_workers(query: Query) -> dict[str, tuple[Query, int]]:
    return {workers(count): (query, count) for count in (1, 2)}


def _in_turns(bench: Bench, sides: Mapping[str, tuple[Query, int]]) -> tuple[Turns, int]:
    """The sides (a query and its workers), and how many rounds of their table each run had."""

    def each(rounds: int) -> dict[str, Callable[[], Run]]:
        return {name: partial(query.run, count, rounds) for name, (query, count) in sides.items()}

    first = in_turns(each(1), 1, say=bench.say)  # what is compiled is compiled behind these
    seconds = min(run.seconds for runs in first.runs.values() for run in runs)
    enough = math.ceil(SHARE * bench.settings.seconds / max(seconds, 1e-9))
    rounds = min(max(enough, 1), MOST_ROUNDS)
    turns = in_turns(each(rounds), bench.settings.rounds, warm_up=False, say=bench.say)
    turns.correct &= first.correct
    return turns, rounds


def _compared(turns: Turns, rounds: int, ours: str, theirs: str) -> Found:
    duel = turns.duel(ours, theirs)
    details = {**duel.said(), "rows": duel.ours[0].rows, "table_rounds": rounds}
    return Found(duel.ratio, turns.correct, details)


def _scaling(name: str, query: Callable[[Bench], Query]) -> Measure:
    def measure(bench: Bench) -> dict[str, Found]:
        turns, rounds = _in_turns(bench, _by_workers(query(bench)))
        return {name: _compared(turns, rounds, workers(2), workers(1))}

    return measure


process_scaling = _scaling("process_scaling", _process)
readme_scaling = _scaling("readme_scaling", _readme)


def windows(bench: Bench) -> dict[str, Found]:
    """Sums in windows, against the same sums by `process`, and by workers."""
    sides = {PROCESS: (_process(bench), 1), **_by_workers(_windows(bench))}
    turns, rounds = _in_turns(bench, sides)
    return {
        "windows_many_keys": _compared(turns, rounds, workers(2), PROCESS),
        "windows_scaling": _compared(turns, rounds, workers(2), workers(1)),
    }
