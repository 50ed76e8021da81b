"""Orders: in which order rows have to come somewhere, and in which one they do.

An order is a set of columns: rows that are equal in all of them keep the order that one worker
would give them. No columns: all rows do, since all are equal (Ordered, definition 5.1). None: rows
come in any order. So of two orders that are both needed, what they have in common is enough for
both, and a column that an operator changes may be left out of what is needed in front of it.

Operators with state get the rows of each key in order, whatever sinks are promised: an order never
changes which rows there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..accumulators import ignores_order
from ..by_column import Columnwise
from ..connector import is_unordered
from ..expressions import Column
from ..graph import consumers, transform, walk
from ..nodes import (
    KEY,
    NONE,
    ORDERINGS,
    PLACE,
    Branches,
    Exchange,
    FlatMap,
    MapBatches,
    Node,
    Ordered,
    Process,
    Project,
    Running,
    Sink,
    Source,
    Stateful,
    WindowAggregate,
    Windowed,
)
from ..rebalance import Rebalance, Turns

Order = frozenset[str] | None
ALL: frozenset[str] = frozenset()  # all rows keep their order


def settle_orders(roots: Sequence[Node], ordering: str = "") -> list[Node]:
    """Sinks that know which order was asked for: by the last declaration on the way to them, of a
    union by the weakest of its sides; where there is none, `ordering`."""
    asked: dict[int, str] = {}
    for node in walk(roots):
        sides = [asked[id(side)] for side in node.inputs]
        found = [node.ordering] if isinstance(node, Ordered) else sides
        asked[id(node)] = max(found, key=("", *ORDERINGS).index, default="")

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if isinstance(node, Ordered):
            return inputs[0]
        if isinstance(node, Sink):
            return replace(node, inputs=inputs, ordering=asked[id(node)] or ordering)
        return node.with_inputs(*inputs)

    return transform(roots, change)


def promised(sink: Sink) -> Order:
    """The order that a sink was promised, if the engine can give any."""
    if sink.ordering == NONE:
        return None
    return frozenset(sink.key) if sink.ordering == KEY else ALL


def is_mixed(root: Node) -> bool:
    """May what a stage gives come in any order?"""
    if isinstance(root, Exchange):
        return root.unordered
    return isinstance(root, Sink) and promised(root) is None


def keeps_order(key: Iterable[str], needed: Order) -> bool:
    """Is an order kept where rows of a key are, and others may overtake them?

    >>> keeps_order(["user"], frozenset({"user", "day"})), keeps_order(["user"], frozenset())
    (True, False)
    """
    return needed is None or frozenset(key) <= needed


# ---- what is needed, from the sinks to the sources -------------------------------------------


def needed_orders(roots: Sequence[Node]) -> dict[int, Order]:
    """id of each node -> the order that its rows must have, for all who read them."""
    readers = consumers(roots)
    found: dict[int, Order] = {}
    for node in reversed(list(walk(roots))):
        needs = [_needed_by(reader, found[id(reader)]) for reader in readers.get(id(node), ())]
        found[id(node)] = promised(node) if isinstance(node, Sink) else _both(needs)
    return found


def relax_exchanges(roots: Sequence[Node]) -> list[Node]:
    """Exchanges that say whether anybody needs an order of their rows."""
    needed = needed_orders(roots)

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if isinstance(node, Exchange):
            unordered = needed[id(node)] is None and PLACE not in node.schema
            return replace(node, inputs=inputs, unordered=unordered)
        return node.with_inputs(*inputs)

    return transform(roots, change)


def relax_windows(roots: Sequence[Node]) -> list[Node]:
    """Windows whose results are sorted by key only where somebody can tell."""
    needed = needed_orders(roots)

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if isinstance(node, WindowAggregate):
            told = not keeps_order(node.key, needed[id(node)])  # a window has each key once
            return replace(node, inputs=inputs, sorted=told)
        return node.with_inputs(*inputs)

    return transform(roots, change)


def _both(needs: Sequence[Order]) -> Order:
    """What is enough for all."""
    some = [need for need in needs if need is not None]
    return frozenset.intersection(*some) if some else None


def _needed_by(node: Node, needed: Order) -> Order:
    """What an operator needs of its inputs, if its own rows must have an order."""
    match node:
        case Sink():
            return needed
        case WindowAggregate() if _ignores_order(node):
            return None
        case Windowed():  # what it gives does not depend on that
            return frozenset(node.key)
        case Process() | Running():
            return _both([frozenset(node.key), needed])
        case MapBatches() if not isinstance(node, Columnwise):
            return None if needed is None and node.stateless else ALL  # it may count rows
        case _ if needed is None:
            return None
        case Project():
            made = dict(node.columns)
            sources = [made.get(name) for name in needed]
            return frozenset(column.name for column in sources if isinstance(column, Column))
        case FlatMap():
            return needed & set(node.carry)
        case Branches():
            return _both([_needed_on(way, needed) for way in node.ways])
        case Columnwise():
            needed -= node.changed
    return needed.intersection(*(side.schema.names for side in node.inputs))


def _needed_on(way: Sequence[Node], needed: Order) -> Order:
    """What a branch needs of its input."""
    for step in reversed(way):
        needed = _needed_by(step, needed)
    return needed


def _ignores_order(node: WindowAggregate) -> bool:
    return not node.window.rows and ignores_order(
        tuple(aggregate for _, aggregate in node.aggregates), node.rows
    )


# ---- what Spark gives, from the sources to the sinks -----------------------------------------


def spark_orders(roots: Sequence[Node]) -> dict[str, Order]:
    """By the name of each sink, the order in which it sees rows on Spark, of a plan with exchanges.

    What a task gives stays in its order, and tasks come one after the other: those that read as
    their ranges lie in a channel, shards by their numbers.
    """
    inside: dict[int, Order] = {}  # the order that rows have in their task,
    shards: dict[int, Order] = {}  # and the key by which they lie in shards; None: not known
    found: dict[str, Order] = {}
    for node in walk(roots):
        order = _only({inside[id(side)] for side in node.inputs})
        key = _only({shards[id(side)] for side in node.inputs})
        match node:
            case Source():
                order, key = None if is_unordered(node.connector) else ALL, ALL
            case Exchange():
                order = _over_shards(order, key)
                key = None if isinstance(node, Turns) else frozenset(node.key)
            case Sink():
                found[node.name] = _over_shards(order, key)
            case WindowAggregate() if not node.sorted or node.window.rows:
                order = frozenset(node.key)
            case Windowed():
                order = ALL  # what it gives is sorted
            case _:
                order, key = _renamed(node, order), _renamed(node, key)
        inside[id(node)], shards[id(node)] = order, key
    return found


def states_out_of_order(roots: Sequence[Node]) -> list[tuple[Node, Rebalance]]:
    """Operators with state that need the order of rows behind a `rebalance`, which on Spark
    nobody keeps."""
    found: list[tuple[Node, Rebalance]] = []
    for node in walk(roots):
        if isinstance(node, Stateful) and _needed_by(node, None) is not None:
            before = [each for each in walk([node]) if isinstance(each, Rebalance)]
            found += [(node, each) for each in before[:1]]
    return found


def _only(orders: set[Order]) -> Order:
    return orders.pop() if len(orders) == 1 else None


def _over_shards(order: Order, key: Order) -> Order:
    """The order of rows of all tasks: those of one key are in one."""
    return None if order is None or key is None else order | key


def _renamed(node: Node, columns: Order) -> Order:
    """What columns are called behind an operator; None: one of them is there no more."""
    if not columns:
        return columns
    if isinstance(node, Branches):
        return _only({_renamed_on(way, columns) for way in node.ways})
    names: dict[str, str] = {name: name for name in node.schema.names}
    if isinstance(node, Project):
        names = {made.name: name for name, made in node.columns if isinstance(made, Column)}
    elif isinstance(node, FlatMap | Running):
        names = {name: name for name in (*node.carry, *node.key)}
    elif isinstance(node, MapBatches):
        kept = set(names) - node.changed if isinstance(node, Columnwise) else set()
        names = {name: name for name in kept}
    return frozenset(map(names.__getitem__, columns)) if columns <= names.keys() else None


def _renamed_on(way: Sequence[Node], columns: Order) -> Order:
    """What they are called behind a branch."""
    for step in way:
        columns = _renamed(step, columns)
    return columns


def said_order(order: Order) -> str:
    """An order in words.

    >>> said_order(frozenset({"user"})), said_order(frozenset()), said_order(None)
    ('in order for each user', 'in order', 'in any order')
    """
    if order is None:
        return "in any order"
    return f"in order for each {', '.join(sorted(order))}" if order else "in order"
