"""Queries that run while they are measured: the one place that knows how engines are started.

    with Queries(outputs, How(engine="node", workers=2)) as queries:
        queries.await_rows()
        queries.stop()

The node engine runs all of them on the same workers. On Spark, `hr.run` waits for the end of a
query, so each gets a thread here.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.plan.errors import HeadraceError
from headrace.stream import Stream
from headrace.write import Output

START_SECONDS = 180.0  # the longest wait for the first rows: Spark starts a JVM, kernels compile
STOP_SECONDS = 120.0
BOUND_US = 200.0  # of a run that is bounded
END_SECONDS = 600.0  # of a query that ends by itself
POLL_SECONDS = 0.001
OVER = ("finished", "stopped", "cancelled", "failed")


class BenchError(HeadraceError):
    """A benchmark cannot be run, or did not come to an end."""


@dataclass(frozen=True)
class How:
    """How queries are run. `capacity` is None for the engine's own block size.

    bounded: whether runs of the node engine are bounded in time; None for its own way. policy,
    scheduler, ordering, reorder, transport, partitioning: as in `run`.
    """

    engine: str = "node"
    workers: int | str = 2  # or "auto"
    fuse: str = "auto"
    prune: bool = False
    capacity: int | None = None
    bounded: bool | None = None
    policy: Any = None
    scheduler: str | None = None
    ordering: str | None = None
    reorder: str | None = None
    transport: str | None = None
    partitioning: str | None = None

    @property
    def threads(self) -> int:
        """How many threads compute."""
        if self.engine == "thread":
            return 1
        return self.workers if isinstance(self.workers, int) else os.cpu_count() or 1

    def options(self) -> dict[str, Any]:
        """What every engine is told about a query."""
        names = ("capacity", "ordering", "reorder", "transport", "partitioning")
        chosen = {name: getattr(self, name) for name in names}
        given = {name: value for name, value in chosen.items() if value is not None}
        return {"fuse": self.fuse, "prune": self.prune, **given}


def _engine(how: How) -> hr.Engine:
    """An engine whose runs are bounded to 200 µs of work, or not bounded, or as it likes."""
    run_us = None if how.bounded is None else BOUND_US if how.bounded else 0
    return hr.Engine(how.workers, run_us=run_us, policy=how.policy, scheduler=how.scheduler)


@dataclass
class Results:
    """What a query gives, and when its first rows came."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    first: float | None = None

    def take(self, batch: pa.RecordBatch) -> None:
        """A sink's callback."""
        if self.first is None:
            self.first = time.perf_counter()
        self.batches.append(batch)

    def table(self, output: Output) -> pa.Table:
        """All rows that came to an output."""
        return pa.Table.from_batches(self.batches, output.node.schema.to_arrow())


