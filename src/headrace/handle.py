"""The handle of a job: how it stands, what it has done, and how to end it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from .observe.graph import Graph
from .observe.history import History
from .observe.notice import Notice
from .observe.process import ProcessUsage, process_usage
from .plan.explain import explain_plan
from .plan.nodes import Sink, Source
from .plan.planner import Plan

if TYPE_CHECKING:
    from .control.simulator.measured import Measured
    from .control.simulator.profile import Profile

STARTING, RUNNING = "starting", "running"
FINISHED, STOPPED, CANCELLED, FAILED = "finished", "stopped", "cancelled", "failed"
CANCEL_SECONDS = 1.5  # that a job which is cancelled has to end by itself


class Cancelled(BaseException):
    """Raised inside a run to end it at once; never seen outside."""


class Execution(Protocol):
    """What a job drives: a plan on some engine."""

    @property
    def sources(self) -> Sequence[Source]:
        """Where it reads."""

    @property
    def sinks(self) -> Mapping[str, Sink]:
        """Where it writes, by name."""

    def run(self, turn: Callable[[], bool]) -> bool:
        """Run until the sources end (True) or `turn`, called again and again, says stop (False).

        What `turn` raises ends the run at once: nothing is committed any more, and what cannot be
        had back yet, since a call into Python or a kernel has not returned, is not waited for.
        """

    def metrics(self) -> dict[str, dict[str, Any]]:
        """What each operator has done."""

    def latency(self) -> dict[str, Any]:
        """How long rows took, where the engine measures it."""

    def sample(self) -> None:
        """Measure the operators inside kernels from now on."""

    def measured(self, seconds: float) -> Iterable[Measured]:
        """What the simulator has to know of each operator, after so long."""


class AnyJob(Protocol):
    """The face of a job, whatever engine it runs on: `Job`, or Spark's."""

    plan: Plan
    status: str
    error: BaseException | None

    @property
    def is_over(self) -> bool:
        """Has it ended, whatever way?"""

    def explain(self) -> str:
        """The plan before and after rewriting, and its stages."""

    def progress(self) -> Any:
        """How far the job is: rows, rates, and the same for every operator."""

    def metrics(self) -> dict[str, dict[str, Any]]:
        """What each operator has done."""

    def latency(self) -> dict[str, Any]:
        """How long rows took, where the engine measures it."""

    def profile(self) -> Profile:
        """What the simulator has to know; an error where the engine does not measure it."""

    def stop(self, *, drain: bool = True, timeout: float | None = None) -> bool:
        """Read no more; what was read is finished and committed. drain=False: as `cancel`."""

    def cancel(self, timeout: float | None = None) -> bool:
        """End the job at once; what is not committed is thrown away."""

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for the end of the job; is it over? The error of a job that failed is raised."""


@dataclass(frozen=True)
class Progress:
    """How far a job is."""

    status: str
    seconds: float
    rows_in: int
    rows_out: int
    late_rows: int
    failed_rows: int
    rows_per_second: float
    operators: dict[str, dict[str, Any]]
    process: ProcessUsage


class Job:
    """A pipeline that runs, or has run. `hr.start` and `hr.run` make it.

    >>> import headrace as hr
    >>> output = hr.read.memory({"n": [1, 2, 3]}).filter(hr.col("n") > 1).write.collect()
    >>> job = hr.start(output, engine="thread")
    >>> job.await_termination(timeout=60)
    True
    >>> job.status, job.is_over, output.result().num_rows
    ('finished', True, 2)

    One that runs without an end is stopped from outside:

    >>> job = hr.start(hr.read.index().write.null(), engine="thread")
    >>> job.stop(timeout=60)
    True
    >>> job.status
    'stopped'
    """

    def __init__(
        self,
        planned: Plan,
        execution: Execution,
        seconds: float | None = None,
        watch: Callable[[Job], None] | None = None,
        engine: object = None,
    ) -> None:
        """`engine` lives as long as the job is not over."""
        self.plan, self.status = planned, STARTING
        self.error: BaseException | None = None
        self._execution, self._seconds, self._watch = execution, seconds, watch
        self._priority = getattr(execution, "priority", None) or 0.0
        self._started = time.perf_counter()
        self._ended: float | None = None
        self._stopping = self._cancelling = False
        self._engine = engine
        self._ending, self._over = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None  # that it runs on
        self._history, self._notice = History(), Notice()

    def __repr__(self) -> str:
        return f"Job({self.status}, {self.progress().rows_in:,} rows in)"

    @property
    def is_over(self) -> bool:
        """Has it ended, whatever way?"""
        return self._over.is_set()

    def explain(self) -> str:
        """The plan before and after rewriting, its stages, and who says which runs first.

        >>> import headrace as hr
        >>> job = hr.run(hr.read.index(3).write.null(), engine="thread")
        >>> "index" in job.explain()
        True
        """
        said = explain_plan(self.plan, owned=getattr(self._execution, "owners", 1) > 1)
        scheduling = getattr(self._execution, "scheduling", None)
        return said if scheduling is None else f"{said}\n\nscheduling: {scheduling()}"

    # ---- how it ends -------------------------------------------------------------------------

    def stop(self, *, drain: bool = True, timeout: float | None = None) -> bool:
        """Read no more; what was read is finished and committed. drain=False: as `cancel`.

        May be called from any thread. Waits for the end where a time-out (seconds) is given, and
        says whether the job is over.
        """
        if not drain:
            return self.cancel(timeout)
        self._stopping = True
        return self._await(timeout)

    def cancel(self, timeout: float | None = None) -> bool:
        """End the job at once; what sinks have not committed is thrown away. Else as `stop`.

        Within two seconds it is over, whatever it does: a call of a connector or of a function that
        does not return by then is left alone, and what it brings is thrown away.

        >>> import headrace as hr
        >>> job = hr.start(hr.read.index().write.null(), engine="thread")
        >>> job.cancel(timeout=60), job.status
        (True, 'cancelled')
        """
        with self._ending:
            first, self._cancelling = not self._cancelling, True
        if first and not self.is_over:
            name = "headrace-cancel"
            threading.Thread(target=self._see_the_end, name=name, daemon=True).start()
        return self._await(timeout)

    def _see_the_end(self) -> None:
        """Of a job that is cancelled: it ends by itself, unless its thread is held up."""
        if not self._over.wait(CANCEL_SECONDS):
            self._end(CANCELLED)

    def _await(self, timeout: float | None) -> bool:
        """Wait, but not for oneself: the callbacks of a job may end it."""
        own = self._thread is threading.current_thread()
        return self._over.wait(0.0 if own or timeout is None else timeout)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for the end of the job, at most `timeout` seconds; is it over?

        The error of a job that failed is raised.

        >>> import headrace as hr
        >>> hr.start(hr.read.index(3).write.null(), engine="thread").await_termination(60)
        True
        """
        over = self._over.wait(timeout)
        if over and self.error is not None:
            raise self.error
        return over

    # ---- what it has done --------------------------------------------------------------------

    def progress(self) -> Progress:
        """How far the job is: rows, rates, and the same for every operator.

        >>> import headrace as hr
        >>> done = hr.run(hr.read.index(3).write.null(), engine="thread").progress()
        >>> done.status, done.rows_in, done.rows_out
        ('finished', 3, 3)
        """
        seconds = (self._ended or time.perf_counter()) - self._started
        operators = self._measured()
        rows_in = sum(self._rows_in(operators, node.name) for node in self._execution.sources)
        rows_out = sum(self._rows_in(operators, name) for name in self._execution.sinks)
        late, failed = (
            sum(measured[kind] for measured in operators.values())
            for kind in ("late_rows", "failed_rows")
        )
        rate = rows_in / seconds if seconds > 0 else 0.0
        used = process_usage()
        counted = rows_in, rows_out, late, failed
        return Progress(self.status, seconds, *counted, rate, operators, used)

    @staticmethod
    def _rows_in(operators: dict[str, dict[str, Any]], name: str) -> int:
        return operators[name]["rows_in"] if name in operators else 0  # not yet built

    def dataframe(self) -> Any:
        """The progress over time: seconds, rows in, out and late so far, rows per second.

        A pandas DataFrame, or one of Polars where there is no pandas. Points lie half a second
        apart at first, and wider where the job runs long: there are a thousand at most.

        >>> import headrace as hr
        >>> list(hr.run(hr.read.index(3).write.null(), engine="thread").dataframe().columns)
        ['seconds', 'rows_in', 'rows_out', 'late_rows', 'rows_per_second']
        """
        self._history.add(self.progress())
        return self._history.frame()

    def metrics(self) -> dict[str, dict[str, Any]]:
        """For every kernel, source and sink: rows in and out, late rows, blocks, seconds, state.

        For a source that leaves out what it cannot read also how much that was: "skipped". For a
        kernel, "inside" has the same for each of its operators: rows, seconds (they add up to the
        kernel's), ns per row, selectivity and the line where it was written. Where a kernel runs
        several operators they are measured on samples of its rows, from the first call of
        `metrics` on, so it is empty at first.

        >>> import headrace as hr
        >>> job = hr.run(hr.read.index(3).write.null(), engine="thread")
        >>> {name: measured["rows_in"] for name, measured in job.metrics().items()}
        {'source_1': 3, 'sink_1': 3}
        """
        self._execution.sample()
        return self._measured()

    def _measured(self) -> dict[str, dict[str, Any]]:
        made = self._execution.metrics()
        for node in self._execution.sources:
            skipped = getattr(node.connector, "skipped", None)
            if skipped is not None and node.name in made:
                made[node.name] = {**made[node.name], "skipped": skipped}
        return made

    def graph(self) -> Graph:
        """The operators that run, drawn as by `stream.graph`, with their rows per second so far.

        >>> import headrace as hr
        >>> job = hr.run(hr.read.index(rows=1000).write.null(), engine="thread")
        >>> [label[0] for label in job.graph().labels]
        ['source source_1', 'sink sink_1']
        """
        return Graph.of_job(self)

    def profile(self) -> Profile:
        """What each operator costs and gives, how fast rows come, and who reads whom: for the
        simulator, which says what another policy, more cores or other priorities would have done.

        >>> import headrace as hr
        >>> even = hr.read.index(rows=1000).filter(hr.col("index") % 2 == 0)
        >>> profile = hr.run(even.write.null(), engine="thread").profile()
        >>> [operator.name for operator in profile.operators]
        ['source_1', 'filter_1', 'sink_1']
        >>> profile.operators[1].selectivity
        0.5
        """
        from .control.simulator.measured import profile_of

        seconds = (self._ended or time.perf_counter()) - self._started
        return profile_of(self._execution.measured(seconds), self._priority)

    def latency(self) -> dict[str, Any]:
        """How long rows took from when they were due to their results, in histograms.

        "block": until all results of a split of rows were given to the sinks; "window": only of the
        splits that gave some, so behind windows from their close to the result; "marker": of the
        markers that leave every source each 50 ms, and "marker to ..." of each sink where there are
        several. Empty where the engine does not measure it.

        >>> import headrace as hr
        >>> job = hr.run(hr.read.index(3).write.null(), engine="node", workers=1)
        >>> job.latency()["block"].count > 0
        True
        """
        return self._execution.latency()

    # ---- running -----------------------------------------------------------------------------

    def start(self) -> Job:
        """Run on a thread of its own."""
        self._thread = threading.Thread(target=self._run_quietly, name="headrace-job", daemon=True)
        self._thread.start()
        return self

    def run(self) -> Job:
        """Run on this thread, to the end. The first Ctrl-C drains, the second one cancels, and is
        raised."""
        with _interrupts_stop(self):
            self._run()
        if self.error is not None:
            raise self.error
        return self

    def _run_quietly(self) -> None:
        with suppress(BaseException):  # await_termination raises it
            self._run()

    def _run(self) -> None:
        status = FAILED
        error: BaseException | None = None
        self._thread = threading.current_thread()
        with self._ending:
            self.status = self.status if self.is_over else RUNNING
        try:
            if self._watch is not None:
                self._watch(self)  # a short run may be over before it is asked to stop
            ended = self._execution.run(self._turn)
            status = FINISHED if ended else STOPPED
        except Cancelled:
            status = CANCELLED
        except Exception as raised:
            from .stage.failure import shortened

            if self._cancelling:  # whatever came of it
                status = CANCELLED
            else:
                error = shortened(raised)
        except BaseException as raised:  # of a second Ctrl-C, mostly
            error = raised
            status = CANCELLED if isinstance(raised, KeyboardInterrupt) else FAILED
            raise
        finally:
            self._notice.close()
            self._end(status, error)

    def _end(self, status: str, error: BaseException | None = None) -> None:
        """The job is over; what comes later, where it was not waited for, does not count."""
        with self._ending:
            if not self.is_over:
                self.status, self.error = status, error
                self._ended = time.perf_counter()
                self._over.set()
            self._engine = None

    def _turn(self) -> bool:
        """Called again and again by the run: shall it stop?"""
        if self._cancelling:
            raise Cancelled
        if self._history.is_due():
            self._history.add(self.progress())
        self._notice.look(self)
        if self._watch is not None:
            self._watch(self)
        late = self._seconds is not None and time.perf_counter() - self._started >= self._seconds
        return self._stopping or late


@contextmanager
def _interrupts_stop(job: Job) -> Iterator[None]:
    """The first Ctrl-C drains: what was read is finished. The second one interrupts."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals go to the main thread
        return
    before = signal.getsignal(signal.SIGINT)

    def stop(number: int, frame: Any) -> None:
        job._stopping = True  # no lock: this thread may be anywhere
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
