"""A stage inside a task: its outputs become messages, its sinks are staged."""

from __future__ import annotations

import json
import pickle
import uuid
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.plan.nodes import KEY_HASH, Exchange, Node, Sink
from headrace.plan.rebalance import Turns
from headrace.stage.blocks.arrow import as_arrow
from headrace.stage.blocks.block import Block, scatter
from headrace.stage.stage import Stage
from headrace.stage.store import owners

from .shipment import Shipment
from .wire import COUNTERS, DRIVER, MARK, MESSAGE, METRICS, RESULT, ROWS, Message, pack

PACKET_ROWS = 131_072  # rows in a message, at most about so many


class StageTask:
    """One stage in one task of one micro-batch: gives messages for what the stage gives out."""

    def __init__(
        self,
        shipment: Shipment,
        stage: Stage,
        *,
        batch: int,
        sender: str,
        label: int,
        first_serial: int = 0,
    ) -> None:
        self.shipment, self.stage = shipment, stage
        self.batch, self.sender, self.label = batch, sender, label
        self._serial = first_serial
        self._attempt = uuid.uuid4().hex
        self._roots: dict[str, Node] = {root.name: root for root in stage.plan.roots}
        self._waiting: dict[tuple[str, int], list[pa.RecordBatch]] = {}
        self._sinks: dict[str, tuple[Any, list[Any]]] = {}
        self._turns: dict[str, int] = {}  # of each exchange in turns: whose turn it is
        self._before = stage.metrics()

    def run(self) -> Iterator[Message]:
        """Work off what was pushed; give the rows that go elsewhere, as soon as there are many."""
        for name, block in self.stage.pull():
            root = self._roots[name]
            if isinstance(root, Exchange):
                yield from self._exchange(root, block)
            else:
                assert isinstance(root, Sink)
                yield from self._sink(root, block)

    def finish(self) -> Iterator[Message]:
        """The rest of the rows, and behind them watermarks, messages and what was counted."""
        for name, shard in list(self._waiting):
            yield self._packet(name, shard)
        for name, root in self._roots.items():
            if isinstance(root, Exchange):
                watermark = self.stage.outputs[name].watermark
                for label in self.shipment.labels:
                    yield self._letter(label, MARK, root, watermark=watermark)
        for name, (sink, messages) in self._sinks.items():
            sink.close()  # what it wrote is whole from here on
            payload = pickle.dumps(messages)
            yield self._letter(self.label, MESSAGE, self._roots[name], payload=payload)
        yield self._metrics()

    def abort(self) -> None:
        """Remove what was staged."""
        for sink, _ in self._sinks.values():
            sink.abort(self.shipment.batch_name(self.batch), self._attempt)
            sink.close()

    # ---- rows --------------------------------------------------------------------------------

    def _exchange(self, root: Exchange, block: Block) -> Iterator[Message]:
        shards = self.shipment.shards
        if isinstance(root, Turns):
            yield from self._in_turns(root, block)
            return
        if shards == 1 or not root.key:
            yield from self._add(root.name, 0, block)
            return
        hashes = block.values(block.layout.schema.index(KEY_HASH))[: block.rows]
        for shard, part in enumerate(scatter(block, owners(hashes, shards), shards)):
            if part.rows:
                yield from self._add(root.name, shard, part)

    def _in_turns(self, root: Turns, block: Block) -> Iterator[Message]:
        """Row after row to another shard; senders begin with different ones."""
        width = min(root.width or self.shipment.shards, self.shipment.shards)
        first = self._turns.setdefault(root.name, zlib.crc32(self.sender.encode()))
        self._turns[root.name] += block.rows
        numbers = (first + np.arange(block.rows)) % width
        for shard, part in enumerate(scatter(block, numbers, width)):
            if part.rows:
                yield from self._add(root.name, shard, part)

    def _sink(self, root: Sink, block: Block) -> Iterator[Message]:
        pickled = self.shipment.staged.get(root.name)
        if pickled is None:
            yield from self._add(root.name, 0, block)
            return
        if root.name not in self._sinks:
            self._sinks[root.name] = pickle.loads(pickled), []
        sink, messages = self._sinks[root.name]
        name = self.shipment.batch_name(self.batch)
        messages.append(sink.write(as_arrow(block), name, self._attempt))

    def _add(self, name: str, shard: int, block: Block) -> Iterator[Message]:
        waiting = self._waiting.setdefault((name, shard), [])
        waiting.append(as_arrow(block))
        if sum(rows.num_rows for rows in waiting) >= PACKET_ROWS:
            yield self._packet(name, shard)

    def _packet(self, name: str, shard: int) -> Message:
        batches = self._waiting.pop((name, shard))
        root = self._roots[name]
        kind = ROWS if isinstance(root, Exchange) else RESULT
        label = self.shipment.labels[shard]
        rows = sum(batch.num_rows for batch in batches)
        return self._letter(label, kind, root, rows=rows, payload=pack(batches))

    def _letter(
        self, label: int, kind: int, root: Node, *, watermark: int = 0, rows: int = 0, payload=b""
    ) -> Message:
        self._serial += 1
        return Message(
            label,
            kind,
            self.batch,
            self.shipment.target(root),
            root.name,
            self.sender,
            self._serial,
            watermark,
            rows,
            payload,
        )

    def _metrics(self) -> Message:
        """What the stage has counted in this task, and how large its state is."""
        counted: dict[str, dict[str, Any]] = {}
        for name, after in self.stage.metrics().items():
            before = self._before[name]
            counted[name] = {
                key: value - before[key] if key in COUNTERS else value
                for key, value in after.items()
                if key != "operators"
            }
        payload = json.dumps(counted).encode()
        number = self.stage.plan.number
        return Message(
            self.label, METRICS, self.batch, DRIVER, str(number), self.sender, 0, 0, 0, payload
        )
