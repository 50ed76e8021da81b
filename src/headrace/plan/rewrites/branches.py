"""Branches of one stream that meet in a union: their rows, in the order of those they are made of.

A union has no order of its own for the rows of its sides. But where they are branches of one
stream, which only filter and compute, one operator can make all of them: of each row what the first
branch makes of it, then the second one. So there is one order, the same on every engine and any
number of workers (Ordered, §1.1: the order of a sequential run), and the rows are read once. Where
nobody needs an order the branches stay as they are, as they do where one of them yields rows, joins
a table, keeps state or leaves out rows that fail.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..fusion import numbers_rows
from ..graph import transform
from ..nodes import Branches, Filter, Node, Project, Union
from .orders import needed_orders

Way = tuple[Node, ...]  # the operators of a branch


def join_branches(roots: Sequence[Node]) -> list[Node]:
    """One operator in the place of a union of branches whose rows must have an order."""
    needed = needed_orders(roots)

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        made = node.with_inputs(*inputs)
        if not isinstance(node, Union) or needed[id(node)] is None:
            return made
        found = [_way_up(side) for side in inputs]
        stem = next((n for n in found[0] if all(_has(way, n) for way in found)), None)
        if stem is None:
            return made
        ways = [way for up in found for way in _ways(up, stem)]
        return Branches(
            (stem,),
            node.schema,
            node.name,
            site=node.site,
            key=node.key,
            time=node.time,
            ways=tuple(ways),
        )

    return transform(roots, change)


def _way_up(node: Node) -> list[Node]:
    """The operators from a side of a union to where rows are not only filtered and computed."""
    found = [node]
    while isinstance(node, Filter | Project | Branches) and not (
        node.tolerates or numbers_rows(node)
    ):
        node = node.input
        found.append(node)
    return found


def _has(way: Sequence[Node], node: Node) -> bool:
    return any(each is node for each in way)


def _ways(up: Sequence[Node], stem: Node) -> list[Way]:
    """The ways from a stem down to a side; several, where branches met before."""
    made: list[Way] = [()]
    for node in up:
        if node is stem:
            return made
        steps = node.ways if isinstance(node, Branches) else ((node,),)
        made = [(*step, *way) for step in steps for way in made]
    raise AssertionError("the stem is on every way")
