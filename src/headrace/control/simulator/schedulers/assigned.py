"""Haren's scheduler (algorithms 1 to 3): execution tasks and scheduling tasks in turns.

Every thread has a list of operators of its own, by priority. After a period P all threads meet; the
last one refreshes what depends on several threads and assigns operators anew; each ranks its own.
"""

from __future__ import annotations

from random import Random

from ...features import FEATURES
from ...graph import Graph
from ...policy import Policy, Priority
from ...scheduling import Decision, Scheduling
from ..simulation import Simulation
from ..threads import Worker
from ..units import Unit
from .base import Base

FIRST_DELAY = 10e-6  # of the back-off, which doubles


class ThreadState:
    """What a thread knows (table 2): its list 𝔸, what it ran 𝔼, and where it is in algorithm 1."""

    def __init__(self) -> None:
        self.operators: list[Unit] = []
        self.executed: set[Unit] = set()
        self.delayed: list[Unit] = []
        self.place = 0
        self.best: int | None = None  # the step of op*, the operator that ran last
        self.ran = False
        self.entered = 0.0  # t_Y: when it left the last scheduling task
        self.met = False  # it waits at the barrier
        self.since = 0.0  # when it came there

    def restart(self) -> None:
        """From the head of the list again (algorithm 1, lines 3 and 4)."""
        self.place, self.best, self.ran = 0, None, False


class Assigned(Base):
    """So many threads and a policy with its P, b and d.

    >>> from headrace.control.policies import fcfs
    >>> Assigned(fcfs(), workers=4).locks_ports
    False
    """

    def __init__(self, policy: Policy | Priority, workers: int, seed: int = 0) -> None:
        self._policy, self._workers = policy, workers
        self._state: dict[Worker, ThreadState] = {}
        self._step: dict[Unit, int] = {}
        self._limit: dict[Unit, int] = {}
        self._eligible: dict[Unit, bool] = {}
        self._draw = Random(seed)
        self.assigned: dict[Unit, int] = {}  # the thread of each operator
        self.tasks: list[tuple[float, str]] = []  # when scheduling tasks ended, under which policy

    def attach(self, simulation: Simulation) -> list[Worker]:
        """The threads; their first task is a scheduling task."""
        self.scheduling = Scheduling(simulation, simulation.graph, self._policy)
        return super().attach(simulation)

    def threads(self) -> list[Worker]:
        """All alike."""
        for number in range(self._workers):
            state = self._state[Worker(number)] = ThreadState()
            state.entered = -float("inf")
        return list(self._state)

    @property
    def policy(self) -> Policy:
        """The policy of the next scheduling task."""
        return self.scheduling.policy

    def swap(self, policy: Policy) -> None:
        """From the next scheduling task on, another policy."""
        self.scheduling.policy = policy

    def update(self, graph: Graph) -> None:
        """New operators go to threads at random until the next scheduling task (§5)."""
        self.scheduling.update(graph)
        states = list(self._state.values())
        for state in states:
            state.executed = {unit for unit in state.executed if unit.number >= 0}
            state.operators = [unit for unit in state.operators if unit.number >= 0]
            state.delayed = [unit for unit in state.delayed if unit.number >= 0]
            state.restart()
        known = {unit for state in states for unit in state.operators}
        lowest = max(self._step.values(), default=0) + 1
        for unit in self.simulation.units:
            if unit not in known and self.assigned:
                thread = self._draw.randrange(len(states))
                states[thread].operators.append(unit)
                self.assigned[unit] = thread
                self._step[unit] = lowest
                self._limit[unit], self._eligible[unit] = self.scheduling.batch, True

    # ---- the execution task, algorithm 1

    def turn(self, worker: Worker) -> None:
        """Run the first operator that can, and its equals; back off; or meet the others."""
        state, simulation = self._state[worker], self.simulation
        if state.delayed:  # lines 19 to 23
            self._run(state, state.delayed.pop(0), self.scheduling.batch)
            return
        while True:
            over = simulation.now - state.entered > self.scheduling.period
            while state.place < len(state.operators) and not over:
                unit = state.operators[state.place]
                if state.best is not None and self._step[unit] > state.best:
                    break
                state.place += 1
                if self._eligible[unit] and unit.ready():
                    state.best, state.ran = self._step[unit], True
                    self._run(state, unit, self._limit[unit])
                    return
            if over:
                self._meet(worker, state)
                return
            if not state.ran:
                left = state.entered + self.scheduling.period - simulation.now
                worker.delay = min(2 * worker.delay or FIRST_DELAY, max(left, 0.0) + 1e-9)
                state.restart()
                simulation.sleep(worker, simulation.now + worker.delay)
                return
            state.restart()

    def _run(self, state: ThreadState, unit: Unit, batch: int) -> None:
        state.executed.add(unit)
        self.simulation.run(unit.number, batch)

    # ---- the scheduling task, algorithms 2 and 3

    def _meet(self, worker: Worker, state: ThreadState) -> None:
        state.met, state.since = True, self.simulation.now
        if not all(each.met for each in self._state.values()):
            self.simulation.spin(worker)
            return
        # This is t*, the last one. Reading and ranking is shared, what depends on others is not.
        simulation, costs = self.simulation, self.simulation.machine.costs
        states = list(self._state.items())
        executed = {unit.number for _, each in states for unit in each.executed if unit.number >= 0}
        features = self.scheduling.features
        before = features.values_read
        self.scheduling.adapt(executed, simulation.now)
        decision = self.scheduling.decide((), simulation.now)
        self._assign(decision)
        operators = len(simulation.units)
        read = features.values_read - before
        alone = sum(FEATURES[name].dependent for name in features.used) / max(len(features.used), 1)
        seconds = len(states) * costs.barrier + read * costs.feature * (
            alone + (1 - alone) / len(states)
        )
        seconds += operators * costs.rank / len(states)
        end = simulation.now + seconds
        for other, each in states:
            each.met = False
            each.entered = end
            each.executed.clear()
            each.restart()
            other.delay = 0.0
            simulation.scheduling += end - each.since
            each.delayed = self._delayed(each, end)
        simulation.at(end, self._released)
        simulation.spin(worker)
        self.tasks.append((end, self.policy.name))

    def _released(self, simulation: Simulation) -> None:
        for worker in self._state:
            simulation.wake(worker)

    def _assign(self, decision: Decision) -> None:
        units = self.simulation.units
        threads = self.scheduling.assign(len(self._state)).tolist()
        states = list(self._state.values())
        for state in states:
            state.operators = []
        self.assigned = {}
        for operator in decision.order.tolist():
            unit = units[operator]
            states[threads[operator]].operators.append(unit)
            self.assigned[unit] = threads[operator]
            self._step[unit] = int(decision.step[operator])
            self._limit[unit] = int(decision.limits[operator])
            self._eligible[unit] = bool(decision.eligible[operator])

    def _delayed(self, state: ThreadState, now: float) -> list[Unit]:
        """Who has not run for longer than d, if a feature is told by runs only (lines 19 to 23)."""
        if not self.scheduling.features.intrinsic:
            return []
        return [unit for unit in state.operators if now - unit.last_end > self.policy.staleness]
