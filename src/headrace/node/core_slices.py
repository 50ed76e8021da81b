"""How long a thread keeps a core while others wait for it.

Linux (6.12 and newer) lets a thread ask for short slices of a core. It is taken from it sooner, and
in exchange gets one at once when it wakes up, where a thread with longer slices has it. For threads
that do a little and then wait, that is the difference between microseconds and the next tick.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

_NUMBERS = {"x86_64": 314, "aarch64": 274}  # of the system call sched_setattr
_NUMBER = _NUMBERS.get(platform.machine()) if sys.platform == "linux" else None
# size, policy, flags, nice, priority, runtime (the slice, in ns), deadline, period
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")
_SUCCESS = 0


def ask_for_slices(ns: int) -> bool:
    """Let the calling thread have slices of so many ns. False: nothing was changed.

    A system that knows of no slices says that it has done it.

    >>> ask_for_slices(100_000) in (True, False)
    True
    """
    if _NUMBER is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False
    nice = os.getpriority(os.PRIO_PROCESS, 0)  # of this thread: the call sets it, too
    asked = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, ns, 0, 0)
    return ctypes.CDLL(None).syscall(_NUMBER, 0, asked, 0) == _SUCCESS
