"""Pace: when the rows of a source are due, for compiled code.

    as fast as possible    a huge number of rows is due at once
    a rate, rate steps     by the clock alone: an open loop (`connect.rates`)

The start is a time in nanoseconds of any clock, the same that callers ask with.

    >>> pace = new_pace(Rate.of([(10, "1s"), (1000, "1s")]), start=500)
    >>> rows_due(pace, 500), rows_due(pace, 500 + SECOND), rows_due(pace, 500 + 2 * SECOND)
    (0, 10, 1010)
    >>> due_time(pace, 9), next_due(pace, 9)      # of the tenth row
    (1000000500, 1000000500)
    >>> rows_due(new_pace(None, start=500), 500) == NEVER_DUE
    True
"""

from __future__ import annotations

from typing import Any

from headrace.connect import rates
from headrace.connect.rates import NEVER_DUE, SECOND, Rate
from headrace.stage.memory.records import array, compiled, i64, line, record

__all__ = [
    "NEVER_DUE", "SECOND", "Pace", "PaceStep", "Rate",
    "due_time", "new_pace", "next_due", "rows_due", "start_pace",
]  # fmt: skip

rows_in = compiled(rates.rows_in)
time_for = compiled(rates.time_for)


@record
class PaceStep:
    """`rows` rows in every `per` nanoseconds, from `begin` to `end` after the start."""

    begin: i64
    end: i64
    before: i64  # rows of the steps before
    inside: i64  # rows of this step
    rows: i64
    per: i64


@record
class Pace:
    """Steps behind it; without any, everything is due at once. Written before it is used."""

    start: i64 = line()
    count: i64  # of steps
    steps: array(PaceStep) = line()


def new_pace(rate: Rate | None, start: int) -> Any:
    """A pace in memory of its own."""
    steps = rate.steps if rate else ()
    pace = Pace.allocate(behind=len(steps) * PaceStep.size)
    pace.count = len(steps)
    begin, before = 0, 0
    for number, step in enumerate(steps):
        made = pace.steps[number]
        made.rows, made.per, made.begin, made.before = step.rows, step.per, begin, before
        made.end = NEVER_DUE if step.ns is None else begin + step.ns
        length = rates.HORIZON - begin if step.ns is None else step.ns
        made.inside = rates.rows_in(length, step.rows, step.per)
        begin, before = made.end, before + made.inside
    start_pace(pace, start)
    return pace


@compiled
def start_pace(pace, start):
    """Let the clock begin to run. Not while somebody asks."""
    pace.start = start


@compiled
def rows_due(pace, now):
    """How many rows are due in all, now; NEVER_DUE where the source goes as fast as it can."""
    if pace.count == 0:
        return NEVER_DUE
    passed = now - pace.start
    if passed <= 0:
        return 0
    number = 0
    while passed >= pace.steps[number].end:  # the last ends at NEVER_DUE
        number += 1
    step = pace.steps[number]
    return step.before + rows_in(passed - step.begin, step.rows, step.per)


@compiled
def due_time(pace, row):
    """When a row (the first is number 0) was or will be due; NEVER_DUE: never. As fast as possible:
    at the start."""
    if pace.count == 0:
        return pace.start
    for number in range(pace.count):
        step = pace.steps[number]
        count = row + 1 - step.before
        if count <= step.inside:
            return pace.start + step.begin + time_for(count, step.rows, step.per)
    return NEVER_DUE


@compiled
def next_due(pace, rows_done):
    """When there will be more to do, after so many rows."""
    return due_time(pace, rows_done)
