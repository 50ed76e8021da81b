"""Rows on their way into sinks: staged as they come, committed in batches."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa

from headrace.plan.errors import PipelineError
from headrace.plan.nodes import Sink

from .staging import StagedSink

COMMIT_ROWS = 4_000_000  # rows written after which a batch is committed
COMMIT_SECONDS = 1.0
ATTEMPT = "0"  # a batch is written once: whoever fails, fails the job


def check_places(sinks: Iterable[Sink]) -> None:
    """Two sinks of a job that write to one place are a PipelineError.

    Batches of a job have one name for all its sinks, and what has a name is published once.
    """
    seen: dict[str, Sink] = {}
    for node in sinks:
        place = str(node.connector)
        if isinstance(node.connector, StagedSink) and place in seen:
            raise PipelineError(
                f"{place} is written to at {seen[place].site!r}, too",
                operator=node.written,
                site=node.site,
                fix="give each its own place, or make one stream of both with union",
            )
        seen[place] = node


class Delivery:
    """The sinks of a job, each with the batch that it is writing. May be used by several threads.

    A sink may block in a write for as long as it likes: neither the other sinks nor the end of the
    job wait for it.
    """

    def __init__(self, sinks: Mapping[str, Sink]) -> None:
        self._nodes = list(sinks.values())
        job = uuid.uuid4().hex[:12]
        self._sinks = {name: _Written(node, job) for name, node in sinks.items()}

    def open(self) -> None:
        """Open all sinks: what is wrong with them shows before a row is read."""
        check_places(self._nodes)
        for sink in self._sinks.values():
            sink.open()

    def write(self, name: str, rows: pa.RecordBatch) -> None:
        """Stage rows for a sink, and publish them if they are many or old; behind `abort` or
        `close` nothing is written."""
        self._sinks[name].write(rows)

    def commit_if_due(self) -> None:
        """Publish what was staged, if it is much or old; a write that is under way does so itself,
        and is not waited for."""
        for sink in self._sinks.values():
            sink.commit_if_due()

    def commit(self) -> None:
        """Publish what was staged, and begin the next batch."""
        for sink in self._sinks.values():
            sink.commit()

    def abort(self) -> None:
        """Remove what was staged and not committed."""
        for sink in self._sinks.values():
            sink.abort()

    def close(self) -> None:
        """Close the sinks."""
        for sink in self._sinks.values():
            sink.close()


class _Written:
    """A sink, and the batch that it is writing.

    Who uses the sink has the lock. `abort` and `close` say what is to be done and do it if nobody
    writes; else the writer does it when it comes back.
    """

    def __init__(self, node: Sink, job: str) -> None:
        self._node, self._sink, self._job = node, node.connector, job
        self._lock = threading.Lock()
        self._batch = 0
        self._opened = self._aborted = self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._messages: list[Any] = []
        self._rows, self._since = 0, time.monotonic()

    @property
    def _batch_name(self) -> str:
        return f"{self._job}-{self._batch:06}"

    @property
    def _is_due(self) -> bool:
        return self._rows >= COMMIT_ROWS or time.monotonic() - self._since >= COMMIT_SECONDS

    def open(self) -> None:
        self._opened = True
        if isinstance(self._sink, StagedSink):
            self._sink.begin(self._job)
        self._sink.open(self._node.schema)

    def write(self, rows: pa.RecordBatch) -> None:
        try:
            with self._lock:
                if self._aborted or self._closed:
                    return
                self._messages.append(self._sink.write(rows, self._batch_name, ATTEMPT))
                self._rows += rows.num_rows
                if self._is_due and not self._aborted:
                    self._publish()
        finally:
            self._settle()

    def commit_if_due(self) -> None:
        if self._is_due and self._lock.acquire(blocking=False):
            try:
                self._publish()
            finally:
                self._lock.release()

    def commit(self) -> None:
        with self._lock:
            self._publish()

    def _publish(self) -> None:
        if self._messages:
            self._sink.commit(self._batch_name, self._messages)
            self._batch += 1
        self._begin()

    def abort(self) -> None:
        self._aborted = True
        self._settle()

    def close(self) -> None:
        self._closed = True
        self._settle()

    def _settle(self) -> None:
        """Do what was asked for at the end, unless somebody writes, who will come here."""
        if not (self._aborted or self._closed) or not self._lock.acquire(blocking=False):
            return
        try:
            if self._aborted and self._opened:
                with suppress(Exception):  # the first error is the one to show
                    self._sink.abort(self._batch_name, ATTEMPT)
            if self._closed and self._opened:
                self._opened = False
                self._sink.close()
        finally:
            self._lock.release()
