"""Columns that nobody reads are not made, and not read from sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..by_column import Explode
from ..by_time import INPUT, SortByTime
from ..dedup import DedupWithin
from ..expression_types import can_fail
from ..expressions import Expression, columns_of
from ..graph import transform, walk
from ..nodes import (
    DEAD_LETTER,
    PANE,
    SIDE,
    SIDE_TIME,
    WATERMARK,
    DeadLetters,
    Exchange,
    Filter,
    FlatMap,
    Late,
    MapBatches,
    Node,
    OnTime,
    Project,
    Running,
    Sink,
    Source,
    TableJoin,
    Union,
    WindowAggregate,
    WindowJoin,
    extended,
    visible,
)
from ..rebalance import Rebalance
from ..schema import Field, Schema
from ..timed import TimedProcess
from .carrying import only

Columns = tuple[tuple[str, Expression], ...]


def prune_columns(roots: Sequence[Node], *, sources: bool = True) -> list[Node]:
    """Only the columns that something needs; `sources=False` leaves what sources read as it is."""
    needed = _needed(roots)

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        wanted = needed[id(node)]
        match node:
            case Source():
                return _pruned_source(node, wanted) if sources else node
            case Project():
                columns = _pruned_columns(node, wanted)
                schema = node.schema.select(n for n, _ in columns)
                return replace(node, inputs=inputs, columns=columns, schema=schema)
            case TableJoin():
                taken = tuple((c, n) for c, n in node.taken if n in wanted)
                right = {n for _, n in taken}
                left = inputs[0].schema
                fields = [*left, *(f for f in node.schema if f.name in right)]
                return replace(node, inputs=inputs, taken=taken, schema=Schema(tuple(fields)))
            case Union():
                # the sides may have kept different columns, for other readers
                names = [n for n in node.schema.names if n in wanted] or node.schema.names[:1]
                sides = tuple(only(side, names, node, k) for k, side in enumerate(inputs))
                return replace(node, inputs=sides, schema=sides[0].schema)
            case OnTime():
                pane = Field(PANE, node.schema[PANE])
                schema = extended(visible(inputs[0].schema), pane)
                return replace(node, inputs=inputs, schema=schema)
            case Filter() | Exchange() | Rebalance():
                return replace(node, inputs=inputs, schema=inputs[0].schema)
            case WindowJoin():
                return _pruned_join(node, inputs, wanted)
            case SortByTime():
                names = [n for n in node.schema.names if n in wanted] or [node.at]
                schema = node.schema.select(names)
                return replace(node, inputs=inputs, rows=inputs[0].schema, schema=schema)
            case WindowAggregate() | TimedProcess():
                return replace(node, inputs=inputs, rows=inputs[0].schema)
            case FlatMap() | Running():
                carry = tuple(n for n in node.carry if n in wanted)
                given = [n for n in node.schema.names if n not in node.carry]
                carry = carry if carry or given else node.key[:1]  # so that rows can be counted
                schema = node.schema.select([*carry, *given])
                node = replace(node, inputs=inputs, carry=carry, schema=schema)
                return replace(node, rows=inputs[0].schema) if isinstance(node, Running) else node
            case Late():
                return replace(node, inputs=inputs, schema=visible(inputs[0].schema))
            case Explode():
                there = [name for name in node.schema.names if name in inputs[0].schema]
                return replace(node, inputs=inputs, schema=node.schema.select(there))
        return node.with_inputs(*inputs)

    return transform(roots, change)


def _pruned_columns(node: Project, wanted: set[str]) -> Columns:
    """The columns that are wanted, and those that decide whether a row is left out."""
    schema = node.input.schema
    kept = {n for n, e in node.columns if node.tolerates and can_fail(e, schema)} | wanted
    return tuple((n, e) for n, e in node.columns if n in kept) or node.columns[:1]


def _pruned_source(node: Source, wanted: set[str]) -> Source:
    keep = set(wanted)
    if node.clock is not None:
        keep |= columns_of(node.clock.time)
    names = [n for n in node.schema.names if n in keep]
    if not [n for n in names if n in node.given]:  # rows must have some column to be counted by
        names.insert(0, node.schema.names[0])
    return replace(node, schema=node.schema.select(names))


def _pruned_join(node: WindowJoin, inputs: tuple[Node, ...], wanted: set[str]) -> WindowJoin:
    gone = {*node.left, *node.right} - wanted
    return replace(
        node,
        inputs=inputs,
        rows=inputs[0].schema,
        schema=node.schema.select(n for n in node.schema.names if n not in gone),
        left=tuple(n for n in node.left if n in wanted),
        right=tuple(n for n in node.right if n in wanted),
    )


def _needed(roots: Sequence[Node]) -> dict[int, set[str]]:
    """id of each node -> the columns of its rows that some reader needs."""
    needed: dict[int, set[str]] = {id(node): set() for node in walk(roots)}
    for node in reversed(list(walk(roots))):
        for source in node.inputs:
            needed[id(source)] |= _asks(node, needed[id(node)], source)
    return needed


def _asks(node: Node, wanted: set[str], source: Node) -> set[str]:
    """The columns of an input that a node needs to give the columns that are wanted of it."""
    if node.on_error == DEAD_LETTER:
        return set(source.schema.names)
    match node:
        case Explode():
            return wanted | {node.column}
        case Sink() | MapBatches() | Late():
            return set(source.schema.names)
        case DeadLetters():
            return set()
        case Filter():
            return wanted | columns_of(node.predicate)
        case Project():
            return set().union(*(columns_of(e) for _, e in _pruned_columns(node, wanted)))
        case FlatMap():
            return {*node.arguments, *node.key, *(wanted & set(node.carry))}
        case TableJoin():
            return (wanted - {n for _, n in node.taken}) | set(node.left_on)
        case OnTime():
            return wanted - {PANE} | ({node.time, WATERMARK} if node.time else set())
        case WindowJoin():
            kept = {SIDE, SIDE_TIME, PANE, *node.key}
            return kept | (wanted & {*node.left, *node.right})
        case DedupWithin():
            return {node.at, WATERMARK, *node.key} | (wanted & set(node.carry))
        case TimedProcess():
            return {node.at, *node.arguments, *node.key, PANE}
        case SortByTime():
            return (wanted - {WATERMARK}) | {node.at, INPUT, PANE}
        case WindowAggregate() | Running():
            operands = [operand for _, a in node.aggregates for operand in a.operands()]
            columns = set().union(*map(columns_of, operands)) if operands else set()
            more = wanted & set(node.carry) if isinstance(node, Running) else {PANE}
            return columns | set(node.key) | more
    return wanted or set(source.schema.names[:1])
