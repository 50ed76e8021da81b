"""Filters move towards the sources, past whatever does not change what they see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..expression_types import can_fail
from ..expressions import Binary, Column, Expression, columns_of, substitute
from ..graph import consumers, transform
from ..hints import time_told
from ..nodes import Filter, Node, Project, Source, TableJoin, Union
from ..rebalance import Rebalance


def push_filters(roots: Sequence[Node]) -> list[Node]:
    """Each filter as near to its source as it can stand."""
    current, moved = list(roots), True
    while moved:
        current, moved = _push_one(current)
    return current


def _push_one(roots: Sequence[Node]) -> tuple[list[Node], bool]:
    """One filter, past one operator; and whether there was one to move."""
    readers, moved = consumers(roots), False

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        nonlocal moved
        # an input that others read too must keep its rows
        movable = isinstance(node, Filter) and len(readers[id(node.input)]) == 1
        if movable and not node.tolerates and not moved:
            assert isinstance(node, Filter)
            pushed = _past(node, inputs[0])
            if pushed is not None:
                moved = True
                return pushed
        return node.with_inputs(*inputs)

    return transform(roots, change), moved


def _past(node: Filter, source: Node) -> Node | None:
    """The filter on the other side of its input, or None where it has to stay."""
    match source:
        case Project():
            made = dict(source.columns)
            plain = all(isinstance(made[name], Column) for name in columns_of(node.predicate))
            fails = any(can_fail(e, source.input.schema) for e in made.values())
            if not plain or fails:  # an error must not vanish with its row
                return None
            predicate = substitute(node.predicate, made)
            return source.with_inputs(_over(node, source.input, predicate))
        case Union():
            return source.with_inputs(
                *(_over(node, side, node.predicate, k) for k, side in enumerate(source.inputs))
            )
        case TableJoin():
            taken = {name for _, name in source.taken}
            if taken & columns_of(node.predicate) or can_fail(node.predicate, node.schema):
                return None
            return source.with_inputs(_over(node, source.input, node.predicate))
        case Rebalance():
            return source.with_inputs(_over(node, source.input, node.predicate))
    return None


def _over(node: Filter, source: Node, predicate: Expression, side: int = 0) -> Filter:
    name = node.name if side == 0 else f"{node.name}.{side + 1}"
    return replace(
        node,
        inputs=(source,),
        schema=source.schema,
        key=source.key,
        time=source.time,
        predicate=predicate,
        name=name,
    )


def hint_sources(roots: Sequence[Node]) -> list[Node]:
    """Tell each source which rows its only readers keep, so that it may leave out others.

    The watermark of a source with a clock needs every row. It gets a hint only where the source can
    say of rows that it leaves out how far they move the watermark: by a column, which has a largest
    value that is known.
    """
    readers = consumers(roots)

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if isinstance(node, Source) and (node.clock is None or time_told(node) is not None):
            return replace(node, predicate=_kept_by(node, readers))
        return node.with_inputs(*inputs)

    return transform(roots, change)


def _kept_by(node: Node, readers: dict[int, list[Node]]) -> Expression | None:
    """The conditions of the filters right behind a node, as far as they cannot fail."""
    kept: Expression | None = None
    while len(readers.get(id(node), ())) == 1:
        (node,) = readers[id(node)]
        if not isinstance(node, Filter) or can_fail(node.predicate, node.schema):
            break
        kept = node.predicate if kept is None else Binary("&", kept, node.predicate)
    return kept
