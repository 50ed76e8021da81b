"""Pages of memory: taken from the system, and given back to it."""

from __future__ import annotations

import ctypes
import sys

from .instructions import BYTES, WORD, intrinsic, register_instruction

PAGE = 1 << 12
_DONTNEED = 4  # MADV_DONTNEED
_READ_WRITE = 1 | 2  # PROT_READ, PROT_WRITE
_ALONE = 2 | (0x20 if sys.platform == "linux" else 0x1000)  # MAP_PRIVATE, MAP_ANONYMOUS
_FAILED = -1

_libc = ctypes.CDLL(None)
_libc.mmap.restype = ctypes.c_ssize_t
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    *[ctypes.c_int] * 3,
    ctypes.c_ssize_t,
]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def map_pages(count: int) -> int:
    """New pages of zeros for so many bytes; 0 if there are none."""
    address: int = _libc.mmap(None, count, _READ_WRITE, _ALONE, -1, 0)
    return 0 if address == _FAILED else address


def unmap_pages(address: int, count: int) -> None:
    """Give back what `map_pages` gave: unlike `free`, it does not keep anything."""
    _libc.munmap(address, count)


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


def _emit_map(context, b, count):
    from llvmlite import ir

    half = ir.IntType(32)
    call = intrinsic(b, "mmap", BYTES, BYTES, WORD, half, half, half, WORD)
    nowhere = BYTES(None)
    made = b.call(call, [nowhere, count, half(_READ_WRITE), half(_ALONE), half(-1), WORD(0)])
    address = b.ptrtoint(made, WORD)
    return b.select(b.icmp_signed("==", address, WORD(_FAILED)), WORD(0), address)


def _emit_unmap(context, b, address, count):
    from llvmlite import ir

    call = intrinsic(b, "munmap", ir.IntType(32), BYTES, WORD)
    b.call(call, [b.inttoptr(address, BYTES), count])


register_instruction(discard, 2, "none", _emit_discard)
register_instruction(map_pages, 1, "int64", _emit_map)
register_instruction(unmap_pages, 2, "none", _emit_unmap)
