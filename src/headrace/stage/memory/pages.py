"""What the system is told about pages of memory."""

from __future__ import annotations

import ctypes
import sys

from .instructions import BYTES, WORD, intrinsic, register_instruction

PAGE = 1 << 12
HUGE_PAGE = 1 << 21
HUGE, UNUSED = 14, 4  # MADV_HUGEPAGE: may be huge pages; MADV_DONTNEED: nobody reads them any more


def advise(address: int, count: int, how: int) -> None:
    """Say how pages are used: HUGE or UNUSED. `address` is the beginning of a page."""
    if sys.platform == "linux":
        ctypes.CDLL(None).madvise(ctypes.c_void_p(address), ctypes.c_size_t(count), how)


def _emit_advice(context, b, address, count, how):
    from llvmlite import ir

    if sys.platform == "linux":
        half = ir.IntType(32)
        call = intrinsic(b, "madvise", half, BYTES, WORD, half)
        b.call(call, [b.inttoptr(address, BYTES), count, b.trunc(how, half)])


register_instruction(advise, 3, "none", _emit_advice)
