"""Hidden columns that rows carry along, through operators that know nothing of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..by_column import Explode
from ..expressions import Column
from ..nodes import FlatMap, Node, Project, Running, TableJoin, extended
from ..schema import Field


def carry(node: Node, inputs: tuple[Node, ...], carried: Field) -> Node:
    """An operator over inputs that have a hidden column, which its rows have, too."""
    match node:
        case Project():
            columns = (*node.columns, (carried.name, Column(carried.name)))
            schema = extended(node.schema, carried)
            return replace(node, inputs=inputs, columns=columns, schema=schema)
        case Explode():
            return replace(node, inputs=inputs, schema=extended(node.schema, carried))
        case FlatMap() | Running():
            names = [n for n in node.schema.names if n not in node.carry]
            fields = [Field(n, node.schema[n]) for n in node.carry]
            schema = extended(type(node.schema)(tuple(fields)), carried)
            schema = extended(schema, *(Field(n, node.schema[n]) for n in names))
            carry = (*node.carry, carried.name)
            return replace(node, inputs=inputs, carry=carry, schema=schema)
        case TableJoin():
            taken = {name for _, name in node.taken}
            right = [f for f in node.schema if f.name in taken]
            left = [f for f in node.schema if f.name not in taken]
            schema = type(node.schema)((*left, carried, *right))
            return replace(node, inputs=inputs, schema=schema)
    return replace(node, inputs=inputs, schema=inputs[0].schema)


def only(node: Node, names: Sequence[str], reader: Node, side: int = 0) -> Node:
    """A node cut to some columns, in this order, for an input of a reader; itself where it has
    just these."""
    if node.schema.names == tuple(names):
        return node
    return Project(
        (node,),
        node.schema.select(names),
        f"{reader.name}.rows_{side + 1}" if side else f"{reader.name}.rows",
        site=reader.site,
        key=node.key,
        time=node.time,
        columns=tuple((name, Column(name)) for name in names),
    )
