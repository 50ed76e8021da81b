"""The seam between the control plane and engines (Haren §4.2, fig. 3).

Behind it stand the simulator and the node engine, which runs operators by itself, in the order that
it is told. Times are seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .arrays import Floats
from .graph import Graph


class Observed(Protocol):
    """What the control plane asks of an engine.

    >>> from headrace.control import Graph
    >>> from headrace.control.features import Given
    >>> engine: Observed = Given(Graph.of(["sink"], []), {"cost": [2.0]})
    >>> engine.features(["cost"], [0])
    array([[2.]])
    """

    def can_run(self, operator: int) -> bool:
        """Does it have rows to take and room for what it may give, and is it free to run?"""

    def features(self, names: Sequence[str], operators: Sequence[int]) -> Floats:
        """The values now: a row for each operator, a column for each name."""


class Engine(Observed, Protocol):
    """An engine that runs what it is told to run."""

    def run(self, operator: int, batch: int) -> int:
        """Let it take at most `batch` rows; how many it takes."""


class Scheduled(Protocol):
    """What an engine tells the control plane: Haren's `update`."""

    def update(self, graph: Graph) -> None:
        """The operators are others now: a query came or went, or operators were fused or split."""
