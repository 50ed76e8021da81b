"""The source stage: a Python data source for Spark around any connector.

One data source stands for all sources of a pipeline. `latestOffset` and `partitions` run in a
process of their own, beside the driver (`planning.py`); `read` runs in tasks: it reads a range of
one channel, runs the stage on it, and gives messages.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows

from headrace.plan.errors import Unreachable
from headrace.plan.planner import StagePlan

from .batches import batch_of_task, may_try_again
from .errors import FromPlanner, carry
from .planning import Offset, Planner, first_offset, knows_times, unpaced
from .shipment import MOST_KEPT, Address, Shipment, receive, sender_of_channel
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

    def getDefaultReadLimit(self) -> ReadLimit:
        """See DataSourceStreamReader."""
        return ReadMaxRows(self._shipment.batch_rows)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """See DataSourceStreamReader."""
        with self._packed_errors():
            return self._planning().next_offset(start)

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """A task for each split of each channel that has moved."""
        if end.get("moved"):
            return [Move(end["batch"])]
        made: list[InputPartition] = []
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
        return made

    def commit(self, end: Offset) -> None:
        """See DataSourceStreamReader."""
        self._planning().committed(end)

    def stop(self) -> None:
        """See DataSourceStreamReader."""
        if self._planner is not None:
            self._planner.close()

    # ---- in tasks ------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages that a range gives."""
        shipment = self._shipment
        if isinstance(partition, Move):
            return posted(shipment, partition.batch, _moves(shipment, partition.batch))
        assert isinstance(partition, Range)
        return posted(shipment, partition.batch, _read(shipment, partition))


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


def _read(shipment: Shipment, task: Range) -> Iterator[Message]:
    from headrace.connect.parquet_format import decode_on

    from .running import StageTask

    context = TaskContext.get()
    decode_on(1 if context is None else context.cpus())
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
    names = list(node.given.names)
    skipped = getattr(node.connector, SKIPPED, None)
    reader = None
    try:
        if task.start != task.stop:
            connector = unpaced(node.connector)
            reader = connector.open(task.channel, task.start, task.stop, names, node.predicate)
            deadline = time.monotonic() + PATIENCE
            while True:
                batch = reader.poll(POLL_ROWS, POLL_SECONDS)
                if batch.rows is None and time.monotonic() > deadline:
                    raise Unreachable(f"{connector} brings nothing for {PATIENCE:g} seconds")
                if batch.rows is not None and batch.rows.num_rows:
                    deadline = time.monotonic() + PATIENCE
                    stage.push(task.source, batch.rows, task.channel)
                    yield from run.run()
                if batch.ended or batch.position == task.stop:
                    break
        if task.ended:
            stage.end(task.source, task.channel)
        stage.flush()
        yield from run.run()
        yield from run.finish()
        if not knows_times(node):
            yield _times(shipment, stage, task)
        if skipped is not None:
            more = {task.source: {SKIPPED: getattr(node.connector, SKIPPED) - skipped}}
            told = json.dumps(more).encode()
            yield Message(run.label, METRICS, run.batch, DRIVER, "", run.sender, 1, 0, 0, told)
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
_idle_stages: dict[tuple[str, int], list[Stage]] = {}
_beginnings: dict[tuple[str, int], bytes] = {}  # what such a stage knows: nothing


def give_back(shipment: Shipment, stage: Stage) -> None:
    """A stage that the next task may take."""
    _idle_stages.setdefault((shipment.token, stage.plan.number), []).append(stage)


def take_stage(shipment: Shipment, plan: StagePlan, task: Range) -> Stage:
    """A stage whose clock stands where the range begins."""
    from headrace.stage.clock import NEVER
    from headrace.stage.snapshot import Snapshot
    from headrace.stage.stage import Stage

    settle_worker()
    key = (shipment.token, plan.number)
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
    for source in stage.inputs.values():
        source.channels.clear()
    stage.restore(Snapshot.from_bytes(_beginnings[key]))
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
