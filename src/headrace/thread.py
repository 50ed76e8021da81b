"""A pipeline on the calling thread: one stage, fed from the readers, emptied into the sinks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .connect.delivery import Delivery
from .plan.connector import Reader
from .plan.hints import open_source
from .plan.nodes import Sink, Source
from .plan.planner import Plan
from .stage.blocks.arrow import as_arrow
from .stage.enough import Enough
from .stage.stage import Stage
from .stage.task import MAIN, SIDE
from .stage.units import KernelUnit, sampling_of

if TYPE_CHECKING:
    from .control.simulator.measured import Measured

POLL_ROWS = 1 << 18
POLL_SECONDS = 0.05
FIRST_ROWS = 64  # that are worked on at a time, until it is known how long they take:
STEP_SECONDS = 0.1  # about so long, since nobody can end a run in the middle of it


class ThreadRun:
    """One run of a plan on the thread that calls."""

    def __init__(self, plan: Plan, capacity: int, compiled: bool) -> None:
        self._stage = Stage(plan.whole, capacity=capacity, compiled=compiled)
        self._enough = Enough(plan.optimized)
        self._enough.watch(u.kernel for u in self._stage.units if isinstance(u, KernelUnit))
        self.sources = [n for n in plan.whole.inputs if isinstance(n, Source)]
        self.sinks = {n.name: n for n in plan.whole.roots if isinstance(n, Sink)}
        self._delivery = Delivery(self.sinks)
        self._channels: list[tuple[Source, str, Reader]] = []
        self._rows = FIRST_ROWS
        self._sampling = sampling_of(self._stage.units)
        self.sample = self._sampling.start

    def run(self, turn: Callable[[], bool]) -> bool:
        """Run until the sources end or `turn`, called again and again, says stop.

        Gives whether the sources ended.
        """
        try:
            self._open()
            while self._channels and not turn():
                for channel in list(self._channels):
                    self._read(channel, turn)
                if self._enough.reached():
                    for channel in list(self._channels):
                        self._end(channel)
                self._delivery.commit_if_due()
            self._drain()
            self._delivery.commit()
            ended = not self._channels
        except BaseException:
            self._sampling.stop()
            self._delivery.abort()
            raise
        else:
            self._sampling.close()
            return ended
        finally:
            self._close()

    def latency(self) -> dict[str, Any]:
        """It is not measured here."""
        return {}

    def metrics(self) -> dict[str, dict[str, Any]]:
        """What each operator has done."""
        return self._sampling.add_to(self._stage.metrics())

    def measured(self, seconds: float) -> Iterator[Measured]:
        """What the simulator has to know of each operator."""
        from .control.simulator.measured import Measured  # few ask for it

        found = self._stage.metrics()
        senders = self._stage.senders()
        worked = sum(counted["seconds"] for counted in found.values())
        for unit in self._stage.units:
            counted, read = found[unit.name], senders[unit.name]
            yield Measured(
                unit.name,
                tuple(read[MAIN]),
                counted["rows_in"],
                counted["rows_in"] if unit.name in self._stage.inputs else counted["rows_out"],
                counted["seconds"],
                state_bytes=counted.get("state_bytes", 0),
                late=counted["late_rows"],
                late_inputs=tuple(read[SIDE]),
                lasted=seconds,
                waited=seconds - worked,
            )

    def _open(self) -> None:
        self._delivery.open()
        for node in self.sources:
            channels = list(node.connector.channels())
            self._stage.declare(node.name, *channels)
            for channel in channels:
                reader = open_source(node, channel)
                self._channels.append((node, channel, reader))

    def _read(self, entry: tuple[Source, str, Reader], turn: Callable[[], bool]) -> None:
        node, channel, reader = entry
        batch = reader.poll(POLL_ROWS, POLL_SECONDS / len(self._channels))
        if batch.rows is not None and batch.rows.num_rows:
            self._work_on(node.name, batch.rows, channel, turn)
        elif batch.reached is not None and node.clock is not None:
            self._stage.advance(node.name, batch.reached - node.clock.bound, channel)
        if batch.ended:
            self._end(entry)
        self._drain()

    def _end(self, entry: tuple[Source, str, Reader]) -> None:
        """The rows of a channel are over."""
        node, channel, reader = entry
        self._stage.end(node.name, channel)
        self._channels.remove(entry)
        reader.close()

    def _work_on(
        self, name: str, rows: pa.RecordBatch, channel: str, turn: Callable[[], bool]
    ) -> None:
        """Push rows, a few at a time if they take long: what `turn` raises ends the run soon."""
        start = 0
        while start < rows.num_rows:
            some = rows.slice(start, self._rows)
            begun = time.monotonic()
            self._stage.push(name, some, channel)
            self._drain()
            took = time.monotonic() - begun
            if took > 2 * STEP_SECONDS:
                self._rows = max(1, int(some.num_rows * STEP_SECONDS / took))
            elif took < STEP_SECONDS / 2:
                self._rows = min(2 * self._rows, POLL_ROWS)
            start += some.num_rows
            if self._enough.reached():
                return
            if start < rows.num_rows:
                turn()

    def _drain(self) -> None:
        for name, block in self._stage.pull():
            self._delivery.write(name, as_arrow(block))

    def _close(self) -> None:
        for _, _, reader in self._channels:
            reader.close()
        for node in self.sources:
            node.connector.close()
        self._delivery.close()
        self._stage.close()
