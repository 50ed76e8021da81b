"""Checked nodes that take lists and structs apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .build import project
from .builtins import way_out
from .by_column import Explode, Items
from .checks import Place
from .expressions import Builtin, Column, Expression, Literal
from .nodes import Node, Project
from .schema import Field
from .types import string


def explode(node: Node, column: str, name: str | None = None) -> Explode:
    """A row for each item of a list."""
    place = Place("explode", name)
    kind = node.schema[place.existing(column, node.schema)]
    if kind.item is None:
        fix = way_out(kind) if kind.parts else "explode a column of lists"
        raise place.error(f"{column!r} is {kind}, and not a list", fix)
    fields = [Field(f.name, kind.item if f.name == column else f.type) for f in node.schema]
    return Explode(
        (node,),
        replace(place.schema(fields), unread=node.schema.unread),
        place.name,
        site=place.site,
        key=() if column in node.key else node.key,
        time=node.time,
        function=Items(column),
        stateless=True,
        column=column,
    )


def unnest(node: Node, columns: Sequence[str], name: str | None = None) -> Project:
    """The fields of structs as columns, in their places."""
    place = Place("unnest", name)
    if not columns:
        raise place.error("no column is given", "unnest('position')")
    for column in columns:
        kind = node.schema[place.existing(column, node.schema)]
        if not kind.parts:
            raise place.error(f"{column!r} is {kind}, and not a struct", "unnest structs")
    made: list[tuple[str, Expression]] = []
    for field in node.schema:
        if field.name not in columns:
            made.append((field.name, Column(field.name)))
            continue
        for part in field.type.parts:
            operands = Column(field.name), Literal(part, string)
            made.append((part, Builtin("field", operands)))
    return project(node, made, place)
