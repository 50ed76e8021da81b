"""The source stage: a Python data source for Spark around any connector.

One data source stands for all sources of a pipeline. `latestOffset` and `partitions` run in a
process of their own, beside the driver (`planning.py`); `read` runs in tasks: it reads a range of
one channel, runs the stage on it, and gives messages.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from headrace.connect.spark_versions import read_limit, tells_start
from headrace.plan.errors import Unreachable
from headrace.plan.hints import open_source, read_on
from headrace.plan.planner import StagePlan

from .asked import Asked
from .batches import batch_of_task, may_try_again
from .errors import FromPlanner, carry
from .planning import Offset, Planner, first_offset, knows_times, unpaced
from .shipment import MOST_KEPT, Address, Shipment, receive, sender_of_channel
from .side_by_side import Abandoned, GoesOn, side_by_side
from .wire import (
    DRIVER,
    ERROR,
    METRICS,
    MOVE,
    SCHEMA,
    SKIPPED,
    TIMES,
    Message,
    bundles,
    to_record_batch,
)
from .worker_memory import settle_worker

if TYPE_CHECKING:  # the planner does without what computes: it is loaded where tasks read
    from headrace.stage.stage import Stage

FORMAT = "headrace"
POLL_ROWS = 131_072
POLL_SECONDS = 1.0
PATIENCE = 300.0  # seconds for which a range that is known to be there may bring nothing
SPLIT_SHIFT = 32  # serials of the messages of a split follow those of the split before
NO_CHANNEL = "none"  # stands for the channels of sources that a task does not read

# Retrying helps against these, and only Spark can do it; everything else fails the same way again.
PASSING = (OSError, MemoryError, Unreachable)


@dataclass
class Range(InputPartition):
    """What one task reads."""

    batch: int
    source: str
    channel: str
    start: Any
    stop: Any
    largest: int | None  # time before the start
    ended: bool  # nothing comes behind
    split: int

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


@dataclass
class Ranges(InputPartition):
    """What one task reads that has several cores: a range on each."""

    ranges: tuple[Range, ...]


@dataclass
class Move(InputPartition):
    """Nothing to read: all shards leave their state for their followers."""

    batch: int


class HeadraceSource(DataSource):
    """All sources of a pipeline; its options say where the pipeline is."""

    @classmethod
    def name(cls) -> str:
        """How Spark knows it."""
        return FORMAT

    def schema(self) -> str:
        """Messages."""
        return SCHEMA

    def streamReader(self, schema: Any) -> HeadraceReader:
        """See DataSource."""
        return HeadraceReader(Address.from_options(self.options))


class HeadraceReader(DataSourceStreamReader):
    """Plans in one process, reads in others: only the address of the plan travels."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._planner: Planner | None = None
        self._asked: Asked | None = None

    def __reduce__(self) -> Any:
        return HeadraceReader, (self._address,)

    @property
    def _shipment(self) -> Shipment:
        return receive(self._address)

    def _planning(self) -> Planner:
        if self._planner is None:
            self._planner = Planner(self._shipment)
        return self._planner

    # ---- in the planner's process --------------------------------------------------------------

    @contextmanager
    def _packed_errors(self) -> Iterator[None]:
        """What the driver of a job raises again must get through Java to it."""
        try:
            yield
        except Exception as error:
            if self._shipment.shared:  # there is no driver of ours
                raise
            raise FromPlanner(error) from None

    def initialOffset(self) -> Offset:
        """See DataSourceStreamReader."""
        with self._packed_errors():
            return first_offset(self._shipment)

    def getDefaultReadLimit(self) -> Any:
        """See DataSourceStreamReader."""
        return read_limit(self._shipment.batch_rows)

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:
        """See DataSourceStreamReader; without a start, the batch begins where the last one ends."""
        with self._packed_errors():
            return self._planning().next_offset(self._before.last if start is None else start)

    @property
    def _before(self) -> Asked:
        """What Spark has asked for, where it does not tell what it begins with."""
        if self._asked is None:
            self._asked = Asked(self._shipment, first_offset(self._shipment))
        return self._asked

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """A task for each split of each channel that has moved, or for as many as it has cores."""
        if not tells_start():
            self._before.keep(end)
        if end.get("moved"):
            return [Move(end["batch"])]
        made: list[Range] = []
        for source, found in end["sources"].items():
            for channel, place in found.items():
                if place["start"] is None:
                    continue
                places = [place["start"], *place["splits"], place]
                for split, (one, other) in enumerate(pairwise(places)):
                    made.append(
                        Range(
                            batch=end["batch"],
                            source=source,
                            channel=channel,
                            start=one["position"],
                            stop=other["position"],
                            largest=one["largest"],
                            ended=other is place and place["ended"],
                            split=split,
                        )
                    )
        cores = self._shipment.cores
        if cores == 1:
            return made
        return [Ranges(tuple(made[k : k + cores])) for k in range(0, len(made), cores)]

    def commit(self, end: Offset) -> None:
        """See DataSourceStreamReader."""
        self._planning().committed(end)

    def stop(self) -> None:
        """See DataSourceStreamReader."""
        if self._planner is not None:
            self._planner.close()

    # ---- in tasks ------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages that a range gives, or several."""
        shipment = self._shipment
        if isinstance(partition, Move):
            return posted(shipment, partition.batch, _moves(shipment, partition.batch))
        assert isinstance(partition, Range | Ranges)
        ranges = partition.ranges if isinstance(partition, Ranges) else (partition,)
        return posted(shipment, ranges[0].batch, _counted(shipment, ranges))


