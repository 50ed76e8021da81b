"""How sources that wait for time tell it, so that tests can put another clock in."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Seconds that pass, and a way to wait for them."""

    def now(self) -> float:
        """Seconds since some moment; never goes back."""
        ...

    def wait(self, until: float, timeout: float, stop: threading.Event) -> None:
        """Wait until `now()` is `until`, `timeout` real seconds have passed or `stop` is set."""
        ...


class WallClock:
    """The time of the machine.

    >>> clock = WallClock()
    >>> before = clock.now()
    >>> clock.wait(before + 0.001, timeout=1.0, stop=threading.Event())
    >>> clock.now() - before >= 0.001
    True
    """

    def now(self) -> float:
        """Seconds since some moment."""
        return time.monotonic()

    def wait(self, until: float, timeout: float, stop: threading.Event) -> None:
        """Wait until `until`, at most `timeout` seconds, less if `stop` is set."""
        seconds = min(until - self.now(), timeout)
        if seconds > 0:
            stop.wait(seconds)
