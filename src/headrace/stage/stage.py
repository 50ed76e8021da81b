"""A stage: a piece of a plan, compiled, that runs on the thread that calls it.

Push blocks or Arrow batches into its inputs, say how watermarks advance, and pull blocks from its
outputs. Engines, tests and the manual threading model all stand on exactly this:

    stage = Stage(plan.whole)
    stage.push("clicks", batch, channel="0")
    stage.end("clicks", channel="0")
    for output, block in stage.pull():
        ...

Nothing runs in `push`; `pull` does the work, and only as much as is needed for the next block, so
a row that gives a million rows needs no room for a million rows. Inside, work is depth first: a
block goes all the way down before its unit goes on, so few blocks exist at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from headrace.plan.errors import StateError
from headrace.plan.planner import StagePlan

from .blocks.arrow import Feed
from .blocks.block import Block
from .capacity import DEFAULT_CAPACITY
from .clock import FOREVER
from .drive import Driver
from .input import Input
from .snapshot import KernelState, Snapshot, new_token
from .task import CONSUMED, MAIN, SIDE
from .units import BatchesUnit, KernelUnit, OutputUnit, Unit
from .wiring import Wiring

DRIVE_BLOCKS = 16  # of a batch, from which on they are driven in one call: it must be compiled


class Stage:
    """Runs one StagePlan on the calling thread.

    capacity: rows in a block. compiled=False runs the same code interpreted, for tests and
    debuggers.
    """

    def __init__(
        self, plan: StagePlan, *, capacity: int = DEFAULT_CAPACITY, compiled: bool = True
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity={capacity}: a block holds at least one row")
        self.plan, self.capacity, self.is_compiled = plan, capacity, compiled
        wiring = Wiring(plan, capacity, compiled)
        self.inputs, self.outputs, self._units = wiring.inputs, wiring.outputs, wiring.units
        self._windows, self._drivers = wiring.windows(), wiring.drivers()
        self._pushed: deque[tuple[Any, ...]] = deque()
        self._stack: list[_Rows | _Mark | _Advance] = []
        self._readers_left: dict[int, int] = {}  # of each block in flight
        self._ready: deque[OutputUnit] = deque()
        self._token: str | None = None  # of the last snapshot
        self._delta_records = 0  # in deltas since the last base

    # ---- the outside -------------------------------------------------------------------------

    def push(self, port: str, rows: pa.RecordBatch | Block, channel: str = "") -> None:
        """Offer rows of a channel to an input; they are worked on by `pull`."""
        source = self._input(port)
        if isinstance(rows, Block) and rows.rows > self.capacity:
            raise ValueError(f"{rows.rows} rows in a block, and capacity={self.capacity}")
        source.channel(channel)
        self._pushed.append(("rows", source, channel, rows))

    def advance(self, port: str, watermark: int, channel: str = "") -> None:
        """The watermark of a channel of a received exchange, behind the rows pushed so far."""
        source = self._input(port)
        source.channel(channel)
        self._pushed.append(("mark", source, channel, watermark))

    def declare(self, port: str, *channels: str) -> None:
        """Channels that will bring rows: windows wait for all of them."""
        for channel in channels:
            self._input(port).channel(channel)

    def end(self, port: str, channel: str = "") -> None:
        """A channel brings no more rows, behind those pushed so far."""
        source = self._input(port)
        source.channel(channel)
        self._pushed.append(("end", source, channel, None))

    def flush(self) -> None:
        """Let partial aggregates give out what they have, behind the rows pushed so far."""
        self._pushed.append(("flush", None, "", None))

    def _input(self, port: str) -> Input:
        if port not in self.inputs:
            raise KeyError(f"no input {port!r}; there are: {', '.join(self.inputs)}")
        return self.inputs[port]

    def pull(self) -> Iterator[tuple[str, Block]]:
        """Run what is pending; gives (output, block) as soon as there is one."""
        while True:
            while self._ready:
                unit = self._ready.popleft()
                yield unit.name, unit.waiting.pop(0)
            if self._stack:
                self._step()
            elif self._pushed:
                self._take_pushed()
            elif not (self._send_marks() or self._flush_partial_blocks()):
                return

    @property
    def is_idle(self) -> bool:
        """Is there nothing left to do?"""
        return not (self._stack or self._pushed or self._ready)

    # ---- saved state -------------------------------------------------------------------------

    def snapshot(self, since: str | None = None) -> Snapshot:
        """All state, or only what changed since the snapshot with this token.

        A delta is given only for the snapshot before this one, and only as long as the deltas are
        small against the base (half of it): otherwise it is a new base, with `since` None.
        """
        if not self.is_idle:
            raise StateError("a stage with rows in work cannot be saved: pull everything first")
        states = self._kernel_states()
        records = sum(state.records() for state in states)
        changes = since is not None and since == self._token
        changes = changes and 2 * self._delta_records <= max(records, 1)
        saved = {state.identity: state.save(changes) for state in states}
        made = Snapshot(
            new_token(),
            since if changes else None,
            saved,
            {name: source.saved() for name, source in self.inputs.items()},
            {unit.name: [unit.watermark, unit.watermarks] for unit in self._units},
        )
        self._token = made.token
        self._delta_records = self._delta_records + made.records if changes else 0
        return made

    def restore(self, *snapshots: Snapshot, groups: range | None = None) -> None:
        """Start from a base and the deltas after it, in order.

        Without a base, the deltas follow the last snapshot of this very stage, in which nothing has
        changed since: it catches up with another one that has gone on from there.

        groups: only the records of these key groups; several owners' snapshots can be restored one
        after the other. The operators are found by their lasting names; one that was not saved
        starts empty.
        """
        follows = snapshots[0].since is not None and snapshots[0].since == self._token
        known = self._token if follows else None
        for after in snapshots:
            if after.since != known:
                raise StateError(
                    "these snapshots do not follow each other: give a base, then its deltas"
                )
            known = after.token
        states = {state.identity: state for state in self._kernel_states()}
        last = snapshots[-1]
        unknown = [identity for identity in last.operators if identity not in states]
        if unknown:
            raise StateError(
                f"the saved state has an operator {unknown[0]!r}, which the pipeline lacks\n"
                f"  fix: it has {', '.join(states) or 'no stateful operators'}; keep the name= of "
                "stateful operators when you change a pipeline"
            )
        for identity, state in states.items():
            saved = [s.operators[identity] for s in snapshots if identity in s.operators]
            state.load(saved, groups)
        for name, source in self.inputs.items():
            if name in last.inputs:
                source.restored(last.inputs[name])
        for unit in self._units:
            if unit.name in last.watermarks:
                unit.watermark, unit.watermarks = last.watermarks[unit.name]
        for source in self.inputs.values():
            source.sent = source.watermark
        before = self._delta_records if follows else -snapshots[0].records
        self._token, self._delta_records = last.token, before + sum(s.records for s in snapshots)

    def _kernel_states(self) -> list[KernelState]:
        kernels = [unit.kernel for unit in self._units if isinstance(unit, KernelUnit)]
        return [KernelState(k) for k in kernels if k.store is not None or k.windows is not None]

    @property
    def units(self) -> Sequence[Unit]:
        """Its units, inputs first."""
        return self._units

    def senders(self) -> dict[str, dict[int, list[str]]]:
        """For every unit the names of those whose rows it reads, by their output."""
        found: dict[str, dict[int, list[str]]] = {
            unit.name: {MAIN: [], SIDE: []} for unit in self._units
        }
        for unit in self._units:
            for output, readers in unit.readers.items():
                for reader, _ in readers:
                    found[reader.name][output].append(unit.name)
        return found

    def metrics(self) -> dict[str, dict[str, Any]]:
        """For every unit: rows in and out, late rows, blocks, seconds, size of its state."""
        return {unit.name: unit.metrics() for unit in self._units}

    def close(self) -> None:
        """Let go of what the stage holds."""
        for unit in self._units:
            if isinstance(unit, KernelUnit):
                unit.kernel.close()

    # ---- work --------------------------------------------------------------------------------

    def _take_pushed(self) -> None:
        kind, source, channel, given = self._pushed.popleft()
        if kind == "rows":
            self._take_rows(source, channel, given)
        elif kind == "flush":
            if self._flush_partial_blocks():  # rows on their way come first
                self._pushed.appendleft(("flush", None, "", None))
                return
            for unit in reversed(self._units):
                if unit.begin_flush():
                    self._stack.append(_Advance(unit, None))
        else:
            state = source.channel(channel)
            if kind == "end":
                state.ended = True
            else:
                state.watermark = max(state.watermark, given)
            self._mark_source(source)

    def _take_rows(self, source: Input, channel: str, rows: Any) -> None:
        """One block of a batch at a time, or many at once; the rest goes back to the front."""
        if isinstance(rows, Block):
            self._enter(source, channel, rows, ours=False)
            return
        feed, start = rows if isinstance(rows, tuple) else (Feed(source.fed, rows), 0)
        driver = self._drivers.get(source.name)
        many = feed.rows - start > DRIVE_BLOCKS * self.capacity
        if driver is not None and feed.only_lends and many:
            done = self._drive(driver, source, channel, feed, start)
        else:
            done = start + min(self.capacity, feed.rows - start)
            if done > start:
                block = source.new_block()
                feed.fill(block, start, done - start)
                self._enter(source, channel, block)
        if done < feed.rows:
            self._pushed.appendleft(("rows", source, channel, (feed, done)))

    def _drive(self, driver: Driver, source: Input, channel: str, feed: Feed, start: int) -> int:
        """Many blocks in one call; gives the row it came to."""
        unit = source.readers[MAIN][0][0]
        assert isinstance(unit, KernelUnit)
        block = source.new_block()
        windows = unit.kernel.windows
        next_end = FOREVER if windows is None else windows.next_end
        answer = unit.timed(lambda: driver.run(feed, start, block, channel, next_end))
        if unit.sample_wanted:
            unit.keep_sample(block)
        rows, blocks = driver.offset - start, -(-(driver.offset - start) // self.capacity)
        for counters in (source.counters, unit.counters):
            counters.rows_in += rows
            counters.blocks += blocks
        if source.clock is not None:
            source.channel(channel).watermark = driver.watermark
            self._mark_source(source)
        if answer == CONSUMED:
            source.recycle(block)
        else:  # the unit goes on with the block, or raises the error of its row
            block.hold([feed])  # which lends its values
            self._deliver(source, MAIN, block)
            begun = self._stack[-1]
            assert isinstance(begun, _Rows)
            begun.started = True
            self._take_outputs(unit)
        return driver.offset

    def _enter(self, source: Input, channel: str, block: Block, ours: bool = True) -> None:
        """A block of rows; one that was pushed is not ours to fill again."""
        source.counters.rows_in += block.rows
        source.counters.blocks += 1
        if source.clock is not None:
            source.channel(channel).watermark = source.clock.observe(block, channel)
            self._mark_source(source)
        self._deliver(source, MAIN, block, ours)

    def _mark_source(self, source: Input) -> None:
        """The watermark of a source's channels has moved: tell others if a window is due.

        Otherwise it waits for the next window, or until there is nothing else to do.
        """
        least = source.least_watermark()
        if least > source.watermark:
            source.watermark = least
            if any(windows.next_end <= least for windows in self._windows):
                self._send_marks()

    def _send_marks(self) -> bool:
        """Pass on the watermarks of sources that have moved."""
        moved = [source for source in self.inputs.values() if source.watermark > source.sent]
        for source in moved:
            source.sent = source.watermark
            self._send_mark(source, source.watermark)
        return bool(moved)

    def _send_mark(self, unit: Unit, watermark: int) -> None:
        for readers in reversed(unit.readers.values()):
            for reader, edge in reversed(readers):
                self._stack.append(_Mark(reader, edge, watermark))

    def _deliver(self, unit: Unit, output: int, block: Block, recycle: bool = True) -> None:
        readers = unit.readers[output]
        maker = unit if output == MAIN and recycle else None
        self._readers_left[id(block)] = len(readers)
        for reader, _ in reversed(readers):
            self._stack.append(_Rows(reader, block, maker))

    def _step(self) -> None:
        work = self._stack[-1]
        if isinstance(work, _Rows):
            self._step_rows(work)
        elif isinstance(work, _Mark):
            self._stack.pop()
            self._step_mark(work)
        else:
            self._step_advance(work)

    def _step_rows(self, work: _Rows) -> None:
        unit = work.unit
        if not work.started:
            unit.start(work.block)
            work.started = True
        done = unit.run()
        if done:
            self._stack.pop()
            if isinstance(unit, OutputUnit):
                self._ready.append(unit)
            else:
                self._release(work)
        if not done or isinstance(unit, BatchesUnit):
            self._take_outputs(unit)

    def _release(self, work: _Rows) -> None:
        """One reader less; the last one gives the block back to its maker."""
        left = self._readers_left[id(work.block)] - 1
        self._readers_left[id(work.block)] = left
        if left == 0:
            del self._readers_left[id(work.block)]
            if work.maker is not None:
                work.maker.recycle(work.block)

    def _take_outputs(self, unit: Unit) -> None:
        for output, block in reversed(list(unit.outputs())):
            self._deliver(unit, output, block)

    def _step_mark(self, work: _Mark) -> None:
        unit = work.unit
        unit.watermarks[work.edge] = max(unit.watermarks[work.edge], work.watermark)
        least = min(unit.watermarks)
        if least <= unit.watermark:
            return
        unit.watermark = least
        self._stack.append(_Advance(unit, least))

    def _step_advance(self, work: _Advance) -> None:
        """Rows first, then the results of windows, then the mark itself."""
        unit = work.unit
        if work.flushing and unit.has_output:
            self._take_outputs(unit)
            return
        work.flushing = False
        if not work.started:
            work.started = True
            work.firing = work.watermark is None or unit.begin_advance(work.watermark)
        if work.firing:
            work.firing = not unit.run_advance()
            self._take_outputs(unit)
            return
        self._stack.pop()
        if work.watermark is not None:
            self._send_mark(unit, work.watermark)

    def _flush_partial_blocks(self) -> bool:
        """Nothing else to do: blocks that are not full go on as well."""
        for unit in self._units:
            if unit.has_output:
                self._take_outputs(unit)
                return True
        return False


class _Rows:
    """A block for a unit."""

    __slots__ = ("block", "maker", "started", "unit")

    def __init__(self, unit: Unit, block: Block, maker: Unit | None) -> None:
        self.unit, self.block, self.maker, self.started = unit, block, maker, False


class _Mark:
    """A watermark for an input edge of a unit."""

    __slots__ = ("edge", "unit", "watermark")

    def __init__(self, unit: Unit, edge: int, watermark: int) -> None:
        self.unit, self.edge, self.watermark = unit, edge, watermark


class _Advance:
    """A watermark that a unit passes on; with None, a flush of partial results."""

    __slots__ = ("firing", "flushing", "started", "unit", "watermark")

    def __init__(self, unit: Unit, watermark: int | None) -> None:
        self.unit, self.watermark = unit, watermark
        self.flushing, self.started, self.firing = True, False, False
