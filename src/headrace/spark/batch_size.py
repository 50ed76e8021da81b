"""How many rows a micro-batch has.

A batch costs Spark some tenths of a second, whatever is in it. Where nobody waits for results of
rows that are still to come, since the sources end, and nobody has said how large batches are, they
grow until one takes some seconds. How far is a matter of memory: rows that come to the driver are
held there, those that cross a shuffle in a task; those that are aggregated or written by the tasks
that read them are held by nobody.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from headrace.plan.connector import is_bounded
from headrace.plan.graph import walk
from headrace.plan.nodes import Exchange, Node, Sink, Source, WindowAggregate, Windowed
from headrace.plan.planner import Plan, StagePlan

from .shipment import is_staged

BATCH_ROWS = 4_000_000  # where batches do not grow
SECONDS = 4.0  # that a batch should take
STEP = 16  # a batch has at most so many times the rows of the one before it
# The rows of the first batch and of the largest, in times of those above.
STEADY, HELD, PASSING = (1, 1), (1, 4), (8, 64)


def growth(plan: Plan, stages: Sequence[StagePlan]) -> tuple[int, int]:
    """How large the first batch is, and how far batches may grow: STEADY, HELD or PASSING."""
    sources = [node for stage in stages for node in stage.inputs if isinstance(node, Source)]
    if not all(is_bounded(node.connector) for node in sources):
        return STEADY
    if any(_crosses_to_driver(root) for root in plan.optimized):
        return STEADY
    return HELD if any(map(_crosses_whole, stages)) else PASSING


def _crosses_to_driver(root: Node) -> bool:
    """Do rows come to the driver, and not what windows make of them?"""
    if not isinstance(root, Sink) or is_staged(root.connector):
        return False
    return not any(isinstance(node, Windowed) for node in walk([root]))


def _crosses_whole(stage: StagePlan) -> bool:
    """Do rows of sources cross a shuffle, and not partial results?"""
    if not stage.is_replicated:
        return False
    exchanges = [root for root in stage.roots if isinstance(root, Exchange)]
    partial = (isinstance(node.input, WindowAggregate) for node in exchanges)
    return not all(partial)


class BatchSize:
    """The rows of the next batch, by what the one before it took.

    >>> now = [0.0]
    >>> size = BatchSize(1000, 6000, clock=lambda: now[0])
    >>> size.next()
    1000
    >>> size.planned(1000); now[0] += 1.0
    >>> size.next()
    4000
    >>> size.planned(4000); now[0] += 2.0
    >>> size.next()
    6000
    >>> size.planned(6000); now[0] += 12.0
    >>> size.next()
    2000
    """

    def __init__(self, first: int, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._first, self._most, self._clock = first, most, clock
        self._rows, self._begun = 0, 0.0

    def next(self) -> int:
        """How many rows the batch that is planned now may have."""
        if not self._rows:
            return self._first
        factor = min(STEP, SECONDS / max(self._clock() - self._begun, 1e-3))
        return max(self._first, min(self._most, int(self._rows * factor)))

    def planned(self, rows: int) -> None:
        """A batch of so many rows begins."""
        self._rows, self._begun = rows, self._clock()
