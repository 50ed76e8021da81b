"""One query on an engine: what the host does for its units, and how it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any

from headrace.connect.delivery import Delivery
from headrace.plan.nodes import Source
from headrace.plan.planner import Plan
from headrace.stage.blocks.arrow import Feed, to_arrow
from headrace.stage.enough import Enough
from headrace.stage.failure import explain_failure
from headrace.stage.letters import leave_out
from headrace.stage.sampling import Sample, Sampling

from . import building
from .batches import GivenRows
from .blocks import FeedUsers, NodeBlock
from .building import Building
from .channels import Channels
from .graph import Graph, Operator
from .histogram import Histogram, Latencies
from .idling import idle_together
from .memory import Memory
from .mode import Mode
from .port import pending
from .sampled import ask_for_samples, take_samples
from .splits import SplitRecord
from .unit import (
    CALL,
    FAILED,
    FAILED_TIME,
    FAILING,
    FINISH,
    KERNEL,
    MAIN,
    NO_MEMORY,
    POLL,
    READER,
    ROWS,
    SOURCE,
    SUFFIXES,
    WRITE,
    Output,
    Run,
)
from .worklist import reorder_figures

if TYPE_CHECKING:
    from headrace.control.simulator.measured import Measured

    from .features import Scheduled

TURN_SECONDS = 0.1
_NUMBERS = count()


class Query:
    """A plan that runs on an engine; `Engine.query` makes it."""

    def __init__(
        self,
        engine: Any,
        plan: Plan,
        capacity: int,
        budget: int | None,
        idle: int | None = None,
        priority: float | None = None,
        locks: bool = False,
        queues: bool = False,
        deadline: int | None = None,
    ) -> None:
        """budget: of memory, in bytes. idle: after so many ns, windows do not wait for a channel
        that brings nothing. priority: for policies; more is first. locks: who sends rows that
        several workers give has a lock. queues: rows travel one by one, and `capacity` is 1.
        deadline: for policies, too; µs that a row may take."""
        self._engine, self._idle, self.owners = engine, idle, engine.owners
        self.priority, self.scheduling = priority, engine.scheduling
        self._locks, self._queues, self._deadline = locks, queues, deadline
        self._mode: Mode = engine.mode
        self._memory = Memory(", ".join(node.name for node in plan.optimized), budget)
        self._graph = Graph(
            plan,
            engine.workers,
            engine.owners,
            capacity,
            self._mode.compiles,
            self._memory.account,
        )
        self.sources, self.sinks = self._graph.sources, self._graph.sinks
        self._delivery = Delivery(self.sinks)
        self._made: Building | None = None
        self._open_sinks = len(self.sinks)
        self._lock, self._looking = threading.Lock(), threading.Lock()
        self._over, self._ended = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None  # that it is run on
        self._channels: dict[int, Channels] = {}  # by the number of their stage
        self._error: BaseException | None = None
        self._stopped = False
        self._last_metrics: dict[str, dict[str, Any]] = {}
        self._given: list[tuple[Feed, Any]] = []  # what users' functions gave
        kernels = {o.name: o.kernel for o in self._graph.operators if o.kernel_unit}
        self._enough = Enough(plan.optimized)
        self._enough.watch(k for o in self._graph.operators if o.kernel_unit for k in o.kernels)
        self._sampling = Sampling(kernels, self._ask_for_samples, self._take_samples)
        self.sample = self._sampling.start
        self._latency, self._result_latency = Histogram.allocate(), Histogram.allocate()
        self._markers = {name: Histogram.allocate() for name in self.sinks}

    # ---- how it runs -------------------------------------------------------------------------

    def run(self, turn: Callable[[], bool]) -> bool:
        """Run until the sources end or `turn`, called again and again, says stop.

        Gives whether the sources ended. Errors of units are raised here.
        """
        self._thread = threading.current_thread()
        try:
            self._start(turn)
            while not self._over.wait(TURN_SECONDS):
                self._delivery.commit_if_due()
                if turn() and not self._stopped:
                    self._drain()
        except BaseException as error:
            self.fail(error)
        try:
            self._leave()
            if self._error is not None:
                raise self._error
            self._delivery.commit()
            return not self._stopped
        except BaseException:
            self._delivery.abort()
            raise
        finally:
            self._close()

    @property
    def operators(self) -> dict[int, Operator]:
        """What its units are, by number."""
        made = self._made  # another thread may be taking it away
        return {} if made is None else made.operators

    @cached_property
    def scheduled(self) -> Scheduled:
        """As policies see it."""
        from .features import Scheduled

        units, capacity = self.operators.values(), self._graph.capacity
        deadline = inf if self._deadline is None else self._deadline / 1e6
        number, priority = next(_NUMBERS), self.priority or 0
        return Scheduled(number, units, priority, self._latency, capacity, deadline)

    def _start(self, turn: Callable[[], bool]) -> None:
        """Compile, build, and begin to read, unless `turn` raises meanwhile."""
        self._delivery.open()
        self._open_channels()
        numbers = self._engine.take_numbers(len(self._graph.operators))
        try:
            made = Building(
                self._graph,
                self._channels,
                self._memory,
                numbers,
                self._engine.table,
                self._engine.blank,
                self._mode,
                (self._latency, self._result_latency),
                self._markers,
                self._locks,
                self._queues,
            )
        except BaseException:
            self._engine.give_numbers(numbers)
            raise
        self._made = made
        self._mode.prepare()
        turn()  # compiling may have taken long
        self._engine.add(self, self._memory)
        for channels in self._channels.values():
            for channel in channels.all:
                channel.start()
        if not any(channels.all for channels in self._channels.values()):
            self._over.set()
        self._wake(SOURCE, READER)

    @property
    def _queued_rows(self) -> int:
        """Rows in a port where they travel one by one; 0: they travel in blocks."""
        return building.QUEUE_RING if self._queues else 0

    def _open_channels(self) -> None:
        """Readers of all channels; what is wrong with them shows here."""
        graph = self._graph
        for stage in graph.stages:
            sources = [node for node in stage.inputs if isinstance(node, Source)]
            if sources:
                rows = building.SPLIT_BLOCKS * (self._queued_rows or graph.capacity)
                size, mode = graph.capacity, self._mode
                made = Channels(sources, graph.replicas, rows, size, mode, self._enough)
                self._channels[stage.number] = made
                graph.place_readers(stage.number, [channel.is_polled for channel in made.all])
        if self._idle is not None:
            idle_together(graph.stages, self._channels, self._idle)

    def _wake(self, *kinds: int) -> None:
        found = self.operators.values()
        self._engine.ready(operator.number for operator in found if operator.kind in kinds)

    def _drain(self) -> None:
        """Read no more; what was read is finished."""
        self._stopped = True
        assert self._made is not None
        self._made.query.draining = 1
        self._wake(SOURCE)

    def fail(self, error: BaseException) -> None:
        """Stop at once, because of an error."""
        with self._lock:
            self._error = self._error or error
        made = self._made  # another thread may be taking it away
        if made is not None:
            made.query.cancelled = 1
        self._over.set()

    def _leave(self) -> None:
        """Give the units back, when no worker has them any more and nobody looks at them."""
        if self._made is None:
            return
        self._made.query.cancelled = 1  # whatever is still under way
        with self._looking:  # from now on no unit is made ready by a sample that is let go
            self._sampling.stop()
        self._close_readers()  # a poll that waits comes back
        self._last_metrics = self._counted()
        with self._looking:
            made, self._made = self._made, None
        self._engine.remove(self, made.operators, self._memory, (made, self))

    def _close_readers(self) -> None:
        for channels in self._channels.values():
            channels.close()

    def _close(self) -> None:
        if self._error is None:
            self._sampling.close()
        else:
            self._sampling.stop()
        self._close_readers()
        for node in self.sources:
            node.connector.close()
        self._delivery.close()
        self._ended.set()

    def await_end(self, timeout: float) -> bool:
        """Wait until a run that was told to end is over, unless it is one's own."""
        if self._thread in (None, threading.current_thread()):
            return True
        return self._ended.wait(timeout)

    # ---- what the host does for units --------------------------------------------------------

    def serve(self, number: int) -> None:
        """Do what a unit asks for; an error ends the query."""
        try:
            operator = self.operators[number]
            with self._engine.hosts.turns.call(self.priority or 0.0):
                started = time.monotonic_ns()
                _SERVICES[Run(operator.unit.run).request](self, operator)
                operator.unit.busy += time.monotonic_ns() - started  # as it is in no run meanwhile
        except BaseException as error:
            self.fail(error)

    def _poll(self, operator: Operator) -> None:
        nap = self._channels[operator.stage].all[operator.channel].poll()
        if nap:
            operator.unit.wake_at = time.monotonic_ns() + nap
        else:
            self._wake(SOURCE)

    def _call(self, operator: Operator) -> None:
        """Let a user's function have the rows that it has come to; keep what it gives."""
        slice, batches = operator.run.slice, operator.batches
        assert batches is not None
        try:
            rows = batches.called(to_arrow(self._view(slice.block), None, slice.first, slice.last))
        except Exception as error:
            if not operator.crew:
                raise
            operator.error = error  # others may be under way that come before it
            operator.run.phase, operator.run.request = FAILING, FAILED
            return
        feed, users = Feed(batches.layout, rows), FeedUsers.allocate()
        users.count = 1
        given = GivenRows(operator.run.task)
        given.end, given.users = feed.rows, users.address
        given.fill = self._mode.fill(feed.only_lends)
        request = given.request
        request.feed, request.offset = feed.address, 0
        with self._lock:
            self._given = [held for held in self._given if held[1].count > 0]
            self._given.append((feed, users))

    def _lack_memory(self, operator: Operator) -> None:
        raise self._memory.exhausted(operator.name)

    def _write(self, operator: Operator) -> None:
        """Give a sink the rows that it has come to."""
        slice = operator.run.slice
        rows = to_arrow(self._view(slice.block), first=slice.first, last=slice.last)
        self._delivery.write(operator.name, rows)

    def _finish(self, operator: Operator) -> None:
        """A sink has got everything."""
        with self._lock:
            self._open_sinks -= 1
        if self._open_sinks == 0:
            self._over.set()

    def _view(self, block: int) -> Any:
        assert self._made is not None
        return self._made.pools[NodeBlock(block).home].view(block)

    def _explain(self, operator: Operator) -> None:
        """Leave out a row that failed, or raise its error, or that of a call, as users see it."""
        if operator.error is not None:
            raise operator.error
        if operator.kind == SOURCE:
            assert self._made is not None
            channel = SplitRecord(operator.run.task).channel
            self._channels[operator.stage].all[channel].explain()
        kernel, run = operator.kernel_in_work, Run(operator.unit.run)
        failed = kernel.compiled_advance
        if not kernel.is_firing:
            kernel.block = self._view(run.slice.block)
            failed = kernel.compiled_rows
        if leave_out(kernel):
            run.phase = ROWS  # it goes on behind the row
            return
        try:
            failed(kernel.task.address)
        except Exception as error:
            explain_failure(kernel, error)
        raise AssertionError("a row that failed did not fail again")

    def _explain_time(self, operator: Operator) -> None:
        """Raise the error of a row whose time could not be computed."""
        channel = SplitRecord(operator.run.task).channel
        times = self._channels[operator.stage].all[channel].times
        assert times is not None
        times.explain()

    # ---- what it has done --------------------------------------------------------------------

    def metrics(self) -> dict[str, dict[str, Any]]:
        """For every operator: rows, blocks, times, state; those of replicas are added up."""
        return {name: made for name, made in self._counted().items() if "brings" not in made}

    def _counted(self) -> dict[str, dict[str, Any]]:
        """The same, also of what only brings copies together."""
        with self._looking:  # the units are not given to another query meanwhile
            if self._made is None:
                return self._last_metrics
            operators = self.operators.values()
            measured = _added_up(_measured(operator) for operator in operators)
            for name, skew in _skews(operators).items():
                measured[name]["skew"] = skew
            return self._sampling.add_to(measured)

    def measured(self, seconds: float) -> Iterable[Measured]:
        """What the simulator has to know of each operator."""
        from .measuring import measured  # few ask for it

        found = self._counted()
        rows = self._queued_rows or building.RING * self._graph.capacity
        return measured(self._graph.operators, found, rows) if found else ()

    def _ask_for_samples(self) -> None:
        with self._looking:
            ask_for_samples(self.operators.values())

    def _take_samples(self) -> list[tuple[str, Sample]]:
        with self._looking:
            if self._made is None or self._sampling.is_stopped:
                return []
            return take_samples(self.operators.values(), self._view, self._engine.let_go)

    def rows_taken(self) -> int:
        """Rows that its operators have taken so far, all of them together."""
        return sum(o.unit.rows_in for o in list(self.operators.values()) if o.kind != READER)

    def latency(self) -> dict[str, Latencies]:
        """How long rows took from when they were due: all splits, and those that gave results;
        and how long markers took, to all sinks and, if there are several, to each."""
        block, window, markers = self._latency, self._result_latency, self._markers
        found = {"block": Latencies.of(block), "window": Latencies.of(window)}
        found["marker"] = Latencies.of(*markers.values())
        if len(markers) > 1:
            found |= {f"marker to {name}": Latencies.of(each) for name, each in markers.items()}
        return found


