"""`stream.to_spark()`: a pipeline as a DataFrame, for whatever Spark can do with one.

Where a pipeline only changes the rows of DataFrames, its stage runs inside one `mapInArrow`: rows
in, rows out. Everything else runs as in a job, and the messages of the last stages are unpacked.
The DataFrame is run by the user: there is no job of ours, so tasks write down the event times that
the driver of a job would keep.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.connect.spark_versions import tells_start
from headrace.plan.connector import is_replayable
from headrace.plan.errors import DataError, PipelineError
from headrace.plan.nodes import Node, Source
from headrace.plan.planner import Plan
from headrace.plan.schema import Schema
from headrace.plan.types import DataType

from .arrow_map import map_in_arrow
from .batches import query_of_task
from .checkpoint import Checkpoint
from .errors import carried
from .files import make_folder
from .frames import Frames
from .query import all_letters
from .reported_times import tell
from .session import open_session, own_session, task_cores
from .shipment import Address, Shipment, receive, send, without_sinks
from .temporary import folder_of_process
from .wire import ERROR, RESULT, TIMES, Message, from_columns, unpack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

# Spark's words for our types.
_TYPES = {
    "bool": "boolean",
    "int8": "byte",
    "int16": "short",
    "int32": "integer",
    "int64": "long",
    "float32": "float",
    "float64": "double",
    "date": "date",
    "timestamp": "timestamp",
    "duration": "interval day to second",
    "string": "string",
    "binary": "binary",
}


def frame_of(
    plan: Plan,
    *,
    session: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    shards: int | None = None,
    batch_rows: int,
    capacity: int,
    compiled: bool,
) -> DataFrame:
    """The rows of the only output of a plan as a DataFrame: streaming, if a source of it is."""
    stages = plan.stages()
    sources = [node for s in stages for node in s.inputs if isinstance(node, Source)]
    frames = Frames(sources)
    _check(sources, frames, plan.logical[0], is_kept=checkpoint is not None)
    spark = open_session(None, session or frames.session)
    lasting = checkpoint is not None
    held = Checkpoint(checkpoint or folder_of_process("headrace-to-spark-") / "checkpoint")
    try:
        identity, shards = held.agree(stages, shards, lambda: spark.sparkContext.defaultParallelism)
        make_folder(held.plans)
        plans = folder_of_process("run-", held.plans)  # the user may run it at any time
    finally:
        held.close()  # it is Spark that guards the query's own checkpoint
    shipment = Shipment(
        stages=without_sinks(stages),
        staged={},
        channels={node.name: tuple(node.connector.channels()) for node in sources},
        shards=shards,
        checkpoint=identity,
        batch_rows=batch_rows,
        tasks=spark.sparkContext.defaultParallelism,
        cores=task_cores(spark.sparkContext),
        stop_file=str(plans / "stop"),
        times=str(held.times),
        state=str(held.state),
        capacity=capacity,
        compiled=compiled,
        lasting=lasting,
        streaming=not frames.are_one_batch,
        shared=True,
    )
    address = send(shipment, plans)
    schema = struct_of(plan.optimized[0].schema)
    if frames.are_all and not shipment.levels:
        return frames.rows(address, schema)
    made = frames.own_session(spark, shards) if frames else own_session(spark, shards)
    messages = all_letters(made, shipment, frames, address)
    return map_in_arrow(messages, Unpacking(address), schema)


def _check(sources: list[Source], frames: Frames, output: Node, *, is_kept: bool) -> None:
    for node in sources:
        if not is_replayable(node.connector):
            raise PipelineError(
                f"{node.connector} cannot be read again after a failure, which Spark needs",
                operator=node.written,
                site=node.site,
                fix="write the rows to files first",
            )
    if not (frames.are_all or is_kept or tells_start()):
        raise PipelineError(
            "Spark before 4.2 does not tell a Python source where a query goes on",
            operator=output.written,
            site=output.site,
            fix="give to_spark(checkpoint=...) a folder, where it is kept",
        )
    if frames.any_batch and not frames.are_one_batch:
        raise PipelineError(
            "a batch DataFrame and a stream cannot be one DataFrame",
            operator=output.written,
            site=output.site,
            fix="read it as a stream too, join it as hr.table(...), or write with hr.run instead",
        )


def struct_of(schema: Schema) -> StructType:
    """The columns as Spark has them.

    >>> struct_of(Schema.of({"user": str, "n": "int32"})).simpleString()
    'struct<user:string,n:int>'
    """
    from pyspark.sql.types import StructType

    made = StructType()
    for field in schema:
        kind = _spark_type(field.type)
        if kind is None:
            raise DataError(
                f"column {field.name!r} is {field.type}, a type that Spark lacks; cast it to int64"
            )
        made.add(field.name, kind, field.type.nullable)
    return made


def _spark_type(kind: DataType) -> Any:
    """Spark's type for ours; None where it has none.

    >>> from headrace.plan.types import as_type
    >>> place = as_type({"at": pa.list_(pa.timestamp("us")), "price": pa.decimal128(9, 2)})
    >>> _spark_type(place).simpleString()
    'struct<at:array<timestamp>,price:decimal(9,2)>'
    """
    from pyspark.sql.types import ArrayType, DecimalType, StructType

    if kind.item is not None:
        item = _spark_type(kind.item)
        return item and ArrayType(item)
    if kind.is_decimal:
        decimal: Any = kind.arrow
        return DecimalType(decimal.precision, decimal.scale)
    parts = {name: _spark_type(part) for name, part in kind.parts.items()}
    if not all(parts.values()):
        return None
    made = StructType()
    for name, part in parts.items():
        made.add(name, part)
    word = _TYPES.get(kind.name)
    return made if parts else word and StructType().add(kind.name, word)[0].dataType


class Unpacking:
    """What `mapInArrow` calls with the messages of the last stages: gives their rows."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows; an error that came as a message is raised."""
        shipment = receive(self._address)
        if shipment.streaming:
            query_of_task(shipment)  # the only one, or it ends here
        for batch in batches:
            for message in from_columns(column.to_pylist() for column in batch.columns):
                if message.kind == ERROR:
                    raise carried(message.payload)
                if message.kind == TIMES:
                    self._keep(shipment, message)
                elif message.kind == RESULT:
                    yield from unpack(message.payload)

    def _keep(self, shipment: Shipment, message: Message) -> None:
        channel, largest = json.loads(message.payload)
        place, lasting = Path(shipment.times), shipment.lasting
        tell(place, message.batch, message.port, channel, "", largest, lasting=lasting)
