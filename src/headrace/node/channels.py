"""The channels of a source stage: rows that the host has read and replicas claim."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.plan.connector import Batch, Rounds
from headrace.plan.expressions import Column, columns_of
from headrace.plan.hints import open_source, read_on
from headrace.plan.nodes import Source
from headrace.stage.blocks.arrow import Feed
from headrace.stage.blocks.block import Block
from headrace.stage.blocks.layout import Layout
from headrace.stage.clock import NEVER, SourceClock, time_chain
from headrace.stage.enough import Enough
from headrace.stage.failure import explain_failure
from headrace.stage.kernel import Kernel
from headrace.stage.memory.calls import address_of
from headrace.stage.task import MAIN

from .blocks import FeedUsers
from .mode import Mode
from .pace import new_pace
from .splits import LATER, ChannelFeed, MarkerClock, Offer, SplitsRecord, Timer

POLL_ROWS = 1 << 20
FEW_ROWS = 1 << 14  # where a limit may end the job
POLL_BYTES = 64 << 20  # of a batch, as far as the one before it tells
NAP = 1_000_000  # ns before a channel that had nothing is asked again,
LONGEST_NAP = 50_000_000  # each time twice as long, up to this


class ComputedTimes:
    """The event times of a channel that are no plain column: computed when rows are claimed."""

    def __init__(self, source: Source, capacity: int, mode: Mode) -> None:
        assert source.clock is not None
        names = [name for name in source.schema.names if name in columns_of(source.clock.time)]
        chain = time_chain(replace(source, schema=source.schema.select(names)))
        self.layout = Layout.of(chain.input)
        self.kernel = Kernel(chain, capacity, mode.compiles)
        self._input = Block.allocate(self.layout, capacity, borrows=True)
        self.record = record = Timer.allocate()
        record.rows = address_of(self.kernel.compiled_rows)
        record.task = self.kernel.task.address
        record.input, record.output = self._input.address, self.kernel.outputs[MAIN].address
        record.fill, record.moved = mode.fill(only_lends=False), -1
        record.nullable = chain.last.schema["time"].nullable

    def explain(self) -> None:
        """Raise the error of a row as the user should see it."""
        kernel = self.kernel
        kernel.block = self._input
        try:
            kernel.compiled_rows(kernel.task.address)
        except Exception as error:
            explain_failure(kernel, error)
        raise AssertionError("a row that failed did not fail again")


class _Held:
    """A batch that was offered, and who needs it."""

    def __init__(
        self, feed: Feed, times: Feed | None, mode: Mode, ended: bool, reached: int | None
    ) -> None:
        self.feed, self.times = feed, times
        self.users: Any = FeedUsers.allocate()
        self.offer: Any = Offer.allocate()
        offer = self.offer
        offer.feed, offer.rows, offer.users = feed.address, feed.rows, self.users.address
        offer.fill, offer.ended = mode.fill(feed.only_lends), ended
        offer.times = 0 if times is None else times.address
        offer.reached = NEVER if reached is None else reached


class Channel:
    """One channel: its reader, and the batches that are being read."""

    def __init__(
        self,
        source: Source,
        number: int,
        name: str,
        record: Any,
        capacity: int,
        mode: Mode,
        enough: Enough,
    ) -> None:
        self.source, self.name, self.record, self._mode = source, name, record, mode
        self._enough = enough
        connector = source.connector
        rate = getattr(connector, "rate", None)
        self._pace: Any = None
        if rate is not None:  # compiled code keeps it, to the microsecond
            self._pace, connector = new_pace(rate, 0), connector.unpaced()
            record.pace = self._pace.address
        names = list(source.given.names)
        self.reader = open_source(source, name, connector=connector)
        rounds = None if enough else getattr(connector, "rounds", None)
        self._layout = Layout.of(source.given)
        self._held: deque[_Held] = deque()
        self._most = FEW_ROWS if enough else POLL_ROWS
        self._nap, self._rows = NAP, self._most
        self._clock: SourceClock | None = None
        self.times: ComputedTimes | None = None
        record.source, record.reader, record.time, record.largest = number, -1, -1, NEVER
        record.silent_at = LATER
        if source.clock is not None:
            self._clock = SourceClock(source, capacity, mode.compiles)
            record.clock = self._clock.address
            time_column = source.clock.time
            named = time_column.name if isinstance(time_column, Column) else None
            if named is not None and not source.schema[named].nullable:
                record.time = names.index(named)
            else:
                self.times = ComputedTimes(source, capacity, mode)
                record.timer = self.times.record.address
        self.is_polled = rounds is None
        if rounds is not None:
            self._read_rounds(rounds(name), names)

    def start(self) -> None:
        """Its rows are due from now on."""
        moment = time.monotonic_ns()
        if self._pace is not None:
            self._pace.start = moment
        if self.record.idle:
            self.record.silent_at = moment + self.record.idle

    def poll(self) -> int:
        """Read the next batch and offer it: 0; or ns after which there may be one."""
        enough = self._enough.reached()
        batch = Batch(None, None, True) if enough else self.reader.poll(self._rows, 0.0)
        self._forget()
        rows = batch.rows
        if rows is not None and rows.num_rows:
            self._rows = max(1, min(self._most, POLL_BYTES * rows.num_rows // max(rows.nbytes, 1)))
        elif batch.ended or batch.reached is not None:
            self.record.ending = int(batch.ended)
            rows = pa.RecordBatch.from_pylist([], self._layout.arrow_schema)
        else:
            nap, self._nap = self._nap, min(2 * self._nap, LONGEST_NAP)
            return nap
        self._nap = NAP
        held = self._hold(rows, batch.ended, batch.reached)
        self._mode.make_offer(self.record, held.offer.address)
        return 0

    def _hold(self, rows: pa.RecordBatch, ended: bool, reached: int | None = None) -> _Held:
        feed = Feed(self._layout, rows)
        times = None if self.times is None else Feed(self.times.layout, rows)
        held = _Held(feed, times, self._mode, ended, reached)
        self._held.append(held)
        return held

    def _read_rounds(self, rounds: Rounds, names: list[str]) -> None:
        """The same rows again and again: no polling is needed."""
        record, offer = self.record, self._hold(rounds.rows, False).offer
        record.feed, record.end, record.users = offer.feed, offer.rows, offer.users
        record.fill, record.times = offer.fill, offer.times
        record.rounds, record.span = 1, rounds.span
        record.count = -1 if rounds.count is None else rounds.count
        if rounds.time not in names:
            record.span = 0
            return
        record.moved = names.index(rounds.time)
        if self.times is not None and rounds.time in self.times.layout.schema:
            self.times.record.moved = self.times.layout.schema.index(rounds.time)

    def _forget(self) -> None:
        """Let go of the batches that nobody needs any more. The one that is offered, and the one
        that is being claimed, are needed; the offer is looked at first, since it becomes that."""
        needed = {self.record.offer, 0}
        current = self.record.feed
        self._held = deque(
            held
            for held in self._held
            if held.users.count > 0 or held.offer.address in needed or held.feed.address == current
        )

    def explain(self) -> None:
        """Raise the error of a block whose rows could not be taken, as the user should see it."""
        assert self._clock is not None
        with self._clock.explaining():
            raise OverflowError


class Channels:
    """All channels of the sources of one stage, shared by its replicas."""

    def __init__(
        self,
        sources: Sequence[Source],
        replicas: int,
        split_rows: int,
        capacity: int,
        mode: Mode,
        enough: Enough,
    ) -> None:
        """enough: ends the sources when nobody wants more of their rows."""
        named = [(k, s, name) for k, s in enumerate(sources) for name in s.connector.channels()]
        self.records = ChannelFeed.allocate(max(len(named), 1))
        self.shared = SplitsRecord.allocate()
        self._markers = MarkerClock.allocate(max(len(sources), 1))
        self.all: list[Channel] = []
        for at, (number, source, name) in enumerate(named):
            record = self.records[at]
            channel = Channel(source, number, name, record, capacity, mode, enough)
            read_on(channel.reader, replicas // len(named))  # as many as there are workers, in all
            self.all.append(channel)
            self.records[at].markers = self._markers[number].address
        self.shared.channels, self.shared.count = self.records.address, len(named)
        self.shared.rows, self.shared.replicas = split_rows, replicas

    @property
    def compute_times(self) -> bool:
        """Has a channel times that are computed?"""
        return any(channel.times is not None for channel in self.all)

    def idle_beside(self, peers: np.ndarray, count: int, idle: int) -> None:
        """Carry along what is silent for `idle` ns; `peers`: the addresses of all channels whose
        rows meet somewhere."""
        self._peers = peers
        self.shared.peers, self.shared.peer_count = peers.ctypes.data, count
        for channel in self.all:
            if channel.source.clock is not None:
                channel.record.idle = idle

    def close(self) -> None:
        """Read no more."""
        for channel in self.all:
            channel.reader.close()
