"""How many micro-batches run at once, and how long each may take: Streams' elasticity for batches.

Larger batches cost less per row, and more of them at once use more cores; both make whoever comes
next wait longer, since nothing ends a batch that runs. So `steps` lie on one way, from few short
batches to many long ones, and Streams' controller (§4.2) climbs it as it climbs numbers of threads:
as far as it is worth it, by the rows of all queries together.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from .elasticity import Elasticity

PERIOD = 5.0  # seconds: some batches end in it
BATCH_SECONDS = (0.25, 0.5, 1.0, 2.0)
GROWTH = 4.0  # a batch has at most so many times the rows of the one before it


class Step(NamedTuple):
    """So many batches at once, each with rows for so many seconds of work."""

    running: int
    seconds: float


def steps(most: int) -> tuple[Step, ...]:
    """The way from few short batches to many long ones.

    >>> [tuple(step) for step in steps(3)]
    [(1, 0.25), (1, 0.5), (2, 0.5), (2, 1.0), (3, 1.0), (3, 2.0)]
    """
    made: list[Step] = []
    for running in range(1, most + 1):
        for place in (running - 1, running):
            step = Step(running, BATCH_SECONDS[min(place, len(BATCH_SECONDS) - 1)])
            if step not in made:
                made.append(step)
    return tuple(made)


class Allowance:
    """The step in force; it changes with the rows that batches have read.

    >>> allowance = Allowance(most=4, first=2)
    >>> allowance.running, allowance.seconds
    (2, 0.5)
    >>> Allowance.fixed(3).running
    3
    """

    def __init__(self, most: int, first: int = 1) -> None:
        """most, first: how many batches run at once, at most, and in the beginning."""
        self._steps = steps(most)
        begin = next(n for n, step in enumerate(self._steps) if step.running == min(first, most))
        self._controller: Elasticity | None = Elasticity(len(self._steps), first=begin + 1)
        self._rows, self._began, self._busy = 0, 0.0, False

    @classmethod
    def fixed(cls, running: int) -> Allowance:
        """So many at once, whatever is read."""
        made = cls(running, running)
        made._steps, made._controller = (Step(running, BATCH_SECONDS[-2]),), None
        return made

    @property
    def _step(self) -> Step:
        return self._steps[0 if self._controller is None else self._controller.level - 1]

    @property
    def running(self) -> int:
        """How many batches may run at once."""
        return self._step.running

    @property
    def seconds(self) -> float:
        """How long a batch may work, beyond what every batch costs."""
        return self._step.seconds

    @property
    def is_elastic(self) -> bool:
        """Does it change?"""
        return self._controller is not None

    def read(self, rows: int) -> None:
        """A batch has ended that read so many rows."""
        self._rows += rows

    def look(self, now: float, busy: bool) -> None:
        """Look at the clock. busy: as many run as may, and others wait.

        What is read while places are free, or nobody is kept waiting, says nothing about the step:
        such a period does not count.
        """
        if not busy or not self._busy:
            self._rows, self._began, self._busy = 0, now, busy
            return
        if self._controller is not None and now - self._began >= PERIOD:
            self._controller.update(self._rows / (now - self._began))
            self._rows, self._began = 0, now


class Batch(NamedTuple):
    """A batch that is over."""

    rows: int
    seconds: float


class BatchRows:
    """How many rows the next batch of a query may have, by what the ones before it took.

    Every batch costs something, whatever is in it, and something for each row: the line through the
    batch that took least and another one says how much. As long as there is only one, all that it
    took is put down to its rows.

    >>> rows = BatchRows()
    >>> rows.took(1000, 0.5)
    >>> rows.most(seconds=1.0)
    2000
    >>> rows.took(2000, 0.75)
    >>> rows.most(seconds=1.0)
    4000
    """

    def __init__(self) -> None:
        self._least: Batch | None = None  # that took the least time
        self._last: Batch | None = None  # as large as batches are
        self._cost = inf  # seconds per row

    def took(self, rows: int, seconds: float) -> None:
        """A batch of some rows has ended."""
        ended = Batch(rows, seconds)
        if self._least is None or seconds <= self._least.seconds:
            self._least, other = ended, self._last
        else:
            other = ended
        if other is not None and other.rows > self._least.rows:
            self._cost = (other.seconds - self._least.seconds) / (other.rows - self._least.rows)
        # far fewer rows than there may be say nothing about many
        if self._last is None or rows * GROWTH >= self._last.rows:
            self._last = ended
            self._cost = min(self._cost, seconds / rows)

    def most(self, seconds: float) -> int | None:
        """The rows for so many seconds of work; None: there was no batch yet."""
        if self._last is None:
            return None
        wanted = seconds / max(self._cost, 1e-12)
        return max(1, round(min(max(wanted, self._last.rows / GROWTH), self._last.rows * GROWTH)))
