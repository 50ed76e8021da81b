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
from ..expressions import Column, Expression, KeyHash
from ..nodes import (
    KEY_HASH,
    PANE,
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
    transform,
)
from ..schema import Field
from ..types import int64

Partition = tuple[str, ...] | None  # rows are partitioned by these columns; None: anyhow


def insert_exchanges(roots: Sequence[Node]) -> list[Node]:
    """Exchanges in front of stateful operators whose rows do not lie by their key already."""
    partitions: dict[int, Partition] = {}
    passed: dict[int, int] = {}  # exchanges on the way to each operator: each leads to a new stage

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        made = node.with_inputs(*inputs)
        before = max((passed[id(side)] for side in inputs), default=0)
        lies = {(partitions[id(side)], passed[id(side)]) for side in inputs}
        if isinstance(node, Stateful):
            made = _keyed(made, partitions.get(id(inputs[0])))
            partitions[id(made)] = node.key
            before += made.input is not inputs[0]
        elif isinstance(node, Union) and len(lies) > 1:
            # sides that lie differently have different owners, and owners in different stages
            # would have to wait for each other: they meet at one
            made = node.with_inputs(*(_meeting(side, node, k) for k, side in enumerate(inputs)))
            partitions[id(made)] = ()
            before += 1
        else:
            partitions[id(made)] = _partition(made, partitions)
        passed[id(made)] = before
        return made

    return transform(roots, change)


def _keyed(node: Node, partition: Partition) -> Node:
    source = node.input
    if partition is not None and partition == node.key:
        return node
    if isinstance(node, WindowAggregate):
        aggregates = tuple(aggregate for _, aggregate in node.aggregates)
        exact = not node.reproducible or merges_exactly(aggregates, node.rows)
        if exact and reduces(aggregates):
            return _in_halves(node)
    return node.with_inputs(_exchange(source, node))


def _in_halves(node: WindowAggregate) -> WindowAggregate:
    aggregates = tuple(aggregate for _, aggregate in node.aggregates)
    keys = node.schema.select(node.key)
    partial = replace(
        node,
        schema=partial_schema(keys, Field(PANE, int64), aggregates, node.rows),
        name=f"{node.name}.partial",
        identity=f"{node.identity}.partial",
        phase="partial",
    )
    return replace(node, inputs=(_exchange(partial, node),), phase="final")


def _exchange(source: Node, reader: Node, side: int = 0) -> Exchange:
    """Rows with the hash of their key, by which the exchange sends them."""
    suffix = f"_{side + 1}" if side else ""
    columns: list[tuple[str, Expression]] = [(n, Column(n)) for n in source.schema.names]
    key = tuple(Column(name) for name in reader.key)
    hashed = Project(
        (source,),
        extended(source.schema, Field(KEY_HASH, int64)),
        f"{reader.name}.hash{suffix}",
        site=reader.site,
        key=reader.key,
        time=source.time,
        columns=(*columns, (KEY_HASH, KeyHash(key))),
    )
    return Exchange(
        (hashed,),
        hashed.schema,
        f"{reader.name}.exchange{suffix}",
        site=reader.site,
        key=reader.key,
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


def _partition(node: Node, partitions: dict[int, Partition]) -> Partition:
    """How the rows of an operator without state lie."""
    known = [partitions.get(id(source)) for source in node.inputs]
    if not known or any(each is None or each != known[0] for each in known):
        return None
    (partition, *_) = known
    match node:
        case Filter() | TableJoin() | OnTime():
            return partition
        case Project():
            made = dict(node.columns)
            kept = all(made.get(name) == Column(name) for name in partition or ())
            return partition if kept else None
        case Columnwise():
            return None if node.changed & set(partition or ()) else partition
        case MapBatches():
            return None
    return partition if all(name in node.schema for name in partition or ()) else None
