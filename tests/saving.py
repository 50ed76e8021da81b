"""State saved and restored in the middle of a run, wherever it is cut."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from headrace.plan.planner import Plan
from headrace.stage.blocks.arrow import to_arrow
from headrace.stage.snapshot import Snapshot
from headrace.stage.stage import Stage

Events = Callable[[int, int], pa.RecordBatch]  # the rows [first, last) of a source


def cuts(rows: int) -> st.SearchStrategy[list[int]]:
    """Some places among so many rows, in order."""
    return st.lists(st.integers(0, rows), min_size=1, max_size=5).map(sorted)


def check_saved(
    plan: Plan, events: Events, rows: int, cuts: list[int], by: tuple[str, ...] = ()
) -> None:
    """What a plan of one source gives is the same if, at each cut, it goes on from a snapshot: in a
    new stage, or in the one before, which lacks only the last changes. by: the order of rows that
    are equal in these columns is compared; without any, that of all."""
    whole = _fed(Stage(plan.whole, compiled=False), plan, events, 0, rows, end=True)
    stage, found, done, saved = Stage(plan.whole, compiled=False), [], 0, []
    before = None
    for number, cut in enumerate(cuts):
        found += _fed(stage, plan, events, done, cut)
        done = cut
        snapshot = stage.snapshot(saved[-1].token if saved else None)
        saved = [*saved, snapshot] if snapshot.since else [snapshot]
        missing = saved
        if number % 2 and snapshot.since:
            before, stage, missing = stage, before, [snapshot]
        else:
            before, stage = stage, Stage(plan.whole, compiled=False)
        stage.restore(*[Snapshot.from_bytes(each.to_bytes()) for each in missing])
    found += _fed(stage, plan, events, done, rows, end=True)
    for root in plan.whole.roots:
        one, other = (
            sorted(
                (r for n, r in each if n == root.name),
                key=lambda row: [row[name] for name in by],
            )
            for each in (found, whole)
        )
        for row, expected in zip_longest(one, other):
            assert row == expected, root.name


def _fed(
    stage: Stage, plan: Plan, events: Events, first: int, last: int, end: bool = False
) -> list[tuple[str, dict[str, Any]]]:
    (source,) = plan.whole.inputs
    stage.push(source.name, events(first, last), "0")
    if end:
        stage.end(source.name, "0")
    return [(name, row) for name, block in stage.pull() for row in to_arrow(block).to_pylist()]
