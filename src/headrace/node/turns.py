"""Whose call of Python begins first, where queries have priorities.

Calls of all queries share Python's lock, which knows no priorities. So the call of a query begins
when none of a more important one is under way or waits to begin. Nobody starves: who has waited for
`PATIENCE` begins all the same. And a call counts for as long only, since it may block, in a
connector or in a user's function, which holds up nobody else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 0.005  # seconds


class Turns:
    """The calls that are under way, or wait.

    >>> turns = Turns()
    >>> with turns.call(1.0), turns.call(1.0):  # equals do not wait for each other
    ...     turns.under_way
    2
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()  # guards what follows
        self._calls: dict[object, tuple[float, float]] = {}  # priority, and since when

    @property
    def under_way(self) -> int:
        """How many calls have begun, or wait, and have not ended."""
        with self._changed:
            return len(self._calls)

    @contextmanager
    def call(self, priority: float) -> Iterator[None]:
        """Begin a call when it is its turn."""
        me, since = object(), time.monotonic()
        with self._changed:
            self._calls[me] = priority, since
            while (left := self._left(priority, since)) > 0:
                self._changed.wait(left)
        try:
            yield
        finally:
            with self._changed:
                del self._calls[me]
                self._changed.notify_all()

    def _left(self, priority: float, since: float) -> float:
        """Seconds that a call has to wait, if no other one ends."""
        more_important = [began for other, began in self._calls.values() if other > priority]
        return min(max(more_important, default=-PATIENCE), since) + PATIENCE - time.monotonic()
