"""A clock that stands still until a test moves it."""

from __future__ import annotations

import threading
import time

_STEP = 0.001  # real seconds between two looks at the clock


class VirtualClock:
    """A clock for sources that wait for time (`connect.clock.Clock`).

    It moves when a test advances it. An automatic one also moves when somebody waits: to the time
    waited for, at once, so that a run of an hour takes no time.

    >>> clock = VirtualClock()
    >>> clock.advance(2.5)
    >>> clock.now()
    2.5
    >>> quick = VirtualClock(automatic=True)
    >>> quick.wait(until=3600.0, timeout=0.0, stop=threading.Event())
    >>> quick.now()
    3600.0
    """

    def __init__(self, start: float = 0.0, *, automatic: bool = False) -> None:
        self._now, self._automatic = start, automatic
        self._lock = threading.Lock()

    def now(self) -> float:
        """Seconds since the start of the clock."""
        with self._lock:
            return self._now

    def advance(self, seconds: float) -> None:
        """Let some time pass."""
        if seconds < 0:
            raise ValueError(f"a clock does not go back (advance({seconds}))")
        with self._lock:
            self._now += seconds

    def wait(self, until: float, timeout: float, stop: threading.Event) -> None:
        """Wait until a test has moved the clock to `until`, for at most `timeout` real seconds."""
        if self._automatic and until != float("inf"):
            with self._lock:
                self._now = max(self._now, until)
            return
        deadline = time.monotonic() + timeout
        while self.now() < until and not stop.is_set() and time.monotonic() < deadline:
            time.sleep(min(_STEP, timeout))
