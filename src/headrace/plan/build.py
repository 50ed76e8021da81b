"""Checked nodes of what users write: sources, filters, projections, unions and joins.

Each function takes plan nodes and expressions, finds mistakes (a PipelineError says what, where
and how to fix it) and gives a new node. `build_functions` has the operators made of user
functions, `build_keyed` those with a key or a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .bind import FunctionChecker, bind, column_type
from .checks import Place
from .connector import Source as SourceConnector
from .expressions import Cast, Column, Expression
from .nodes import Filter, Node, Project, Source, TableJoin, Union
from .schema import Field, Schema
from .table import Table
from .types import optional

Columns = Sequence[tuple[str, Expression]]


class PlainPythonWarning(UserWarning):
    """An operator runs plain Python: it takes the GIL, so it stops other cores meanwhile."""


def source(connector: Any, name: str | None = None, place: Place | None = None) -> Source:
    """Rows from a connector."""
    place = Place("source", name) if place is None else place
    if not isinstance(connector, SourceConnector):
        raise place.error(
            f"{connector!r} is not a source connector", "use one of hr.read, e.g. hr.read.parquet"
        )
    schema = place.read_schema(connector.schema())
    return Source((), schema, place.name, site=place.site, connector=connector)


def filter(
    node: Node, predicate: Expression, check: FunctionChecker, name: str | None = None
) -> Filter:
    """The rows for which a condition is true."""
    place = Place("filter", name)
    predicate = bind(predicate, node.schema, place.operator, place.site, check)
    kind = column_type(predicate, node.schema, place.operator, place.site)
    if kind.name != "bool":
        raise place.error(f"{predicate} is {kind}, not a condition", _condition_fix(predicate))
    return Filter(
        (node,),
        node.schema,
        place.name,
        site=place.site,
        key=node.key,
        time=node.time,
        predicate=predicate,
    )


def _condition_fix(predicate: Expression) -> str:
    if isinstance(predicate, Column):
        return f"compare it: col({predicate.name!r}) != 0, or .is_not_null()"
    return "compare it with something"


def select(
    node: Node, columns: Columns, check: FunctionChecker, name: str | None = None
) -> Project:
    """Only these columns, in this order."""
    return _project(node, columns, Place("select", name), check)


def with_columns(
    node: Node, columns: Columns, check: FunctionChecker, name: str | None = None
) -> Project:
    """All columns, and some more or in place of those with the same name."""
    place = Place("with_columns", name)
    if not columns:
        raise place.error("no column is given", "with_columns(total=col('a') + col('b'))")
    new = dict(columns)
    kept = [(old, new.pop(old, Column(old))) for old in node.schema.names]
    return _project(node, [*kept, *new.items()], place, check)


def drop(node: Node, columns: Sequence[str], name: str | None = None) -> Project:
    """All columns but these."""
    place = Place("drop", name)
    if not columns:
        raise place.error("no column is given", "drop('a', 'b')")
    dropped = {place.existing(column, node.schema) for column in columns}
    return project(node, [(n, Column(n)) for n in node.schema.names if n not in dropped], place)


def rename(node: Node, names: Mapping[str, str], name: str | None = None) -> Project:
    """The same columns, some of them under new names."""
    place = Place("rename", name)
    if not names:
        raise place.error("no column is given", "rename({'old': 'new'})")
    for old, new in names.items():
        place.existing(old, node.schema)
        place.new_name(new)
    return project(node, [(names.get(n, n), Column(n)) for n in node.schema.names], place)


def _project(node: Node, columns: Columns, place: Place, check: FunctionChecker) -> Project:
    bound = [(n, bind(e, node.schema, place.operator, place.site, check)) for n, e in columns]
    return project(node, bound, place)


def project(node: Node, columns: Columns, place: Place) -> Project:
    """A projection of bound expressions; key and event time go along with their columns."""
    fields = [
        Field(name, column_type(made, node.schema, place.operator, place.site))
        for name, made in columns
    ]
    schema = replace(place.schema(fields), unread=node.schema.unread)
    key, time = carried(node, columns)
    return Project(
        (node,), schema, place.name, site=place.site, key=key, time=time, columns=tuple(columns)
    )


def carried(node: Node, columns: Columns) -> tuple[tuple[str, ...], str | None]:
    """Key and event-time column behind a projection: kept if their columns are, unchanged."""
    new_names: dict[str, str] = {}
    for name, made in columns:
        old = _unchanged(made, node.schema)
        if old is not None and (old not in new_names or name == old):
            new_names[old] = name
    key = tuple(new_names.get(old, "") for old in node.key)
    time = None if node.time is None else new_names.get(node.time)
    return key if all(key) else (), time


def _unchanged(made: Expression, schema: Schema) -> str | None:
    """The column whose very values an expression gives, if it does."""
    if isinstance(made, Cast) and isinstance(made.operand, Column):
        same = schema[made.operand.name].name == made.type.name
        return made.operand.name if same else None
    return made.name if isinstance(made, Column) else None


def union(nodes: Sequence[Node], name: str | None = None) -> Union:
    """The rows of several streams with the same columns, in the order of the first one's."""
    return united(nodes, Place("union", name))


