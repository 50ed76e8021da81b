"""What this process takes of the machine."""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass

_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss


@dataclass(frozen=True)
class ProcessUsage:
    """CPU time in seconds, memory in bytes, and page faults since the process began."""

    cpu_seconds: float
    rss_bytes: int  # resident now; where the system does not tell, at most so far
    minor_faults: int
    major_faults: int


def process_usage() -> ProcessUsage:
    """The usage up to now.

    >>> process_usage().rss_bytes > 1_000_000
    True
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = used.ru_utime + used.ru_stime
    return ProcessUsage(cpu, _resident(used.ru_maxrss), used.ru_minflt, used.ru_majflt)


def _resident(most: int) -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return most * _UNIT
