"""What Spark sees of the keyed stages: a function for `mapInArrow`, behind a shuffle by shard.

It is kept light: only the tasks load what computes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from .shipment import receive
from .wire import bundles, from_columns, to_record_batch
from .worker_memory import settle_worker

QUERY_ID = "sql.streaming.queryId"  # what Spark calls the lasting name of a streaming query
BATCH_ID = "streaming.sql.batchId"  # and the number of a micro-batch


class KeyedTask:
    """All stages of a level, for the shard that is the number of the partition."""

    def __init__(self, path: str, level: int) -> None:
        self._path, self._level = path, level

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The letters that the stages make of those of a micro-batch."""
        from pyspark import TaskContext

        from .keyed import KeyedLevel
        from .states import shard_state

        settle_worker()
        context = TaskContext.get()
        assert context is not None
        letters = [
            letter
            for batch in batches
            for letter in from_columns(column.to_pylist() for column in batch.columns)
        ]
        shipment, shard = receive(self._path), context.partitionId()
        number, query = context.getLocalProperty(BATCH_ID), context.getLocalProperty(QUERY_ID)
        state = None  # a batch query has nothing behind its only batch
        if number is not None:
            state = shard_state(shipment, query or "", self._level, shard, int(number))
        level = KeyedLevel(shipment, self._level, state)
        for bundle in bundles(level.handle(shard, letters)):
            yield to_record_batch(bundle)
