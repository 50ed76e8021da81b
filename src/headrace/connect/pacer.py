"""Readers that give rows when they are due."""

from __future__ import annotations

import threading

from .clock import Clock
from .rates import NEVER_DUE, SECOND, Rate


class Pacer:
    """How far a reader may go by now; time begins when it is made. Without a rate, all is due.

    >>> from headrace.testing import VirtualClock
    >>> clock, closed = VirtualClock(), threading.Event()
    >>> pacer = Pacer(Rate.of(10), clock, start=100)
    >>> clock.advance(0.5)
    >>> pacer.due(100, timeout=0.0, closed=closed)
    105
    """

    def __init__(self, rate: Rate | None, clock: Clock, start: int) -> None:
        self._rate, self._clock, self._start = rate, clock, start
        self._opened = clock.now()

    def due(self, position: int, timeout: float, closed: threading.Event) -> int:
        """The position behind the rows that are due. Where there is none behind `position`, waits
        for one, at most `timeout` seconds and not when closed."""
        if self._rate is None:
            return NEVER_DUE
        due = self._due(self._rate)
        if due <= position:
            first_due = self._opened + self._rate.due(position - self._start) / SECOND
            self._clock.wait(first_due, timeout, closed)
            # Whatever rounding says of the rest, the row that was waited for is due by then.
            due = max(self._due(self._rate), position + (self._clock.now() >= first_due))
        return due

    def _due(self, rate: Rate) -> int:
        # To the next nanosecond, for sums of tenths of seconds that just miss a whole row.
        return self._start + rate.rows_due(round((self._clock.now() - self._opened) * SECOND))
