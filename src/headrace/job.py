"""Running pipelines: `run` drives one stage on the calling thread, from sources to sinks.

>>> import headrace as hr
>>> numbers = hr.read.memory({"n": [1, 2, 3]})
>>> doubled = numbers.with_columns(n=hr.col("n") * 2).write.collect()
>>> job = hr.run(doubled)
>>> job.status, doubled.result().to_pydict()
('finished', {'n': [2, 4, 6]})
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .asked import NODE_CAPACITY, Asked, check_capacity, engine_named, planned
from .gate import Gate
from .handle import AnyJob, Job
from .options import (
    OptionError,
    check_options,
    chosen_bytes,
    chosen_policy,
    chosen_priority,
    chosen_reorder,
    chosen_scheduler,
    chosen_transport,
    chosen_workers,
    idle_microseconds,
    microseconds,
)
from .plan.explain import explain_plan
from .write import Output

if TYPE_CHECKING:
    pass

P = ParamSpec("P")
R = TypeVar("R")


def explain(
    *outputs: Output,
    engine: str | None = None,
    shards: int | None = None,
    fuse: str = "auto",
    prune: bool = True,
    ordering: str | None = None,
    partitioning: str | None = None,
) -> str:
    """What `run` would do with the same arguments, as text; nothing is started.

    >>> from headrace import read
    >>> said = explain(read.memory({"n": [1]}).write.collect(), engine="spark", shards=7)
    >>> [line for line in said.splitlines() if "driver" in line]
    ['  writes  sink_1: collect, on the driver; its rows cross: n: int64']
    """
    engine = engine_named(engine)
    check_options(engine, shards=shards, partitioning=partitioning)
    made = planned(outputs, fuse=fuse, prune=prune, ordering=ordering, partitioning=partitioning)
    if engine != "spark":
        return explain_plan(made, owned=engine == "node")
    from .spark import explain_on_spark

    return explain_on_spark(made, shards)


def run(
    *outputs: Output,
    fuse: str = "auto",
    prune: bool = True,
    capacity: int | None = None,
    compiled: bool = True,
    seconds: float | None = None,
    watch: Callable[[Any], None] | None = None,
    engine: str | None = None,
    workers: int | str | None = None,
    memory: int | str | None = None,
    ordering: str | None = None,
    master: str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    session: Any = None,
    shards: int | None = None,
    batch_rows: int | None = None,
    trigger: str | None = None,
    idle: Any = None,
    policy: Any = None,
    priority: Any = None,
    gate: Gate | None = None,
    reorder: str | None = None,
    scheduler: str | None = None,
    transport: str | None = None,
    deadline: Any = None,
    partitioning: str | None = None,
) -> AnyJob:
    """Run a pipeline until its sources end, and give the finished job.

    Ctrl-C stops reading; what was read is finished and committed.

    >>> import headrace as hr
    >>> collected = hr.read.memory({"n": [1, 2, 3]}).filter(hr.col("n") > 1).write.collect()
    >>> hr.run(collected, engine="thread").status, collected.result()["n"].to_pylist()
    ('finished', [2, 3])

    Args:
        outputs: What streams write: `stream.write.parquet(...)` and others; several run together.
        fuse: "none" runs every operator by itself.
        prune: False lets sources read all their columns.
        capacity: Rows in a block.
        compiled: False interprets, for debugging.
        seconds: Stop reading after so long.
        watch: Called with the job again and again, to show progress.
        engine: "spark" (on a cluster or on all cores), "node" (on threads of this process, with
            the same rows in the same order) or "thread" (on the one that calls). Where none is
            named, the environment variable HEADRACE_ENGINE says it, or it is "spark".
        workers: On the node engine, how many threads; by default one per core. "auto": as many of
            these run as are worth it, by the rows that they read (docs/scheduling.md).
        ordering: In which order sinks see rows, unless their stream says it (`with_ordering`):
            "total" (as one worker gives them), "key" (those of each key so) or "none". Without it,
            total, and on Spark what `explain` says; what Spark cannot give is an error.
        memory: On the node engine, the most bytes of all blocks and state, or a text: "2 GiB".
        master: On Spark, the cluster, e.g. "spark://host:7077"; by default all cores here.
        checkpoint: On Spark, the folder to go on from after a failure.
        session: On Spark, the user's own session; its settings stay as they are.
        shards: On Spark, the number of owners of keys; by default one per core.
        batch_rows: On Spark, the most rows of a micro-batch. Without it there are 4 million; where
            sources end, batches are larger, and grow until one takes some seconds.
        trigger: On Spark, the least time between two micro-batches, e.g. "5 seconds", or
            "available now" to stop when streaming DataFrames have given what they had.
        idle: On Spark and on the node engine, a time such as "30s": a channel that brings nothing
            for so long holds no windows back any more, and what it brings then may be late.
        policy: On the node engine, who runs first: the name of a policy, a function of features, or
            a `headrace.control.Policy` (docs/scheduling.md).
        priority: On the node engine, and on Spark at a gate, what policies are told about the
            query: "normal", "high" or a number. By default queries with more of it come first.
        gate: On Spark, an `hr.Gate` at which the query asks before each micro-batch; queries that
            share a session share it.
        reorder: On the node engine, how the rows of an operator that several workers share are put
            in order: "non-blocking" (Ordered, fig. 4) or, to compare with, "lock" (fig. 2).
        scheduler: On the node engine, how workers find what to run: "near", "free_list",
            "dedicated" or "manual", and where there is a policy "priority" or "assigned"
            (docs/scheduling.md).
        transport: On the node engine, how rows travel between operators: in "blocks", or, to
            compare with, one by one in "queues" (Enjima §4).
        deadline: On the node engine, what policies are told about the query, too: a time such as
            "50ms" that a row may take (`features.deadline`).
        partitioning: On the node engine, how workers share the keys of `process`, `running` and the
            like: each has key groups of its own ("owners"), or takes those that have rows
            ("hybrid": Ordered, fig. 7), for skewed keys and long rows ("shared", §4.1, to compare).

    An option that the engine does not honour is an error (`headrace.options`).
    """
    try:
        return Asked(**locals()).run()
    except Exception as error:
        from .stage.failure import shortened

        raise shortened(error) from None


def _arguments_of(function: Callable[P, Any]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Let a function take the arguments of another one, and be given the defaults, too."""
    signature = inspect.signature(function)

    def decorated(given: Callable[..., R]) -> Callable[P, R]:
        @functools.wraps(given)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{given.__name__}() {error}") from None
            bound.apply_defaults()
            return given(**bound.arguments)

        called.__signature__ = signature.replace(  # type: ignore[attr-defined]
            return_annotation=inspect.signature(given).return_annotation
        )
        return called

    return decorated


