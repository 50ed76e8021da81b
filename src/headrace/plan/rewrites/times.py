"""Event times that a source computes, for its watermarks, are not computed once more behind it.

Where an operator would make a column of the same expression, it takes the hidden column `TIME`,
which the source fills in with what its clock has computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..expression_types import type_of
from ..expressions import Column, Expression, substitute
from ..graph import consumers, transform, walk
from ..nodes import TIME, Filter, Node, Project, Source, extended
from ..schema import Field
from .carrying import carry, only


def reuse_times(roots: Sequence[Node]) -> list[Node]:
    """Projects take the time from their source, through filters and other projects."""
    uses = _uses(roots)
    carriers = _carriers(roots, uses)

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if id(node) in uses:
            assert isinstance(node, Project)
            taken = uses[id(node)]
            columns = tuple((n, Column(TIME) if n in taken else e) for n, e in node.columns)
            node = replace(node, columns=columns)
        match node:
            case Source() if id(node) in carriers:
                assert node.clock is not None
                field = Field(TIME, type_of(node.clock.time, node.given))
                return replace(node, schema=extended(node.schema, field))
            case Filter() if id(node) in carriers:
                return replace(node, inputs=inputs, schema=inputs[0].schema)
            case Project() if id(node) in carriers:
                return carry(node, inputs, Field(TIME, inputs[0].schema[TIME]))
            case Project():
                return node.with_inputs(*inputs)
        sides = [
            only(side, [name for name in side.schema.names if name != TIME], node, k)
            for k, side in enumerate(inputs)
        ]
        return node.with_inputs(*sides)

    return transform(roots, change)


def _uses(roots: Sequence[Node]) -> dict[int, set[str]]:
    """id of each project -> its columns that are the time of its source."""
    over: dict[int, tuple[Source, dict[str, Expression]]] = {}  # columns, as those of the source
    found: dict[int, set[str]] = {}
    for node in walk(roots):
        if isinstance(node, Source):
            if node.clock is not None and not isinstance(node.clock.time, Column):
                over[id(node)] = node, {}
        elif isinstance(node, Filter) and id(node.input) in over:
            over[id(node)] = over[id(node.input)]
        elif isinstance(node, Project) and id(node.input) in over:
            source, known = over[id(node.input)]
            made = {name: substitute(e, known) for name, e in node.columns}
            over[id(node)] = source, made
            assert source.clock is not None
            computed = [name for name, e in node.columns if not isinstance(e, Column)]
            times = {name for name in computed if made[name] == source.clock.time}
            if times:
                found[id(node)] = times
    return found


def _carriers(roots: Sequence[Node], uses: dict[int, set[str]]) -> set[int]:
    """The nodes between a source and the projects that take its time."""
    readers = consumers(roots)
    found: set[int] = set()
    for node in reversed(list(walk(roots))):
        for reader in readers.get(id(node), ()):
            between = id(reader) in found and isinstance(reader, Filter | Project)
            if id(reader) in uses or between:
                found.add(id(node))
    return found
