"""Taking blocks of a pool that grows: who takes one of the last asks for the next chunk in time.

A worker allocates nothing. Where few blocks are left it rings a bell, once, and goes on; the
allocator's thread hears it and adopts another chunk (Enjima §3.1.1: the next chunk is there before
it is needed). A pool that grows no more has `low` = 0, and then this costs one load.
"""

from __future__ import annotations

from headrace.node.blocks import NodeBlock
from headrace.node.futex import Word, wake
from headrace.node.pool import available, take
from headrace.stage.memory.atomics import (
    exchange,
    fetch_add,
    load_acquire,
    load_relaxed,
    load_sc,
    store_release,
    store_sc,
)
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
    """Ring the bell, unless that was done and is not answered yet.

    A taker changes the top and then looks at the question; the allocator takes the question back
    and then looks at the top. All four are sequentially consistent, so one of them sees the other.
    """
    if load_sc(pool, "asked") == 0 and exchange(pool, "asked", 1) == 0:
        bell = load_sc(pool, "bell")
        if bell != 0:
            ring_bell(bell)


@compiled
def wants_more(pool):
    """For the allocator: answers the pool's question; is another chunk needed?"""
    exchange(pool, "asked", 0)  # first: who asks after our look rings again
    return available(pool) < load_relaxed(pool, "low")


@compiled
def has_asked(pool):
    """Is there a question that was not answered?"""
    return load_acquire(pool, "asked") != 0


@compiled
def set_low(pool, low):
    """Let who takes ask when fewer than `low` blocks are free; 0: never more."""
    store_release(pool, "low", low)


@compiled
def hang_bell(pool, bell):
    """Let the pool ring this bell; gives whether it has asked before, and maybe nobody heard."""
    store_sc(pool, "bell", bell)
    return load_sc(pool, "asked") != 0


@compiled
def times_rung(bell):
    """Changes whenever the bell rings; what was done before the ring is seen after this."""
    return load_acquire(Word(bell), "value")


@compiled
def ring_bell(bell):
    """Wake the allocator's thread, or keep it from falling asleep."""
    fetch_add(Word(bell), "value", 1)
    wake(bell, 1)