_SERVICES = {
    POLL: Query._poll,
    CALL: Query._call,
    WRITE: Query._write,
    FINISH: Query._finish,
    FAILED: Query._explain,
    FAILED_TIME: Query._explain_time,
    NO_MEMORY: Query._lack_memory,
}


def _added_up(measured: Iterable[dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """What the copies of each operator have done together."""
    found: dict[str, dict[str, Any]] = {}
    for name, done in (item for each in measured for item in each.items()):
        known = found.setdefault(name, {})
        for what, value in done.items():
            known[what] = known.get(what, 0) + value if isinstance(value, int | float) else value
    return found


def _skews(operators: Iterable[Operator]) -> dict[str, float]:
    """By the name of each operator whose key groups are shared: the rows of the part, or the owner,
    that has most of them, to the mean; 1 is even."""
    rows: dict[str, list[int]] = {}
    for operator in operators:
        rows.setdefault(operator.name, []).extend(operator.rows_by_part)
    return {name: max(each) * len(each) / sum(each) for name, each in rows.items() if sum(each)}


def _measured(operator: Operator) -> dict[str, dict[str, Any]]:
    """What a unit has done, by the name of its operator; sources by theirs."""
    unit, outputs = operator.unit, Output(operator.run.outputs)
    if operator.kind == READER:  # a part of its source
        return {}
    made = {
        "rows_in": unit.rows_in,
        "rows_out": outputs[MAIN].rows if operator.outs else 0,
        "late_rows": 0,
        "failed_rows": 0,
        "blocks": unit.runs,
        "seconds": unit.busy / 1e9,
        "starved": unit.starved / 1e9,
        "blocked": unit.blocked / 1e9,
        "pending": sum(pending(port) for port in operator.ports),
        "python_calls": operator.batches.counters.python_calls if operator.batches else 0,
    }
    if operator.kind in SUFFIXES:
        return {operator.name + SUFFIXES[operator.kind]: {**made, "brings": True}}
    if operator.kind == KERNEL:
        made["operators"] = [node.name for node in operator.kernel.chain.nodes]
        for kernel in operator.kernels:
            made["late_rows"] += kernel.task.late
            made["failed_rows"] += kernel.task.failed
            for what, size in kernel.state_size().items():
                made[what] = made.get(what, 0) + size
    if operator.worklist is not None:
        made |= reorder_figures(operator.worklist)
    if operator.kind != SOURCE:
        return {operator.name: made}
    return {
        name: {**made, "rows_in": outputs[k].rows, "rows_out": outputs[k].rows}
        for k, name in enumerate(operator.inputs)
    }
