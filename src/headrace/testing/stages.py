"""The stages of a plan over several owners, in one process: the smallest model of a real engine.

`run` gives the whole plan to one owner. Here the plan is cut at its exchanges, every stage behind
one runs as several *shards*, and rows change owner by the hash of their key: just what engines on
many cores or machines do, without threads, queues and failures. Whatever differs between `run` and
this would differ there, too.

- A stage with only sources has an instance for each channel (at most `shards`); all other stages
  have `shards` instances. Channels of sources are dealt out in turn.
- Rows of an exchange go to the owner of their key group: the 128 groups are cut into `shards`
  even ranges. Without a key they go to shard 0.
- Each sender is a channel of its own at each receiver. Behind the rows of a batch it tells all
  receivers its watermark; in the end, that it has ended.
- At the end of a batch a sender may flush its partial aggregates, so that rows and watermark stay
  together in one batch; or it keeps them until the watermark closes their windows. Both are right,
  so it is left to chance, which follows from `seed`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.asked import planned
from headrace.plan.nodes import KEY_HASH, Exchange, Received, Source
from headrace.plan.planner import Plan, StagePlan
from headrace.plan.rebalance import Turns
from headrace.stage.blocks.arrow import to_arrow
from headrace.stage.blocks.block import Block, scatter
from headrace.stage.stage import Stage
from headrace.stage.store import owners
from headrace.write import Output


def run_stages(
    *outputs: Output,
    shards: int = 3,
    capacity: int = 4096,
    compiled: bool = False,
    fuse: str = "auto",
    batch: int = 1000,
    seed: int = 0,
) -> dict[str, pa.Table]:
    """Run a pipeline over several owners; gives the rows of each output by the name of its sink.

    batch: rows that a source reads at a time. Rows come in any order, but those of one key, from
    one channel and over one exchange, in theirs.

    >>> import headrace as hr
    >>> clicks = hr.read.memory({"user": ["ann", "bob", "ann"], "at": [1, 2, 11]})
    >>> windows = clicks.with_watermark("at", 0).key_by("user").window(hr.tumbling(10))
    >>> rows = run_stages(windows.agg(n=hr.count()).write.collect(name="out"))["out"]
    >>> rows.sort_by([("window_start", "ascending"), ("user", "ascending")]).to_pydict()
    {'user': ['ann', 'bob', 'ann'], 'window_start': [0, 0, 10], 'n': [1, 1, 1]}
    """
    if shards < 1:
        raise ValueError(f"shards={shards}: there is at least one")
    owners = _Owners(planned(outputs, fuse=fuse), shards, capacity, compiled, seed)
    try:
        owners.run(batch)
        return owners.tables()
    finally:
        owners.close()


class _Instance:
    """One shard of a stage."""

    def __init__(self, plan: StagePlan, shard: int, capacity: int, compiled: bool) -> None:
        self.plan, self.shard = plan, shard
        self.name = f"{plan.number}/{shard}"  # as a channel of its receivers
        self.stage = Stage(plan, capacity=capacity, compiled=compiled)


class _Owners:
    """All instances of all stages, and the rows that have arrived at sinks."""

    def __init__(self, plan: Plan, shards: int, capacity: int, compiled: bool, seed: int) -> None:
        self._random = random.Random(seed)
        plans = plan.stages()
        self._stages = [
            [
                _Instance(stage, shard, capacity, compiled)
                for shard in range(_instances(stage, shards))
            ]
            for stage in plans
        ]
        self._schemas = {sink.name: sink.schema.to_arrow() for sink in plan.optimized}
        self._rows: dict[str, list[pa.RecordBatch]] = {name: [] for name in self._schemas}
        self._receivers = {
            node.name: instances
            for stage, instances in zip(plans, self._stages, strict=True)
            for node in stage.inputs
            if isinstance(node, Received)
        }
        self._introduce()

    def _introduce(self) -> None:
        """Receivers know their senders from the start: windows wait for all of them."""
        for sender, exchange in self._exchanges():
            for receiver in self._receivers[exchange.name]:
                receiver.stage.declare(exchange.name, sender.name)

    def _exchanges(self) -> Iterator[tuple[_Instance, Exchange]]:
        for instances in self._stages:
            for instance in instances:
                for root in instance.plan.roots:
                    if isinstance(root, Exchange):
                        yield instance, root

    # ---- running -----------------------------------------------------------------------------

    def run(self, batch: int) -> None:
        """Read all sources to their ends, a batch of a channel at a time."""
        waiting = list(self._channels())
        while waiting:
            instance, node, channel, reader = chosen = self._random.choice(waiting)
            given = reader.poll(batch, 1.0)
            if given.rows is not None:
                instance.stage.push(node.name, given.rows, channel)
            if given.ended:
                instance.stage.end(node.name, channel)
                reader.close()
                waiting.remove(chosen)
            self._go_on()
        for instances in self._stages:  # senders before receivers
            for instance in instances:
                self._drain(instance)
                for root in instance.plan.roots:
                    if isinstance(root, Exchange):
                        for receiver in self._receivers[root.name]:
                            receiver.stage.end(root.name, instance.name)

    def _channels(self) -> Iterator[tuple[_Instance, Source, str, Any]]:
        """Every channel of every source, opened, at the instance that reads it."""
        for instances in self._stages:
            for node in instances[0].plan.inputs:
                if not isinstance(node, Source):
                    continue
                names = list(node.given.names)
                channels = list(node.connector.channels())
                for number, channel in enumerate(channels):
                    instance = instances[number % len(instances)]
                    instance.stage.declare(node.name, channel)
                    reader = node.connector.open(channel, None, None, names, None)
                    yield instance, node, channel, reader
                for instance in instances[len(channels) :]:  # it reads nothing of this source
                    instance.stage.end(node.name, "none")

    def _go_on(self) -> None:
        """A batch has come in: everybody works it off, senders before receivers."""
        for instances in self._stages:
            for instance in instances:
                if self._random.random() < 0.5:
                    instance.stage.flush()
                self._drain(instance)

    def _drain(self, instance: _Instance) -> None:
        """Rows first, then the watermark behind them."""
        for name, block in instance.stage.pull():
            if name in self._schemas:
                self._rows[name].append(to_arrow(block))
            else:
                self._send(instance, name, block)
        for root in instance.plan.roots:
            if isinstance(root, Exchange):
                watermark = instance.stage.outputs[root.name].watermark
                for receiver in self._receivers[root.name]:
                    receiver.stage.advance(root.name, watermark, instance.name)

    def _send(self, sender: _Instance, exchange: str, block: Block) -> None:
        receivers = self._receivers[exchange]
        node = next(root for root in sender.plan.roots if root.name == exchange)
        if isinstance(node, Turns):
            width = min(node.width or len(receivers), len(receivers))
            turns = [self._random.randrange(width) for _ in range(block.rows)]
            parts = scatter(block, np.array(turns, np.int32), len(receivers))
        else:
            parts = _parts(block, node.key, len(receivers))
        for receiver, part in zip(receivers, parts, strict=True):
            if part.rows:
                receiver.stage.push(exchange, part, sender.name)

    # ---- the end -----------------------------------------------------------------------------

    def tables(self) -> dict[str, pa.Table]:
        """The rows of every sink."""
        return {
            name: pa.Table.from_batches([b.cast(self._schemas[name]) for b in batches], schema)
            for (name, batches), schema in zip(self._rows.items(), self._schemas.values())
        }

    def close(self) -> None:
        """Close all stages."""
        for instances in self._stages:
            for instance in instances:
                instance.stage.close()


def _instances(plan: StagePlan, shards: int) -> int:
    if any(isinstance(node, Received) for node in plan.inputs):
        return shards
    channels = max(len(n.connector.channels()) for n in plan.inputs if isinstance(n, Source))
    return max(1, min(shards, channels))


def _parts(block: Block, key: tuple[str, ...], shards: int) -> list[Block]:
    """The rows of each shard."""
    if not key:
        return scatter(block, np.zeros(block.rows, np.int32), shards)
    hashes = block.values(block.layout.schema.index(KEY_HASH))[: block.rows]
    return scatter(block, owners(hashes, shards), shards)