def united(nodes: Sequence[Node], place: Place) -> Union:
    """The same, for an operator that is made of a union."""
    first = nodes[0]
    for number, other in enumerate(nodes[1:], start=2):
        _check_side(first.schema, other.schema, number, place)
    fields = [
        Field(f.name, optional(f.type) if any(n.schema[f.name].nullable for n in nodes) else f.type)
        for f in first.schema
    ]
    schema = Schema(tuple(fields))
    sides = tuple(_aligned(node, schema, place) for node in nodes)
    return Union(
        sides,
        schema,
        place.name,
        site=place.site,
        key=first.key if all(node.key == first.key for node in nodes) else (),
        time=first.time if all(node.time == first.time for node in nodes) else None,
    )


def _check_side(first: Schema, other: Schema, number: int, place: Place) -> None:
    for field in first:
        if field.name not in other:
            raise place.error(
                f"stream {number} has no column {field.name!r}, which stream 1 has",
                "give all streams the same columns with select",
            )
        found = other[field.name]
        if found.name != field.type.name:
            raise place.error(
                f"column {field.name!r} is {field.type} in stream 1 and {found} in stream {number}",
                f"cast one of them: with_columns({field.name}=col({field.name!r}).cast(...))",
            )
    for name in other.names:
        if name not in first:
            raise place.error(
                f"stream {number} has a column {name!r}, which stream 1 lacks",
                "give all streams the same columns with select or drop",
            )


def _aligned(node: Node, schema: Schema, place: Place) -> Node:
    """A stream with its columns in the order and of the types of a schema."""
    if node.schema == schema:
        return node
    columns = [
        (f.name, Column(f.name) if node.schema[f.name] == f.type else Cast(Column(f.name), f.type))
        for f in schema
    ]
    key, time = carried(node, columns)
    return Project((node,), schema, "", site=place.site, key=key, time=time, columns=tuple(columns))


def join(
    node: Node,
    table: Any,
    on: str | Sequence[str] | Mapping[str, str],
    right_on: str | Sequence[str] | None = None,
    how: str = "inner",
    name: str | None = None,
) -> TableJoin:
    """Each row with the row of a static table that has its key."""
    place = Place("join", name)
    if not isinstance(table, Table):
        raise place.error(
            f"{type(table).__name__} is not a static table",
            "join with hr.table(...); two streams are joined by window_join or interval_join",
        )
    if how not in ("inner", "left"):
        raise place.error(f"how={how!r} is not a kind of join", 'use how="inner" or how="left"')
    left, right = join_columns(on, right_on, place)
    for ours, theirs in zip(left, right, strict=True):
        place.existing(ours, node.schema)
        if theirs not in table.schema:
            raise place.error(
                f"the table {table.name} has no column {theirs!r}", table.schema.closest(theirs)
            )
        kinds = node.schema[ours], table.schema[theirs]
        if kinds[0].name != kinds[1].name:
            raise place.error(
                f"{ours!r} is {kinds[0]}, and {theirs!r} of the table is {kinds[1]}",
                f"cast the stream's: with_columns({ours}=col({ours!r}).cast('{kinds[1].name}'))"
                if kinds[0].is_numeric and kinds[1].is_numeric
                else "join on columns of the same type",
            )
    taken = [f for f in table.schema if f.name not in right]
    for field in taken:
        if field.name in node.schema:
            raise place.error(
                f"both the stream and the table {table.name} have a column {field.name!r}",
                f"rename the stream's before: .rename({{{field.name!r}: 'other'}}), or drop it",
            )
    more = [Field(f.name, optional(f.type) if how == "left" else f.type) for f in taken]
    return TableJoin(
        (node,),
        place.schema([*node.schema, *more]),
        place.name,
        site=place.site,
        key=node.key,
        time=node.time,
        table=table,
        left_on=left,
        right_on=right,
        how=how,
        taken=tuple((f.name, f.name) for f in taken),
    )


def join_columns(on: Any, right_on: Any, place: Place) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of both sides that a join goes by."""
    if isinstance(on, Mapping):
        if right_on is not None:
            raise place.error("on= has the columns of both sides already", "leave out right_on=")
        left, right = place.names(list(on), "on"), place.names(list(on.values()), "on")
    else:
        left = place.names(on, "on")
        right = left if right_on is None else place.names(right_on, "right_on")
    if not left:
        raise place.error("a join needs at least one column", 'on="id"')
    if len(left) != len(right):
        raise place.error(
            f"on= has {len(left)} columns and right_on= has {len(right)}", "give as many of each"
        )
    for side in (left, right):
        if len(set(side)) != len(side):
            raise place.error(f"a column is named twice in {list(side)}", "name each once")
    return left, right
