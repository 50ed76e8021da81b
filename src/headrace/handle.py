"""The handle of a job: how it stands, what it has done, and how to end it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from .observe.process import ProcessUsage, process_usage
from .plan.explain import explain_plan
from .plan.planner import Plan

STARTING, RUNNING = "starting", "running"
FINISHED, STOPPED, CANCELLED, FAILED = "finished", "stopped", "cancelled", "failed"


class Cancelled(BaseException):
    """Raised inside a run to end it at once; never seen outside."""


class Execution(Protocol):
    """What a job drives: a plan on some engine."""

    sources: Any
    sinks: Any

    def run(self, turn: Callable[[], bool]) -> bool:
        """Run until the sources end (True) or `turn`, called again and again, says stop."""

    def metrics(self) -> dict[str, dict[str, Any]]:
        """What each operator has done."""

    def latency(self) -> dict[str, Any]:
        """How long rows took, where the engine measures it."""

    def sample(self) -> None:
        """Measure the operators inside kernels from now on."""


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
    process: ProcessUsage


class Job:
    """A pipeline that runs, or has run. `hr.start` and `hr.run` make it."""

    def __init__(
        self,
        planned: Plan,
        execution: Execution,
        seconds: float | None = None,
        watch: Callable[[Job], None] | None = None,
    ) -> None:
        self.plan, self.status = planned, STARTING
        self.error: BaseException | None = None
        self._execution, self._seconds, self._watch = execution, seconds, watch
        self._started = time.perf_counter()
        self._ended: float | None = None
        self._stopping = self._cancelling = False
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"Job({self.status}, {self.progress().rows_in:,} rows in)"

    @property
    def is_over(self) -> bool:
        """Has it ended, whatever way?"""
        return self._over.is_set()

    def explain(self) -> str:
        """The plan before and after rewriting, and its stages."""
        return explain_plan(self.plan, owned=getattr(self._execution, "owners", 1) > 1)

    # ---- how it ends -------------------------------------------------------------------------

    def stop(self, drain: bool = True, timeout: float | None = None) -> bool:
        """Read no more; what was read is finished and committed. drain=False: as `cancel`.

        May be called from any thread. Waits for the end where a time-out (seconds) is given, and
        says whether the job is over.
        """
        if not drain:
            return self.cancel(timeout)
        self._stopping = True
        return self._over.wait(timeout or 0.0)

    def cancel(self, timeout: float | None = None) -> bool:
        """End the job at once; what sinks have not committed is thrown away. Else as `stop`."""
        self._cancelling = True
        return self._over.wait(timeout or 0.0)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for the end of the job, at most `timeout` seconds; is it over?

        The error of a job that failed is raised.
        """
        over = self._over.wait(timeout)
        if over and self.error is not None:
            raise self.error
        return over

    # ---- what it has done --------------------------------------------------------------------

    def progress(self) -> Progress:
        """How far the job is: rows, rates, and the same for every operator."""
        seconds = (self._ended or time.perf_counter()) - self._started
        operators = self._measured()
        rows_in = sum(self._rows_in(operators, node.name) for node in self._execution.sources)
        rows_out = sum(self._rows_in(operators, name) for name in self._execution.sinks)
        late = sum(measured["late_rows"] for measured in operators.values())
        rate = rows_in / seconds if seconds > 0 else 0.0
        used = process_usage()
        return Progress(self.status, seconds, rows_in, rows_out, late, rate, operators, used)

    @staticmethod
    def _rows_in(operators: dict[str, dict[str, Any]], name: str) -> int:
        return operators[name]["rows_in"] if name in operators else 0  # not yet built

    def metrics(self) -> dict[str, dict[str, Any]]:
        """For every kernel, source and sink: rows in and out, late rows, blocks, seconds, state.

        For a source that leaves out what it cannot read also how much that was: "skipped". For a
        kernel, "inside" has the same for each of its operators: rows, seconds (they add up to the
        kernel's), ns per row, selectivity and the line where it was written. Where a kernel runs
        several operators they are measured on samples of its rows, from the first call of
        `metrics` on, so it is empty at first.
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

    def latency(self) -> dict[str, Any]:
        """How long rows took from when they were due to their results, in histograms.

        "block": until all results of a split of rows were given to the sinks; "window": only of the
        splits that gave some, so behind windows from their close to the result; "marker": of the
        markers that leave every source each 50 ms, and "marker to ..." of each sink where there are
        several. Empty where the engine does not measure it.
        """
        return self._execution.latency()

    # ---- running -----------------------------------------------------------------------------

    def start(self) -> Job:
        """Run on a thread of its own."""
        self._thread = threading.Thread(target=self._run_quietly, name="headrace-job", daemon=True)
        self._thread.start()
        return self

    def run(self) -> Job:
        """Run on this thread, to the end. The first Ctrl-C drains, the second one interrupts."""
        with _interrupts_stop(self):
            self._run()
        if self.error is not None:
            raise self.error
        return self

    def _run_quietly(self) -> None:
        try:
            self._run()
        except BaseException as error:  # await_termination raises it
            self.error = self.error or error

    def _run(self) -> None:
        self.status = RUNNING
        try:
            if self._watch is not None:
                self._watch(self)  # a short run may be over before it is asked to stop
            ended = self._execution.run(self._turn)
            self.status = FINISHED if ended else STOPPED
        except Cancelled:
            self.status = CANCELLED
        except Exception as error:
            from .stage.failure import shortened

            self.status, self.error = FAILED, shortened(error)
        except BaseException as error:
            self.status, self.error = FAILED, error
            raise
        finally:
            self._ended = time.perf_counter()
            self._over.set()

    def _turn(self) -> bool:
        """Called again and again by the run: shall it stop?"""
        if self._cancelling:
            raise Cancelled
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
        job.stop()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
