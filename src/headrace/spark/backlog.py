"""How long the oldest row has waited that a planner has seen and not planned yet."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

MOST_MARKS = 4096


class Backlog:
    """Rows by when they were first seen, in the order in which they are taken.

    >>> now = [0.0]
    >>> backlog = Backlog(clock=lambda: now[0])
    >>> backlog.see(10); now[0] = 1.0
    >>> backlog.see(25); now[0] = 3.0
    >>> backlog.waited()
    3.0
    >>> backlog.take(12, more=True); backlog.rows, backlog.waited()
    (13, 2.0)
    >>> backlog.take(13); backlog.rows, backlog.waited()
    (0, 0.0)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._taken = 0
        self._marks: deque[tuple[float, int]] = deque()  # a time, and all rows seen by then

    def see(self, rows: int) -> None:
        """So many rows wait now."""
        seen = self._taken + rows
        if rows > 0 and (not self._marks or seen > self._marks[-1][1]):
            since = self._clock()
            if len(self._marks) == MOST_MARKS:  # those that came last count as a little older
                since, _ = self._marks.pop()
            self._marks.append((since, seen))

    def take(self, rows: int, more: bool = False) -> None:
        """The first so many of them wait no more.

        more: are there others behind them? If none was seen, there are taken to be as many again.
        """
        self._taken += rows
        while self._marks and (not more or self._marks[0][1] <= self._taken):
            self._marks.popleft()
        if more and not self._marks:
            self.see(rows)

    @property
    def rows(self) -> int:
        """How many wait, as far as was seen."""
        return self._marks[-1][1] - self._taken if self._marks else 0

    def waited(self) -> float:
        """Seconds since the first of them was seen."""
        return self._clock() - self._marks[0][0] if self._marks else 0.0
