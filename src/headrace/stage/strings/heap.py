"""Heaps: memory for bytes that kernels create."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

from llvmlite import ir

from headrace.stage.memory.instructions import BYTES, WORD, intrinsic, register_instruction
from headrace.stage.memory.records import compiled, i64, interpreted, record


@record
class Heap:
    """Memory for created bytes, owned by one thread: handed out from the front, given back at once.

    What does not fit comes from malloc, in a chain, so that no kernel fails for lack of room."""

    base: i64
    used: i64
    capacity: i64
    overflow: i64  # the youngest block of the chain; its first word is the next
    overflow_bytes: i64


@record
class OverflowBlock:
    """A block of the chain; the bytes lie behind it."""

    next: i64


BLOCK_HEADER = OverflowBlock.size


# ---- the C library's memory ----------------------------------------------------------------


_libc = ctypes.CDLL(None)
_libc.malloc.restype, _libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
_libc.calloc.restype = ctypes.c_void_p
_libc.calloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
_libc.free.restype, _libc.free.argtypes = None, [ctypes.c_void_p]


def malloc(count: int) -> int:
    """Memory of the C library; 0 if there is none."""
    return _libc.malloc(count) or 0


def calloc(count: int) -> int:
    """The same, filled with zeros."""
    return _libc.calloc(1, count) or 0


def free(address: int) -> None:
    """Give back what malloc gave."""
    _libc.free(address)


def _emit_malloc(context, b, count):
    return b.ptrtoint(b.call(intrinsic(b, "malloc", BYTES, WORD), [count]), WORD)


def _emit_calloc(context, b, count):
    one = WORD(1)
    return b.ptrtoint(b.call(intrinsic(b, "calloc", BYTES, WORD, WORD), [one, count]), WORD)


def _emit_free(context, b, address):
    b.call(intrinsic(b, "free", ir.VoidType(), BYTES), [b.inttoptr(address, BYTES)])


register_instruction(malloc, 1, "int64", _emit_malloc)
register_instruction(calloc, 1, "int64", _emit_calloc)
register_instruction(free, 1, "none", _emit_free)


# ---- taking and giving back ----------------------------------------------------------------


@compiled
def take(heap, count):
    """The address of `count` fresh bytes.

    >>> heap = new_heap(100)
    >>> first = take(heap, 60)
    >>> take(heap, 60) == first + 60, heap.overflow_bytes    # does not fit: from malloc
    (False, 60)
    """
    used = heap.used
    if used + count <= heap.capacity:
        heap.used = used + count
        return heap.base + used
    address = malloc(BLOCK_HEADER + count)
    if address == 0:
        raise MemoryError("no memory for text")
    OverflowBlock(address).next = heap.overflow
    heap.overflow = address
    heap.overflow_bytes += count
    return address + BLOCK_HEADER


@compiled
def release_overflow(heap):
    """Free what came from malloc; strings in it are gone.

    >>> heap = new_heap(0)
    >>> _ = take(heap, 10)
    >>> release_overflow(heap); heap.overflow_bytes
    0
    """
    address = heap.overflow
    while address != 0:
        following = OverflowBlock(address).next
        free(address)
        address = following
    heap.overflow = 0
    heap.overflow_bytes = 0


@compiled
def start_heap(heap, base, capacity):
    """An empty heap over memory that is there."""
    heap.base = base
    heap.used = 0
    heap.capacity = capacity
    heap.overflow = 0
    heap.overflow_bytes = 0


@compiled
def empty_heap(heap):
    """Forget all strings; the memory is used again."""
    heap.used = 0
    if heap.overflow != 0:
        release_overflow(heap)


@compiled
def has_overflown(heap):
    """Did a string not fit? Then whoever fills it stops behind the row."""
    return heap.overflow != 0


_interpreted_release = interpreted(release_overflow)


def new_heap(capacity: int) -> Heap:
    """A heap that owns its memory, as long as the record that is returned lives.

    >>> new_heap(1000).capacity
    1000
    """
    heap = Heap.allocate(behind=capacity)
    heap.base, heap.capacity = heap.address + Heap.size, capacity
    weakref.finalize(heap, _release_buried, heap._buffer, heap.address)
    return heap


def _release_buried(buffer: Any, address: int) -> None:
    """Free the chain of a heap whose record is gone; the buffer is kept until then."""
    _interpreted_release(Heap(address))
