"""A pipeline that runs on Spark: one streaming query, watched and steered from here."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from headrace.observe.graph import Graph
from headrace.observe.history import History
from headrace.observe.notice import Notice
from headrace.plan.connector import is_replayable
from headrace.plan.durations import parse_duration
from headrace.plan.errors import PipelineError, StateError
from headrace.plan.nodes import Sink, Source
from headrace.plan.planner import Plan, StagePlan

from .alive import alive
from .batch_query import BatchQuery
from .batch_size import BATCH_ROWS, growth
from .checkpoint import Checkpoint
from .committing import Commits
from .errors import SparkError, is_busy, of_spark
from .explain import explain_on_spark
from .frames import Frames, with_files
from .gate import Gatekeeper, Place
from .pools import in_pool
from .progress import Counts, SparkProgress
from .query import all_letters
from .session import attempts, left_alone, open_session, own_session, task_cores
from .shipment import Shipment, forget, send, without_sinks
from .sinks import DriverSinks

AVAILABLE_NOW = "available now"  # a trigger: stop when all that is there now was read
WAIT_SECONDS = 0.1
MOST_RESTARTS = 6  # of a query whose Python processes are slow to start
LONGEST_PAUSE = 10.0  # seconds between two of them; the first ones are shorter


class SparkJob:
    """A pipeline that runs on Spark, or has run."""

    def __init__(self, plan: Plan, *, capacity: int, compiled: bool) -> None:
        self.plan = plan
        self.status = "starting"
        self._capacity, self._compiled = capacity, compiled
        self._started = time.perf_counter()
        self._ended: float | None = None
        self._history, self._notice = History(), Notice()
        self._take_stages(plan.stages())
        sinks = [root for s in self._stages for root in s.roots if isinstance(root, Sink)]
        self._sink_names = [sink.name for sink in sinks]
        self._sinks = DriverSinks(sinks)
        self._counts = Counts()
        self._commits: Commits | None = None
        self._stopping = self._cancelling = False
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.error: BaseException | None = None  # of a job that was started, and has failed
        self._left_alone: list[str] = []
        self._query: Any = None
        self._restart: Callable[[], Any] | None = None
        self._restarts = 0
        self._checkpoint: Checkpoint | None = None
        self._shipment: Shipment | None = None
        self._identity, self._batch_rows, self._most_rows = "", BATCH_ROWS, BATCH_ROWS
        self._idle: float | None = None
        self._gate: Gatekeeper | None = None
        self._priority = 0.0
        self._place: Place | None = None  # at the gate

    def _take_stages(self, stages: list[StagePlan]) -> None:
        self._stages = stages
        self._sources = [node for s in stages for node in s.inputs if isinstance(node, Source)]
        self._frames = Frames(self._sources)

    def __repr__(self) -> str:
        return f"SparkJob({self.status}, {self.progress().rows_in:,} rows in)"

    # ---- starting ----------------------------------------------------------------------------

    def start(
        self,
        *,
        master: str | None = None,
        checkpoint: Any = None,
        session: Any = None,
        shards: int | None = None,
        batch_rows: int | None = None,
        trigger: str | None = None,
        idle: Any = None,
        gate: Gatekeeper | None = None,
        priority: float | None = None,
    ) -> SparkJob:
        """Start the query; nothing is started if the checkpoint says that all is done."""
        self._check()
        self._gate, self._priority = gate, priority or 0.0
        self._idle = None if idle is None else parse_duration(idle) / 1e6
        self._checkpoint = Checkpoint(checkpoint)
        try:
            if not self._begin(master, session, shards, batch_rows, trigger):
                self._close("finished")
        except BaseException:
            self._close("failed")
            raise
        return self

    def _check(self) -> None:
        for node in self._sources:
            if not is_replayable(node.connector):
                raise PipelineError(
                    f"{node.connector} cannot be read again after a failure, which Spark needs",
                    operator=node.written,
                    site=node.site,
                    fix='run it with engine="thread", or write the rows to files first',
                )

    def _begin(self, master, session, shards, batch_rows, trigger) -> bool:
        assert self._checkpoint is not None
        if shards is not None and shards < 1:
            raise ValueError(f"shards={shards}: there is at least one")
        if session is None and master is None:
            session = self._frames.session

        def cores() -> int:
            return open_session(master, session).sparkContext.defaultParallelism

        self._identity, before = self._checkpoint.agree(self._stages, shards, cores)
        self._sinks.open(self._identity)
        if self._has_ended():
            return False
        spark = open_session(master, session)
        if session is not None:
            self._left_alone = left_alone(spark)
        if self._frames and not self._frames.are_one_batch:
            self._take_stages(with_files(self._stages, self._checkpoint.frames))
        if shards is not None and shards != before:
            self._move(spark, before, shards)
        self._stop_file.unlink(missing_ok=True)
        if batch_rows is not None:
            self._batch_rows = self._most_rows = batch_rows
        else:
            sizes = (times * BATCH_ROWS for times in growth(self.plan, self._stages))
            self._batch_rows, self._most_rows = sizes
        self._restart = lambda: self._write(spark, shards or before, trigger)
        self._query = self._restart()
        self.status = "running"
        return True

    @property
    def _stop_file(self) -> Path:
        assert self._checkpoint is not None
        return self._checkpoint.plans / "stop"

    def _move(self, spark: Any, before: int, shards: int) -> None:
        """Finish what was planned, and let the shards of before leave their state."""
        assert self._checkpoint is not None
        if self._frames:
            raise StateError(
                f"the checkpoint {self._checkpoint.folder} was made with shards={before}; Spark "
                "keeps the positions of its DataFrames for that number alone\n"
                f"  fix: leave shards= out or at {before}, or begin with a new checkpoint"
            )
        moving = self._checkpoint.moving
        self._restart = lambda: self._write(spark, before, None, moving=moving)
        self._query = self._restart()
        try:
            self._finish_planned()
        finally:
            self._stop_query()
            self._query = None
        self._checkpoint.change_shards(shards)

    def _write(self, spark: Any, shards: int, trigger: str | None, moving: str = "") -> Any:
        """The query: source stages, levels of keyed stages, and the commit."""
        assert self._checkpoint is not None
        self._enter(spark, moving)
        self._shipment = Shipment(
            stages=without_sinks(self._stages),
            staged=self._sinks.staged(),
            channels={n.name: tuple(n.connector.channels()) for n in self._sources},
            shards=shards,
            checkpoint=self._identity,
            batch_rows=self._batch_rows,
            most_rows=self._most_rows,
            tasks=spark.sparkContext.defaultParallelism,
            cores=task_cores(spark.sparkContext),
            stop_file=str(self._stop_file),
            times=str(self._checkpoint.times),
            state=str(self._checkpoint.state),
            capacity=self._capacity,
            compiled=self._compiled,
            attempts=attempts(spark.sparkContext),
            lasting=self._checkpoint.lasting,
            streaming=not self._frames.are_one_batch,
            idle=self._idle,
            moving=moving,
            moved=self._checkpoint.moved,
            start=self._checkpoint.start,
            gate="" if self._place is None else self._place.address,
        )
        address = send(self._shipment, self._checkpoint.plans)
        session = (self._frames.own_session if self._frames else own_session)(spark, shards)
        messages = all_letters(session, self._shipment, self._frames, address)
        if self._commits is not None:  # of a query before this one
            self._commits.close()
        turn = nullcontext if self._place is None else partial(self._place.batch, self.progress)
        self._commits = Commits(self._shipment, self._checkpoint, self._sinks, self._counts, turn)
        pool = (
            nullcontext() if self._place is None else in_pool(spark.sparkContext, self._place.pool)
        )
        with pool:
            return self._query_over(messages, trigger)

    def _query_over(self, messages: Any, trigger: str | None) -> Any:
        assert self._checkpoint is not None and self._commits is not None
        if self._frames.are_one_batch:
            return BatchQuery(messages, self._commits)
        writer = messages.writeStream.outputMode("append").foreachBatch(self._commits)
        if trigger == AVAILABLE_NOW:
            writer = writer.trigger(availableNow=True)
        elif trigger is not None:
            writer = writer.trigger(processingTime=trigger)
        return writer.option("checkpointLocation", str(self._checkpoint.spark)).start()

    def _enter(self, spark: Any, moving: str) -> None:
        """Have a place at the gate, for the query that is about to begin."""
        self._leave()
        if self._gate is not None and not moving:
            sources = ", ".join(node.name for node in self._sources)
            name = f"{sources} → {', '.join(self._sink_names)}"
            cores = spark.sparkContext.defaultParallelism
            self._place = self._gate.enter(name, self._priority, cores)

    def _leave(self) -> None:
        if self._place is not None:
            self._place.leave()
            self._place = None

    # ---- the outside ---------------------------------------------------------------------------

    def explain(self) -> str:
        """The plan, its stages, and how they lie on Spark."""
        said = explain_on_spark(self.plan, self._shipment.shards if self._shipment else None)
        if self._left_alone:
            lines = ["", "Left as they are in your session", *self._left_alone]
            said += "\n".join(["", *lines])
        if self._gate is not None:
            said += f"\n\ngate: {self._gate.said()}"
        return said

    def progress(self) -> SparkProgress:
        """How far the job is: rows, rates, batches, state, and the same for every operator."""
        seconds = (self._ended or time.perf_counter()) - self._started
        sources = [node.name for node in self._sources]
        return self._counts.progress(self.status, seconds, sources, self._sink_names)

    def dataframe(self) -> Any:
        """The progress over time, as `Job.dataframe` gives it."""
        self._history.add(self.progress())
        return self._history.frame()

    def metrics(self) -> dict[str, dict[str, Any]]:
        """For every operator: rows in and out, late rows, blocks, seconds, state size."""
        return self._counts.operators()

    def graph(self) -> Graph:
        """The operators, drawn with their rows per second so far, as `Job.graph` gives it."""
        return Graph.of_job(self)

    @property
    def is_over(self) -> bool:
        """Has it ended, whatever way?"""
        return self._over.is_set()

    def latency(self) -> dict[str, Any]:
        """Nothing: Spark runs batches, and how long they take is in `progress`."""
        return {}

    def profile(self) -> NoReturn:
        """Not here: what tasks take on a cluster is not what operators cost on one machine."""
        raise SparkError(
            'engine="spark" has no profile of operators\n'
            '  fix: run the pipeline with engine="node" for a while'
        )

    def stop(self, *, drain: bool = True, timeout: float | None = None) -> bool:
        """Read no more; what was planned is finished and committed. drain=False: as `cancel`.

        May be called from any thread. Waits for the end where a time-out (seconds) is given, and
        says whether the job is over.
        """
        if not drain:
            return self.cancel(timeout)
        self._stopping = True
        if self._shipment is not None:
            with suppress(OSError):
                open(self._shipment.stop_file, "w").close()
        return self._over.wait(timeout or 0.0)

    def cancel(self, timeout: float | None = None) -> bool:
        """End the job at once; what is not committed is thrown away. Else as `stop`."""
        self._cancelling = True
        return self._over.wait(timeout or 0.0)

    def await_termination(
        self, timeout: float | None = None, watch: Callable[[SparkJob], None] | None = None
    ) -> bool:
        """Wait until the job is over (True) or `timeout` seconds have passed; raises its error."""
        if self._thread is None or self._thread is threading.current_thread():
            return self._drive(timeout, watch)
        over = self._over.wait(timeout)
        if over:
            self._thread.join()
        if over and self.error is not None:
            raise self.error
        return over

    def _drive(
        self, timeout: float | None, watch: Callable[[SparkJob], None] | None = None
    ) -> bool:
        """Look after the query, in this thread."""
        deadline = None if timeout is None else time.perf_counter() + timeout
        waiting = alive("Spark prepares its first batch") if watch is None else nullcontext()
        with self._draining_on_interrupt(), waiting as shown:
            while not self.is_over:
                try:
                    self._look()
                    if shown is not None and self._counts.batches:
                        shown.end()
                    if watch is not None:
                        watch(self)
                except KeyboardInterrupt:
                    self._close("cancelled")
                    raise
                except BaseException:
                    self._close("failed")
                    raise
                if deadline is not None and time.perf_counter() >= deadline:
                    break
        return self.is_over

    def drive_in_background(
        self, seconds: float | None = None, watch: Callable[[SparkJob], None] | None = None
    ) -> SparkJob:
        """Look after the query in a thread of its own, as `finish` does in that of the caller."""

        def run() -> None:
            try:
                self.finish(seconds, watch)
            except Exception as error:  # await_termination raises it
                from headrace.stage.failure import shortened

                self.error = shortened(error)
            except BaseException as error:
                self.error = error

        self._thread = threading.Thread(target=run, name="headrace-job", daemon=True)
        self._thread.start()
        return self

    @contextmanager
    def _draining_on_interrupt(self) -> Iterator[None]:
        """Ctrl-C finishes what was planned; a second one does not wait for it.

        PySpark's own handler would cancel the batch in work, and talk to Java in the middle of
        another call.
        """

        def interrupted(number: int, frame: Any) -> None:
            if self._stopping:
                raise KeyboardInterrupt
            self.stop()

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, interrupted)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def finish(
        self, seconds: float | None = None, watch: Callable[[SparkJob], None] | None = None
    ) -> SparkJob:
        """Wait for the end, for Ctrl-C, or until `seconds` have passed; then all is committed."""
        if not self.await_termination(seconds, watch):
            self.stop()
            self.await_termination(None, watch)
        return self

    def _look(self) -> None:
        """Has the query failed, ended, or been asked to stop?"""
        if self._history.is_due():
            self._history.add(self.progress())
        self._notice.look(self)
        if self._cancelling:
            self._stop_query()
            self._close("cancelled")
            return
        try:
            over = self._query.awaitTermination(WAIT_SECONDS)
        except Exception as error:
            if self._begins_again(error):
                return
            self._raise(error)
        if over:
            self._close("finished" if self._has_ended() else "stopped")
        elif self._has_ended():
            self._stop_query()
            self._close("finished")
        elif self._stopping:
            self._finish_planned()
            self._stop_query()
            self._close("finished" if self._has_ended() else "stopped")

    def _finish_planned(self) -> None:
        """Wait until the query has done all that there is to do."""
        while True:
            try:
                self._query.processAllAvailable()
                return
            except Exception as error:
                if not self._begins_again(error):
                    self._raise(error)

    def _begins_again(self, error: Exception) -> bool:
        """Start the query once more where a Python process was too slow: it goes on from before."""
        assert self._restart is not None and self._commits is not None
        if self._commits.error is not None or not is_busy(error):
            return False
        if self._restarts >= MOST_RESTARTS:
            return False
        self._restarts += 1
        time.sleep(min(2.0**self._restarts / 2, LONGEST_PAUSE))
        self._query = self._restart()
        return True

    def _has_ended(self) -> bool:
        assert self._checkpoint is not None
        return not self._frames.any_streams and self._checkpoint.has_finished()

    def _raise(self, error: Exception) -> NoReturn:
        """The error of a task or a sink, without the way it took; or what Spark says."""
        if self._commits is not None and self._commits.error is not None:
            raise self._commits.error.with_traceback(None) from None
        raise of_spark(error) from None

    def _stop_query(self) -> None:
        self._leave()  # its planner may wait there
        with suppress(Exception):  # it is over in any case
            self._query.stop()

    def _close(self, status: str) -> None:
        self._notice.close()
        if self._query is not None and self._query.isActive:
            self._stop_query()
        self._leave()
        self.status = status
        self._ended = time.perf_counter()
        self._sinks.close()
        if self._checkpoint is not None:
            forget(self._checkpoint.plans)
            self._stop_file.unlink(missing_ok=True)
            if self._commits is not None:
                self._commits.close()
            self._checkpoint.close()
        self._over.set()


def start(plan: Plan, *, capacity: int = 8192, compiled: bool = True, **options: Any) -> SparkJob:
    """Start a plan on Spark; see `SparkJob.start` for the options."""
    return SparkJob(plan, capacity=capacity, compiled=compiled).start(**options)
