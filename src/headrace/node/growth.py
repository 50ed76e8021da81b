"""Taking blocks of a pool that grows: who takes one of the last asks for the next chunk in time.

A worker allocates nothing. Where few blocks are left it rings a bell, once, and goes on; the
allocator's thread hears it and adopts another chunk (Enjima §3.1.1: the next chunk is there before
it is needed). A pool that grows no more has `low` = 0, and then this costs one load.
"""

from __future__ import annotations

from headrace.node.blocks import NodeBlock
from headrace.node.futex import Word, wake
from headrace.node.pool import take
from headrace.stage.memory.atomics import exchange, fetch_add, load_acquire, load_relaxed
from headrace.stage.memory.records import compiled


@compiled
def draw(pool):
    """`take`, which asks for more where few are left. 0: yield, as with a full output.

    >>> from headrace.node.pool import adopt, new_pool
    >>> pool, block, bell = new_pool(2), NodeBlock.allocate(), Word.allocate()
    >>> adopt(pool, block.address)
    True
    >>> pool.low, pool.bell = 1, bell.address
    >>> draw(pool) == block.address, pool.asked, bell.value
    (True, 1, 1)
    """
    block = take(pool)
    low = load_relaxed(pool, "low")
    if low != 0:
        free = 0 if block == 0 else load_relaxed(NodeBlock(block), "height") - 1
        if free < low:
            ask(pool)
    return block


@compiled
def ask(pool):
    """Ring the bell, unless that was done and is not answered yet."""
    if load_relaxed(pool, "asked") == 0 and exchange(pool, "asked", 1) == 0:
        bell = load_acquire(pool, "bell")
        if bell != 0:
            ring_bell(bell)


@compiled
def ring_bell(bell):
    """Wake the allocator's thread, or keep it from falling asleep."""
    fetch_add(Word(bell), "value", 1)
    wake(bell, 1)
