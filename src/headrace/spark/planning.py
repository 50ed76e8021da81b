"""Which rows a micro-batch reads: offsets, planned before anything is read.

An offset has a *place* for each channel of each source: the position behind what was read, whether
the channel has ended, and where its part of the last batch began: the position, and the *largest
time* before it. A task sets its clock to that, so the watermarks of its rows are those of one long
run: they follow from the rows of the channel, not from batches, splits or attempts. Spark keeps
offsets before it runs a batch, so a batch that is run again after a crash reads the same rows
under the same clock, whatever a source would now call its beginning.

The largest time comes from what the connector knows (`maximum`: statistics of files). Then a batch
of a channel is cut into splits, one for each task that may run at the same time. Where the
connector does not know, or the time is computed, a batch of a channel is one task; it reports the
largest time it has seen, which the driver writes down (`write_times`) before the batch is
committed, and the planner reads before it plans the next.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.plan.connector import Statistics
from headrace.plan.errors import Unreachable
from headrace.plan.expressions import Column
from headrace.plan.nodes import Source

from .ahead import Ahead, Beside
from .backlog import Backlog
from .batch_size import BatchSize
from .files import read_sealed, write_sealed
from .idling import Idling
from .permits import Permits
from .reported_times import told
from .shipment import Shipment

WAIT_SECONDS = 0.05  # for the first rows, over all channels
PLAN_SECONDS = 1.0  # for all channels: what can be counted in it is enough for a batch
PATIENCE = 300.0  # seconds for which a source may not answer
STEPS_OF_TASK = 16  # in which rows are counted: where a batch may be cut for its tasks
LEAST_SPLIT = 1 << 18  # rows that are worth a task of their own, where a batch is not full
KEPT_TIMES = 4  # batches whose times stay on the disk

Offset = dict[str, Any]
Place = dict[str, Any]  # {"position", "ended", "start": {"position", "largest"} | None, "splits"}

UNKNOWN = "reported"  # instead of a largest time: the task that read up to here has told it


def first_offset(shipment: Shipment) -> Offset:
    """Where a job begins: before everything, or where the generation before it stopped."""
    if shipment.start is not None:
        return shipment.start
    return {"batch": 0, "sources": _beginnings(shipment)}


def _beginnings(shipment: Shipment) -> dict[str, dict[str, Place]]:
    sources: dict[str, dict[str, Place]] = {}
    for name, channels in shipment.planned.items():
        _, node = shipment.sources[name]
        first = node.connector.first() if hasattr(node.connector, "first") else {}
        sources[name] = {channel: _beginning(first.get(channel)) for channel in channels}
    return sources


def _beginning(position: Any) -> Place:
    return {"position": position, "largest": None, "ended": False, "start": None, "splits": []}


def _lifted(place: Place, largest: int) -> Place:
    """A channel that stays where it is, and whose time goes on."""
    start = {"position": place["position"], "largest": largest}
    return {**place, "largest": largest, "start": start, "splits": []}


def has_ended(offset: Offset) -> bool:
    """Has every channel come to its end?"""
    return all(place["ended"] for found in offset["sources"].values() for place in found.values())


def unpaced(connector: Any) -> Any:
    """A connector that gives a range as fast as it can: only the planner waits for time."""
    return connector.unpaced() if hasattr(connector, "unpaced") else connector


# ---- times that tasks report -------------------------------------------------------------------


def write_times(
    folder: Path,
    batch: int,
    times: Mapping[str, Mapping[str, int | None]],
    *,
    lasting: bool = True,
) -> None:
    """Keep the largest times that the tasks of a batch have seen, by source and channel."""
    write_sealed(folder / f"{batch}.json", times, lasting=lasting)
    (folder / f"{batch - KEPT_TIMES}.json").unlink(missing_ok=True)


def read_times(folder: Path, batch: int) -> dict[str, dict[str, int | None]]:
    """What `write_times` kept of a batch."""
    path = folder / f"{batch}.json"
    if not path.exists() and (found := told(folder, batch)):
        return found  # where no driver of ours keeps them
    kept: dict[str, dict[str, int | None]] = read_sealed(path)
    return kept


def knows_times(node: Source) -> bool:
    """Can the planner ask the connector for the largest time before a position?"""
    if node.clock is None:
        return True
    return isinstance(node.clock.time, Column) and isinstance(node.connector, Statistics)


class Planner:
    """Finds where batches end: from positions alone, or by reading ahead without any column."""

    def __init__(self, shipment: Shipment) -> None:
        self._shipment = shipment
        self._size = BatchSize(shipment.batch_rows, shipment.most_rows or shipment.batch_rows)
        self._batch_rows = self._planned_rows = 0  # of the batch that is being planned
        self._is_cut = False  # are there more rows than it may have?
        self._idling = Idling(shipment)
        self._latest: dict[str, dict[str, int]] = {}
        self._unreachable_since: float | None = None
        self._permits = Permits(shipment.gate, self._is_stopped) if shipment.gate else None
        self._backlog = Backlog()
        self._ahead: dict[tuple[str, str], Ahead] = {}
        self._beside = Beside()

    def next_offset(self, start: Offset) -> Offset:
        """The end of the next micro-batch; `start` itself if there is nothing to read.

        What does not answer now is asked again, for a while.
        """
        self._beside.pause()
        self._latest.clear()
        try:
            found = self._next_offset(start)
        except Unreachable:
            now = time.monotonic()
            self._unreachable_since = self._unreachable_since or now
            if now - self._unreachable_since > PATIENCE:
                raise
            return start
        finally:
            if self._permits is not None:
                self._permits.give_back()  # where no batch was planned
        self._unreachable_since = None
        if self._goes_ahead and found is not start:
            step = _step(self._shipment.batch_rows, self._shipment.tasks)
            self._beside.begin(list(self._ahead.values()), step, self._shipment.most_rows)
        return found

    @property
    def _goes_ahead(self) -> bool:
        """Is it sure that all rows are wanted, and soon? Batches grow where all sources end."""
        return self._permits is None and self._shipment.most_rows > self._shipment.batch_rows

    def _is_stopped(self) -> bool:
        return os.path.exists(self._shipment.stop_file)

    def _next_offset(self, start: Offset) -> Offset:
        moving = self._shipment.moving
        if moving and start.get("moved") != moving:
            return {"batch": start["batch"] + 1, "sources": self._places(start), "moved": moving}
        if moving or self._is_stopped():
            return start
        sources = self._places(start)
        self._batch_rows, self._planned_rows, self._is_cut = self._size.next(), 0, False
        active = [
            (name, channel)
            for name, found in sources.items()
            for channel, place in found.items()
            if not place["ended"]
        ]
        if self._permits is not None and not self._is_allowed(self._permits, sources, active):
            return start
        before = {name: dict(found) for name, found in sources.items()}
        moved: set[tuple[str, str]] = set()
        for name, channel in active:
            wait = 0.0 if moved else WAIT_SECONDS / len(active)
            after = self._advance(name, channel, sources[name][channel], len(active), wait)
            if after is not None:
                sources[name][channel] = after
                moved.add((name, channel))
        lifted = self._idling.lifted(before, moved)
        for (name, channel), largest in lifted.items():
            sources[name][channel] = _lifted(before[name][channel], largest)
        if not moved and not lifted:
            return start
        self._size.planned(self._planned_rows)
        self._backlog.take(self._planned_rows, self._is_cut)
        if self._permits is not None:
            self._permits.used()
        return {"batch": start["batch"] + 1, "sources": sources}

    def _is_allowed(
        self,
        permits: Permits,
        sources: Mapping[str, Mapping[str, Place]],
        active: list[tuple[str, str]],
    ) -> bool:
        """Where rows wait, wait until a batch may begin; False: nothing more is to be read.

        A batch without rows, for times and ends alone, asks when Spark hands it over.
        """
        waiting = 0
        for name, channel in active:
            wait = 0.0 if waiting else WAIT_SECONDS / len(active)
            waiting += self._rows_ahead(name, channel, sources[name][channel]["position"], wait)
        if not waiting:
            return True
        self._backlog.see(waiting)
        permit = permits.ask(self._backlog.rows, self._backlog.waited())
        if permit is None:
            return False
        self._latest.clear()  # more may have come meanwhile
        if permit.rows is not None:
            most = self._shipment.most_rows or self._shipment.batch_rows
            self._batch_rows = min(most, permit.rows)
        return True

    def _rows_ahead(self, name: str, channel: str, position: Any, wait: float) -> int:
        """Rows of a channel that are not planned yet. Where they can only be read and not counted,
        one stands for all."""
        latest = self.latest(name, channel)
        if latest is not None:
            return max(0, latest - position)
        ahead = self._going_ahead(name, channel, position)
        return int(bool(ahead.rows) or ahead.ended or ahead.go_on(1, wait))

    def _going_ahead(self, name: str, channel: str, position: Any) -> Ahead:
        """Who goes ahead in a channel from a position on, and may have begun already."""
        known = self._ahead.get((name, channel))
        if known is None or known.start != position:
            if known is not None:
                known.close()
            _, node = self._shipment.sources[name]
            known = self._ahead[name, channel] = Ahead(node.connector, channel, position)
        known.latest = self.latest(name, channel)
        return known

    def _places(self, start: Offset) -> dict[str, dict[str, Place]]:
        """All channels where they stand, those that are new included; their times are known."""
        made = _beginnings(self._shipment)
        told: dict[str, dict[str, int | None]] | None = None
        for name, found in start["sources"].items():
            for channel, place in found.items():
                largest = place["largest"]
                if largest == UNKNOWN:
                    told = told or read_times(Path(self._shipment.times), start["batch"])
                    largest = told[name][channel]
                made[name][channel] = {**place, "largest": largest, "start": None, "splits": []}
        return made

    def _advance(
        self, name: str, channel: str, before: Place, active: int, wait: float
    ) -> Place | None:
        """The place of a channel behind its share of a batch; None if it stays where it is."""
        shipment = self._shipment
        _, node = shipment.sources[name]
        known = knows_times(node)
        budget = max(1, self._batch_rows // active)
        tasks = max(1, shipment.tasks // active) if known else 1
        step = budget if tasks == 1 else _step(budget, tasks)
        most = budget + budget // 2 if self._goes_ahead else budget
        ahead = self._going_ahead(name, channel, before["position"])
        # Rows that come all the time, but slowly, must not be waited for until they are many.
        until = time.monotonic() + PLAN_SECONDS / active
        while ahead.rows < most and not ahead.ended:
            if ahead.rows and time.monotonic() > until:
                break
            if not ahead.go_on(min(step, most - ahead.rows), wait):
                break
        # A small rest is not worth a batch of its own.
        taken = ahead.take(most if ahead.ended and ahead.rows <= most else budget)
        if taken is None:
            return None
        position = taken.steps[-1][1]
        self._planned_rows += taken.rows
        self._is_cut |= taken.rows >= budget
        parts = min(tasks, max(-(-taken.rows * tasks // budget), taken.rows // LEAST_SPLIT))

        def largest(position: Any) -> int | None:
            found = [before["largest"], _largest(node, channel, position)]
            return max((each for each in found if each is not None), default=None)

        return {
            "position": position,
            "largest": largest(position) if known else UNKNOWN,
            "ended": ahead.has_ended,
            "start": {"position": before["position"], "largest": before["largest"]},
            "splits": [{"position": p, "largest": largest(p)} for p in taken.splits(parts)],
        }

    def latest(self, name: str, channel: str) -> int | None:
        """The end of a channel whose positions are numbers that can be counted on; else None."""
        _, node = self._shipment.sources[name]
        if not hasattr(node.connector, "first"):
            return None
        if name not in self._latest:  # asked once for all channels
            self._latest[name] = node.connector.latest()
        return self._latest[name][channel]

    def committed(self, end: Offset) -> None:
        """Everything before an offset is safe."""
        self._beside.pause()
        for name, found in end["sources"].items():
            _, node = self._shipment.sources[name]
            for channel, place in found.items():
                node.connector.committed(channel, place["position"])

    def close(self) -> None:
        """Close what is open."""
        self._beside.pause()
        for ahead in self._ahead.values():
            ahead.close()
        self._ahead.clear()
        if self._permits is not None:
            self._permits.close()


def _step(rows: int, tasks: int) -> int:
    """How many rows are counted at once, so that a batch can be cut evenly."""
    return min(LEAST_SPLIT, -(-rows // (tasks * STEPS_OF_TASK)))


def _largest(node: Source, channel: str, position: Any) -> int | None:
    """The largest time before a position."""
    if node.clock is None or position is None:
        return None
    assert isinstance(node.clock.time, Column)
    found = node.connector.maximum(node.clock.time.name, channel, position)
    return None if found is None else int(found)
