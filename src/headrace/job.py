"""Running pipelines: `run` drives one stage on the calling thread, from sources to sinks.

>>> import headrace as hr
>>> numbers = hr.read.memory({"n": [1, 2, 3]})
>>> doubled = numbers.with_columns(n=hr.col("n") * 2).write.collect()
>>> job = hr.run(doubled)
>>> job.status, doubled.result().to_pydict()
('finished', {'n': [2, 4, 6]})
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .node.engine import NodeRun
from .plan.errors import PipelineError
from .plan.explain import explain_plan
from .plan.nodes import Node
from .plan.planner import Plan, plan
from .plan.site import caller_site
from .stage.failure import shortened
from .stage.stage import DEFAULT_CAPACITY
from .thread import ThreadRun
from .write import Output


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

    def __init__(self, planned: Plan, execution: ThreadRun | NodeRun) -> None:
        self.plan = planned
        self.status = "starting"
        self._execution = execution
        self._started = time.perf_counter()
        self._ended: float | None = None
        self._stopping = False

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
        operators = self.metrics()
        rows_in = sum(operators[node.name]["rows_in"] for node in self._execution.sources)
        rows_out = sum(operators[name]["rows_in"] for name in self._execution.sinks)
        late = sum(measured["late_rows"] for measured in operators.values())
        rate = rows_in / seconds if seconds > 0 else 0.0
        return Progress(self.status, seconds, rows_in, rows_out, late, rate, operators)

    def metrics(self) -> dict[str, dict[str, Any]]:
        """For every operator: rows in and out, late rows, blocks, seconds, state size."""
        return self._execution.metrics()

    def _run(self, watch: Callable[[Job], None] | None, seconds: float | None) -> None:
        deadline = None if seconds is None else self._started + seconds

        def turn() -> bool:
            if watch is not None:
                watch(self)
            late = deadline is not None and time.perf_counter() >= deadline
            return self._stopping or late

        self.status = "running"
        try:
            with _interrupts_stop(self):
                ended = self._execution.run(turn)
            self.status = "finished" if ended else "stopped"
        except BaseException:
            self.status = "failed"
            raise
        finally:
            self._ended = time.perf_counter()


@contextmanager
def _interrupts_stop(job: Job) -> Iterator[None]:
    """The first Ctrl-C drains: what was read is finished. The second one interrupts."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals go to the main thread
        return
    before = signal.getsignal(signal.SIGINT)

    def stop(number: int, frame: Any) -> None:
        job.stop()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
    watch: Callable[[Any], None] | None = None,
    engine: str = "thread",
    workers: int | None = None,
    master: str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    session: Any = None,
    shards: int | None = None,
    batch_rows: int | None = None,
    trigger: str | None = None,
    idle: Any = None,
) -> Any:
    """Run a pipeline until its sources end, and give the finished job.

    fuse: "none" runs every operator by itself. prune=False lets sources read all their columns.
    capacity: rows in a block. compiled=False interprets, for debugging. seconds: stop reading after
    so long. watch: called with the job again and again, to show progress. Ctrl-C stops reading;
    what was read is finished and committed.

    engine: "thread" runs on this thread; "node" on `workers` threads (default: one per core), with
    the same rows in the same order; "spark" on a cluster, `master` (default: all cores of this
    machine) or the user's own `session`. There, `checkpoint` is the folder to go on from after a
    failure, `shards` the number of owners of keys, `batch_rows` the most rows of a micro-batch and
    `trigger` the least time between two, e.g. "5 seconds". A channel that brings nothing for so
    long as `idle`, e.g. "30s", holds no windows back any more; what it brings then may be late.
    """
    if engine not in ("thread", "node", "spark"):
        raise ValueError(f'engine={engine!r}: use "thread", "node" or "spark"')
    made = planned(outputs, fuse=fuse, prune=prune)
    try:
        if engine == "spark":
            from .spark import start

            options = {"master": master, "checkpoint": checkpoint, "session": session}
            options |= {"shards": shards, "batch_rows": batch_rows, "trigger": trigger}
            options["idle"] = idle
            started = start(made, capacity=capacity, compiled=compiled, **options)
            return started.finish(seconds, watch)
        execution: ThreadRun | NodeRun
        if engine == "node":
            execution = NodeRun(made, workers, capacity, compiled)
        else:
            execution = ThreadRun(made, capacity, compiled)
        job = Job(made, execution)
        job._run(watch, seconds)
    except Exception as error:
        raise shortened(error) from None
    return job
