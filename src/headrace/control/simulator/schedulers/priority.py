"""Enjima's scheduler (algorithm 2): one priority queue for all workers, and epochs.

Whoever returns has its operator's metrics refreshed and takes the eligible operator that the policy
ranks first; who gets none blocks until the next epoch. The paper refreshes the priority of the
operator that returned, and all of them each epoch; here all are fresh at every decision.
"""

from __future__ import annotations

from ...graph import Graph
from ...policy import Policy, Priority
from ...scheduling import Scheduling
from ..simulation import Simulation
from ..threads import Worker
from ..units import Unit
from .base import Base

EPOCH, BLOCK = 1e-3, 384  # seconds, and rows of one of Enjima's blocks (§5.2)


class PriorityQueue(Base):
    """So many workers and a policy, whose period is the epoch.

    >>> from headrace.control.policies import latency_optimized
    >>> PriorityQueue(latency_optimized(), workers=2).locks_ports
    True
    """

    locks_ports = True

    def __init__(self, policy: Policy | Priority, workers: int) -> None:
        self._policy, self._workers = policy, workers
        self._ran: set[Unit] = set()  # since features were refreshed

    def attach(self, simulation: Simulation) -> list[Worker]:
        """The workers, and the first epoch."""
        self.scheduling = Scheduling(
            simulation, simulation.graph, self._policy, period=EPOCH, batch=BLOCK
        )
        simulation.at(0.0, self._epoch)
        return super().attach(simulation)

    def threads(self) -> list[Worker]:
        """All workers are alike."""
        return [Worker(number) for number in range(self._workers)]

    def swap(self, policy: Policy) -> None:
        """From now on another policy."""
        self.scheduling.policy = policy

    def update(self, graph: Graph) -> None:
        """Features of other operators."""
        self._ran.clear()
        self.scheduling.update(graph)

    def turn(self, worker: Worker) -> None:
        """Lines 5 to 16."""
        simulation, features = self.simulation, self.scheduling.features
        before = features.values_read
        decision = self.scheduling.decide(self._executed(), simulation.now)
        costs = simulation.machine.costs
        spent = (features.values_read - before) * costs.feature + costs.rank
        worker.debt += spent
        simulation.scheduling += spent
        for operator in decision.order.tolist():
            if decision.eligible[operator] and simulation.can_run(operator):
                self._ran.add(simulation.units[operator])
                simulation.run(operator, int(decision.limits[operator]))
                return
        simulation.sleep(worker)  # line 16: until the scheduler thread signals

    def done(self, worker: Worker, unit: Unit, rows: int) -> None:
        """Its metrics, and its neighbours', are others now."""
        self._ran.add(unit)

    def _executed(self) -> list[int]:
        found = [unit.number for unit in self._ran if unit.number >= 0]
        self._ran = {unit for unit in self._ran if unit.running}  # these change once more
        return found

    def _epoch(self, simulation: Simulation) -> None:
        """The scheduler thread (§3.2): all metrics, the policy's thresholds, everybody up."""
        self.scheduling.adapt(range(len(simulation.graph)), simulation.now)
        for worker in simulation.workers:
            simulation.wake(worker)
        simulation.at(simulation.now + self.scheduling.period, self._epoch)
