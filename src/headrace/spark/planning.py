"""Which rows a micro-batch reads: offsets, planned before anything is read.

An offset names for each channel of each source the position behind what was read, whether the
channel has ended, and the *largest time* before that position. A task that reads on from there
sets its clock to it, so the watermarks of its rows are those of one long run: they follow from the
rows of the channel, not from batches, splits or attempts. Since Spark keeps offsets before it runs
a batch, a batch that is run again after a crash reads the same rows under the same clock.

The largest time comes from what the connector knows (`maximum`: statistics of files); where the
time is computed from several columns or by a function, the planner computes it, with the same
clock as a stage, from these columns alone.

A batch of one channel is cut into splits, one for each task that may run at the same time.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headrace.plan.connector import Reader, Statistics
from headrace.plan.expressions import Column, columns_of
from headrace.plan.nodes import Source
from headrace.plan.schema import Schema
from headrace.stage.blocks.arrow import Feed
from headrace.stage.blocks.block import Block
from headrace.stage.blocks.layout import Layout
from headrace.stage.clock import NEVER, SourceClock

from .shipment import Shipment

POLL_ROWS = 65_536
WAIT_SECONDS = 0.05  # for the first rows, over all channels

Offset = dict[str, Any]
Place = dict[str, Any]  # {"position", "largest", "ended", "splits"} of one channel

CAPACITY = 8192


def first_offset(shipment: Shipment) -> Offset:
    """Before everything."""
    place = {"position": None, "largest": None, "ended": False, "splits": []}
    sources = {name: {c: dict(place) for c in found} for name, found in shipment.channels.items()}
    return {"batch": 0, "sources": sources}


def has_ended(offset: Offset) -> bool:
    """Has every channel come to its end?"""
    return all(place["ended"] for found in offset["sources"].values() for place in found.values())


def unpaced(connector: Any) -> Any:
    """A connector that gives a range as fast as it can: only the planner waits for time."""
    if getattr(connector, "_rate", None) is not None:
        connector = copy.copy(connector)
        connector._rate = None
    return connector


class Planner:
    """Reads ahead of the tasks, as few columns as it can, to find where batches end."""

    def __init__(self, shipment: Shipment) -> None:
        self._shipment = shipment
        self._clocks = {
            name: _Times(node, shipment.compiled)
            for name, (_, node) in shipment.sources.items()
            if node.clock is not None
        }
        self._readers: dict[tuple[str, str], tuple[Any, Reader]] = {}  # and where they stand

    def next_offset(self, start: Offset) -> Offset:
        """The end of the next micro-batch; `start` itself if there is nothing to read."""
        shipment = self._shipment
        if os.path.exists(shipment.stop_file):
            return start
        sources = {name: dict(found) for name, found in start["sources"].items()}
        for name, channels in shipment.channels.items():  # those that are new
            for channel in channels:
                fresh = first_offset(shipment)["sources"][name][channel]
                sources.setdefault(name, {}).setdefault(channel, fresh)
        active = [
            (name, channel)
            for name, found in sources.items()
            for channel, place in found.items()
            if not place["ended"]
        ]
        moved = False
        for name, channel in active:
            before = sources[name][channel]
            wait = 0.0 if moved else WAIT_SECONDS / len(active)
            after = self._advance(name, channel, before, len(active), wait)
            if after is not None:
                sources[name][channel], moved = after, True
        # places that stand still have no splits in this batch
        if not moved:
            return start
        for name, channel in active:
            if sources[name][channel] is start["sources"].get(name, {}).get(channel):
                sources[name][channel] = {**sources[name][channel], "splits": []}
        return {"batch": start["batch"] + 1, "sources": sources}

    def _advance(
        self, name: str, channel: str, before: Place, active: int, wait: float
    ) -> Place | None:
        """The place of a channel behind its share of a batch; None if it stays where it is."""
        shipment = self._shipment
        budget = max(1, shipment.batch_rows // active)
        tasks = max(1, shipment.tasks // active)
        split_rows = -(-budget // tasks)
        clock = self._clocks.get(name)
        if clock is not None:
            clock.set(channel, before["largest"])
        reader = self._reader(name, channel, before["position"])
        position, ended = before["position"], False
        splits: list[Place] = []
        rows = in_split = 0
        while rows < budget and not ended:
            if in_split >= split_rows:
                splits.append(
                    {"position": position, "largest": self._largest(clock, channel, position)}
                )
                in_split = 0
            most = min(POLL_ROWS, budget - rows, split_rows - in_split)
            batch = reader.poll(most, 0.0 if rows else wait)
            if batch.rows is None and not batch.ended and batch.position == position:
                break  # nothing there for now
            position, ended = batch.position, batch.ended
            if batch.rows is not None:
                rows += batch.rows.num_rows
                in_split += batch.rows.num_rows
                if clock is not None:
                    clock.see(channel, batch.rows)
        self._readers[name, channel] = (position, reader)
        if ended:
            reader.close()
            del self._readers[name, channel]
        if position == before["position"] and not ended:
            return None
        if splits and splits[-1]["position"] == position:
            splits.pop()  # nothing lies behind it
        largest = self._largest(clock, channel, position)
        return {"position": position, "largest": largest, "ended": ended, "splits": splits}

    def _largest(self, clock: _Times | None, channel: str, position: Any) -> int | None:
        return None if clock is None else clock.largest(channel, position)

    def _reader(self, name: str, channel: str, position: Any) -> Reader:
        """The reader that stands there, or a new one."""
        known = self._readers.get((name, channel))
        if known is not None and known[0] == position:
            return known[1]
        if known is not None:
            known[1].close()
        _, node = self._shipment.sources[name]
        clock = self._clocks.get(name)
        columns: Sequence[str] = clock.columns if clock is not None else ()
        return node.connector.open(channel, position, None, list(columns), None)

    def committed(self, end: Offset) -> None:
        """Everything before an offset is safe."""
        for name, found in end["sources"].items():
            _, node = self._shipment.sources[name]
            for channel, place in found.items():
                node.connector.committed(channel, place["position"])

    def close(self) -> None:
        """Close what is open."""
        for _, reader in self._readers.values():
            reader.close()
        self._readers.clear()


class _Times:
    """The largest time of the channels of a source."""

    def __init__(self, node: Source, compiled: bool) -> None:
        assert node.clock is not None
        time = node.clock.time
        self._connector, self._column = node.connector, ""
        self.columns: tuple[str, ...] = ()  # that must be read
        if isinstance(time, Column) and isinstance(node.connector, Statistics):
            self._column = time.name
            return
        needed = columns_of(time)
        schema = Schema(tuple(f for f in node.schema if f.name in needed))
        self.columns, self._layout = schema.names, Layout.of(schema)
        self._clock = SourceClock(replace(node, schema=schema), CAPACITY, compiled)
        self._block = Block.allocate(self._layout, CAPACITY)

    def set(self, channel: str, largest: int | None) -> None:
        """The largest time before what is seen next."""
        if not self._column:
            self._clock.restored({channel: NEVER if largest is None else largest})

    def see(self, channel: str, rows: Any) -> None:
        """Rows that follow."""
        if self._column:
            return
        feed = Feed(self._layout, rows)
        for start in range(0, feed.rows, CAPACITY):
            feed.fill(self._block, start, min(CAPACITY, feed.rows - start))
            self._clock.observe(self._block, channel)

    def largest(self, channel: str, position: Any) -> int | None:
        """The largest time before a position, which is where the rows seen so far end."""
        if self._column:
            if position is None:
                return None
            found = self._connector.maximum(self._column, channel, position)
            return None if found is None else int(found)
        found = self._clock.saved()[channel]
        return None if found == NEVER else found
