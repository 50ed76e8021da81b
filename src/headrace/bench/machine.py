"""What this process and this machine are at: memory, processor time, the load of others."""

from __future__ import annotations

import os
import time


def load_of_others(seconds: float = 0.2) -> float | None:
    """How many cores are busy while this process sleeps; None where the system does not tell."""
    before = _busy_seconds()
    time.sleep(seconds)
    after = _busy_seconds()
    return None if before is None or after is None else round((after - before) / seconds, 2)


def _busy_seconds() -> float | None:
    """CPU seconds of all processes since the machine was started."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system = (int(part) for part in file.readline().split()[1:4])
    except (OSError, ValueError):
        return None
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def resident_bytes() -> int | None:
    """The memory that this process has in RAM; None where the system does not tell.

    >>> resident_bytes() is None or resident_bytes() > 1_000_000
    True
    """
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
    except (OSError, ValueError):
        return None
    return pages * os.sysconf("SC_PAGESIZE")


class Usage:
    """Processor time of this process and its largest memory, from a moment on.

    >>> usage = Usage()
    >>> usage.look()
    >>> usage.cores() >= 0
    True
    """

    def __init__(self) -> None:
        self._cpu, self._started = time.process_time(), time.perf_counter()
        self._busy = _busy_seconds()
        self.resident = resident_bytes()

    def look(self) -> None:
        """Look at the memory now; to be called from time to time."""
        now = resident_bytes()
        if now is not None:
            self.resident = max(now, self.resident or 0)

    def cores(self) -> float:
        """How many cores were used on average."""
        passed = max(time.perf_counter() - self._started, 1e-9)
        return (time.process_time() - self._cpu) / passed

    def others(self) -> float | None:
        """How many cores other processes used on average; None where the system does not tell.

        >>> used = Usage().others()
        >>> used is None or used >= 0
        True
        """
        busy, passed = _busy_seconds(), max(time.perf_counter() - self._started, 1e-9)
        if busy is None or self._busy is None:
            return None
        return round(max(0.0, (busy - self._busy) / passed - self.cores()), 2)
