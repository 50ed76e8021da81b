"""Checked nodes of `sort_by_time` and `merge`: one stream of all inputs, whose rows say from which
they are, and its rows in the order of event time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .build import united
from .build_keyed import why_no_time
from .by_time import INPUT, SortByTime
from .checks import Place
from .expressions import Column, Expression, Literal
from .nodes import Node, Project, extended
from .schema import Field
from .types import int64
from .windows.by_time import ByTime


def sort_by_time(node: Node, name: str | None = None) -> Project:
    """The rows of a stream in the order of event time."""
    return _in_order([node], Place("sort_by_time", name))


def merge(nodes: Sequence[Node], name: str | None = None) -> Project:
    """The rows of several streams with the same columns in the order of event time."""
    return _in_order(nodes, Place("merge", name))


def _in_order(nodes: Sequence[Node], place: Place) -> Project:
    time = _time_of(nodes, place)
    sides = [_numbered(node, number, place) for number, node in enumerate(nodes)]
    rows: Node = sides[0] if len(sides) == 1 else replace(united(sides, place), name="")
    ordered = SortByTime(
        (rows,),
        rows.schema,
        place.name,
        site=place.site,
        time=time,
        window=ByTime(),
        rows=rows.schema,
        at=time,
    )
    schema = rows.schema.select(nodes[0].schema.names)
    columns = tuple((column, Column(column)) for column in schema.names)
    return Project(
        (ordered,), schema, "", site=place.site, key=rows.key, time=time, columns=columns
    )


def _time_of(nodes: Sequence[Node], place: Place) -> str:
    """The event time, which is one column of all streams."""
    first = nodes[0]
    for number, node in enumerate(nodes, start=1):
        if node.time is None:
            what, fix = why_no_time(node)
            raise place.error(what if len(nodes) == 1 else f"stream {number}: {what}", fix)
        assert first.time is not None
        if node.time != first.time:
            raise place.error(
                f"the event time is {first.time!r} in stream 1 and {node.time!r} in stream "
                f"{number}",
                f"give both one name: .rename({{{node.time!r}: {first.time!r}}})",
            )
        kinds = first.schema[first.time], node.schema[node.time]
        if kinds[0].name != kinds[1].name:
            raise place.error(
                f"the event time is {kinds[0]} in stream 1 and {kinds[1]} in stream {number}",
                "make both timestamps with hr.from_millis(...), or both int64",
            )
    assert first.time is not None
    return first.time


def _numbered(node: Node, number: int, place: Place) -> Project:
    """The rows of an input, with its number."""
    columns: list[tuple[str, Expression]] = [(n, Column(n)) for n in node.schema.names]
    return Project(
        (node,),
        extended(node.schema, Field(INPUT, int64)),
        "",
        site=place.site,
        key=node.key,
        time=node.time,
        columns=(*columns, (INPUT, Literal(number, int64))),
    )
