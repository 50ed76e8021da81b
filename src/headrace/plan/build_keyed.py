"""Checked nodes of keys, event time and windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from . import build_partition
from .aggregates.kinds import kind_of
from .asides import emitter_of
from .bind import FunctionChecker, bind
from .build import project
from .by_time import INPUT, InTurn
from .checks import Place
from .connector import is_unordered
from .derive import time_expression
from .durations import in_units_of, positive_length
from .errors import PipelineError
from .expression_types import ExpressionError, aggregate_type, type_of
from .expressions import Aggregate, Column
from .graph import walk
from .literals import stored
from .nodes import (
    COUNTED,
    KEY,
    ORDERINGS,
    KeyBy,
    Late,
    MapBatches,
    Node,
    Ordered,
    Running,
    Source,
    Union,
    Watermark,
    WindowAggregate,
    extended,
)
from .schema import Field, Schema
from .types import DataType, bool_, timestamp
from .windows.base import Window


def key_by(
    node: Node,
    columns: Sequence[str],
    check: FunctionChecker,
    partition: Any = None,
    name: str | None = None,
) -> KeyBy:
    """Declare the key: rows with equal keys belong together."""
    place = Place("key_by", name)
    if not columns:
        raise place.error("a key needs at least one column", 'key_by("user")')
    for column in columns:
        place.existing(column, node.schema)
    if len(set(columns)) != len(columns):
        raise place.error(f"a column is twice in the key {list(columns)}", "name each once")
    return KeyBy(
        (node,),
        node.schema,
        place.name,
        site=place.site,
        key=tuple(columns),
        partition=build_partition.partition(partition, node, columns, place, check),
        time=node.time,
    )


def with_ordering(node: Node, ordering: str, name: str | None = None) -> Ordered:
    """Declare in which order sinks behind it see rows."""
    place = Place("with_ordering", name)
    if ordering not in ORDERINGS:
        raise place.error(f"{ordering!r} is not an order", f"one of {', '.join(ORDERINGS)}")
    if ordering == KEY and not node.key:
        raise place.error("the stream has no key", f'key_by("user").with_ordering("{KEY}")')
    return Ordered(
        (node,),
        node.schema,
        place.name,
        site=place.site,
        key=node.key,
        time=node.time,
        ordering=ordering,
    )


def with_watermark(
    node: Node, column: str, bound: Any, latest: Any = None, name: str | None = None
) -> Watermark:
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
        latest=None if latest is None else _stored_time(latest, kind, place),
    )


def with_arrival_time(
    node: Node,
    column: str,
    every: Any,
    make: Callable[[Any, int], Any],
    name: str | None = None,
) -> Watermark:
    """The time of arrival as the event time. make: a source that gives it, from another one."""
    place = Place("with_arrival_time", name)
    if not isinstance(node, Source) or is_unordered(node.connector):
        rows = "those of a DataFrame" if isinstance(node, Source) else f"what {node.written} gives"
        raise place.error(
            f"rows get their time of arrival where they are read, and not {rows}",
            "call it right behind hr.read..., which is not hr.read.spark",
        )
    place.new_name(column, "the column of arrival")
    if column in node.schema:
        raise place.error(f"there is a column {column!r}", 'with_arrival_time("came_at")')
    try:
        length = positive_length(every, timestamp, "every")
    except ExpressionError as error:
        raise place.error(error.what, error.fix) from None
    schema = extended(node.schema, Field(column, timestamp))
    stamped = replace(node, connector=make(node.connector, length), schema=schema)
    return replace(with_watermark(stamped, column, 0, None, name), site=place.site)


def _stored_time(given: Any, kind: DataType, place: Place) -> int:
    try:
        return int(stored(given, kind.required))
    except ExpressionError as error:
        raise place.error(f"latest={given!r}: {error.what}", error.fix) from None


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


def window(
    node: Node, make: Callable[..., Window], given: Mapping[str, Any], name: str | None = None
) -> Window:
    """Check windows against the event-time column of a stream."""
    place = Place("window", name)
    if node.time is None:
        raise place.error(*why_no_time(node))
    return made_window(make, node.schema[node.time], given, place)


def made_window(
    make: Callable[..., Window], time: DataType, given: Mapping[str, Any], place: Place
) -> Window:
    """Windows over an event time, or what is wrong with them."""
    try:
        return make(time, **given)
    except ExpressionError as error:
        raise place.error(error.what, error.fix) from None


def why_no_time(node: Node) -> tuple[str, str]:
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
    return "the stream has no event time", 'call with_watermark("column", "10s") on it'


def aggregate(
    node: Node,
    window: Window,
    aggregates: Sequence[tuple[str, Aggregate]],
    check: FunctionChecker,
    reproducible: bool = True,
    name: str | None = None,
) -> WindowAggregate:
    """Aggregates by key and window: the key columns, those of the window, then the aggregates."""
    return aggregate_at(Place("agg", name), node, window, aggregates, check, reproducible)


def aggregate_at(
    place: Place,
    node: Node,
    window: Window,
    aggregates: Sequence[tuple[str, Aggregate]],
    check: FunctionChecker,
    reproducible: bool = True,
) -> WindowAggregate:
    """The same, where it is part of another operator."""
    if not aggregates:
        raise place.error("no aggregate is given", "agg(rows=hr.count())")
    if not isinstance(reproducible, bool):
        raise place.error(f"reproducible={reproducible!r} is not True or False")
    bound = tuple((name, _bound_aggregate(made, node, place, check)) for name, made in aggregates)
    fields = [Field(column, node.schema[column]) for column in node.key]
    if window.columns:
        assert node.time is not None  # `window` has made sure
        time = node.schema[node.time].required
        fields += [Field(c, bool_ if c in window.flags else time) for c in window.columns]
    fields += [_aggregate_field(n, made, node.schema, place) for n, made in bound]
    said = " and ".join(["the key columns", *map(repr, window.columns)])
    schema = place.schema(fields, f"the result has {said}: use another name")
    return WindowAggregate(
        (node,),
        schema,
        place.name,
        site=place.site,
        key=node.key,
        time=window.time,
        window=window,
        aggregates=bound,
        reproducible=reproducible,
        rows=node.schema,
    )


def running(
    node: Node,
    aggregates: Sequence[tuple[str, Aggregate]],
    check: FunctionChecker,
    name: str | None = None,
) -> Running:
    """Every row, with what aggregates of its key are by then."""
    made = _running(node, node.schema.names, aggregates, check, Place("running", name))
    return replace(made, time=node.time)


def counted(
    node: Node,
    rows: int,
    aggregates: Sequence[tuple[str, Aggregate]],
    check: FunctionChecker,
    name: str | None = None,
) -> Running:
    """Aggregates of each so many rows of a key."""
    made = _running(node, node.key, aggregates, check, Place("agg", name))
    return replace(made, every=rows, aggregates=(*made.aggregates, (COUNTED, Aggregate("count"))))


def _running(
    node: Node,
    carry: tuple[str, ...],
    aggregates: Sequence[tuple[str, Aggregate]],
    check: FunctionChecker,
    place: Place,
) -> Running:
    if not aggregates:
        raise place.error("no aggregate is given", "give one by name: rows=hr.count()")
    bound = tuple((name, _bound_aggregate(made, node, place, check)) for name, made in aggregates)
    fields = [Field(column, node.schema[column]) for column in carry]
    fields += [_aggregate_field(n, made, node.schema, place) for n, made in bound]
    return Running(
        (node,),
        place.schema(fields, f"the result has {', '.join(carry)}, too: use another name"),
        place.name,
        site=place.site,
        key=node.key,
        aggregates=bound,
        carry=carry,
        rows=node.schema,
    )


def _bound_aggregate(
    made: Aggregate, node: Node, place: Place, check: FunctionChecker
) -> Aggregate:
    if made.operand is None:
        return made
    operand, by = (
        each and bind(each, node.schema, place.operator, place.site, check)
        for each in (made.operand, made.by)
    )
    assert operand is not None

    def checked(function: Callable[..., Any], inputs: Sequence[DataType], **options: Any) -> Any:
        site = place.site
        return check(
            function, inputs, operator=place.operator, site=site, generator=False, **options
        )

    try:
        by_type = None if by is None else type_of(by, node.schema)
        argument = kind_of(made).bind(type_of(operand, node.schema), by_type, checked)
    except ExpressionError as error:
        raise place.error(error.what, error.fix) from None
    made = replace(made, operand=operand, argument=argument, by=by)
    kind = kind_of(made)
    if kind.needs_time and node.time is None:
        raise place.error(f"{made} goes by event time, and there is none", why_no_time(node)[1])
    if (kind.needs_time or kind.may_use_time) and node.time is not None:
        return replace(made, by=Column(node.time))
    return made


def _aggregate_field(name: str, made: Aggregate, schema: Schema, place: Place) -> Field:
    try:
        kind = aggregate_type(made, schema)
    except ExpressionError as error:
        raise place.error(error.what, error.fix) from None
    return Field(name, kind)


def late(node: Node, name: str | None = None) -> Node:
    """The rows that came too late for their window, or for their place in the order of time."""
    place = Place("late", name)
    node = emitter_of(node)
    if not isinstance(node, WindowAggregate | InTurn):
        raise place.error(
            "only the result of window(...).agg(...), of process with timers or a time-to-live, "
            f"of sort_by_time and of merge has late rows, not that of {node.written}",
            "keep the stream that agg gives in a variable: late = windowed.late()",
        )
    late = Late((node,), node.rows, place.name, site=place.site, key=node.input.key)
    if INPUT not in node.rows:
        return late
    columns = [(name, Column(name)) for name in node.rows.names if name != INPUT]
    return replace(project(late, columns, place), name="")
