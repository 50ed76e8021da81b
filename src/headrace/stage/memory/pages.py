"""What the system is told about pages of memory."""

from __future__ import annotations

import ctypes
import sys

from .instructions import BYTES, WORD, intrinsic, register_instruction

PAGE = 1 << 12
_DONTNEED = 4  # MADV_DONTNEED


def discard(address: int, count: int) -> None:
    """Let the system have pages that nobody reads any more. `address` is the beginning of one."""
    if sys.platform == "linux":
        ctypes.CDLL(None).madvise(ctypes.c_void_p(address), ctypes.c_size_t(count), _DONTNEED)


def _emit_discard(context, b, address, count):
    from llvmlite import ir

    if sys.platform == "linux":
        half = ir.IntType(32)
        call = intrinsic(b, "madvise", half, BYTES, WORD, half)
        b.call(call, [b.inttoptr(address, BYTES), count, half(_DONTNEED)])


register_instruction(discard, 2, "none", _emit_discard)
