"""The threading model dedicated (Streams §2.2): a thread for every operator.

Queues have one writer and one reader and need no lock, except where several operators write to one.
Threads without rows or without room sleep, and the operating system decides who runs.
"""

from __future__ import annotations

from ...graph import Graph
from ..threads import Worker
from ..units import Unit
from .base import Base


class Dedicated(Base):
    """As many threads as operators; `batch` bounds the rows of one event.

    >>> Dedicated().sleeping_locks
    True
    """

    sleeping_locks = True

    def __init__(self, batch: int = 256) -> None:
        self._batch = batch
        self._thread: dict[Unit, Worker] = {}

    def threads(self) -> list[Worker]:
        """One for each operator that has none yet."""
        made = []
        for unit in self.simulation.units:
            if unit not in self._thread:
                self._thread[unit] = Worker(len(self._thread), own=unit)
                made.append(self._thread[unit])
        return made

    def update(self, graph: Graph) -> None:
        """Threads for new operators; those of removed ones sleep for ever."""
        for worker in self.threads():
            self.simulation.start(worker)

    def turn(self, worker: Worker) -> None:
        """Run the operator, or sleep until somebody brings rows or makes room."""
        unit = worker.own
        if unit.number < 0 or not unit.ready():
            self.simulation.sleep(worker)
            return
        # the operating system would interrupt it at the end of its time slice
        left = worker.since + self.simulation.machine.costs.time_slice - self.simulation.now
        whole = unit.spec.cost * self._batch
        fits = self._batch if whole <= left or whole == 0 else int(left / unit.spec.cost)
        self.simulation.run(unit.number, max(fits, 1))

    def arrived(self, unit: Unit, by: Worker | None) -> None:
        """Rows for a thread that sleeps."""
        self.simulation.wake(self._thread[unit], by)

    def drained(self, unit: Unit, by: Worker) -> None:
        """Room for threads that sleep."""
        for before in unit.before:
            if before.ready():
                self.simulation.wake(self._thread[before], by)
