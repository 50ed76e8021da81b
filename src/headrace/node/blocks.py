"""Blocks of the node engine: a stage's block with what is needed to share and recycle it."""

from __future__ import annotations

from headrace.stage.blocks.layout import BlockRecord
from headrace.stage.memory.records import i64, line, record


@record
class NodeBlock:
    """One cache line in front of a block. In this package "block" is the address of this record."""

    readers: i64 = line()  # who still needs it, the maker included; 0: it lies in its pool
    below: i64  # number of the block under it in the pool's stack; -1: none
    height: i64  # of the stack with this block on top
    number: i64  # fixed: in its pool
    home: i64  # fixed: the address of its pool
    lender: i64  # the FeedUsers of the batch that has the bytes of its strings; 0: it has its own
    block: BlockRecord = line()


@record
class FeedUsers:
    """How many splits and blocks need a batch; the host keeps its rows until there are none."""

    count: i64 = line()


def record_of(block: int) -> int:
    """The address of the BlockRecord of a block: what kernels and `Feed` work on.

    >>> block = NodeBlock.allocate()
    >>> record_of(block.address) == block.block.address
    True
    """
    address: int = NodeBlock(block).block.address
    return address
