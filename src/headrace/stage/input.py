"""The inputs of a stage: sources and received exchanges, with their channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.plan.nodes import Node, Source

from .blocks.block import Block
from .blocks.layout import Layout
from .clock import FOREVER, NEVER, SourceClock
from .units import Unit


@dataclass
class Channel:
    """One channel of a source, or one sender of an exchange."""

    watermark: int = NEVER
    ended: bool = False


class Input(Unit):
    """A source or a received exchange: cuts batches into blocks and keeps channels' watermarks."""

    def __init__(self, node: Node, capacity: int, compiled: bool) -> None:
        super().__init__(node.name)
        self.node, self.capacity = node, capacity
        self.channels: dict[str, Channel] = {}
        source = node if isinstance(node, Source) else None
        self.layout = Layout.of(node.schema)
        self.fed = Layout.of(source.given) if source is not None else self.layout
        timed = source is not None and source.clock is not None
        self.clock = SourceClock(source, capacity, compiled) if source and timed else None
        self.sent = NEVER  # the watermark that its readers know
        self._spare: list[Block] = []

    def channel(self, name: str) -> Channel:
        """A channel by its name, known from now on."""
        found = self.channels.get(name)
        if found is None:
            found = self.channels[name] = Channel()
        return found

    def new_block(self) -> Block:
        """A block to be filled."""
        if self._spare:
            return self._spare.pop()
        return Block.allocate(self.layout, self.capacity, borrows=True)

    def recycle(self, block: Block) -> None:
        """See Unit."""
        self._spare.append(block)

    def least_watermark(self) -> int:
        """The minimum over the channels; a channel that has ended does not hold others back."""
        marks = [FOREVER if c.ended else c.watermark for c in self.channels.values()]
        return min(marks, default=NEVER)

    def saved(self) -> dict[str, Any]:
        """How far time has come, for a snapshot."""
        channels = {name: [c.watermark, c.ended] for name, c in self.channels.items()}
        return {"channels": channels, "largest": self.clock.saved() if self.clock else {}}

    def restored(self, saved: dict[str, Any]) -> None:
        """Take up what `saved` gave."""
        for name, (watermark, ended) in saved["channels"].items():
            self.channels[name] = Channel(watermark, ended)
        if self.clock is not None:
            self.clock.restored(saved["largest"])
