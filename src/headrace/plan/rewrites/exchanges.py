"""Exchanges: where rows change owner, and aggregates in two halves around them.

Each stateful operator needs all rows of a key in one place. An aggregate whose partial results
merge exactly, and are smaller than the rows, is split: its partial half runs with the rows, and
only one row per key and window crosses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..accumulators import merges_exactly, partial_schema, reduces
from ..by_column import Columnwise
from ..expressions import Column, KeyHash, columns_of
from ..graph import transform
from ..nodes import (
    KEY_HASH,
    PANE,
    Branches,
    Exchange,
    Filter,
    MapBatches,
    Node,
    OnTime,
    Project,
    Stateful,
    TableJoin,
    Union,
    WindowAggregate,
    extended,
)
from ..partition import hash_of
from ..rebalance import Rebalance, Turns
from ..schema import Field
from ..types import int64
from .partitions import key_hash, with_hash

Lies = KeyHash | None  # rows lie by this hash; None: anyhow


def insert_exchanges(roots: Sequence[Node]) -> list[Node]:
    """Exchanges in front of stateful operators whose rows do not lie by their key already."""
    found: dict[int, Lies] = {}
    passed: dict[int, int] = {}  # exchanges on the way to each operator: each leads to a new stage

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        made = node.with_inputs(*inputs)
        before = max((passed[id(side)] for side in inputs), default=0)
        lies = {(found[id(side)], passed[id(side)]) for side in inputs}
        if isinstance(node, Stateful):
            made = _keyed(made, found.get(id(inputs[0])))
            found[id(made)] = key_hash(node)
            before += made.input is not inputs[0]
        elif isinstance(node, Rebalance):
            sent = _sent(inputs[0], node)
            made = Turns(**{**vars(sent), "key": (), "width": node.width})
            found[id(made)] = None
            before += 1
        elif isinstance(node, Union) and len(lies) > 1:
            # sides that lie differently have different owners, and owners in different stages
            # would have to wait for each other: they meet at one
            made = node.with_inputs(*(_meeting(side, node, k) for k, side in enumerate(inputs)))
            found[id(made)] = hash_of((), None)
            before += 1
        else:
            found[id(made)] = _partition(made, found)
        passed[id(made)] = before
        return made

    return transform(roots, change)


def _keyed(node: Node, lies: Lies) -> Node:
    source = node.input
    if lies == key_hash(node):
        return node
    if isinstance(node, WindowAggregate) and not _are_shared(source):
        aggregates = tuple(aggregate for _, aggregate in node.aggregates)
        exact = not node.reproducible or merges_exactly(aggregates, node.rows)
        if exact and reduces(aggregates) and not node.window.rows:
            return _in_halves(node)
    return node.with_inputs(_exchange(source, node))


def _are_shared(node: Node) -> bool:
    """Are rows shared anew? Then partial results, which one worker makes, would undo it."""
    while node.inputs and not isinstance(node, Exchange):
        node = node.inputs[0]
    return isinstance(node, Turns)


def _in_halves(node: WindowAggregate) -> WindowAggregate:
    aggregates = tuple(aggregate for _, aggregate in node.aggregates)
    keys = node.schema.select(node.key)
    schema = partial_schema(keys, Field(PANE, int64), aggregates, node.rows)
    partial = replace(
        node,
        schema=extended(schema, Field(KEY_HASH, int64)),  # it has made the hash of every key
        name=f"{node.name}.partial",
        identity=f"{node.identity}.partial",
        phase="partial",
    )
    return replace(node, inputs=(_sent(partial, node),), phase="final")


def _exchange(source: Node, reader: Node, side: int = 0) -> Exchange:
    """Rows with the hash of their key, by which the exchange sends them."""
    if KEY_HASH in source.schema:
        return _sent(source, reader)
    suffix = f"_{side + 1}" if side else ""
    return _sent(with_hash(source, reader, suffix), reader, suffix)


def _sent(source: Node, reader: Node, suffix: str = "") -> Exchange:
    return Exchange(
        (source,),
        source.schema,
        f"{reader.name}.exchange{suffix}",
        site=reader.site,
        key=reader.key,
        partition=reader.partition,
        time=source.time,
    )


def _meeting(side: Node, node: Union, k: int) -> Project:
    """A side of a union behind an exchange to one owner, with the columns that it had."""
    exchange = _exchange(side, replace(node, key=()), k)
    return Project(
        (exchange,),
        side.schema,
        f"{node.name}.received_{k + 1}",
        site=node.site,
        key=side.key,
        time=side.time,
        columns=tuple((name, Column(name)) for name in side.schema.names),
    )


def _partition(node: Node, found: dict[int, Lies]) -> Lies:
    """How the rows of an operator without state lie."""
    known = {found.get(id(source)) for source in node.inputs}
    return _passed_on(node, known.pop()) if len(known) == 1 else None


def _passed_on(node: Node, lies: Lies) -> Lies:
    """How rows lie behind an operator in front of which they lie so."""
    if lies is None:
        return None
    key = columns_of(lies)
    match node:
        case Filter() | TableJoin() | OnTime():
            return lies
        case Branches():
            found = {_behind(way, lies) for way in node.ways}
            return found.pop() if len(found) == 1 else None
        case Project():
            made = dict(node.columns)
            return lies if all(made.get(name) == Column(name) for name in key) else None
        case Columnwise():
            return None if node.changed & key else lies
        case MapBatches():
            return None
    return lies if all(name in node.schema for name in key) else None


def _behind(way: Sequence[Node], lies: Lies) -> Lies:
    """How rows lie behind a branch."""
    for step in way:
        lies = _passed_on(step, lies)
    return lies
