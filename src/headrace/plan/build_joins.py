"""Checked nodes of joins of two streams.

Both sides are put into one stream, whose rows say from which they are: so they cross the same
exchange, and wait for the slower of both, as the rows of any union. The join is then an operator
with one input, over panes of rows that are given out when the watermark has come to their end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .build import join_columns
from .build_keyed import made_window, why_no_time
from .checks import Place
from .durations import in_units_of
from .errors import ExpressionError
from .expressions import Cast, Column, Expression, Literal
from .nodes import SIDE, SIDE_TIME, AsOfJoin, Node, Project, Union, WindowJoin
from .schema import Field, Schema
from .types import bool_, optional
from .windows.asof import AsOf
from .windows.base import START, Window
from .windows.calendar import Calendar
from .windows.interval import Interval
from .windows.tumbling import Tumbling

On = str | Sequence[str] | Mapping[str, str]
HOW = {"inner": (False, False), "left": (False, True), "full": (True, True)}  # which side has nulls


def window_join(
    left: Node,
    right: Node,
    on: On,
    right_on: str | Sequence[str] | None,
    make: Callable[..., Window],
    given: Mapping[str, Any],
    how: str,
    name: str | None = None,
) -> Node:
    """Each row with all rows of its key and window on the other side."""
    place = Place("window_join", name)
    if how not in HOW:
        raise place.error(f"how={how!r} is not a kind of join", 'use "inner", "left" or "full"')
    time = time_of(left, right, place)
    window = made_window(make, left.schema[time], given, place)
    if not isinstance(window, Tumbling | Calendar):
        raise place.error(
            f"windows of a join do not overlap or grow, and are given out once, unlike {window}",
            'use hr.tumbling("10s") without early= and lateness=, or interval_join',
        )
    return _joined(left, right, on, right_on, window, how, place)


def interval_join(
    left: Node,
    right: Node,
    on: On,
    right_on: str | Sequence[str] | None,
    before: Any,
    after: Any,
    how: str,
    name: str | None = None,
) -> Node:
    """Each row with all rows of its key whose times are near enough."""
    place = Place("interval_join", name)
    if how not in ("inner", "left"):
        raise place.error(f"how={how!r} is not a kind of join", 'use "inner" or "left"')
    time = left.schema[time_of(left, right, place)]
    try:
        lengths = in_units_of(before, time, "before"), in_units_of(after, time, "after")
    except ExpressionError as error:
        raise place.error(error.what, error.fix) from None
    for length, said in zip(lengths, ("before", "after"), strict=True):
        if length < 0:
            raise place.error(f"{said}={length} is negative", "give lengths from 0 on")
    return _joined(left, right, on, right_on, Interval(*lengths), how, place)


def asof_join(
    left: Node,
    right: Node,
    on: On,
    right_on: str | Sequence[str] | None,
    tolerance: Any,
    how: str,
    name: str | None = None,
) -> Node:
    """Each row with the last row of its key on the other side, by event time."""
    place = Place("asof_join", name)
    if how not in ("inner", "left"):
        raise place.error(f"how={how!r} is not a kind of join", 'use "inner" or "left"')
    time = left.schema[time_of(left, right, place)]
    window = AsOf()
    if tolerance is not None:
        try:
            length = in_units_of(tolerance, time, "tolerance")
        except ExpressionError as error:
            raise place.error(error.what, error.fix) from None
        if not 0 <= length <= window.farthest:
            raise place.error(f"tolerance={tolerance!r} is no length of time", "give one from 0 on")
        window = AsOf(length)
    return _joined(left, right, on, right_on, window, how, place, AsOfJoin, left.time)


def time_of(left: Node, right: Node, place: Place) -> str:
    """The event time on the left; that on the right has its type."""
    for side in (left, right):
        if side.time is None:
            what, fix = why_no_time(side)
            raise place.error(f"on the {'left' if side is left else 'right'}: {what}", fix)
    assert left.time is not None and right.time is not None
    kinds = left.schema[left.time], right.schema[right.time]
    if kinds[0].name != kinds[1].name:
        raise place.error(
            f"the event times of both sides are {kinds[0]} and {kinds[1]}",
            "make both timestamps with hr.from_millis(...), or both int64",
        )
    return left.time


def _joined(
    left: Node,
    right: Node,
    on: On,
    right_on: str | Sequence[str] | None,
    window: Window,
    how: str,
    place: Place,
    make: type[WindowJoin] = WindowJoin,
    time: str | None = None,
) -> Node:
    """The join as a node. time: the event time of pairs, where it is none of the window's."""
    both, sides = both_sides(left, right, on, right_on, place)
    keys, rows = both.schema.select(both.key), both.schema
    time_type = rows[SIDE_TIME].required
    nulls = HOW[how]
    given = [
        Field(f.name, optional(f.type) if null else f.type)
        for side, null in zip(sides, nulls, strict=True)
        for f in side
    ]
    said = [Field(column, time_type) for column in window.columns]
    shown = place.schema([*keys, *(f for f in said if f.name == START), *given])
    time = time or window.time
    joined = make(
        (both,),
        Schema((*keys, *said, *given)),
        place.name,
        site=place.site,
        key=both.key,
        time=time,
        window=window,
        rows=rows,
        how=how,
        left=tuple(f.name for f in sides[0]),
        right=tuple(f.name for f in sides[1]),
    )
    columns = tuple((column, Column(column)) for column in shown.names)
    return Project((joined,), shown, "", site=place.site, key=both.key, time=time, columns=columns)


