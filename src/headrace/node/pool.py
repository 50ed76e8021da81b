"""Pools: the free blocks of a maker (Enjima §3.1, fig. 3: chunks are recycled).

A Treiber stack. Why a stack: the block that was read last is the warmest in the caches; any worker
may be the last reader, so several give at once; and replicas of a unit may share a pool, so several
may take. That last point is where a plain stack fails (ABA: the top is taken, and given back while
another worker was about to swing the top to the block under it), so the top carries a version:
blocks are numbered, and (version, number) is one word. A ring of free blocks would need a place for
every block on both sides of a fetch_add, and hand out the coldest block first.

Nothing is allocated here: `adopt` adds a block of a chunk that the memory manager has made.
"""

from __future__ import annotations

from typing import Any

from headrace.node.blocks import NodeBlock
from headrace.stage.clock import NEVER
from headrace.stage.memory.atomics import (
    cas,
    exchange,
    load_acquire,
    load_relaxed,
    load_sc,
    pause,
    store_relaxed,
)
from headrace.stage.memory.records import array, compiled, i64, line, record
from headrace.stage.strings.heap import Heap, empty_heap

VERSION = 1 << 32  # the top is version * VERSION + number + 1; the low half is 0 when it is empty
VERSIONS = 1 << 31
TRIES = 64  # of take, which may give up
ROUNDS = 1 << 20  # of give: each lost round is a round that another worker won


@record
class Pool:
    """The stack; `blocks` behind it."""

    top: i64 = line()
    hungry: i64 = line()  # a unit found it empty; written by everybody
    capacity: i64 = line()  # fixed: blocks at most
    users: i64  # fixed: address of the numbers of the units that take from it
    user_count: i64
    count: i64  # of blocks that belong to it; written by the memory manager
    low: i64  # fewer free blocks than this: ask for more; 0: it grows no more (see `growth`)
    bell: i64  # the address of a Word that wakes who makes more; 0: nobody does
    asked: i64  # the bell was rung and not yet answered
    blocks: array(i64) = line()  # addresses by number


def new_pool(capacity: int) -> Any:
    """A pool for up to `capacity` blocks, without any yet.

    >>> pool, block = new_pool(2), NodeBlock.allocate()
    >>> adopt(pool, block.address), available(pool)
    (True, 1)
    >>> take(pool) == block.address, take(pool), block.readers
    (True, 0, 1)
    """
    pool = Pool.allocate(behind=capacity * i64.size)
    pool.capacity = capacity
    return pool


@compiled
def adopt(pool, block):
    """Add a new block to the pool. By one thread at a time, the memory manager's."""
    number = pool.count
    if number == pool.capacity:
        return False
    added = NodeBlock(block)
    added.readers, added.number, added.home = 0, number, pool.address
    pool.blocks[number] = block
    pool.count = number + 1
    return give(pool, block)


@compiled
def above(top, number):
    """The word for a block on top, in the next version."""
    return ((top // VERSION + 1) % VERSIONS) * VERSION + number + 1


@compiled
def take(pool):
    """A free block, with its maker as the one reader; 0: none, or too much contention."""
    for _ in range(TRIES):
        top = load_acquire(pool, "top")
        number = top % VERSION - 1
        if number < 0:
            return 0
        address = pool.blocks[number]
        taken = NodeBlock(address)
        below = load_relaxed(taken, "below")  # maybe of later: then the version has changed
        swung = cas(pool, "top", top, above(top, below))
        if swung:
            store_relaxed(taken, "readers", 1)
            clear(taken.block)
            if taken.block.heap != 0:
                empty_heap(Heap(taken.block.heap))
            return address
    return 0


@compiled
def ask_for_blocks(pool):
    """Say that a unit waits for a block; gives one if there is one after all. If not, who brings
    the next one home will see it (`wanted`) and tell the users of the pool."""
    exchange(pool, "hungry", 1)  # an update: either the bringer sees it, or we see the block
    return take(pool)


@compiled
def wanted(pool):
    """Does a unit wait for a block? Ask once after a block came home; then tell the users."""
    return exchange(pool, "hungry", 0) != 0


@compiled
def clear(block):
    """Forget what the block held."""
    block.rows, block.watermark = 0, NEVER


@compiled
def give(pool, block):
    """Put a block back that nobody reads any more. False: out of rounds, never seen."""
    given = NodeBlock(block)
    for _ in range(ROUNDS):
        top = load_acquire(pool, "top")
        number = top % VERSION - 1
        store_relaxed(given, "below", number)
        height = 0 if number < 0 else load_relaxed(NodeBlock(pool.blocks[number]), "height")
        store_relaxed(given, "height", height + 1)
        swung = cas(pool, "top", top, above(top, given.number))
        if swung:
            return True
        pause()
    return False


@compiled
def available(pool):
    """How many blocks are free: true only for a moment."""
    number = load_sc(pool, "top") % VERSION - 1  # sc for `growth.wants_more`
    if number < 0:
        return 0
    return load_relaxed(NodeBlock(pool.blocks[number]), "height")
