"""Owners of key groups: which stages run once for each of them, and where their rows meet again.

Behind an exchange by key, each owner runs a copy of the stage on the rows of its key groups. What
the copies give is brought together in the order in which one copy would have given it: the results
of windows by window and key; all others by the place of the row that they come from, a hidden
column that rows carry from the exchange on. So a stage of owners ends behind a window, and in front
of every operator that does not keep places: a test for late rows, plain Python, a union. Where
nobody needs more than the order that each owner keeps by itself (`orders`), rows have no places,
and come together as they come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..expressions import RowPlace
from ..graph import consumers, transform, walk
from ..nodes import (
    PLACE,
    Aside,
    DeadLetters,
    Exchange,
    Filter,
    FlatMap,
    Node,
    Process,
    Project,
    Running,
    Sink,
    Stateful,
    TableJoin,
    Windowed,
    extended,
)
from ..schema import Field, Schema
from ..types import int64
from .carrying import carry
from .orders import keeps_order, needed_orders

PLACED = Field(PLACE, int64)


def give_owners(roots: Sequence[Node], *, parts: bool = False, fuse: str = "auto") -> list[Node]:
    """Exchanges whose rows are owned, and exchanges where rows of owners come together.

    parts: key groups are shared by one queue, so rows always have places, and a stage is one chain
    of operators if it can be (`StagePlan.has_parts`).
    """
    readers = consumers(roots)
    owned = {
        id(node)
        for node in walk(roots)
        if isinstance(node, Exchange) and node.key and _keeps_state(readers[id(node)])
    }
    needed = needed_orders(roots)
    behind: set[int] = set()  # new nodes whose rows are those of owners
    gathered: dict[int, Exchange] = {}  # where the rows of a new node come together

    def meet(node: Node) -> Node:
        if id(node) not in behind:
            return node
        if id(node) not in gathered:  # by its own name: a union may read several of them
            gathered[id(node)] = _gathering(node, f"{node.name}.gathered")
        return gathered[id(node)]

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        follows = bool(inputs) and id(inputs[0]) in behind
        placed = bool(inputs) and PLACE in inputs[0].schema
        if parts and follows and _begins_chain(node, readers, fuse):
            return node.with_inputs(*map(meet, inputs))
        match node:
            case Exchange() if id(node) in owned:
                (reader,) = readers[id(node)]
                if isinstance(reader, Process | Running):
                    ordered = parts or not keeps_order(node.key, needed[id(reader)])
                    if ordered and not placed:
                        inputs = (_numbered(inputs[0]),)
                    exchange = replace(node, inputs=inputs, schema=inputs[0].schema, owned=True)
                    behind.add(id(exchange))
                    return exchange
                return replace(node, inputs=inputs, schema=inputs[0].schema, owned=True)
            case Windowed() if isinstance(inputs[0], Exchange) and inputs[0].owned:
                made = node.with_inputs(*inputs)
                name, order = f"{node.name}.gathered", (*node.window.order, *node.key)
                mixed = keeps_order(node.key, needed[id(node)]) or node.window.rows > 0
                return _gathering(made, name, () if mixed else order)
            case Exchange() | Sink() if follows:
                return node.with_inputs(*inputs)
            case Filter() | Project() | FlatMap() | TableJoin() | Running() if follows:
                made = carry(node, inputs, PLACED) if placed else node.with_inputs(*inputs)
                behind.add(id(made))
                return made
            case DeadLetters() if follows:
                made = node.with_inputs(*inputs)
                if placed:
                    made = replace(made, schema=extended(node.schema, PLACED))
                behind.add(id(made))
                return made
        return node.with_inputs(*map(meet, inputs))

    return transform(roots, change)


def is_collected(root: Node) -> bool:
    """Do the rows that a stage of owners gives come together as they come?"""
    ordered = isinstance(root, Exchange) and bool(root.order)
    return not ordered and PLACE not in root.input.schema


def _begins_chain(node: Node, readers: dict[int, list[Node]], fuse: str) -> bool:
    """Does an operator without state go on with rows in a kernel of its own (`fusion`)?"""
    if isinstance(node, Stateful | Aside | Exchange | Sink):
        return False  # it is, or must be, where the operator before it is
    before = node.inputs[0]
    if len(node.inputs) > 1 or len(readers[id(before)]) > 1 or isinstance(node, FlatMap):
        return True
    return fuse == "none" or isinstance(before, Running) or before.tolerates or node.tolerates


def _keeps_state(readers: Sequence[Node]) -> bool:
    """Is the one who reads an exchange an operator with state by key?"""
    return len(readers) == 1 and isinstance(readers[0], Stateful)


def _numbered(node: Node) -> Node:
    """The projection in front of an exchange, which gives rows their places as well."""
    assert isinstance(node, Project)
    columns = (*node.columns, (PLACE, RowPlace()))
    return replace(node, columns=columns, schema=extended(node.schema, PLACED))


def _gathering(node: Node, name: str, order: tuple[str, ...] = ()) -> Exchange:
    """Rows of owners, in order and without their places."""
    schema = Schema(tuple(field for field in node.schema if field.name != PLACE))
    return Exchange((node,), schema, name, site=node.site, time=node.time, order=order)