class OwnThread:
    """A query that `hr.run` runs, on a thread of its own."""

    def __init__(self, output: Output, how: How) -> None:
        self.error: BaseException | None = None
        self._output, self._how = output, how
        self._job: Any = None
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="headrace-bench", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        how, options = self._how, self._how.options()
        if how.engine == "spark":
            options["master"] = f"local[{how.workers}]"
        try:
            # a short run may be over before it is looked at
            self._job = hr.run(self._output, engine=how.engine, watch=self._look, **options)
        except BaseException as error:
            self.error = error

    def _look(self, job: Any) -> None:
        self._job = job
        if self._stopping:
            job.stop()

    @property
    def status(self) -> str:
        """The status of the job; one that fails before it starts has failed, too."""
        if self.error is not None:
            return "failed"
        return "starting" if self._job is None else str(self._job.status)

    def progress(self) -> Any:
        """How far the job is; None before it starts."""
        return None if self._job is None else self._job.progress()

    def stop(self) -> None:
        """Read no more; what was read is finished."""
        self._stopping = True

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for the end; raises the error of the job."""
        self._thread.join(timeout)
        if self.error is not None:
            raise self.error
        return not self._thread.is_alive()


class Queries:
    """Several queries, each with an output, from their start to their end."""

    def __init__(self, outputs: Sequence[Output], how: How) -> None:
        self._outputs, self._how = outputs, how
        self._resources = ExitStack()
        self.jobs: list[Any] = []

    def __enter__(self) -> Queries:
        self.started = time.perf_counter()
        try:
            for output in self._outputs:
                self.submit(output)
        except BaseException:
            self._resources.close()
            raise
        return self

    def submit(self, output: Output, **options: Any) -> Any:
        """Start one more query beside the others, and give its job. options: more of them, for
        this query alone."""
        self.jobs.append(self._started(output, **options))
        return self.jobs[-1]

    @cached_property
    def _engine(self) -> hr.Engine:
        return self._resources.enter_context(_engine(self._how))

    def _started(self, output: Output, **options: Any) -> Any:
        if self._how.engine == "node":
            return self._engine.submit(output, **self._how.options(), **options)
        if self._how.engine == "thread":
            return hr.start(output, engine="thread", **self._how.options())
        return OwnThread(output, self._how)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if not self.are_over:  # after an error, or Ctrl-C
                with suppress(Exception):
                    self.stop()
        finally:
            self._resources.close()

    def rows(self) -> list[int]:
        """How many rows each query has read."""
        return [_rows_in(job) for job in self.jobs]

    def await_rows(self) -> float:
        """Wait until every query has read rows; gives when, or the start if all are over by now."""
        waiting = list(self.jobs)

        def all_have_rows() -> bool:
            while waiting and _rows_in(waiting[-1]):
                waiting.pop()
            return not waiting

        self.await_that(all_have_rows)
        return self.started if self.are_over else time.perf_counter()

    def await_warm(self) -> None:
        """Wait until nothing is compiled any more: a first start has an empty cache."""
        until = time.perf_counter() + START_SECONDS
        while self._how.engine == "node" and not self._engine.is_warm:
            self.raise_errors()
            if time.perf_counter() > until:
                raise BenchError(f"the engine was not compiled within {START_SECONDS:g} s")
            time.sleep(POLL_SECONDS)

    @property
    def active(self) -> int:
        """Workers of the node engine that run."""
        return self._engine.active

    @property
    def meeting_seconds(self) -> float:
        """Seconds in which workers of the node engine met, instead of working, so far."""
        return self._engine._engine.meeting_seconds

    @property
    def are_over(self) -> bool:
        """Have all queries come to their end?"""
        return all(job.status in OVER for job in self.jobs)

    def await_that(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so, or all queries are over; raises their errors."""
        until = time.perf_counter() + START_SECONDS
        while not is_so():
            self.raise_errors()
            if self.are_over:
                return
            if time.perf_counter() > until:
                raise BenchError(f"nothing came within {START_SECONDS:g} s")
            time.sleep(POLL_SECONDS)

    def raise_errors(self) -> None:
        """Raise the error of a query that has failed."""
        for job in self.jobs:
            if job.status == "failed":
                job.await_termination(0.0)
                raise BenchError("a query failed")

    def stop(self) -> None:
        """Read no more, and wait until what was read is finished."""
        for job in self.jobs:
            job.stop()
        self.await_end()

    def await_end(self, timeout: float = STOP_SECONDS) -> None:
        """Wait until all queries are over; raises their errors."""
        until = time.perf_counter() + timeout
        for job in self.jobs:
            if not job.await_termination(max(0.0, until - time.perf_counter())):
                raise BenchError(f"a query did not end within {timeout:g} s")


@dataclass(frozen=True)
class Ended:
    """A query that came to its end: rows read, seconds and CPU seconds from the first one on, and
    its results."""

    rows: int
    seconds: float
    cpu: float
    result: pa.Table


def finish(stream: Stream, how: How) -> Ended:
    """Run a pipeline to its end; the engine is compiled behind it, for the runs that follow.

    >>> finish(hr.read.memory({"n": [1, 2, 3]}), How("thread")).result["n"].to_pylist()
    [1, 2, 3]
    """
    results = Results()
    output = stream.write.callback(results.take)
    begun = time.process_time()
    with Queries([output], how) as queries:
        started = queries.await_rows()
        used = begun if started == queries.started else time.process_time()
        queries.await_end(END_SECONDS)
        seconds, cpu = time.perf_counter() - started, time.process_time() - used
        (rows,) = queries.rows()
        queries.await_warm()
    return Ended(rows, seconds, cpu, results.table(output))


class Column:
    """The last column of what a query gives, in memory that is used again and again: fresh memory
    for millions of rows takes longer than the rows do.

    >>> column = Column(2)
    >>> column.take(pa.record_batch({"n": [7, 8]})); column.values.tolist(), column.rows
    ([7, 8], 2)
    """

    def __init__(self, rows: int) -> None:
        self.values, self.rows = np.zeros(rows, np.int64), 0

    def take(self, batch: pa.RecordBatch) -> None:
        """A sink's callback; more rows than there should be are counted."""
        made = batch.column(batch.num_columns - 1).to_numpy()
        room = self.values[self.rows : self.rows + len(made)]
        room[:] = made[: len(room)]
        self.rows += len(made)


def finish_into(stream: Stream, how: How, column: Column) -> float:
    """As `finish`, with the last column of the result alone; gives the seconds.

    >>> column = Column(3)
    >>> seconds = finish_into(hr.read.memory({"n": [1, 2, 3]}), How("thread"), column)
    >>> column.values.tolist()
    [1, 2, 3]
    """
    column.rows = 0
    with Queries([stream.write.callback(column.take)], how) as queries:
        started = queries.await_rows()
        queries.await_end(END_SECONDS)
        seconds = time.perf_counter() - started
        queries.await_warm()
    return seconds


def _rows_in(job: Any) -> int:
    progress = job.progress()
    return 0 if progress is None else progress.rows_in
