"""What schedulers have in common: nothing is done where nothing is said."""

from __future__ import annotations

from ...graph import Graph
from ..simulation import Simulation
from ..threads import Worker
from ..units import Unit


class Base:
    """A scheduler that is told everything and does nothing."""

    locks_ports = False
    sleeping_locks = False
    simulation: Simulation

    def attach(self, simulation: Simulation) -> list[Worker]:
        """The threads to start with."""
        self.simulation = simulation
        return self.threads()

    def threads(self) -> list[Worker]:
        """New threads."""
        raise NotImplementedError

    def update(self, graph: Graph) -> None:
        """The operators are others now."""

    def done(self, worker: Worker, unit: Unit, rows: int) -> None:
        """A run is over."""

    def arrived(self, unit: Unit, by: Worker | None) -> None:
        """Rows have come to wait before a unit."""

    def drained(self, unit: Unit, by: Worker) -> None:
        """There is room before a unit again."""
