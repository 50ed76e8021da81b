"""What Spark sees of the keyed stages: a function for `mapInArrow`, behind a shuffle by shard.

It is kept light: only the tasks load what computes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from .batches import batch_of_task, query_of_task
from .shipment import Address, receive
from .wire import bundles, from_columns, to_record_batch
from .worker_memory import settle_worker


class KeyedTask:
    """All stages of a level, for the shard that is the number of the partition."""

    def __init__(self, address: Address, level: int) -> None:
        self._address, self._level = address, level

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The messages that the stages make of those of a micro-batch."""
        from pyspark import TaskContext

        from .keyed import KeyedLevel
        from .states import shard_state

        settle_worker()
        context = TaskContext.get()
        assert context is not None
        messages = [
            message
            for batch in batches
            for message in from_columns(column.to_pylist() for column in batch.columns)
        ]
        shipment, shard = receive(self._address), context.partitionId()
        state = None  # a batch query has nothing behind its only batch
        if shipment.streaming:
            number, query = batch_of_task(shipment) - 1, query_of_task(shipment)
            state = shard_state(shipment, query, self._level, shard, number)
        level = KeyedLevel(shipment, self._level, state)
        for bundle in bundles(level.handle(shard, messages)):
            yield to_record_batch(bundle)
