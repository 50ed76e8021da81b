"""Where the next batch begins, for a Spark that does not tell its sources (4.0 and 4.1).

Spark writes down where a batch ends, and then asks for its partitions: always, also when it runs
the batch again after a restart. So a batch begins at the end of the one that Spark has asked for
last, be it in this process or, where the query goes on without a batch to run again, in one before.
What was asked for is kept beside the event times, before any task can begin.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .files import read_sealed, write_sealed
from .shipment import Shipment

FILE = "asked.json"


class Asked:
    """The end of the batch that Spark has asked for last."""

    def __init__(self, shipment: Shipment, first: dict[str, Any]) -> None:
        self._path, self._lasting = Path(shipment.times) / FILE, shipment.lasting
        kept = read_sealed(self._path) if self._path.exists() else None
        # A generation begins where the one before it was asked to move its state.
        self.last = first if kept is None or kept["batch"] <= first["batch"] else kept

    def keep(self, end: dict[str, Any]) -> None:
        """Spark asks for a batch with this end."""
        if end != self.last:
            write_sealed(self._path, end, lasting=self._lasting)
            self.last = end