def posted(shipment: Shipment, batch: int, messages: Iterator[Message]) -> Iterator[pa.RecordBatch]:
    """Messages for Spark; an error that would come again becomes the last of them."""
    try:
        for bundle in bundles(messages):
            yield to_record_batch(bundle)
    except Exception as error:
        if isinstance(error, PASSING) and may_try_again(shipment):
            raise
        label, payload = shipment.labels[0], carry(error)
        told = Message(label, ERROR, batch, DRIVER, "", "", 0, 0, 0, payload)
        yield to_record_batch([told])


def _moves(shipment: Shipment, batch: int) -> Iterator[Message]:
    for level in shipment.levels:
        for plan in level:
            for label in shipment.labels:
                yield Message(label, MOVE, batch, plan.number, "", "", 0, 0, 0, b"")


def _counted(shipment: Shipment, ranges: Sequence[Range]) -> Iterator[Message]:
    """What ranges give, each on a core, and behind it how many rows their connectors left out."""
    context = TaskContext.get()
    threads = 1 if context is None else max(1, context.cpus() // len(ranges))
    connectors = {task.source: shipment.sources[task.source][1].connector for task in ranges}
    skipped = {name: getattr(each, SKIPPED, None) for name, each in connectors.items()}
    before = {name: count for name, count in skipped.items() if count is not None}
    if len(ranges) == 1:
        yield from _read(shipment, ranges[0], threads, lambda: True)
    else:
        yield from side_by_side([partial(_read, shipment, task, threads) for task in ranges])
    more = {name: {SKIPPED: connectors[name].skipped - count} for name, count in before.items()}
    if more:
        first = ranges[0]
        sender = sender_of_channel(first.source, first.channel)
        told, label = json.dumps(more).encode(), shipment.labels[0]
        yield Message(label, METRICS, first.batch, DRIVER, "", sender, 1, 0, 0, told)


def _read(shipment: Shipment, task: Range, threads: int, goes_on: GoesOn) -> Iterator[Message]:
    from .running import StageTask

    plan, node = shipment.sources[task.source]
    stage = take_stage(shipment, plan, task)
    run = StageTask(
        shipment,
        stage,
        # A DataFrame beside us may have rows in batches in which we have none.
        batch=batch_of_task(shipment) if shipment.frames else task.batch,
        sender=sender_of_channel(task.source, task.channel),
        label=shipment.labels[0],
        first_serial=task.split << SPLIT_SHIFT,
    )
    reader = None
    try:
        if task.start != task.stop:
            connector = unpaced(node.connector)
            reader = open_source(node, task.channel, task.start, task.stop, connector)
            read_on(reader, threads)
            deadline = time.monotonic() + PATIENCE
            while True:
                if not goes_on():
                    raise Abandoned
                batch = reader.poll(POLL_ROWS, POLL_SECONDS)
                if batch.rows is None and time.monotonic() > deadline:
                    raise Unreachable(f"{connector} brings nothing for {PATIENCE:g} seconds")
                if batch.rows is not None and batch.rows.num_rows:
                    deadline = time.monotonic() + PATIENCE
                    stage.push(task.source, batch.rows, task.channel)
                    yield from run.run()
                elif batch.reached is not None and node.clock is not None:
                    mark = batch.reached - node.clock.bound
                    stage.advance(task.source, mark, task.channel)
                if batch.ended or batch.position == task.stop:
                    break
        if task.ended:
            stage.end(task.source, task.channel)
        stage.flush()
        yield from run.run()
        yield from run.finish()
        if not knows_times(node):
            yield _times(shipment, stage, task)
    except BaseException:
        run.abort()
        stage.close()
        raise
    finally:
        if reader is not None:
            reader.close()
    give_back(shipment, stage)


def _times(shipment: Shipment, stage: Stage, task: Range) -> Message:
    """The largest time that the channel has had by now."""
    from headrace.stage.clock import NEVER

    clock = stage.inputs[task.source].clock
    largest = NEVER if clock is None else clock.saved()[task.channel]
    told = json.dumps([task.channel, None if largest == NEVER else largest]).encode()
    return Message(shipment.labels[0], TIMES, task.batch, DRIVER, task.source, "", 0, 0, 0, told)


# Stages that have nothing in work: a source stage keeps nothing between tasks but its memory.
_taking = threading.Lock()  # the tables below; a task may have several threads
_idle_stages: dict[tuple[str, int], list[Stage]] = {}
_beginnings: dict[tuple[str, int], bytes] = {}  # what such a stage knows: nothing


def give_back(shipment: Shipment, stage: Stage) -> None:
    """A stage that the next task may take."""
    with _taking:
        _idle_stages.setdefault((shipment.token, stage.plan.number), []).append(stage)


def take_stage(shipment: Shipment, plan: StagePlan, task: Range) -> Stage:
    """A stage whose clock stands where the range begins."""
    from headrace.stage.clock import NEVER
    from headrace.stage.snapshot import Snapshot
    from headrace.stage.stage import Stage

    key = (shipment.token, plan.number)
    with _taking:
        settle_worker()
        idle = _idle_stages.get(key)
        if idle:
            stage = idle.pop()
        else:
            stage = Stage(plan, capacity=shipment.capacity, compiled=shipment.compiled)
            if key not in _beginnings:
                _beginnings[key] = stage.snapshot().to_bytes()
                jobs = list(dict.fromkeys(token for token, _ in _beginnings))
                for known in [k for k in _beginnings if k[0] in jobs[:-MOST_KEPT]]:
                    _forget(known)
        beginning = _beginnings[key]
    for source in stage.inputs.values():
        source.channels.clear()
    stage.restore(Snapshot.from_bytes(beginning))
    for name, source in stage.inputs.items():
        if name == task.source:
            stage.declare(name, task.channel)
            if source.clock is not None:
                largest = NEVER if task.largest is None else task.largest
                source.clock.restored({task.channel: largest})
                if largest != NEVER:  # what a task without rows has to tell
                    clock = shipment.sources[name][1].clock
                    assert clock is not None
                    stage.advance(name, largest - clock.bound, task.channel)
        else:
            stage.end(name, NO_CHANNEL)  # what others read does not hold this channel back
    return stage


def _forget(key: tuple[str, int]) -> None:
    """Many jobs have begun since: let go of the stages of one."""
    _beginnings.pop(key)
    for stage in _idle_stages.pop(key, ()):
        stage.close()
