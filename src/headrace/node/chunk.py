"""Chunks: blocks side by side in one piece of memory of the system's (Enjima §3.1 and §4).

A chunk is mapped at once and, where it is *eager*, every page of it is touched before a worker sees
it, so no page fault is left for the worker's path; where the system has huge pages, large ones ask
for them.
"""

from __future__ import annotations

import mmap

import numpy as np

from headrace.node.blocks import NodeBlock
from headrace.stage.blocks.block import start_block_at
from headrace.stage.blocks.layout import Template
from headrace.stage.memory.records import interpreted
from headrace.stage.strings.heap import Heap, empty_heap

HUGE_PAGE = 1 << 21

_empty_heap = interpreted(empty_heap)  # mostly two stores; no machine code is loaded for them
_BLOCK = NodeBlock.fields["block"].offset  # where a block begins behind its NodeBlock


def block_stride(template: Template) -> int:
    """Bytes from one block of a chunk to the next, whole cache lines.

    >>> from headrace.plan.schema import Schema
    >>> from headrace.stage.blocks.layout import Layout
    >>> block_stride(Layout.of(Schema.of({"n": int})).template(8)) % 64
    0
    """
    return _BLOCK + template.extent


def chunk_bytes(template: Template, blocks: int) -> int:
    """What a chunk takes of the system: whole pages."""
    return -(-block_stride(template) * blocks // mmap.PAGESIZE) * mmap.PAGESIZE


class Chunk:
    """Blocks in a mapping of their own, started and ready to be adopted by a pool.

    >>> from headrace.plan.schema import Schema
    >>> from headrace.stage.blocks.layout import Layout
    >>> chunk = Chunk(Layout.of(Schema.of({"n": int})).template(8), 3)
    >>> len(chunk.blocks), chunk.blocks[0] == chunk.address
    (3, True)
    >>> chunk.release()
    """

    def __init__(self, template: Template, blocks: int, eager: bool = True) -> None:
        self.bytes = chunk_bytes(template, blocks)
        self._mapping: mmap.mmap | None = _mapped(self.bytes, eager)
        self.buffer: np.ndarray | None = np.frombuffer(self._mapping, np.uint8, self.bytes)
        self.address = self.buffer.ctypes.data
        if eager:
            self.buffer[:: mmap.PAGESIZE] = 0  # the system gives a page when it is first written
        self._has_text = template.text > 0
        stride, columns = block_stride(template), len(template.offsets)
        self.blocks = [self.address + k * stride for k in range(blocks)]
        for block in self.blocks:
            start_block_at(block + _BLOCK, template.address, columns, template.text)

    def __contains__(self, address: int) -> bool:
        return self.address <= address < self.address + self.bytes

    def release(self) -> None:
        """Unmap it; where somebody still holds an array over it, when that is gone."""
        if self._mapping is not None and self._has_text:
            for block in self.blocks:
                _empty_heap(Heap(NodeBlock(block).block.heap))
        mapping, self._mapping, self.buffer = self._mapping, None, None
        if mapping is not None:
            try:
                mapping.close()
            except BufferError:  # an array holds the mapping, which goes with it
                pass


def _mapped(size: int, huge: bool) -> mmap.mmap:
    """Private memory of no file. Python's own default is shared, and has no huge pages."""
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size)
    pages = size // HUGE_PAGE if huge else 0
    # where it is as long as so many huge pages, it begins with one; what is behind is not touched
    whole = -(-size // HUGE_PAGE) * HUGE_PAGE if pages else size
    made = mmap.mmap(-1, whole, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if pages and hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            made.madvise(mmap.MADV_HUGEPAGE, 0, pages * HUGE_PAGE)
        except OSError:  # a kernel without them
            pass
    return made
