"""The clocks of workers: nanoseconds that only go forward, without the GIL."""

from __future__ import annotations

import sys
import time

from llvmlite import ir

from headrace.stage.memory.instructions import WORD, intrinsic, register_instruction

_MONOTONIC = 6 if sys.platform == "darwin" else 1  # CLOCK_MONOTONIC
_THREAD = 16 if sys.platform == "darwin" else 3  # CLOCK_THREAD_CPUTIME_ID
_SECOND = 1_000_000_000


def now() -> int:
    """What `time.monotonic_ns` gives.

    >>> now() <= now()
    True
    """
    return time.monotonic_ns()


def thread_time() -> int:
    """What `time.thread_time_ns` gives: how long this thread has had a core. A system call.

    >>> thread_time() <= thread_time()
    True
    """
    return time.thread_time_ns()


def _emit_clock(clock):
    def emit(context, b):
        from headrace.stage.memory.numba_internals import cgutils

        place = cgutils.alloca_once(b, ir.ArrayType(WORD, 2))  # a struct timespec
        first = b.bitcast(place, WORD.as_pointer())
        half = ir.IntType(32)
        get = intrinsic(b, "clock_gettime", half, half, WORD)
        b.call(get, [half(clock), b.ptrtoint(place, WORD)])
        rest = b.load(b.gep(first, [WORD(1)], source_etype=WORD))
        return b.add(b.mul(b.load(first), WORD(_SECOND)), rest)

    return emit


register_instruction(now, 0, "int64", _emit_clock(_MONOTONIC))
register_instruction(thread_time, 0, "int64", _emit_clock(_THREAD))
