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
    seen: dict[str, str] = {}
    for node in sinks:
        place = str(node.connector)
        if isinstance(node.connector, StagedSink) and place in seen:
            raise PipelineError(
                f"{place} is written to by {seen[place]!r}, too",
                operator=node.name,
                site=node.site,
                fix="give each its own place, or make one stream of both with union",
            )
        seen[place] = node.name


class Delivery:
    """The sinks of a job, and the batch they are writing. May be used by several threads.

    A sink may block in a write for as long as it likes: the end of the job does not wait for it.
    Who writes has the lock; `abort` and `close` say what is to be done and do it if nobody writes,
    else the writer does it when it comes back.
    """

    def __init__(self, sinks: Mapping[str, Sink]) -> None:
        self._sinks = dict(sinks)
        self._opened: list[Any] = []
        self._job = uuid.uuid4().hex[:12]
        self._lock = threading.Lock()
        self._batch = 0
        self._aborted = self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._messages: dict[str, list[Any]] = {name: [] for name in self._sinks}
        self._rows, self._since = 0, time.monotonic()

    @property
    def _batch_name(self) -> str:
        return f"{self._job}-{self._batch:06}"

    @property
    def _is_due(self) -> bool:
        return self._rows >= COMMIT_ROWS or time.monotonic() - self._since >= COMMIT_SECONDS

    def open(self) -> None:
        """Open all sinks: what is wrong with them shows before a row is read."""
        check_places(self._sinks.values())
        for node in self._sinks.values():
            self._opened.append(node.connector)
            node.connector.open(node.schema)

    def write(self, name: str, rows: pa.RecordBatch) -> None:
        """Stage rows for a sink; behind `abort` or `close` there is none."""
        try:
            with self._lock:
                if self._aborted or self._closed:
                    return
                message = self._sinks[name].connector.write(rows, self._batch_name, ATTEMPT)
                self._messages[name].append(message)
                self._rows += rows.num_rows
                if self._is_due and not self._aborted:
                    self._publish()
        finally:
            self._settle()

    def commit_if_due(self) -> None:
        """Publish what was staged, if it is much or old; a write that is under way does so itself,
        and is not waited for."""
        if self._is_due and self._lock.acquire(blocking=False):
            try:
                if self._is_due:
                    self._publish()
            finally:
                self._lock.release()

    def commit(self) -> None:
        """Publish what was staged, and begin the next batch."""
        with self._lock:
            self._publish()

    def _publish(self) -> None:
        for name, messages in self._messages.items():
            if messages:
                self._sinks[name].connector.commit(self._batch_name, messages)
        self._batch += 1
        self._begin()

    def abort(self) -> None:
        """Remove what was staged and not committed."""
        self._aborted = True
        self._settle()

    def close(self) -> None:
        """Close the sinks."""
        self._closed = True
        self._settle()

    def _settle(self) -> None:
        """Do what was asked for at the end, unless somebody writes, who will come here."""
        if not (self._aborted or self._closed) or not self._lock.acquire(blocking=False):
            return
        try:
            if self._aborted:
                for node in self._sinks.values():
                    with suppress(Exception):  # the first error is the one to show
                        node.connector.abort(self._batch_name, ATTEMPT)
            if self._closed:
                while self._opened:
                    self._opened.pop(0).close()
        finally:
            self._lock.release()
