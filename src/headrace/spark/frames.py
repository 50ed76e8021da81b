"""DataFrames as sources: Spark reads and plans them, their partitions come to us by `mapInArrow`.

A task gets one partition of a micro-batch, runs the source's stage on it and gives messages, as a
task of our own data source does. The rows of a DataFrame have no order that time could follow, so
its clock is steady: no row of a batch is late for another one of it, and the watermark moves
behind the batch. Tasks write down the largest time they know of (`reported_times.py`), and those of
the next batch begin with it.

A batch DataFrame is one batch that ends. Beside a stream it is first written to Parquet files in
the checkpoint folder, since Spark does not unite the two, and a restart must read the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.connect.parquet import ParquetSource
from headrace.connect.spark_frame import CHANNEL, SparkFrame
from headrace.plan.graph import transform
from headrace.plan.nodes import Node, Source
from headrace.plan.planner import StagePlan

from .arrow_map import map_in_arrow
from .batches import batch_of_task, query_of_task
from .reported_times import reported_before, tell
from .session import ADAPTIVE, running_settings
from .shipment import Address, Shipment, receive, sender_of_channel
from .wire import SCHEMA, Message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.stage.stage import Stage  # a driver does without what computes

RECORDS = 131_072  # rows in an Arrow batch from Spark, if they do not weigh too much


class Frames:
    """The DataFrames among the sources of a pipeline, on the driver."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._nodes = [node for node in sources if isinstance(node.connector, SparkFrame)]
        self.are_all = bool(self._nodes) and len(self._nodes) == len(sources)
        self.any_streams = any(node.connector.is_streaming for node in self._nodes)

        self.any_batch = any(not node.connector.is_streaming for node in self._nodes)

    def __bool__(self) -> bool:
        return bool(self._nodes)

    @property
    def are_one_batch(self) -> bool:
        """Is the whole pipeline a batch query: nothing but batch DataFrames?"""
        return self.are_all and not self.any_streams

    @property
    def session(self) -> Any:
        """The session that they belong to."""
        return self._nodes[0].connector.frame.sparkSession if self._nodes else None

    def own_session(self, user: SparkSession, shards: int) -> SparkSession:
        """A copy of the user's session with our settings: theirs stays as it is."""
        made = type(user)(user.sparkContext, user._jsparkSession.cloneSession())
        ours = {
            **running_settings(shards),
            "spark.sql.execution.arrow.maxRecordsPerBatch": str(RECORDS),
        }
        if self.are_one_batch:  # what comes before us may gain by it, and it costs but once
            ours.pop(ADAPTIVE)
        for name, value in ours.items():
            made.conf.set(name, value)
        return made

    def messages(self, session: SparkSession, address: Address) -> list[DataFrame]:
        """For each DataFrame, the messages that its source stage makes of it."""
        made = []
        for node in self._nodes:
            rows = in_session(node.connector.selected(_names(node), node.predicate), session)
            ended = not node.connector.is_streaming
            made.append(map_in_arrow(rows, FrameStage(address, node.name, ended), SCHEMA))
        return made

    def rows(self, address: Address, schema: StructType) -> DataFrame:
        """What the source stages make of the DataFrames, as rows, in the user's own session."""
        made = []
        for node in self._nodes:
            rows = node.connector.selected(_names(node), node.predicate)
            made.append(map_in_arrow(rows, RowStage(address, node.name), schema))
        return reduce(lambda one, other: one.union(other), made)


def _names(node: Source) -> list[str]:
    return list(node.given.names)


def in_session(frame: DataFrame, session: SparkSession) -> DataFrame:
    """The same DataFrame, run with the settings of another session."""
    plan = frame._jdf.queryExecution().analyzed()
    jvm: Any = session._jvm
    made = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan)
    return type(frame)(made, session)


