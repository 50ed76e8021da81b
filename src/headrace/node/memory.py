"""The block memory of a query (Enjima §3.1): pools of blocks in chunks, under one budget.

Every maker of blocks has a pool. It begins with one chunk and grows, chunk by chunk, up to its own
maximum; then back-pressure holds the maker up until its readers give blocks back. All pools of a
query share a budget: a chunk that does not fit is refused, and the pool grows no more. Only where
the *first* chunk of a pool does not fit can the query not run, and that is an error.

    >>> from headrace.node.growth import draw
    >>> from headrace.plan.schema import Schema
    >>> memory = Memory("clicks", budget=1 << 20)
    >>> layout = Layout.of(Schema.of({"user": int}))
    >>> pool = memory.pool(layout, 384, blocks=4, most=16, owner="filter")
    >>> block = draw(pool.record)
    >>> pool.view(block), pool.count
    (Block(0 of 384 rows: user: int64), 4)
    >>> memory.close()

A query's memory is made by the thread that starts the query, and grown by the allocator's
(`allocator.Allocator`); no worker ever comes here.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from headrace.node.blocks import record_of
from headrace.node.chunk import Chunk, chunk_bytes
from headrace.node.growth import set_low
from headrace.node.pool import adopt, available, new_pool
from headrace.plan.errors import MemoryBudgetError
from headrace.stage.blocks.block import Block
from headrace.stage.blocks.layout import Layout
from headrace.stage.memory.atomics import fetch_add
from headrace.stage.memory.records import compiled
from headrace.stage.store import Account

GROWTH = 8  # a chunk has one block for so many that a pool has, at least


@compiled
def add_bytes(account, count):
    """Count what blocks take; workers count what state takes, at the same time."""
    return fetch_add(account, "used", count)


class BlockPool:
    """The blocks of one maker, and the Pool record of the free ones."""

    def __init__(
        self,
        memory: Memory,
        layout: Layout,
        capacity: int,
        blocks: int,
        most: int,
        owner: str,
        borrows: bool = False,
        eager: bool = True,
    ) -> None:
        if not 1 <= blocks <= most:
            raise ValueError(f"{owner}: a pool that starts with {blocks} of at most {most} blocks")
        self.memory, self.layout, self.capacity = memory, layout, capacity
        self.most, self.owner, self._eager = most, owner, eager
        self.template = layout.template(capacity, borrows=borrows)
        self.record = new_pool(most)
        self.refusals = 0  # chunks that it did not get
        self.bell: Any = None  # of the allocator; kept, since workers know its address
        self._per_chunk = blocks
        self._chunks: list[Chunk] = []
        self._views: dict[int, Block] = {}

    def __repr__(self) -> str:
        return f"BlockPool({self.owner}: {self.count} of {self.most} blocks)"

    @property
    def address(self) -> int:
        """Of the Pool record, for compiled code."""
        return self.record.address

    @property
    def count(self) -> int:
        """How many blocks there are, free or in use."""
        return self.record.count

    @property
    def free(self) -> int:
        """How many blocks are free, at this moment."""
        with self.memory._lock:  # not while the blocks are unmapped
            return available(self.record)

    @property
    def bytes(self) -> int:
        """What its chunks take of the system."""
        return sum(chunk.bytes for chunk in self._chunks)

    @property
    def can_grow(self) -> bool:
        """May it get another chunk?"""
        return self.record.low != 0

    def view(self, address: int) -> Block:
        """The block at the address of a NodeBlock, for Python; the same one each time."""
        found = self._views.get(address)
        if found is None:
            chunk = next((chunk for chunk in self._chunks if address in chunk), None)
            if chunk is None or chunk.buffer is None:
                raise ValueError(f"{address:#x} is no block of {self!r}")
            at = record_of(address)
            found = Block.at(self.layout, self.template, chunk.buffer, at)
            self._views[address] = found
        return found

    def _next_blocks(self) -> list[int]:
        """Sizes that the next chunk may have, the one to be tried first before others; none: there
        is no next one. A pool of many units needs many blocks, and each chunk wakes all of them:
        it grows by a part of what it has."""
        left = self.most - self.count
        sizes = (max(self._per_chunk, self.count // GROWTH), self._per_chunk)
        return sorted({min(size, left) for size in sizes if left}, reverse=True)

    def _bytes_of(self, blocks: int) -> int:
        """What a chunk of so many blocks would take."""
        return chunk_bytes(self.template, blocks)

    def _add_chunk(self, blocks: int) -> None:
        chunk = Chunk(self.template, blocks, self._eager)
        self._chunks.append(chunk)
        for block in chunk.blocks:
            adopt(self.record, block)
        if self.count < self.most:  # half a chunk: time enough to make the next one
            set_low(self.record, (self._next_blocks()[0] + 1) // 2)
        else:
            self._stop_growing()

    def _stop_growing(self) -> None:
        set_low(self.record, 0)

    def _release(self) -> None:
        self._stop_growing()
        self.record.top, self.record.count = 0, 0  # the stack runs through the blocks
        self._views.clear()
        chunks, self._chunks = self._chunks, []
        for chunk in chunks:
            chunk.release()


class Memory:
    """The pools of one query. `budget` is in bytes; None: as much as the pools may grow to."""

    def __init__(self, name: str, budget: int | None = None) -> None:
        if budget is not None and budget < 0:
            raise ValueError(f"{name}: a memory budget of {budget} bytes")
        self.name, self.budget = name, budget
        self.account: Any = Account.allocate()  # of blocks and of state, which workers take
        self.account.limit = budget or 0
        self.refusals = 0  # chunks that did not fit the budget, or that the system did not give
        self.closed = False
        self.pools: list[BlockPool] = []
        self._lock = threading.Lock()
        self._allocator: Any = None  # set by Allocator.attach

    @property
    def bytes(self) -> int:
        """What blocks and state take now."""
        return self.account.used

    def exhausted(self, owner: str) -> MemoryBudgetError:
        """The error where there is no memory for the state of an operator."""
        if self.budget is None:
            said = "the system does not give more memory for its state"
            return MemoryBudgetError(f"{owner}: {said}\n  fix: use fewer keys or smaller windows")
        return MemoryBudgetError(
            f"{owner}: its state needs more than is left of the memory budget of {self.name}, "
            f"{self.budget:,} bytes\n  fix: give the query a larger budget (memory=...), or use "
            "fewer keys or smaller windows"
        )

    def __repr__(self) -> str:
        return f"Memory({self.name}: {self.bytes:,} bytes in {len(self.pools)} pools)"

    def pool(
        self,
        layout: Layout,
        capacity: int,
        *,
        blocks: int,
        most: int,
        owner: str,
        borrows: bool = False,
        eager: bool = True,
    ) -> BlockPool:
        """A pool with `blocks` blocks of `capacity` rows, which may grow to `most` blocks.

        `owner` is the operator that makes the blocks, for errors. borrows: the bytes of their
        strings lie elsewhere (`readers.borrow`). eager: all their memory is taken now.
        """
        made = BlockPool(self, layout, capacity, blocks, most, owner, borrows, eager)
        with self._lock:
            if self.closed:
                raise ValueError(f"the memory of {self.name} is closed")
            needed = made._bytes_of(blocks)
            if not self._fits(needed):
                raise self._over_budget(made, needed)
            try:
                made._add_chunk(blocks)
            except (OSError, MemoryError) as error:
                raise _not_given(made, needed) from error
            self._charge(needed)
            self.pools.append(made)
            if self._allocator is not None:
                self._allocator.watch(made)
        return made

    def grow(self, pool: BlockPool) -> bool:
        """Add a chunk to a pool, if it may. A refusal is counted, and the last try for this pool:
        memory of a query is not given back before its end."""
        with self._lock:
            if self.closed or not pool.can_grow:
                return False
            for blocks in pool._next_blocks():
                needed = pool._bytes_of(blocks)
                if not self._fits(needed):
                    continue
                with suppress(OSError, MemoryError):
                    pool._add_chunk(blocks)
                    self._charge(needed)
                    return True
            return self._refuse(pool)

    def close(self) -> None:
        """Unmap everything. Nobody may use a block any more; call it again as you like."""
        if self._allocator is not None:
            self._allocator.detach(self)
        with self._lock:
            self.closed = True
            for pool in self.pools:
                self._charge(-pool.bytes)
                pool._release()

    def _charge(self, count: int) -> None:
        add_bytes(self.account, count)

    def _fits(self, needed: int) -> bool:
        return self.budget is None or self.bytes + needed <= self.budget

    def _refuse(self, pool: BlockPool) -> bool:
        self.refusals += 1
        pool.refusals += 1
        pool._stop_growing()
        return False

    def _over_budget(self, pool: BlockPool, needed: int) -> MemoryBudgetError:
        assert self.budget is not None
        return MemoryBudgetError(
            f"{pool.owner}: the first {_blocks(pool)} need {needed:,} bytes, but of the memory "
            f"budget of {self.name}, {self.budget:,} bytes, {self.budget - self.bytes:,} are left"
            f"\n  fix: give the query a budget of at least {self.bytes + needed:,} bytes, or make "
            "blocks smaller or fewer"
        )


def _not_given(pool: BlockPool, needed: int) -> MemoryBudgetError:
    return MemoryBudgetError(
        f"{pool.owner}: the first {_blocks(pool)} need {needed:,} bytes, which the system does "
        "not give\n  fix: make blocks smaller or fewer, or run fewer queries at once"
    )


def _blocks(pool: BlockPool) -> str:
    return f"{pool._per_chunk} blocks of {pool.capacity:,} rows"
