"""A deterministic discrete-event engine behind the control plane's interface.

Threads ask a scheduler what to do (`turn`), and a run of an operator is one event at its end: rows
are taken when it begins and reach the next queues when it ends. Everything happens in the order of
time, then of asking; the only chance is that of one generator with a seed.

What is simplified: a run goes at the speed that its core has when it begins (a hardware thread that
starts beside it later does not slow it down); a contended lock is a server that serves in order;
queues are one per operator, whoever writes to it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from random import Random
from typing import Any, Protocol

import numpy as np

from ..arrays import Floats
from ..elasticity import Elasticity
from ..errors import ControlError
from ..graph import Graph
from .costing import Costing
from .machine import Machine
from .profile import Operator, Profile
from .statistics import Result, Span, Watch
from .threads import Processors, State, Worker
from .units import Chunk, Unit, dealt

TICK = 1e-3  # rows that arrive faster come in groups this long

READERS: dict[str, Callable[[Simulation, Unit], float]] = {
    "cost": lambda sim, unit: unit.cost,
    "selectivity": lambda sim, unit: unit.selectivity,
    "pending": lambda sim, unit: unit.pending,
    "head_time": lambda sim, unit: sim.now if unit.endless else unit.head_time,
    "arrival_time": lambda sim, unit: sim.now if unit.endless else unit.arrival_time,
    "rate": lambda sim, unit: unit.rate,
    "input_queue": lambda sim, unit: unit.pending + unit.held,
    "output_queue": lambda sim, unit: max((b.pending + b.reserved for b in unit.behind), default=0),
    "output_room": lambda sim, unit: min((b.room for b in unit.behind), default=inf),
    "latency_gradient": lambda sim, unit: sim.watch.gradient.get(unit.spec.query, 0.0),
    "state_size": lambda sim, unit: unit.spec.state_bytes,
    "last_scheduled": lambda sim, unit: unit.last_end,
    "workers": lambda sim, unit: unit.running,
    "worker_time": lambda sim, unit: unit.busy - unit.window_start[2],
    "busy_time": lambda sim, unit: unit.busy,
    "parallelism": lambda sim, unit: unit.spec.parallelism,
    "user_priority": lambda sim, unit: unit.spec.user_priority,
    "query_class": lambda sim, unit: unit.spec.query_class,
    "deadline": lambda sim, unit: inf if unit.spec.deadline is None else unit.spec.deadline,
}


class Scheduler(Protocol):
    """A threading model: which threads there are, and what each does next."""

    locks_ports: bool  # every push takes the port's lock (Streams fig. 3)
    sleeping_locks: bool  # who finds a lock taken sleeps, and is woken

    def attach(self, simulation: Simulation) -> list[Worker]:
        """The threads to start with."""

    def update(self, graph: Graph) -> None:
        """The operators are others now."""

    def turn(self, worker: Worker) -> None:
        """Call `run`, `sleep` or `spin` for this thread, once."""

    def done(self, worker: Worker, unit: Unit, rows: int) -> None:
        """A run is over, and its rows are where they belong."""

    def arrived(self, unit: Unit, by: Worker | None) -> None:
        """Rows have come to wait before a unit."""

    def drained(self, unit: Unit, by: Worker) -> None:
        """There is room before a unit again."""


class Simulation:
    """Operators, a machine and a scheduler, in simulated time. It is an `Engine`.

    >>> from headrace.control.simulator import Manual, machine_named, pipeline
    >>> simulation = Simulation(pipeline(3, 1e-6), machine_named("ideal"), Manual())
    >>> round(simulation.simulate(0.1).throughput, -4)  # one thread, 2 µs per row
    500000.0
    """

    def __init__(
        self,
        profile: Profile,
        machine: Machine,
        scheduler: Scheduler,
        *,
        seed: int = 0,
        trace: bool = False,
        window: float = 0.05,  # Enjima §4: costs and selectivities over 50 ms
        elasticity: Elasticity | None = None,
        elastic_period: float = 0.01,
    ) -> None:
        if profile.measured:
            machine = replace(machine, costs=machine.costs.beside_rows())
        self.machine, self.scheduler = machine, scheduler
        self.now: float = 0.0
        self._costing = Costing(
            machine,
            locks_ports=scheduler.locks_ports,
            sleeping_locks=scheduler.sleeping_locks,
        )
        self.units: list[Unit] = []
        self.graph = profile.graph
        self.processors = Processors(machine)
        self.workers: list[Worker] = []
        self.worker: Worker | None = None  # whose turn it is
        self.level = elasticity.level if elasticity is not None else 1 << 30
        self.scheduling = 0.0
        self.decisions = 0
        self._draw = Random(seed)
        self._events: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._sequence = 0
        self._trace, self._window = trace, window
        self._elasticity, self._elastic_period = elasticity, elastic_period
        self._elastic_rows = 0
        self._processed = 0
        self.spans: list[Span] = []
        self.watch: Watch = Watch()
        self._add(profile.operators)
        for worker in scheduler.attach(self):
            self.start(worker)
        self.at(window, self._end_window)
        if elasticity is not None:
            self.at(elastic_period, self._elastic)

    # ---- the control plane's interface (Haren §4.2)

    def can_run(self, operator: int) -> bool:
        """Rows, room, and not as many runs as it may have at once."""
        return self.units[operator].ready()

    def features(self, names: Sequence[str], operators: Sequence[int]) -> Floats:
        """The values now."""
        units = [self.units[operator] for operator in operators]
        found = np.empty((len(units), len(names)))
        for place, name in enumerate(names):
            read = READERS[name]
            found[:, place] = [read(self, unit) for unit in units]
        return found

    def run(self, operator: int, batch: int) -> int:
        """The thread whose turn it is runs an operator; its next turn is at the end of the run."""
        worker, unit, now = self.worker, self.units[operator], self.now
        if worker is None:
            raise ControlError("only a thread whose turn it is can run an operator")
        rows = unit.takes(batch)
        given = unit.gives(unit.take(rows, now)) if rows else []
        seconds, end = 0.0, 0.0
        if rows:
            seconds = unit.seconds(rows, self._draw) + self._costing.reading(unit, rows, worker.cpu)
        out = sum(count for count, _ in given)
        shares = unit.shares(out) if out and unit.behind else []
        for behind, count in shares:
            behind.reserved += count
            pushing, free = self._costing.writing(behind, count, worker.cpu, now)
            seconds += pushing
            end = max(end, free)
        seconds = (seconds + worker.debt) / self.processors.speed(worker.cpu)
        overhead, worker.debt = worker.debt, 0.0
        unit.running += 1
        unit.held += rows
        unit.last_cpu = worker.cpu
        worker.state, worker.run = State.RUNNING, (unit, now, rows)
        worker.overhead += overhead
        self.decisions += 1
        end = max(now + seconds, end)
        self._at(end, self._finish, (worker, unit, rows, given, shares, now, overhead))
        return rows

    def run_through(self, worker: Worker, source: Unit, chunks: list[Chunk]) -> None:
        """The thread brings rows from a source to the sinks by function calls, without queues."""
        costs = self.machine.costs
        waiting, ways = {source: chunks}, []
        seconds = 0.0
        for number in self.graph.order:
            unit = self.units[number]
            taken = waiting.pop(unit, None)
            if not taken:
                continue
            rows, given = sum(count for count, _ in taken), unit.gives(taken)
            work = unit.seconds(rows, self._draw) + (rows * costs.call if unit.before else 0.0)
            seconds += work
            ways.append((unit, rows, given, work))
            out = sum(count for count, _ in given)
            for behind, part in dealt(given, unit.shares(out), unit.spec.split):
                waiting.setdefault(behind, []).extend(part)
        worker.state, worker.run = State.RUNNING, (source, self.now, ways[0][1])
        worker.overhead += worker.debt
        speed = self.processors.speed(worker.cpu)
        end = self.now + (seconds + worker.debt) / speed
        worker.debt = 0.0
        self.decisions += 1
        self._at(end, self._went_through, (worker, source, ways, self.now))

    def _went_through(self, run: tuple[Any, ...]) -> None:
        worker, source, ways, started = run
        for unit, rows, given, work in ways:
            self._count(unit, rows, given, work)
            worker.busy += work
        rows = ways[0][1]
        if self._trace:
            name, query = source.spec.name, source.spec.query
            self.spans.append(Span(worker.number, name, query, started, self.now, rows))
        self._turn(worker)

    # ---- what schedulers use besides

    def sleep(self, worker: Worker, until: float = inf) -> None:
        """The thread gives its processor up until it is woken, or until a time."""
        worker.state = State.SLEEPING
        self._wait(worker, until)
        self._leave(worker)

    def spin(self, worker: Worker, until: float = inf) -> None:
        """The thread waits on its processor until it is woken, or until a time."""
        worker.state = State.SPINNING
        worker.waiting_since = self.now
        self._wait(worker, until)

    def suspend(self, worker: Worker) -> None:
        """Elasticity does not want the thread now."""
        worker.state = State.SUSPENDED
        worker.token += 1
        self._leave(worker)

    def wake(self, worker: Worker, by: Worker | None = None) -> None:
        """The thread has something to do again; who wakes a sleeping one pays for it."""
        if worker.state is State.SPINNING:
            worker.token += 1
            self._at(self.now, self._resume, (worker, worker.token))
        elif worker.state in (State.SLEEPING, State.SUSPENDED):
            if by is not None:
                by.debt += self.machine.costs.wake
            worker.state = State.WAKING
            worker.token += 1
            self._at(self.now + self.machine.costs.wake_latency, self._board, worker)

    def at(self, time: float, action: Callable[[Simulation], None]) -> None:
        """Do something to the simulation at a time: swap a policy, add a query."""
        self._at(time, action, self)

    def start(self, worker: Worker) -> None:
        """One more thread."""
        self.workers.append(worker)
        self._at(self.now, self._board, worker)

    # ---- queries come and go

    def add(self, profile: Profile) -> None:
        """More operators; those that are there stay."""
        self._add(profile.operators)
        self._changed()

    def remove(self, query: int) -> None:
        """A query goes, with the rows that wait in it; runs end first."""
        gone = [unit for unit in self.units if unit.spec.query == query]
        if not gone:
            raise ControlError(f"there is no query {query}")
        self.units = [unit for unit in self.units if unit.spec.query != query]
        for unit in gone:
            unit.number = -1
        self._changed()

    def _add(self, operators: Sequence[Operator]) -> None:
        by_name = {unit.spec.name: unit for unit in self.units}
        added = []
        for spec in operators:
            if spec.name in by_name:
                raise ControlError(f"there is an operator {spec.name!r} already")
            unit = by_name[spec.name] = Unit(len(self.units), spec)
            self.units.append(unit)
            added.append(unit)
            self.watch.add(spec.query, spec.query_class)
        for unit in added:
            for name in unit.spec.inputs:
                unit.before.append(by_name[name])
                by_name[name].behind.append(unit)
            if not unit.spec.inputs and unit.spec.arrivals in ("steady", "poisson"):
                self._at(self.now, self._arrive, unit)
        self._number()

    def _changed(self) -> None:
        self._number()
        self.scheduler.update(self.graph)

    def _number(self) -> None:
        numbers = {unit.spec.name: place for place, unit in enumerate(self.units)}
        for unit in self.units:
            unit.number = numbers[unit.spec.name]
        edges = [(unit.number, behind.number) for unit in self.units for behind in unit.behind]
        self.graph = Graph.of(list(numbers), edges, [unit.spec.query for unit in self.units])

    # ---- running

    def simulate(self, seconds: float, warm_up: float = 0.0) -> Result:
        """Go on for so long, and say what happened after `warm_up`."""
        self._until(self.now + warm_up)
        self._watch()
        self._until(self.watch.since + seconds)
        return self._result()

    def _until(self, time: float) -> None:
        events, pop = self._events, heapq.heappop
        while events and events[0][0] <= time:
            self.now, _, action, argument = pop(events)
            action(argument)
        self.now = time

    def _at(self, time: float, action: Callable[[Any], None], argument: Any) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (time, self._sequence, action, argument))

    def _wait(self, worker: Worker, until: float) -> None:
        worker.token += 1
        if until < inf:
            self._at(max(until, self.now), self._timer, (worker, worker.token))

    def _timer(self, waiting: tuple[Worker, int]) -> None:
        worker, token = waiting
        if token == worker.token:
            if worker.state is State.SPINNING:
                self._resume(waiting)
            else:
                self._board(worker)

    def _resume(self, waiting: tuple[Worker, int]) -> None:
        worker, token = waiting
        if token == worker.token and worker.state is State.SPINNING:
            worker.token += 1
            worker.overhead += self.now - worker.waiting_since
            self._turn(worker)

    def _board(self, worker: Worker) -> None:
        worker.token += 1
        if self.processors.take(worker):
            self._begin(worker)

    def _begin(self, worker: Worker) -> None:
        worker.since = self.now
        self._turn(worker)

    def _leave(self, worker: Worker) -> None:
        follower = self.processors.leave(worker)
        if follower is not None:
            follower.state = State.WAKING
            self._at(self.now, self._begin, follower)

    def _turn(self, worker: Worker) -> None:
        if self.processors.ready and self.now - worker.since >= self.machine.costs.time_slice:
            worker.state = State.READY
            self._leave(worker)
            self.processors.ready.append(worker)
            return
        self.worker = worker
        self.scheduler.turn(worker)
        self.worker = None

    def _finish(self, run: tuple[Any, ...]) -> None:
        worker, unit, rows, given, shares, started, overhead = run
        now = self.now
        unit.running -= 1
        unit.held -= rows
        busy = now - started - overhead
        worker.busy += busy
        self._count(unit, rows, given, busy)
        for behind, count in shares:
            behind.reserved -= count
            behind.writer_cpu = worker.cpu
        for behind, part in dealt(given, shares, unit.spec.split):
            for count, stamp in part:
                behind.push(count, stamp)
        if self._trace:
            self.spans.append(
                Span(worker.number, unit.spec.name, unit.spec.query, started, now, rows)
            )
        scheduler = self.scheduler
        scheduler.done(worker, unit, rows)
        for behind, _ in shares:
            scheduler.arrived(behind, worker)
        if rows and unit.before:
            scheduler.drained(unit, worker)
        self._turn(worker)

    def _count(self, unit: Unit, rows: int, given: list[Chunk], busy: float) -> None:
        """A run of an operator is over."""
        out = sum(count for count, _ in given)
        unit.rows_in += rows
        unit.rows_out += out
        unit.arrived += rows if unit.endless else 0
        unit.busy += busy
        unit.last_end = self.now
        self._processed += rows
        self.watch.processed += rows
        if not unit.before:
            self.watch.entered(unit.spec.query, rows)
        if not unit.behind:
            self.watch.left(unit.spec.query, given, self.now)

    # ---- arrivals, windows, elasticity

    def _arrive(self, unit: Unit) -> None:
        if unit.number < 0:
            return  # its query has gone
        spec, now = unit.spec, self.now
        cycle = spec.on + spec.off
        if spec.off and now % cycle >= spec.on:
            self._at(now + cycle - now % cycle, self._arrive, unit)
            return
        if spec.arrivals == "poisson":
            gap, rows = self._draw.expovariate(spec.rate), 1
        else:
            gap = max(1 / spec.rate, TICK)
            unit.owed += gap * spec.rate
            rows = int(unit.owed + 1e-9)
            unit.owed -= rows
        # rows of a Poisson stream come behind the first gap, steady ones with its beginning
        if rows and (spec.arrivals == "steady" or now > 0):
            unit.push(rows, now)
            self.scheduler.arrived(unit, None)
        self._at(now + gap, self._arrive, unit)

    def _end_window(self, _: Any) -> None:
        queued = 0
        for unit in self.units:
            unit.end_window(self._window)
            queued += unit.pending if not unit.endless else 0
        self.watch.end_window(self._window, queued)
        self.at(self.now + self._window, self._end_window)

    def _elastic(self, _: Any) -> None:
        assert self._elasticity is not None
        period = self._elastic_period
        throughput = (self._processed - self._elastic_rows) / period
        self._elastic_rows = self._processed
        pool = [worker for worker in self.workers if worker.own is None]
        running = sum(worker.state is not State.SUSPENDED for worker in pool)
        self.level = self._elasticity.update(throughput, running=running)
        for worker in pool:
            if worker.state is State.SUSPENDED and worker.number < self.level:
                self.wake(worker)
        self.at(self.now + period, self._elastic)

    # ---- results

    def _watch(self) -> None:
        self.watch.restart(self.now)
        for worker in self.workers:
            worker.busy = worker.overhead = 0.0
        self.scheduling, self.decisions, self.processors.switches = 0.0, 0, 0
        self.spans = []

    def _result(self) -> Result:
        queries = self.watch.queries()
        return Result(
            seconds=self.now - self.watch.since,
            rows_in=sum(query.rows_in for query in queries),
            rows_out=sum(query.rows_out for query in queries),
            processed=self.watch.processed,
            busy=sum(worker.busy for worker in self.workers),
            overhead=sum(worker.overhead for worker in self.workers),
            scheduling=self.scheduling,
            decisions=self.decisions,
            switches=self.processors.switches,
            most_queued=self.watch.most_queued,
            level=min(self.level, len(self.workers)),
            threads=len(self.workers),
            queries=queries,
            spans=self.spans + self._under_way() if self._trace else [],
        )

    def _under_way(self) -> list[Span]:
        """Runs that are not over, up to now."""
        return [
            Span(worker.number, unit.spec.name, unit.spec.query, start, self.now, rows)
            for worker in self.workers
            if worker.state is State.RUNNING and worker.run is not None
            for unit, start, rows in [worker.run]
        ]
