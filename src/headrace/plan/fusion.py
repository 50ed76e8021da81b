"""Fusion: which operators run as one kernel (Streams, section 1)."""

from __future__ import annotations

from collections.abc import Sequence

from .expression_types import can_fail
from .expressions import Aggregate, RowPlace
from .graph import consumers, walk
from .nodes import (
    Aside,
    Branches,
    Filter,
    FlatMap,
    Node,
    OnTime,
    OperatorClass,
    Project,
    Running,
    Source,
    TableJoin,
    WindowAggregate,
    Windowed,
)

FUSED = Filter | Project | Branches | TableJoin | FlatMap | OnTime | Windowed | Running
MOST_TABLES = 16  # static tables joined in one chain
MOST_STEPS = 32  # operators of one chain: longer kernels take long to compile and gain nothing
COUNT_ROWS = Aggregate("count")  # which never fails


def chains(roots: Sequence[Node], fuse: str = "auto") -> list[tuple[Node, ...]]:
    """The operators that kernels run, in chains, each after those that feed it.

    A chain has one input. In it stand filters, projections and static joins, at most one function
    that yields rows, and at its end perhaps a window, running aggregates or branches.
    `fuse="none"` makes every operator a chain.
    """
    readers = consumers(roots)
    replicated = any(isinstance(node, Source) for node in walk(roots))
    made: dict[int, list[Node]] = {}  # id of the last node of a chain -> the chain
    for node in walk(roots):
        if not isinstance(node, FUSED):
            continue
        chain = made.get(id(node.input)) if fuse == "auto" else None
        others = [r for r in readers.get(id(node.input), ()) if not isinstance(r, Aside)]
        alone = numbers_rows(node) and not replicated  # so several workers may run the others
        if chain is not None and not alone and len(others) == 1 and _joins(chain, node):
            del made[id(node.input)]
            made[id(node)] = [*chain, node]
        else:
            made[id(node)] = [node]
    return [tuple(chain) for chain in made.values()]


def is_stateless(chain: Sequence[Node]) -> bool:
    """May any number of workers run a chain at once? Its rows are worked on one by one, so it only
    matters that what they become is given in order (Ordered §1.1)."""
    classes = {node.operator_class for node in chain}
    return classes == {OperatorClass.STATELESS} and not any(map(numbers_rows, chain))


def numbers_rows(node: Node) -> bool:
    """Does an operator count the rows that it gives? So it must have them in order."""
    return isinstance(node, Project) and any(isinstance(made, RowPlace) for _, made in node.columns)


def node_can_fail(node: Node) -> bool:
    """Can an operator raise an error for some row?"""
    schema = node.inputs[0].schema
    match node:
        case FlatMap():
            return True
        case WindowAggregate() | Running():
            return any(aggregate != COUNT_ROWS for _, aggregate in node.aggregates)
        case Filter():
            return can_fail(node.predicate, schema)
        case Project():
            return any(can_fail(expression, schema) for _, expression in node.columns)
        case Branches():
            return any(node_can_fail(step) for way in node.ways for step in way)
    return False


def _joins(chain: Sequence[Node], node: Node) -> bool:
    """May an operator go on with a chain?

    One that leaves out rows that it fails on begins a chain, in which nothing else fails or gives
    rows aside: so whatever fails there is its row, as it came in.
    """
    last = chain[-1]
    if node.tolerates:
        return False
    if chain[0].tolerates and (node_can_fail(node) or isinstance(node, OnTime)):
        return False
    if isinstance(last, Windowed | Running | Branches):
        return False
    if len(chain) >= MOST_STEPS and not isinstance(node, Windowed):
        return False
    if isinstance(last, OnTime):
        return isinstance(node, Windowed) or (isinstance(node, Project) and not node_can_fail(node))
    yields = any(isinstance(each, FlatMap) for each in chain)
    if isinstance(node, FlatMap | OnTime | Running | Branches):
        return not yields
    if isinstance(node, Windowed):
        return False
    tables = sum(isinstance(each, TableJoin) for each in (*chain, node))
    return tables <= MOST_TABLES
