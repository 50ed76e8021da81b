"""Running pipelines: `run` drives one stage on the calling thread, from sources to sinks.

>>> import headrace as hr
>>> numbers = hr.read.memory({"n": [1, 2, 3]})
>>> doubled = numbers.with_columns(n=hr.col("n") * 2).write.collect()
>>> job = hr.run(doubled)
>>> job.status, doubled.result().to_pydict()
('finished', {'n': [2, 4, 6]})
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .plan.connector import Reader
from .plan.connector import Sink as SinkConnector
from .plan.errors import PipelineError
from .plan.explain import explain_plan
from .plan.nodes import WATERMARK, Node, Sink, Source
from .plan.planner import Plan, plan
from .plan.site import caller_site
from .stage.blocks.arrow import to_arrow
from .stage.failure import shortened
from .stage.stage import DEFAULT_CAPACITY, Stage
from .write import Output

POLL_ROWS = 65_536
POLL_SECONDS = 0.05
COMMIT_ROWS = 4_000_000  # rows written after which a batch is committed
COMMIT_SECONDS = 1.0


@dataclass(frozen=True)
class Progress:
    """How far a job is."""

    status: str
    seconds: float
    rows_in: int
    rows_out: int
    late_rows: int
    rows_per_second: float
    operators: dict[str, dict[str, Any]]


class Job:
    """A pipeline that runs, or has run."""

    def __init__(self, planned: Plan, capacity: int, compiled: bool) -> None:
        self.plan = planned
        self.status = "starting"
        self._started = time.perf_counter()
        self._ended: float | None = None
        self._stopping = False
        self._stage = Stage(planned.whole, capacity=capacity, compiled=compiled)
        self._sources = [n for n in planned.whole.inputs if isinstance(n, Source)]
        self._sinks = {n.name: n for n in planned.whole.roots if isinstance(n, Sink)}

    def __repr__(self) -> str:
        return f"Job({self.status}, {self.progress().rows_in:,} rows in)"

    def explain(self) -> str:
        """The plan before and after rewriting, and its stages."""
        return explain_plan(self.plan)

    def stop(self) -> None:
        """Read no more; what was read is finished and committed. May be called from any thread."""
        self._stopping = True

    def progress(self) -> Progress:
        """How far the job is: rows, rates, and the same for every operator."""
        seconds = (self._ended or time.perf_counter()) - self._started
        operators = self._stage.metrics()
        rows_in = sum(operators[node.name]["rows_in"] for node in self._sources)
        rows_out = sum(operators[name]["rows_in"] for name in self._sinks)
        late = sum(measured["late_rows"] for measured in operators.values())
        rate = rows_in / seconds if seconds > 0 else 0.0
        return Progress(self.status, seconds, rows_in, rows_out, late, rate, operators)

    def metrics(self) -> dict[str, dict[str, Any]]:
        """For every operator: rows in and out, late rows, blocks, seconds, state size."""
        return self._stage.metrics()

    # ---- the loop ----------------------------------------------------------------------------

    def _run(self, watch: Callable[[Job], None] | None, seconds: float | None) -> None:
        run = _Run(self._stage, self._sources, self._sinks)
        deadline = None if seconds is None else self._started + seconds
        try:
            run.open()
            self.status = "running"
            while not self._stopping and run.channels:
                try:
                    run.turn()
                except KeyboardInterrupt:  # Ctrl-C drains: finish what was read
                    self._stopping = True
                if watch is not None:
                    watch(self)
                if deadline is not None and time.perf_counter() >= deadline:
                    self._stopping = True
            run.finish()
            self.status = "stopped" if run.channels else "finished"
        except BaseException:
            self.status = "failed"
            run.abort()
            raise
        finally:
            run.close()
            self._ended = time.perf_counter()
            self._stage.close()


class _Run:
    """Readers, the stage, and sinks with the batch they are writing."""

    def __init__(self, stage: Stage, sources: list[Source], sinks: dict[str, Sink]) -> None:
        self.stage, self.sources, self.sinks = stage, sources, sinks
        self.channels: list[tuple[Source, str, Reader]] = []
        self._opened: list[Any] = []
        self._messages: dict[str, list[Any]] = {name: [] for name in sinks}
        self._job = uuid.uuid4().hex[:12]
        self._batch = 0
        self._rows, self._since = 0, time.perf_counter()

    def open(self) -> None:
        """Sinks first: what is wrong with them shows before a row is read."""
        for sink in self.sinks.values():
            self._opened.append(sink.connector)
            sink.connector.open(sink.schema)
        for node in self.sources:
            self._opened.append(node.connector)
            names = [name for name in node.schema.names if name != WATERMARK]
            channels = list(node.connector.channels())
            self.stage.declare(node.name, *channels)
            for channel in channels:
                reader = node.connector.open(channel, None, None, names, node.predicate)
                self.channels.append((node, channel, reader))

    def turn(self) -> None:
        """One batch of every channel."""
        wait = POLL_SECONDS / max(len(self.channels), 1)
        for entry in list(self.channels):
            node, channel, reader = entry
            batch = reader.poll(POLL_ROWS, wait)
            if batch.rows is not None and batch.rows.num_rows:
                self.stage.push(node.name, batch.rows, channel)
            if batch.ended:
                self.stage.end(node.name, channel)
                self.channels.remove(entry)
                reader.close()
            self._drain()
        if self._rows >= COMMIT_ROWS or time.perf_counter() - self._since >= COMMIT_SECONDS:
            self._commit()

    def _drain(self) -> None:
        for name, block in self.stage.pull():
            rows = to_arrow(block)
            sink: SinkConnector = self.sinks[name].connector
            message = sink.write(rows, self._batch_name, "0")
            self._messages[name].append(message)
            self._rows += rows.num_rows

    @property
    def _batch_name(self) -> str:
        return f"{self._job}-{self._batch:06}"

    def _commit(self) -> None:
        for name, messages in self._messages.items():
            if messages:
                self.sinks[name].connector.commit(self._batch_name, messages)
        self._messages = {name: [] for name in self.sinks}
        self._batch += 1
        self._rows, self._since = 0, time.perf_counter()

    def finish(self) -> None:
        """Finish what was read, and commit it."""
        self._drain()
        self._commit()

    def abort(self) -> None:
        """Remove what was staged and not committed."""
        for node in self.sinks.values():
            with suppress(Exception):  # the first error is the one to show
                node.connector.abort(self._batch_name, "0")

    def close(self) -> None:
        """Close everything that was opened."""
        for _, _, reader in self.channels:
            reader.close()
        for connector in self._opened:
            connector.close()


def planned(outputs: Sequence[Output], *, fuse: str = "auto", prune: bool = True) -> Plan:
    """The plan of some outputs, checked."""
    nodes: list[Node] = []
    for output in outputs:
        if not isinstance(output, Output):
            raise PipelineError(
                f"{output!r} is not an output",
                operator="run",
                site=caller_site(),
                fix="give run what stream.write... returns, e.g. stream.write.collect()",
            )
        nodes.append(output.node)
    if not nodes:
        raise PipelineError(
            "there is nothing to run",
            operator="run",
            site=caller_site(),
            fix="hr.run(stream.write.console())",
        )
    return plan(nodes, fuse=fuse, prune=prune)


def run(
    *outputs: Output,
    fuse: str = "auto",
    prune: bool = True,
    capacity: int = DEFAULT_CAPACITY,
    compiled: bool = True,
    seconds: float | None = None,
    watch: Callable[[Job], None] | None = None,
) -> Job:
    """Run a pipeline on this thread until its sources end, and give the finished job.

    fuse: "none" runs every operator by itself. prune=False lets sources read all their columns.
    capacity: rows in a block. compiled=False interprets, for debugging. seconds: stop reading after
    so long. watch: called with the job again and again, to show progress. Ctrl-C stops reading;
    what was read is finished and committed.
    """
    job = Job(planned(outputs, fuse=fuse, prune=prune), capacity, compiled)
    try:
        job._run(watch, seconds)
    except Exception as error:
        raise shortened(error) from None
    return job
