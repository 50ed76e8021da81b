"""The channels of a source stage: rows that the host has read and slots claim."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from headrace.plan.connector import Reader, Rounds
from headrace.plan.expressions import Column
from headrace.plan.nodes import WATERMARK, Source
from headrace.plan.schema import Schema
from headrace.stage.blocks.arrow import Feed
from headrace.stage.blocks.layout import Layout
from headrace.stage.clock import NEVER, SourceClock

from .life import Life
from .pace import new_pace
from .reading import ChannelFeed, FeedUsers, MarkerClock, SplitsRecord

POLL_ROWS = 1 << 20
NAP = 1_000_000  # ns before a channel that had nothing is asked again,
LONGEST_NAP = 50_000_000  # each time twice as long, up to this


class Channel:
    """One channel: its reader, and the batches that are being read."""

    def __init__(
        self, source: Source, number: int, name: str, record: Any, capacity: int, life: Life
    ) -> None:
        self.source, self.record, self._life = source, record, life
        connector = source.connector
        rate = getattr(connector, "rate", None)
        self._pace: Any = None
        if rate is not None:  # compiled code keeps it, to the microsecond
            self._pace, connector = new_pace(rate, 0), connector.unpaced()
            record.pace = self._pace.address
        names = [n for n in source.schema.names if n != WATERMARK]
        self.reader: Reader = connector.open(name, None, None, names, source.predicate)
        rounds = getattr(connector, "rounds", None)
        self._layout = Layout.of(Schema(tuple(f for f in source.schema if f.name != WATERMARK)))
        self._feeds: deque[tuple[Feed, Any]] = deque()
        self._nap = NAP
        self._clock: SourceClock | None = None
        record.source, record.time, record.largest = number, -1, NEVER
        if source.clock is not None:
            self._clock = SourceClock(source, capacity, life.compiles)
            record.clock = self._clock.address
            assert isinstance(source.clock.time, Column)
            record.time = names.index(source.clock.time.name)
        if rounds is not None:
            self._read_rounds(rounds(name), names)

    def start(self) -> None:
        """Its rows are due from now on."""
        if self._pace is not None:
            self._pace.start = time.monotonic_ns()

    def poll(self) -> bool:
        """Read the next batch; the caller has the channel's lock. Is there something to claim?"""
        batch = self.reader.poll(POLL_ROWS, 0.0)
        self._forget()
        record = self.record
        record.ended = batch.ended
        if batch.rows is not None and batch.rows.num_rows:
            self._offer(Feed(self._layout, batch.rows))
        elif not batch.ended:
            record.wake_at = time.monotonic_ns() + self._nap
            self._nap = min(2 * self._nap, LONGEST_NAP)
            return False
        self._nap = NAP
        return True

    def _offer(self, feed: Feed) -> None:
        record, users = self.record, FeedUsers.allocate()
        self._feeds.append((feed, users))
        record.fill = self._life.fill(feed.only_copies)
        record.feed, record.users = feed.address, users.address
        record.offset, record.end = 0, feed.rows

    def _read_rounds(self, rounds: Rounds, names: list[str]) -> None:
        """The same rows again and again: no polling is needed."""
        record = self.record
        self._offer(Feed(self._layout, rounds.rows))
        record.rounds, record.span = 1, rounds.span
        record.count = -1 if rounds.count is None else rounds.count
        if rounds.time in names:
            record.moved = names.index(rounds.time)
        else:
            record.span = 0

    def _forget(self) -> None:
        """Let go of the batches that nobody reads any more."""
        self._feeds = deque(pair for pair in self._feeds if pair[1].count > 0)

    def explain(self) -> None:
        """Raise the error of a block whose rows could not be taken, as the user should see it."""
        assert self._clock is not None
        with self._clock.explaining():
            raise OverflowError


class Channels:
    """All channels of the sources of one stage, shared by its slots."""

    def __init__(
        self, sources: Sequence[Source], slots: int, split_rows: int, capacity: int, life: Life
    ) -> None:
        self._life = life
        named = [(k, s, name) for k, s in enumerate(sources) for name in s.connector.channels()]
        self.records = ChannelFeed.allocate(max(len(named), 1))
        self.shared = SplitsRecord.allocate()
        self._markers = MarkerClock.allocate(max(len(sources), 1))
        self.all: list[Channel] = []
        for at, (number, source, name) in enumerate(named):
            self.all.append(Channel(source, number, name, self.records[at], capacity, life))
            self.records[at].markers = self._markers[number].address
        self.shared.channels, self.shared.count = self.records.address, len(named)
        self.shared.rows, self.shared.slots = split_rows, slots

    def poll(self, number: int) -> bool:
        """Read the next batch of a channel, and let go of its lock."""
        channel = self.all[number]
        try:
            return channel.poll()
        finally:
            self._life.unlock(channel.record)

    def close(self) -> None:
        """Read no more."""
        for channel in self.all:
            channel.reader.close()
