"""Checked nodes of keys, event time and windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .bind import FunctionChecker, bind
from .checks import Place
from .derive import time_expression
from .durations import in_units_of
from .errors import PipelineError
from .expression_types import ExpressionError, aggregate_type
from .expressions import Aggregate
from .nodes import KeyBy, Late, MapBatches, Node, Tumbling, Union, Watermark, WindowAggregate, walk
from .schema import Field, Schema
from .types import DataType

WINDOW_START = "window_start"


def key_by(node: Node, columns: Sequence[str], name: str | None = None) -> KeyBy:
    """Declare the key: rows with equal keys belong together."""
    place = Place("key_by", name)
    if not columns:
        raise place.error("a key needs at least one column", 'key_by("user")')
    for column in columns:
        place.existing(column, node.schema)
    if len(set(columns)) != len(columns):
        raise place.error(f"a column is twice in the key {list(columns)}", "name each once")
    return KeyBy(
        (node,), node.schema, place.name, site=place.site, key=tuple(columns), time=node.time
    )


def with_watermark(node: Node, column: str, bound: Any, name: str | None = None) -> Watermark:
    """Declare the event-time column, and how far rows may be out of order."""
    place = Place("with_watermark", name)
    kind = node.schema[place.existing(column, node.schema)]
    _check_time_type(column, kind, place)
    declared = next((n for n in walk([node]) if isinstance(n, Watermark)), None)
    if declared is not None:
        raise place.error(
            f"the event time is declared already: {declared.column!r} at {declared.site!r}",
            "declare it once, before streams part or come together",
        )
    try:
        time_expression(node, column)
    except PipelineError as error:
        raise place.error(f"{error.what} (at {error.site!r})", error.fix) from None
    length = _length(bound, kind, "bound", place)
    if length < 0:
        raise place.error(f"the bound {bound!r} is negative", "0 means that rows come in order")
    return Watermark(
        (node,),
        node.schema,
        place.name,
        site=place.site,
        key=node.key,
        time=column,
        column=column,
        bound=length,
    )


def _check_time_type(column: str, kind: DataType, place: Place) -> None:
    if kind.name in ("timestamp", "int64"):
        return
    if kind.is_integer:
        fix = f"with_columns({column}=col({column!r}).cast('int64'))"
    elif kind.name == "date":
        fix = f"with_columns({column}=col({column!r}).cast('timestamp'))"
    else:
        fix = "make a timestamp with hr.from_millis(...) or hr.from_seconds(...)"
    raise place.error(f"{column!r} is {kind}, and event time is a timestamp or an int64", fix)


def _length(given: Any, time: DataType, what: str, place: Place) -> int:
    try:
        return in_units_of(given, time, what)
    except ExpressionError as error:
        raise place.error(error.what, error.fix) from None


def window(node: Node, size: Any, offset: Any, name: str | None = None) -> Tumbling:
    """Check a tumbling window against the event-time column of a stream."""
    place = Place("window", name)
    if node.time is None:
        raise place.error(*_why_no_time(node))
    kind = node.schema[node.time]
    length = _length(size, kind, "size", place)
    if length <= 0:
        raise place.error(f"the size {size!r} is not positive", "give a longer window")
    return Tumbling(length, _length(offset, kind, "offset", place) % length)


def _why_no_time(node: Node) -> tuple[str, str]:
    """Why a stream has no event time, and what to do about it."""
    while node.inputs and node.time is None:
        inputs, lost = node.inputs, node
        if isinstance(lost, Late):
            return (
                "late rows have no event time: they would be late again",
                "write them somewhere, or use key_by and process",
            )
        if isinstance(lost, MapBatches) and inputs[0].time is not None:
            return (
                f"event time does not go through map_batches, at {lost.site!r}",
                "put map_batches behind the window, or write a compiled map or flat_map",
            )
        times = [each.time for each in inputs]
        if isinstance(lost, Union) and any(times) and len(set(times)) > 1:
            said = " and ".join(repr(time) if time else "none" for time in times)
            return (
                f"the streams have different event times, {said}, in the union at {lost.site!r}",
                "rename the time columns to one name, and call with_watermark behind the union",
            )
        if times[0] is not None:
            return (
                f"the event-time column {times[0]!r} was lost at {lost.site!r}",
                "keep it unchanged there (it may get a new name)",
            )
        node = inputs[0]
    return "the stream has no event time", 'call with_watermark("column", "10s") before window'


def aggregate(
    node: Node,
    window: Tumbling,
    aggregates: Sequence[tuple[str, Aggregate]],
    check: FunctionChecker,
    reproducible: bool = True,
    name: str | None = None,
) -> WindowAggregate:
    """Aggregates by key and window: the key columns, `window_start`, then the aggregates."""
    place = Place("agg", name)
    if not aggregates:
        raise place.error("no aggregate is given", "agg(rows=hr.count())")
    if not isinstance(reproducible, bool):
        raise place.error(f"reproducible={reproducible!r} is not True or False")
    assert node.time is not None  # `window` has made sure
    bound = tuple(
        (name, _bound_aggregate(made, node.schema, place, check)) for name, made in aggregates
    )
    start = Field(WINDOW_START, node.schema[node.time].required)
    fields = [Field(column, node.schema[column]) for column in node.key]
    fields += [start, *(_aggregate_field(n, made, node.schema, place) for n, made in bound)]
    schema = place.schema(
        fields, f"the result has the key columns and {WINDOW_START!r}: use another name"
    )
    return WindowAggregate(
        (node,),
        schema,
        place.name,
        site=place.site,
        key=node.key,
        time=WINDOW_START,
        window=window,
        aggregates=bound,
        reproducible=reproducible,
        rows=node.schema,
    )


def _bound_aggregate(
    made: Aggregate, schema: Schema, place: Place, check: FunctionChecker
) -> Aggregate:
    if made.operand is None:
        return made
    return Aggregate(made.kind, bind(made.operand, schema, place.operator, place.site, check))


def _aggregate_field(name: str, made: Aggregate, schema: Schema, place: Place) -> Field:
    try:
        kind = aggregate_type(made, schema)
    except ExpressionError as error:
        raise place.error(error.what, error.fix) from None
    return Field(name, kind)


def late(node: Node, name: str | None = None) -> Late:
    """The rows that came too late for their window."""
    place = Place("late", name)
    if not isinstance(node, WindowAggregate):
        raise place.error(
            f"only the result of window(...).agg(...) has late rows, not that of a {node.kind}",
            "keep the stream that agg gives in a variable: late = windowed.late()",
        )
    return Late((node,), node.rows, place.name, site=place.site, key=node.key)
