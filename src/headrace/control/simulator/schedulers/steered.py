"""The node engine's scheduler `priority`: a table of ranks, made anew by a thread of its own.

The control thread asks the policy every period, but is busy for at most a small part of a core, so
ranks are as old as its answers take. Workers do not wait for it: who looks for work takes, of all
that can run, the unit whose rank is first; among equals what it has just written for, else the next
one in turn. A run is bounded by time. What calls Python has threads of its own. Without a policy
all are equal.
"""

from __future__ import annotations

from collections import deque

from ...graph import Graph
from ...policy import Policy, Priority
from ...scheduling import Decision, Scheduling
from ..simulation import Simulation
from ..threads import Worker
from ..units import Unit
from .base import Base

PERIOD, SHARE = 1e-3, 0.02  # of the control thread: seconds, and of a core at the most
ASKING = 150e-6  # seconds that a question takes: it is numpy over few operators
RUN_SECONDS = 200e-6  # of a run, about
NO_LIMIT = 1 << 60  # rows; what a policy does not limit is bounded by time alone


class Steered(Base):
    """So many workers, a policy, and a thread for each operator that calls Python.

    >>> from headrace.control.policies import fcfs
    >>> Steered(fcfs(), workers=2).sleeping_locks
    False
    """

    def __init__(
        self, policy: Policy | Priority, workers: int, *, run_seconds: float = RUN_SECONDS
    ) -> None:
        self._policy, self._workers, self._run_seconds = policy, workers, run_seconds
        self._ran: set[Unit] = set()  # since the policy was asked
        self._home: dict[Unit, Worker] = {}  # who has written for a unit since it was taken
        self._last: dict[Worker, int] = {}  # the unit that a worker has taken last
        self._hosts: dict[Unit, Worker] = {}
        self._idle: deque[Worker] = deque()  # workers that sleep

    def attach(self, simulation: Simulation) -> list[Worker]:
        """The workers, and the first question."""
        self.simulation = simulation
        self.scheduling = Scheduling(
            simulation, simulation.graph, self._policy, period=PERIOD, batch=NO_LIMIT
        )
        self._ask(simulation)
        return [Worker(number) for number in range(self._workers)] + self._new_hosts()

    def _new_hosts(self) -> list[Worker]:
        made = []
        for unit in self.simulation.units:
            if unit.spec.hosted and unit not in self._hosts:
                self._hosts[unit] = Worker(self._workers + len(self._hosts), own=unit)
                made.append(self._hosts[unit])
        return made

    def swap(self, policy: Policy) -> None:
        """From the next question on another policy."""
        self.scheduling.policy = policy

    def update(self, graph: Graph) -> None:
        """Others are ranked, and those that call Python get threads."""
        self._ran.clear()
        self._home.clear()
        self.scheduling.update(graph)
        self._decide()
        for worker in self._new_hosts():
            self.simulation.start(worker)

    def _ask(self, simulation: Simulation) -> None:
        self.scheduling.adapt(self._executed(), simulation.now)
        self._decide()
        wait = max(self.scheduling.period, ASKING / SHARE)
        simulation.at(simulation.now + wait, self._ask)

    def _decide(self) -> None:
        self._table: Decision = self.scheduling.decide(self._executed(), self.simulation.now)
        # who is not eligible comes last, not never
        later = len(self._table.step)
        steps, eligible = self._table.step.tolist(), self._table.eligible.tolist()
        self._ranks = [k if now else k + later for k, now in zip(steps, eligible, strict=True)]

    def _executed(self) -> list[int]:
        found = [unit.number for unit in self._ran if unit.number >= 0]
        self._ran = {unit for unit in self._ran if unit.running}  # these change once more
        return found

    def turn(self, worker: Worker) -> None:
        """What is ranked first, or its own unit; without any, sleep until there is one."""
        units = self._in_order(worker) if worker.own is None else [worker.own]
        unit = next((unit for unit in units if unit.number >= 0 and unit.ready()), None)
        if unit is None:
            if worker.own is None:
                self._idle.append(worker)
            self.simulation.sleep(worker)
            return
        self._home.pop(unit, None)
        self._last[worker] = unit.number
        self._ran.add(unit)
        worker.debt += self.simulation.machine.costs.rank
        self.simulation.run(unit.number, self._limit(unit))
        for other in units if self._idle else ():
            if other.ready():
                self.simulation.wake(self._idle.popleft(), worker)
                return

    def _in_order(self, worker: Worker) -> list[Unit]:
        """All that workers run, the first one first."""
        units, last, ranks = self.simulation.units, self._last.get(worker, 0), self._ranks

        def place(unit: Unit) -> tuple[int, bool, int]:
            turn = (unit.number - last - 1) % len(units)
            return ranks[unit.number], self._home.get(unit) is not worker, turn

        return sorted((unit for unit in units if unit not in self._hosts), key=place)

    def _limit(self, unit: Unit) -> int:
        """Rows of a run: of the policy, and of so much time by what a row took so far."""
        most = int(self._table.limits[unit.number])
        if unit.cost > 0:
            most = min(most, max(1, int(self._run_seconds / unit.cost)))
        return most

    def done(self, worker: Worker, unit: Unit, rows: int) -> None:
        """Its features are others now, and what it has begun is near to its worker."""
        self._ran.add(unit)
        if unit.pending:
            self._home[unit] = worker

    def arrived(self, unit: Unit, by: Worker | None) -> None:
        """Rows: who wrote them is near, and somebody wakes up."""
        if by is not None:
            self._home[unit] = by
        self._wake(unit, by)

    def drained(self, unit: Unit, by: Worker) -> None:
        """Room: who writes there may go on."""
        for before in unit.before:
            self._wake(before, by)

    def _wake(self, unit: Unit, by: Worker | None) -> None:
        if not unit.ready():
            return
        if unit in self._hosts:
            self.simulation.wake(self._hosts[unit], by)
        elif self._idle:
            self.simulation.wake(self._idle.popleft(), by)