def both_sides(
    left: Node,
    right: Node,
    on: On,
    right_on: str | Sequence[str] | None,
    place: Place,
) -> tuple[Union, tuple[list[Field], list[Field]]]:
    """The rows of both streams as one stream, and the columns of each side besides the key."""
    ours, theirs = join_columns(on, right_on, place)
    keys = [_key(a, b, left, right, place) for a, b in zip(ours, theirs, strict=True)]
    sides = _others(left, ours), _others(right, theirs)
    for field in sides[1]:
        if field.name in left.schema:
            raise place.error(
                f"both streams have a column {field.name!r}",
                f"rename one before: .rename({{{field.name!r}: 'other'}}), or drop it",
            )
    assert left.time is not None and right.time is not None
    times = left.schema[left.time], right.schema[right.time]
    time_type = optional(times[0]) if times[1].nullable else times[0]
    rows = Schema(
        (
            *keys,
            Field(SIDE, bool_),
            Field(SIDE_TIME, time_type),
            *(Field(f.name, optional(f.type)) for side in sides for f in side),
        )
    )
    sources = [
        {**dict(zip(ours, on, strict=True)), SIDE_TIME: time, **{f.name: f.name for f in others}}
        for on, time, others in ((ours, left.time, sides[0]), (theirs, right.time, sides[1]))
    ]
    both = Union(
        (
            _side(left, sources[0], False, rows, place),
            _side(right, sources[1], True, rows, place),
        ),
        rows,
        "",
        site=place.site,
        key=ours,
        time=SIDE_TIME,
    )
    return both, sides


def _key(ours: str, theirs: str, left: Node, right: Node, place: Place) -> Field:
    kinds = (
        left.schema[place.existing(ours, left.schema)],
        right.schema[place.existing(theirs, right.schema)],
    )
    if kinds[0].name != kinds[1].name:
        raise place.error(
            f"{ours!r} is {kinds[0]} on the left, and {theirs!r} is {kinds[1]} on the right",
            "cast one of them: join on columns of the same type",
        )
    return Field(ours, optional(kinds[0]) if kinds[1].nullable else kinds[0])


def _others(node: Node, key: Sequence[str]) -> list[Field]:
    return [field for field in node.schema if field.name not in key]


def _side(
    node: Node, sources: Mapping[str, str], is_right: bool, rows: Schema, place: Place
) -> Project:
    """The rows of one side among those of both; `sources` says which columns are its own."""
    columns: list[tuple[str, Expression]] = []
    for field in rows:
        made: Expression = Literal(None, field.type)
        if field.name == SIDE:
            made = Literal(is_right, bool_)
        elif field.name in sources:
            source = sources[field.name]
            same = node.schema[source] == field.type
            made = Column(source) if same else Cast(Column(source), field.type)
        columns.append((field.name, made))
    key = tuple(name for name in rows.names if name in sources)[: rows.names.index(SIDE)]
    return Project(
        (node,), rows, "", site=place.site, key=key, time=SIDE_TIME, columns=tuple(columns)
    )
