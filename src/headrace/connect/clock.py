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


class EpochClock:
    """Seconds since 1970 by the clock of the machine, which do not go back when that is set.

    >>> EpochClock().now() > 1_700_000_000
    True
    """

    def __init__(self) -> None:
        self._since = time.time() - time.monotonic()

    def now(self) -> float:
        """Seconds since 1970."""
        return self._since + time.monotonic()

    def wait(self, until: float, timeout: float, stop: threading.Event) -> None:
        """Wait until `until`, at most `timeout` seconds, less if `stop` is set."""
        stop.wait(max(0.0, min(until - self.now(), timeout)))


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