@_arguments_of(run)
def start(**arguments: Any) -> AnyJob:
    """Start a pipeline on any engine, and give its job at once.

    The arguments are those of `run`. On Spark, "at once" is when Spark itself has started.

    >>> import headrace as hr
    >>> squares = hr.read.memory({"n": [1, 2, 3]}).select(n=hr.col("n") * hr.col("n"))
    >>> collected = squares.write.collect()
    >>> job = hr.start(collected, engine="node", workers=1)
    >>> job.await_termination(60), job.status, collected.result()["n"].to_pylist()
    (True, 'finished', [1, 4, 9])
    """
    return Asked(**arguments).start()


class Engine:
    """Workers that many queries share: they come and go while others run.

    >>> import headrace as hr
    >>> with hr.Engine(workers=2) as engine:  # at its end, `engine.close()`
    ...     rows = hr.read.index(100)
    ...     jobs = [engine.submit(rows.write.null()) for _ in range(engine.workers)]
    ...     [job.await_termination(60) for job in jobs]
    [True, True]
    """

    def __init__(
        self,
        workers: int | str | None = None,
        *,
        run_us: float | None = None,
        policy: Any = None,
        scheduler: str | None = None,
    ) -> None:
        """Workers for queries.

        Args:
            workers: How many threads; by default one per core. "auto": as many of these run as
                are worth it, by the rows that they read.
            run_us: How long a worker stays with one operator, at most, in microseconds (about: by
                what its rows took so far); then others get their turn. 0: as long as it has work.
            policy: Who runs first, as in `run`; `use` changes it.
            scheduler: How workers find what to run, as in `run`.
        """
        from .node.engine import NodeEngine

        given = chosen_workers(workers)
        if run_us is not None and run_us < 0:
            raise ValueError(f"run_us={run_us}: a run takes some time, or 0 for no limit")
        run_ns = None if run_us is None else int(run_us * 1000)
        chosen = chosen_policy(policy)
        named = chosen_scheduler(scheduler, chosen, workers)
        self._engine = NodeEngine(**given, run_ns=run_ns, policy=chosen, scheduler=named)
        self._lock = threading.Lock()
        self.jobs: list[Job] = []  # that are not over
        # its threads know the engine inside, not this one: a job that runs keeps it alive
        weakref.finalize(self, self._engine.leave).atexit = False

    @property
    def workers(self) -> int:
        """How many threads there are."""
        return self._engine.workers

    @property
    def active(self) -> int:
        """How many of them run; the others are suspended (`workers="auto"`).

        >>> with Engine(workers=2) as engine:
        ...     engine.active
        2
        """
        return self._engine.active

    def use(self, policy: Any, *, period: float | None = None, batch: int | None = None) -> None:
        """Let another policy say who runs first, while jobs run.

        Args:
            policy: As in `run`.
            period: Seconds from one look at the features to the next, at least.
            batch: Rows that an operator takes in a run, at most.

        >>> import headrace as hr
        >>> with hr.Engine(workers=1, policy="fcfs") as engine:
        ...     engine.use("highest_rate", period=0.01)
        ...     engine.scheduling()
        "policy 'highest_rate', asked every 10 ms at most, in Python"
        """
        chosen = chosen_policy(policy, period, batch)
        if chosen is None:
            raise OptionError("policy=None: this is not a policy\n  fix: name one")
        self._engine.use_policy(chosen)

    def scheduling(self) -> str:
        """Who says who runs first: a policy, or the engine itself.

        >>> import headrace as hr
        >>> with hr.Engine(workers=1) as engine:
        ...     engine.scheduling()
        'the default'
        """
        return self._engine.scheduling()

    @property
    def is_warm(self) -> bool:
        """Is all machine code there? With an empty cache the workers' loop is interpreted at first,
        for some seconds.

        >>> import headrace as hr
        >>> with hr.Engine(workers=1) as engine:
        ...     engine.is_warm in (True, False)
        True
        """
        return self._engine.is_warm

    def submit(
        self,
        *outputs: Output,
        fuse: str = "auto",
        prune: bool = True,
        capacity: int | None = None,
        seconds: float | None = None,
        watch: Callable[[Any], None] | None = None,
        memory: int | str | None = None,
        idle: Any = None,
        priority: Any = None,
        ordering: str | None = None,
        reorder: str | None = None,
        transport: str | None = None,
        deadline: Any = None,
        partitioning: str | None = None,
    ) -> Job:
        """Start a pipeline on these workers, and give its job at once.

        memory: a budget for its blocks and state. The others are those of `run`.
        """
        made = planned(
            outputs, fuse=fuse, prune=prune, ordering=ordering, partitioning=partitioning
        )
        check_capacity(capacity)
        execution = self._engine.query(
            made,
            capacity or NODE_CAPACITY,
            chosen_bytes(memory),
            idle_microseconds(idle),
            chosen_priority(priority),
            chosen_reorder(reorder),
            chosen_transport(transport, capacity),
            None if deadline is None else microseconds("deadline", deadline),
        )
        job = Job(made, execution, seconds, watch, engine=self)
        with self._lock:  # `close` sees the job, or the job sees that it is closed
            self._engine.check()
            self.jobs = [known for known in self.jobs if not known.is_over] + [job]
        return job.start()

    def close(self, timeout: float = 10.0) -> None:
        """Cancel the jobs that still run, and end the workers; from any thread, also of a job."""
        with self._lock:
            jobs = self.jobs
            for job in jobs:
                job.cancel()
            self._engine.refuse()
        deadline = time.monotonic() + timeout
        for job in jobs:
            job.cancel(max(0.0, deadline - time.monotonic()))
        self._engine.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