def with_files(stages: Sequence[StagePlan], folder: Path) -> list[StagePlan]:
    """The stages with Parquet files in place of batch DataFrames, written where they are not."""

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        made = node.with_inputs(*inputs)
        if not isinstance(made, Source) or not isinstance(made.connector, SparkFrame):
            return made
        if made.connector.is_streaming:
            return made
        return replace(made, connector=_written(made.connector, folder / made.name))

    return [replace(s, roots=tuple(transform(s.roots, change))) for s in stages]


def _written(connector: SparkFrame, path: Path) -> ParquetSource:
    if not (path / "_SUCCESS").exists():
        rows = connector.selected(connector.schema().names)
        rows.write.mode("overwrite").parquet(path.as_uri())
    return ParquetSource(f"{path}/*.parquet", schema=connector.schema())


# ---- in tasks ----------------------------------------------------------------------------------


class FrameStage:
    """What `mapInArrow` calls with a partition of a DataFrame."""

    def __init__(self, address: Address, source: str, ended: bool) -> None:
        self._address, self._source, self._ended = address, source, ended

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The messages of a partition."""
        from .source import posted

        shipment = receive(self._address)
        batch = batch_of_task(shipment)
        if shipment.streaming:
            query_of_task(shipment)
        yield from posted(shipment, batch, self._letters(shipment, batch, batches))
        for _ in batches:  # behind an error: Spark's writer waits until all is read
            pass

    def _letters(
        self, shipment: Shipment, batch: int, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[Message]:
        from pyspark import TaskContext

        from .running import StageTask
        from .source import SPLIT_SHIFT

        context = TaskContext.get()
        assert context is not None
        part = context.partitionId()
        with frame_task(shipment, self._source, batch) as stage:
            run = StageTask(
                shipment,
                stage,
                batch=batch,
                sender=sender_of_channel(self._source, CHANNEL),
                label=shipment.labels[0],
                first_serial=part << SPLIT_SHIFT,
            )
            try:
                for rows in batches:
                    stage.push(self._source, rows, CHANNEL)
                    yield from run.run()
                self._end_batch(shipment, stage, batch, part)
                yield from run.run()
                yield from run.finish()
            except BaseException:
                run.abort()
                raise

    def _end_batch(self, shipment: Shipment, stage: Stage, batch: int, part: int) -> None:
        """The watermark moves behind the rows of the batch, or to the end of time."""
        from headrace.stage.clock import NEVER

        clock = stage.inputs[self._source].clock
        if self._ended:
            stage.end(self._source, CHANNEL)
        elif clock is not None:
            stage.advance(self._source, clock.settle(CHANNEL), CHANNEL)
            largest = clock.saved()[CHANNEL]
            if largest != NEVER:
                place = reports_folder(shipment)
                tell(
                    place,
                    batch,
                    self._source,
                    CHANNEL,
                    str(part),
                    largest,
                    lasting=shipment.lasting,
                )
        stage.flush()


@contextmanager
def frame_task(shipment: Shipment, source: str, batch: int) -> Iterator[Stage]:
    """A stage for a partition of a DataFrame; its clock stands where the batch begins."""
    from .source import Range, give_back, take_stage

    plan, node = shipment.sources[source]
    largest = None
    if node.clock is not None:
        largest = reported_before(reports_folder(shipment), batch).get(source, {}).get(CHANNEL)
    task = Range(batch=batch, source=source, channel=CHANNEL, largest=largest)
    stage = take_stage(shipment, plan, task)
    try:
        yield stage
    except BaseException:
        stage.close()
        raise
    give_back(shipment, stage)


def reports_folder(shipment: Shipment) -> Path:
    """Where the tasks of DataFrames write down the times they know of."""
    return Path(shipment.times) / "frames"


class RowStage:
    """What `mapInArrow` calls with a partition of a DataFrame, where rows stay rows."""

    def __init__(self, address: Address, source: str) -> None:
        self._address, self._source = address, source

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that the stage makes of the partition's."""
        from headrace.stage.blocks.arrow import as_arrow

        with frame_task(receive(self._address), self._source, batch=1) as stage:
            for rows in batches:
                stage.push(self._source, rows, CHANNEL)
                for _, block in stage.pull():
                    yield as_arrow(block)
