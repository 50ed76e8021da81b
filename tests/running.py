"""Running outputs through a `Stage` in chosen cuts, and comparing rows with the reference."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from tests.choices import Choices
from tests.naive import Row, naive, rows_of
from tests.user_functions import PROCESSES, SIDED, TIMED

import headrace as hr
from headrace.asked import planned
from headrace.plan.accumulators import merges_exactly
from headrace.plan.explain import explain_plan
from headrace.plan.graph import walk
from headrace.plan.nodes import OperatorClass, Source
from headrace.stage.blocks.arrow import to_arrow
from headrace.stage.stage import Stage
from headrace.testing.stages import run_stages

CAPACITIES = (1, 2, 3, 7, 16, 64, 64, 8192)  # of blocks

# What a row may do to a pipeline; anything else is a bug.
ROW_ERRORS = (ArithmeticError, ValueError)


def run_staged(
    outputs: Sequence[Any],
    *,
    capacity: int = 4096,
    compiled: bool = False,
    fuse: str = "auto",
    prune: bool = True,
    cuts: Choices | None = None,
) -> list[list[Row]]:
    """The rows of each output. `cuts` chooses how the input comes; without it, all at once."""
    plan = planned(outputs, fuse=fuse, prune=prune)
    stage = Stage(plan.whole, capacity=capacity, compiled=compiled)
    found: dict[str, list[Row]] = {root.name: [] for root in plan.whole.roots}
    try:
        waiting = _pushes(stage, plan.whole.inputs, cuts)
        while waiting:
            port, channel, batches = cuts.pick(waiting) if cuts else waiting[0]
            if batches:
                stage.push(port, batches.pop(0), channel)
            else:
                stage.end(port, channel)
                waiting.remove((port, channel, batches))
            if cuts is None or cuts.chance(70):
                _pull(stage, found)
        _pull(stage, found)
        assert stage.is_idle
    finally:
        stage.close()
    return list(found.values())


def _pull(stage: Stage, found: dict[str, list[Row]]) -> None:
    for name, block in stage.pull():
        assert 0 < block.rows <= stage.capacity
        found[name].extend(rows_of(to_arrow(block)))


def _pushes(stage: Stage, inputs: Sequence[Source], cuts: Choices | None) -> list[Any]:
    """(port, channel, batches to come) of every channel."""
    made = []
    for node in inputs:
        names = list(node.given.names)
        for channel in node.connector.channels():
            reader = node.connector.open(channel, columns=names)
            batches, ended = [], False
            while not ended:
                batch = reader.poll(1 << 20, 1.0)
                ended = batch.ended
                if batch.rows is not None:
                    batches.extend(_cut(batch.rows, cuts))
            stage.declare(node.name, channel)
            made.append((node.name, channel, batches))
    return made


def _cut(rows: pa.RecordBatch, cuts: Choices | None) -> list[pa.RecordBatch]:
    if cuts is None or rows.num_rows == 0:
        return [rows]
    most = cuts.pick([1, 3, 10, 1000])
    made, start = [], 0
    while start < rows.num_rows:
        count = cuts.number(0 if cuts.chance(5) else 1, most)
        made.append(rows.slice(start, count))
        start += count
    return made


# ---- comparing -----------------------------------------------------------------------------


def comparable(value: Any) -> Any:
    """A value that is equal exactly to what means the same: NaN to NaN, a bool to no number."""
    if isinstance(value, float):
        return ("nan",) if math.isnan(value) else ("float", value)
    if isinstance(value, list):
        return ("list", *map(comparable, value))
    return (type(value).__name__, value)


def assert_same(found: list[Row], expected: list[Row], *, ordered: bool) -> None:
    """Fail unless the rows are the same, with the same columns in the same order."""
    one, other = (
        [tuple((name, comparable(value)) for name, value in row.items()) for row in rows]
        for rows in (found, expected)
    )
    if ordered and one != other:
        at = next(
            (k for k, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other))
        )
        raise AssertionError(
            f"{len(found)} rows, {len(expected)} expected; row {at} differs:\n"
            f"  found    {found[at : at + 3]}\n  expected {expected[at : at + 3]}"
        )
    if not ordered and Counter(one) != Counter(other):
        more, fewer = Counter(one) - Counter(other), Counter(other) - Counter(one)
        raise AssertionError(
            f"{len(found)} rows, {len(expected)} expected\n  not expected: {list(more)[:5]}\n"
            f"  missing:      {list(fewer)[:5]}"
        )


def is_ordered(node: Any) -> bool:
    """Do the rows of an operator come in one order, however blocks are cut?

    Not where channels or the sides of a union mix; a window sorts its results, unless rows give
    some of them. Late rows come as
    the rows of their window do.
    """
    kind = node.kind
    if kind in ("late", "dead_letters"):
        return is_ordered(node.input.input)
    if kind == "window":
        return not node.window.rows
    if kind == "sort_by_time":  # of equal times each input keeps its order
        inputs = node.input.inputs if node.input.kind == "union" else node.inputs
        return all(map(is_ordered, inputs))
    if kind == "source":
        return len(node.connector.channels()) == 1
    return kind != "union" and all(is_ordered(source) for source in node.inputs)


def order_matters(root: Any) -> bool:
    """Does a result depend on the order of rows that several owners may change?

    The rows of a key keep their order over one exchange from one channel, not behind another
    exchange or union. Then states that look at the order and sums of floats may differ.
    """
    nodes = [node for node in walk([root]) if _looks_at_order(node)]
    return not all(map(_one_sender, map(_ordered_side, nodes)))


def _ordered_side(node: Any) -> Any:
    """Where the rows come from whose order an operator looks at."""
    return node.input.inputs[1] if node.kind == "asof_join" else node.input


def _looks_at_order(node: Any) -> bool:
    if node.kind in ("limit", "dedup", "running", "timed_process", "asof_join"):
        return True
    if node.kind == "process":
        return any(
            e.needs_order
            for e in PROCESSES + TIMED + SIDED
            if e.function.__name__ == node.function.name
        )
    if node.kind == "window":
        exact = merges_exactly(tuple(a for _, a in node.aggregates), node.rows)
        ends = any(a.kind in ("first", "last") for _, a in node.aggregates)
        return not exact or ends or node.window.rows > 0
    return False


def _one_sender(node: Any) -> bool:
    stateless = all(each.operator_class is OperatorClass.STATELESS for each in walk([node]))
    shared = any(each.kind == "rebalance" for each in walk([node]))
    return stateless and is_ordered(node) and not shared


def in_any_order(outputs: Sequence[Any]) -> list[list[Row]] | None:
    """What the reference gives; None: it depends on the order of rows, or a row fails."""
    if any(order_matters(output.node) for output in outputs):
        return None
    try:
        return naive(outputs)
    except ROW_ERRORS:
        return None


@contextmanager
def noted(what: str) -> Iterator[None]:
    """Errors say what they happened with."""
    try:
        yield
    except BaseException as error:
        error.add_note(what)
        raise


def check(outputs: Sequence[Any], **options: Any) -> bool:
    """Compare a run with the reference. False: a row fails in both, or only in the reference.

    A column that nobody reads is not computed, so an error in it may stay away.
    """
    try:
        expected = naive(outputs)
    except ROW_ERRORS:
        try:
            run_staged(outputs, **options)
        except ROW_ERRORS:
            pass
        return False
    try:
        found = run_staged(outputs, **options)
        for output, one, other in zip(outputs, found, expected, strict=True):
            assert_same(one, other, ordered=is_ordered(output.node))
    except Exception as error:
        error.add_note(explain_plan(planned(outputs)))
        raise
    return True


def check_anyhow(outputs: Sequence[Any], choose: Choices) -> None:
    """Compare interpreted runs with the reference, with the input in pieces, fused or not."""
    fuse = choose.pick(["auto", "none"])
    check(outputs, capacity=choose.pick(CAPACITIES), cuts=choose, fuse=fuse)


def check_over_shards(outputs: Sequence[Any], choose: Choices) -> None:
    """Compare with the reference what all stages give together, over one shard or three."""
    found = run_stages(
        *outputs,
        shards=choose.pick([1, 3]),
        capacity=choose.pick(CAPACITIES),
        batch=choose.pick([1, 5, 1000]),
        seed=choose.number(0, 100),
    )
    for one, other in zip(found.values(), naive(outputs), strict=True):
        assert_same(rows_of(one), other, ordered=False)


def check_on_engines(outputs: Sequence[Any], choose: Choices, *, ordered: bool) -> None:
    """Compare compiled runs with the reference: as a stage, and by one to four workers."""
    check(outputs, compiled=True, capacity=choose.pick([1, 7, 64, 8192]), cuts=choose)
    expected = naive(outputs)
    for workers in (1, 2, 3, 4):
        hr.run(*outputs, engine="node", workers=workers)
        for output, other in zip(outputs, expected, strict=True):
            assert_same(rows_of(output.result()), other, ordered=ordered)
