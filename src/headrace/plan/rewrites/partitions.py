"""How keys lie in parts: from `key_by` to the operators with state, and into their rows.

Where it is not the hash of a key alone that gives its key group (`plan.partition`), rows have the
hash in a column in front of each operator with state, whatever engine runs it: so a function that
fails, or gives a part that is not there, is the same error everywhere, that of `key_by`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..by_time import SortByTime
from ..errors import PipelineError
from ..expressions import Cast, Column, Expression, KeyHash
from ..graph import transform
from ..nodes import KEY_HASH, KeyBy, Limit, Node, Project, Stateful, extended
from ..partition import Partition, hash_of
from ..schema import Field
from ..types import int64


def settle_partitions(roots: Sequence[Node]) -> list[Node]:
    """Operators with state that know how the keys lie in parts."""
    known: dict[int, tuple[tuple[str, ...], Partition | None]] = {}  # the key, and how it lies

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        key, partition = node.key, node.partition
        sides = [known[id(side)] for side in inputs]
        if isinstance(node, Limit | SortByTime):  # rows as they came, though it has no key itself
            key, partition = sides[0]
        elif not isinstance(node, KeyBy):
            found = [lies for named, lies in sides if key and _has_key(node, named)]
            partition = _agreed([lies for lies in found if lies is not None], node)
        made = node.with_inputs(*inputs)
        if isinstance(node, Stateful) and node.key and partition is not None:
            _check_types(partition, node)
            made = replace(made, partition=partition)
        known[id(made)] = key, partition
        return made

    return transform(roots, change)


def _has_key(node: Node, key: tuple[str, ...]) -> bool:
    """Is its key that of an input, perhaps under other names?"""
    if not isinstance(node, Project):
        return node.key == key
    made = dict(node.columns)
    return tuple(_source(made[name]) for name in node.key) == key


def _source(made: Expression) -> str:
    """The column that an expression takes as it is, perhaps as one that may be null."""
    column = made.operand if isinstance(made, Cast) else made
    return column.name if isinstance(column, Column) else ""


def _agreed(partitions: Sequence[Partition], node: Node) -> Partition | None:
    """What all streams that meet say; the one whose function takes the key as it is behind it."""
    for other in partitions[1:]:
        if other.identity != partitions[0].identity:
            raise PipelineError(
                f"keys lie in parts by {partitions[0]} in one stream and by {other} in another",
                operator=node.written,
                site=node.site,
                fix="give both the same partition=, or call key_by again behind it",
            )
    kinds = tuple(node.schema[name] for name in node.key)
    fitting = [each for each in partitions if each.takes(kinds)]
    return next(iter([*fitting, *partitions]), None)


def _check_types(partition: Partition, node: Node) -> None:
    """A function was compiled for the types that the key had where it was given."""
    kinds = tuple(node.inputs[0].schema[name] for name in node.key)
    if not partition.takes(kinds):
        raise PipelineError(
            f"the key is {', '.join(map(str, kinds))} here, and not so where its partition was "
            f"given, by {partition}",
            operator=node.written,
            site=node.site,
            fix="make the key columns of both streams of one type, nullable or not",
        )


def place_parts(roots: Sequence[Node]) -> list[Node]:
    """Rows with the hash of their key, in front of operators whose keys lie in parts of their
    own."""

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if isinstance(node, Stateful) and node.partition is not None:
            return node.with_inputs(with_hash(inputs[0], node))
        return node.with_inputs(*inputs)

    return transform(roots, change)


def key_hash(node: Node) -> KeyHash:
    """The hash of the key by which an operator keeps state."""
    return hash_of([Column(name) for name in node.key], node.partition)


def with_hash(source: Node, reader: Node, suffix: str = "") -> Project:
    """Rows with the hash of the key of an operator that reads them."""
    columns: list[tuple[str, Expression]] = [(n, Column(n)) for n in source.schema.names]
    return Project(
        (source,),
        extended(source.schema, Field(KEY_HASH, int64)),
        f"{reader.name}.hash{suffix}",
        site=reader.site if reader.partition is None else reader.partition.site,
        key=reader.key,
        time=source.time,
        columns=(*columns, (KEY_HASH, key_hash(reader))),
    )
