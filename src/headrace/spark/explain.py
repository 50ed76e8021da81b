"""A plan as it will lie on Spark, as text: stages, exchanges, shards, connectors, what crosses."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.connect.spark_frame import SparkFrame
from headrace.plan.explain import explain_plan
from headrace.plan.graph import walk
from headrace.plan.nodes import HIDDEN, Exchange, Node, Sink, Source, Stateful, said_key
from headrace.plan.planner import Plan, StagePlan
from headrace.plan.rebalance import Turns
from headrace.plan.schema import Schema

from .shipment import Shipment, is_staged


def explain_on_spark(plan: Plan, shards: int | None = None) -> str:
    """The plan, its stages, and how they lie on Spark; nothing is started, no source is read."""
    stages = tuple(plan.stages())
    layout = Shipment(
        stages=stages,
        staged={},
        channels={},
        shards=shards or 1,
        checkpoint="",
        batch_rows=0,
        tasks=0,
        stop_file="",
        times="",
        state="",
        capacity=0,
        compiled=True,
    )
    owners = f"{shards} shards" if shards else "a shard for each core"
    lines = [explain_plan(plan), "", f"On Spark ({owners})"]
    for stage in stages:
        if stage.number not in layout.receivers.values():
            where = "in the tasks that read, on each of their cores (spark.task.cpus)"
            lines.extend(_stage(stage, layout, where))
    for number, level in enumerate(layout.levels, 1):
        shared = all(stage.is_shared for stage in level)
        by = "in turns" if shared else "by the shard that owns their key group"
        lines.append(f"shuffle {number}: blocks of rows, {by}")
        for stage in level:
            lines.extend(_stage(stage, layout, f"mapInArrow, {owners}"))
    return "\n".join(lines)


def _stage(stage: StagePlan, layout: Shipment, where: str) -> Iterator[str]:
    yield f"stage {stage.number}: {where}"
    for node in stage.inputs:
        if isinstance(node, Source):
            yield f"  reads   {node.name}: {node.connector}, {_way_in(node)}"
        else:
            yield f"  takes   {node.name}: {_columns(node.schema)}"
    for kept in _stateful(stage):
        if stage.number in layout.receivers.values():
            yield f"  keeps   {kept.name}: in the checkpoint, by {said_key(kept) or 'all'}"
    for root in stage.roots:
        if isinstance(root, Exchange):
            to = layout.receivers[root.name]
            by = f"by {said_key(root) or 'nothing: one shard owns all'}"
            if isinstance(root, Turns):
                by = root.detail()
            yield f"  sends   {root.name}: to stage {to}, {by}; {_columns(root.schema)}"
        elif isinstance(root, Sink):
            yield f"  writes  {root.name}: {root.connector}, {_way_out(root)}"


def _stateful(stage: StagePlan) -> list[Node]:
    found = [node for node in walk(stage.roots) if isinstance(node, Stateful)]
    return [node for node in found if getattr(node, "phase", "") != "partial"]


def _way_in(node: Source) -> str:
    if isinstance(node.connector, SparkFrame):
        handed = node.connector.handed(node.predicate)
        filtered = "" if handed is None else f", where {handed}"
        said = "a task for each partition, by mapInArrow"
        return f"{said}; Spark reads {_columns(node.schema)}{filtered}"
    channels = len(node.connector.channels())
    return f"{channels} {'channel' if channels == 1 else 'channels'}, by a Python data source"


def _way_out(node: Sink) -> str:
    if is_staged(node.connector):
        return "staged by the tasks, committed by the driver; only messages cross"
    return f"on the driver; its rows cross: {_columns(node.schema)}"


def _columns(schema: Schema) -> str:
    return ", ".join(repr(field) for field in schema if field.name not in HIDDEN)
