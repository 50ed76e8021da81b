"""The threading model manual (Streams §2.2): one thread, operators call each other."""

from __future__ import annotations

from ..threads import Worker
from ..units import Unit
from .base import Base


class Manual(Base):
    """A thread takes rows of a source in turns and brings them to the sinks, without any queue.

    >>> Manual().locks_ports
    False
    """

    def __init__(self, batch: int = 256) -> None:
        self._batch = batch  # rows that one event stands for
        self._turn = 0

    def threads(self) -> list[Worker]:
        """One."""
        return [Worker(0)]

    def turn(self, worker: Worker) -> None:
        """Some rows of the next source that has rows go through everything behind it."""
        simulation = self.simulation
        sources = [unit for unit in simulation.units if not unit.before]
        for place in range(len(sources)):
            unit = sources[(self._turn + place) % len(sources)]
            if unit.pending:
                self._turn += place + 1
                rows = min(self._batch, unit.pending)
                simulation.run_through(worker, unit, unit.take(rows, simulation.now))
                return
        simulation.sleep(worker)

    def arrived(self, unit: Unit, by: Worker | None) -> None:
        """Rows for a source wake the thread."""
        if by is None:
            self.simulation.wake(self.simulation.workers[0])
