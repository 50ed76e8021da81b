"""What the driver does with a micro-batch: it runs it, publishes its rows, and keeps its times."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from .checkpoint import Checkpoint
from .errors import carried, unlogged
from .frames import reports_folder
from .planning import write_times
from .progress import Counts
from .reported_times import Times, forget_from
from .shipment import Shipment
from .sinks import DriverSinks
from .wire import ERROR, MESSAGE, METRICS, RESULT, TIMES, Message


class Commits:
    """The batches of one query; Spark calls it with each of them (`foreachBatch`)."""

    def __init__(
        self,
        shipment: Shipment,
        checkpoint: Checkpoint,
        sinks: DriverSinks,
        counts: Counts,
        turn: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """turn: a batch is run inside of it."""
        self._shipment, self._checkpoint = shipment, checkpoint
        self._sinks, self._counts, self._turn = sinks, counts, turn
        self._beside = ThreadPoolExecutor(1, "headrace-sync")  # what need not wait for tasks
        self._shards_heard: set[str] = set()
        self._taken_over: int | None = None  # the batch behind which all shards have saved state
        self.error: Exception | None = None  # of a task or a sink, and not of Spark

    def __call__(self, frame: Any, batch_id: int) -> None:
        """Run the batch and commit it; an exception here leaves it uncommitted."""
        started = time.perf_counter()
        try:
            with self._turn():
                self._commit(frame, batch_id)
        except Exception as error:
            if type(error).__module__.split(".")[0] not in ("pyspark", "py4j"):
                self.error = error
            raise
        self._counts.batches += 1
        self._counts.batch_seconds = time.perf_counter() - started

    def _commit(self, frame: Any, batch_id: int) -> None:
        if self._shipment.frames:  # what a batch reported before a restart may be of other rows
            forget_from(reports_folder(self._shipment), batch_id + 1)
        end = self._beside.submit(self._checkpoint.end_of, batch_id)
        with unlogged():
            rows, ended = frame.toArrow(), end.result()
        columns = [rows[name].to_pylist() for name in Message._fields]
        messages = [Message(*row) for row in zip(*columns)]
        for message in messages:
            if message.kind == ERROR:
                raise carried(message.payload)
        if messages:
            number = batch_id + 1 if self._shipment.frames else messages[0].batch
            results = [x for x in messages if x.kind in (MESSAGE, RESULT)]
            self._sinks.commit(self._shipment.batch_name(number), results, ended)
            self._keep_times([x for x in messages if x.kind == TIMES])
        self._counts.add(x for x in messages if x.kind == METRICS)
        self._forget_moved(messages, batch_id)
        if not self._shipment.streaming:
            self._checkpoint.finish()

    def _keep_times(self, messages: Sequence[Message]) -> None:
        """Write down what tasks have seen of time, for the planner of the next batch."""
        times: Times = {}
        for message in messages:
            channel, largest = json.loads(message.payload)
            found = times.setdefault(message.port, {})
            known = found.get(channel)
            if known is None or (largest is not None and largest > known):
                found[channel] = largest
        if messages:
            place, lasting = self._checkpoint.times, self._checkpoint.lasting
            write_times(place, messages[0].batch, times, lasting=lasting)

    def _forget_moved(self, messages: Sequence[Message], batch_id: int) -> None:
        """What the shards of before have left goes when those of now have all saved their own."""
        if not self._shipment.moved or self._shipment.moving:
            return
        if self._taken_over is not None:
            self._checkpoint.forget_moved(self._taken_over)
            return
        self._shards_heard.update(message.sender for message in messages if message.kind == METRICS)
        if self._shards_heard >= self._shipment.keyed_shards:
            self._taken_over = batch_id

    def close(self) -> None:
        """The query is over."""
        self._beside.shutdown()
        if self._taken_over is not None:
            self._checkpoint.forget_moved(self._taken_over)
