"""The store layouts of operators: what their records hold."""

from __future__ import annotations

from headrace.plan.accumulators import accumulators
from headrace.plan.by_time import InTurn, SortByTime
from headrace.plan.dedup import DedupWithin
from headrace.plan.nodes import (
    AsOfJoin,
    Process,
    Running,
    Stateful,
    TableJoin,
    Windowed,
    WindowJoin,
)
from headrace.plan.timed import TimedProcess
from headrace.plan.types import DataType, bool_, int64
from headrace.plan.windows.interval import Interval

from .stores import StoreLayout

PARTNERS, AT, COLUMN = "partners", "at", "column_"  # fields of the rows of a join
WAKES, FIELD = "wakes", "field_"  # and of a state beside rows that wait


def state_layout(node: Process) -> StoreLayout:
    """The records of `process`: the key and the user's state."""
    keys = tuple(node.inputs[0].schema[name] for name in node.key)
    assert node.function.state is not None
    fields = node.function.state.fields
    values = tuple((f"field_{k}", field.type) for k, field in enumerate(fields))
    return StoreLayout("state", keys, values, in_state=True)


def window_layout(node: Windowed | Running) -> StoreLayout:
    """The records of an open window, or of running aggregates: the key and the accumulators."""
    keys = tuple(node.inputs[0].schema[name] for name in node.key)
    if isinstance(node, WindowJoin):
        return _join_layout(node, keys)
    if isinstance(node, TimedProcess):
        return _timed_layout(node, keys)
    if isinstance(node, SortByTime):
        values = ((AT, int64), *_kept_columns(node))
        return StoreLayout("window", (int64, int64), values, spread=2)
    if isinstance(node, DedupWithin):
        return StoreLayout("window", keys, ((AT, int64),))
    kept = accumulators(tuple(aggregate for _, aggregate in node.aggregates), node.rows)
    values = tuple((part.field, part.type) for parts in kept for part in parts)
    return StoreLayout("window", keys, values)


def _join_layout(node: WindowJoin, keys: tuple[DataType, ...]) -> StoreLayout:
    """The rows of a pane: the key, the side and which of its rows it is; how many there are (in
    the first one), or the time, where anybody asks; and the columns."""
    columns = {field: node.rows[names[0]] for field, names in column_fields(node).items()}
    waits, is_near = isinstance(node, AsOfJoin), isinstance(node.window, Interval)
    values = [(PARTNERS, int64)] * (not waits) + [(AT, int64)] * (waits or is_near)
    return StoreLayout("window", (*keys, bool_, int64), (*values, *columns.items()), spread=2)


def column_fields(node: WindowJoin) -> dict[str, list[str]]:
    """The columns of a join by the field that they lie in. A row has those of its side alone: one
    on the left and one on the right share a field where they have the same type."""
    made = {f"{COLUMN}{k}": [name] for k, name in enumerate(node.left)}
    free = list(made.items())
    for name in node.right:
        like = (pair for pair in free if node.rows[pair[1][0]] == node.rows[name])
        field, names = shared = next(like, (f"{COLUMN}{len(made)}", []))
        made[field] = [*names, name]
        free = [pair for pair in free if pair is not shared]
    return made


def _timed_layout(node: TimedProcess, keys: tuple[DataType, ...]) -> StoreLayout:
    """The rows that wait, timers and states: the time, and when a timer goes off; the columns of a
    row; the user's state. Each has room for what only the others need, so that panes are alike."""
    fields = tuple((f"{FIELD}{k}", field.type) for k, field in enumerate(node.state.fields))
    values = ((AT, int64), (WAKES, int64), *_kept_columns(node), *fields)
    return StoreLayout("window", (*keys, bool_, int64), values, spread=2)


def _kept_columns(node: InTurn) -> list[tuple[str, DataType]]:
    """The columns of a row that waits for its turn."""
    return [(f"{COLUMN}{k}", node.rows[name]) for k, name in enumerate(node.kept)]


def records_layout(node: Stateful) -> StoreLayout:
    """The records of an operator with state."""
    return state_layout(node) if isinstance(node, Process) else window_layout(node)


def table_layout(node: TableJoin, k: int) -> StoreLayout:
    """The records of a static table: the key, never null, and the columns that are taken."""
    keys = tuple(node.table.schema[name].required for name in node.right_on)
    values = tuple(
        (f"value_{j}", node.table.schema[name]) for j, (name, _) in enumerate(node.taken)
    )
    return StoreLayout(f"table{k}", keys, values, is_static=True)
