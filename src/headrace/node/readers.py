"""Readers of a block: a branch, a union or a reorder buffer passes references, not copies.

The maker of a block holds it (`pool.take` gives it with one reader) until it has written the last
row. Before a descriptor is pushed, the block is retained for its consumer. Only who holds a block
may retain it, so a count never comes back from zero. The last one to release recycles.
"""

from __future__ import annotations

from headrace.node.blocks import FeedUsers, NodeBlock
from headrace.node.pool import Pool, give
from headrace.stage.memory.atomics import fetch_add, load_acquire, store_relaxed
from headrace.stage.memory.records import compiled


@compiled
def retain(block, readers):
    """Add readers to a block that the caller holds."""
    fetch_add(NodeBlock(block), "readers", readers)


@compiled
def release(block):
    """The caller is done with the block. Was it the last reader, and the block went home?"""
    held = NodeBlock(block)
    readers = load_acquire(held, "readers")
    if readers == 1:  # nobody else holds it, so nobody can retain it
        store_relaxed(held, "readers", 0)
    else:
        readers = fetch_add(held, "readers", -1)
    if readers == 1:
        if held.lender != 0:
            fetch_add(FeedUsers(held.lender), "count", -1)
            held.lender = 0
        give(Pool(held.home), block)
    return readers == 1


@compiled
def borrow(block, users):
    """The values of a block that the caller fills lie in a batch of the host's, which keeps it
    until the block goes home."""
    fetch_add(FeedUsers(users), "count", 1)
    NodeBlock(block).lender = users
