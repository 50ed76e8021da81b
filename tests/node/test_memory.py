"""Block memory: where things lie, growth before it is needed, budgets, and nothing left behind."""

import gc
import sys
import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.node import chunk as chunks
from headrace.node.allocator import Allocator
from headrace.node.blocks import NodeBlock, record_of
from headrace.node.chunk import Chunk, chunk_bytes
from headrace.node.growth import draw
from headrace.node.memory import Memory
from headrace.node.pool import give, take
from headrace.node.readers import release
from headrace.plan.errors import MemoryBudgetError
from headrace.plan.schema import Schema
from headrace.plan.types import optional
from headrace.stage.blocks.arrow import Feed, to_arrow
from headrace.stage.blocks.layout import KIND_OF_TYPE, BlockRecord, ColumnRef, Layout
from headrace.stage.memory.records import LINE, compiled, i64s

SECONDS = 20.0  # any wait, at most

NUMBERS = Layout.of(Schema.of({"n": int}))

column_types = st.sampled_from(sorted(KIND_OF_TYPE)).flatmap(
    lambda name: st.sampled_from([name, optional(name)])
)
layouts = st.lists(column_types, max_size=6).map(
    lambda kinds: Layout.of(Schema.of({f"c{i}": kind for i, kind in enumerate(kinds)}))
)


@pytest.fixture
def memory():
    made = Memory("test")
    yield made
    made.close()


def small_pool(memory, blocks=2, most=2, capacity=16):
    return memory.pool(NUMBERS, capacity, blocks=blocks, most=most, owner="map")


# ---- where things lie ----------------------------------------------------------------------


def parts(address, layout, capacity):
    """(start, end) of everything that a block consists of."""
    block = NodeBlock(address).block
    yield address, block.address
    yield block.address, block.address + BlockRecord.size + len(layout.columns) * ColumnRef.size
    for i, column in enumerate(layout.columns):
        ref = block.columns[i]
        yield ref.data, ref.data + column.width * capacity + LINE  # writers may overshoot
        assert (ref.valid != 0) == column.type.nullable
        if ref.valid:
            yield ref.valid, ref.valid + capacity + LINE


@given(layouts, st.integers(1, 1000), st.integers(1, 5))
def test_parts_of_blocks_lie_apart_on_cache_lines_inside_the_mapping(layout, capacity, blocks):
    chunk = Chunk(layout.template(capacity), blocks)
    found = sorted(part for block in chunk.blocks for part in parts(block, layout, capacity))
    assert all(start % LINE == 0 for start, _ in found)
    assert all(end <= start for (_, end), (start, _) in pairwise(found))
    assert found[0][0] == chunk.address and found[-1][1] <= chunk.address + chunk.bytes
    for block in chunk.blocks:
        record = NodeBlock(block).block
        assert (record.rows, record.capacity) == (0, capacity)
    chunk.release()


@pytest.mark.skipif(sys.platform != "linux", reason="counts Linux' page faults")
@pytest.mark.parametrize("eager", [True, False])
def test_no_page_of_an_eager_chunk_is_left_to_fault(eager):
    import resource

    blocks = 4
    capacity = chunks.HUGE_PAGE // blocks // 8 - 4 * LINE  # just too small for huge pages
    chunk = Chunk(NUMBERS.template(capacity), blocks, eager)
    refs = [NodeBlock(block).block.columns[0].data for block in chunk.blocks]
    fill_with(refs[0], 1, 1)  # compiled
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for ref in refs:
        fill_with(ref, 1, capacity)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    chunk.release()
    few = chunk.bytes // 4096 // 8
    assert faults < few if eager else faults > few


@compiled
def fill_with(address, value, count):
    words = i64s(address)
    for i in range(count):
        words[i] = value


# ---- blocks for Python ---------------------------------------------------------------------


def test_a_view_shows_what_compiled_code_wrote(memory):
    batch = pa.record_batch({"a": [1, 2, 3], "b": [0.5, None, 2.5], "c": ["x", "y", None]})
    schema = Schema.of({"a": int, "b": optional(float), "c": optional(str)})
    layout = Layout.of(schema)
    pool = memory.pool(layout, 8, blocks=2, most=2, owner="source")
    block = take(pool.record)
    view = pool.view(block)
    assert view.address == record_of(block) and view.capacity == 8
    Feed(layout, batch).fill(view, 0, 3)
    assert to_arrow(view).to_pylist() == batch.to_pylist()
    fill_with(NodeBlock(block).block.columns[0].data, 7, 2)
    assert view.values(0)[:3].tolist() == [7, 7, 3]
    view.values(0)[2] = 9
    assert i64s(NodeBlock(block).block.columns[0].data)[2] == 9


def test_a_view_is_made_once_and_only_for_blocks_of_the_pool(memory):
    pool, other = small_pool(memory), small_pool(memory)
    block = take(pool.record)
    assert pool.view(block) is pool.view(block)
    assert pool.view(take(pool.record)) is not pool.view(block)
    with pytest.raises(ValueError, match="no block of BlockPool"):
        other.view(block)


def test_blocks_are_recycled(memory):
    pool = small_pool(memory, blocks=2, most=2)
    for _ in range(10):
        first, second = take(pool.record), take(pool.record)
        assert {first, second} == set(pool._chunks[0].blocks) and take(pool.record) == 0
        assert release(first) and release(second)
    assert (pool.count, pool.free) == (2, 2)


# ---- growth --------------------------------------------------------------------------------


def drain(pool):
    """All free blocks, without asking for more."""
    taken = []
    while block := take(pool.record):
        taken.append(block)
    return taken


def test_a_pool_grows_by_chunks_up_to_its_most(memory):
    pool = small_pool(memory, blocks=4, most=10)
    assert (pool.count, pool.can_grow) == (4, True)
    assert memory.grow(pool) and pool.count == 8
    assert memory.grow(pool) and (pool.count, pool.can_grow) == (10, False)
    assert not memory.grow(pool) and memory.refusals == 0
    assert memory.bytes == pool.bytes == sum(chunk.bytes for chunk in pool._chunks)
    taken = drain(pool)
    assert len(set(taken)) == 10
    assert {NodeBlock(block).number for block in taken} == set(range(10))
    for k, block in enumerate(taken):
        pool.view(block).values(0)[:] = k
    for k, block in enumerate(taken):
        assert np.all(pool.view(block).values(0) == k)


def test_a_pool_of_many_blocks_grows_by_a_part_of_them(memory):
    """Each chunk wakes all units of a pool: 4,000 blocks must not take 1,000 of them."""
    pool, chunks = small_pool(memory, blocks=4, most=4000), 1
    while pool.can_grow:
        before = pool.count
        assert memory.grow(pool)
        chunks += 1
        assert pool.count - before <= max(4, before / 8)
    assert pool.count == 4000 and chunks < 60


def test_where_a_large_chunk_does_not_fit_a_small_one_may():
    few, many = (chunk_bytes(NUMBERS.template(1000), blocks) for blocks in (2, 4))
    memory = Memory("test", budget=17 * few)
    assert few < many
    pool = small_pool(memory, blocks=2, most=100, capacity=1000)
    while pool.can_grow:
        memory.grow(pool)
    assert memory.bytes + few > memory.budget
    memory.close()


@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_who_takes_one_of_the_last_asks_once(memory, blocks):
    pool = small_pool(memory, blocks=blocks, most=2 * blocks)
    low = (blocks + 1) // 2
    taken = []
    while pool.free > low:
        taken.append(draw(pool.record))
        assert pool.record.asked == 0
    taken.append(draw(pool.record))
    assert pool.record.asked == 1
    memory.grow(pool)
    pool.record.asked = 0
    while (block := draw(pool.record)) != 0:
        taken.append(block)
    assert pool.record.asked == 0 and len(set(taken)) == 2 * blocks  # it grows no more


class Rooms:
    """What the allocator told."""

    def __init__(self):
        self.told, self.event = [], threading.Event()

    def __call__(self, pool):
        self.told.append((pool, threading.current_thread().name))
        self.event.set()

    def wait(self):
        assert self.event.wait(SECONDS)
        self.event.clear()


def test_the_allocator_grows_a_pool_that_asks_and_tells():
    rooms = Rooms()
    with Allocator(rooms) as allocator:
        memory = Memory("test")
        allocator.attach(memory)
        pool = small_pool(memory, blocks=2, most=8)
        taken = []
        while len(taken) < 8:
            block = draw(pool.record)
            if block:
                taken.append(block)
            else:
                rooms.wait()
        assert {told for told, _ in rooms.told} == {pool}
        assert {name for _, name in rooms.told} == {"headrace-allocator"}
        assert len(set(taken)) == pool.count == 8 and draw(pool.record) == 0
        memory.close()
    assert not any(t.name == "headrace-allocator" for t in threading.enumerate())


def test_a_pool_that_asked_before_it_was_attached_is_served():
    rooms = Rooms()
    memory = Memory("test")
    pool = small_pool(memory, blocks=1, most=2)
    assert draw(pool.record) and draw(pool.record) == 0 and pool.record.asked
    with Allocator(rooms) as allocator:
        allocator.attach(memory)
        rooms.wait()
        assert pool.free == 1
        memory.close()


def test_no_word_comes_of_a_memory_that_was_detached():
    rooms = Rooms()
    with Allocator(rooms) as allocator:
        gone, there = Memory("gone"), Memory("there")
        allocator.attach(gone)
        allocator.attach(there)
        pools = [small_pool(memory, blocks=1, most=2) for memory in (gone, there)]
        allocator.detach(gone)
        for pool in pools:
            draw(pool.record)
        rooms.wait()
        assert rooms.told[0][0] is pools[1] and pools[0].count == 1
        gone.close()
        there.close()


def test_workers_and_the_allocator_together():
    """Blocks taken on several threads at once, with growth under way, are never shared."""
    with Allocator() as allocator:
        memory = Memory("test")
        allocator.attach(memory)
        pool = small_pool(memory, blocks=3, most=60)
        wrong = []

        def work(name):
            held = []
            for k in range(600):
                block = draw(pool.record)
                if block:
                    pool.view(block).values(0)[:] = name
                    held.append(block)
                if len(held) > 10 or not block:
                    for each in held:
                        if not np.all(pool.view(each).values(0) == name):
                            wrong.append(each)
                        give(pool.record, each)
                    held = []
            for each in held:
                give(pool.record, each)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
        assert not wrong and pool.count > 3
        allocator.detach(memory)
        assert pool.free == pool.count and len(set(drain(pool))) == pool.count
        memory.close()


def test_a_closed_allocator_takes_nothing_on():
    allocator = Allocator()
    allocator.close()
    allocator.close()
    with pytest.raises(ValueError, match="closed"):
        allocator.attach(Memory("test"))


# ---- the budget ----------------------------------------------------------------------------


def test_within_the_budget_a_pool_grows_no_more():
    needed = chunk_bytes(NUMBERS.template(1000), 2)
    memory = Memory("test", budget=2 * needed + 1)
    pool = small_pool(memory, blocks=2, most=100, capacity=1000)
    assert memory.grow(pool) and not memory.grow(pool) and not memory.grow(pool)
    assert (pool.count, pool.can_grow, pool.refusals, memory.refusals) == (4, False, 1, 1)
    assert memory.bytes == 2 * needed <= memory.budget
    memory.close()


def test_without_a_first_chunk_a_query_cannot_run():
    needed = chunk_bytes(NUMBERS.template(1000), 2)
    memory = Memory("clicks", budget=2 * needed - 1)
    small_pool(memory, capacity=1000)
    with pytest.raises(MemoryBudgetError) as caught:
        memory.pool(NUMBERS, 1000, blocks=2, most=4, owner="filter 'views'")
    text = str(caught.value)
    assert text.startswith(f"filter 'views': the first 2 blocks of 1,000 rows need {needed:,} ")
    assert f"budget of clicks, {2 * needed - 1:,} bytes, {needed - 1:,} are left" in text
    assert f"fix: give the query a budget of at least {2 * needed:,} bytes" in text
    memory.close()


def test_what_the_system_does_not_give(monkeypatch, memory):
    pool = small_pool(memory, blocks=2, most=8)

    def nothing(size, huge):
        raise OSError("out of memory")

    monkeypatch.setattr(chunks, "_mapped", nothing)
    assert not memory.grow(pool) and memory.refusals == 1 and not pool.can_grow
    with pytest.raises(MemoryBudgetError, match=r"map: .* which the system does not give"):
        small_pool(memory)
    assert memory.bytes == pool.bytes


def test_mistakes(memory):
    with pytest.raises(ValueError, match="starts with 4 of at most 2"):
        small_pool(memory, blocks=4, most=2)
    with pytest.raises(ValueError, match="budget of -1"):
        Memory("test", budget=-1)
    memory.close()
    with pytest.raises(ValueError, match="closed"):
        small_pool(memory)


# ---- the end -------------------------------------------------------------------------------


def mapped_bytes():
    """All memory of no file that this process has mapped."""
    total = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, *_, inode = line.split(maxsplit=5)[:5]
        first, last = (int(end, 16) for end in span.split("-"))
        total += last - first if inode == "0" else 0
    return total


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_close_leaves_no_mapping():
    layout = Layout.of(Schema.of({f"c{i}": int for i in range(8)}))
    before = mapped_bytes()
    for k in range(5):
        memory = Memory("test")
        pool = memory.pool(layout, 16384, blocks=8, most=32, owner="map")
        memory.grow(pool)
        assert memory.bytes > 16 << 20
        pool.view(take(pool.record)).values(0)[:] = 1
        if k == 0:
            assert mapped_bytes() - before >= memory.bytes
        memory.close()
        memory.close()
        assert memory.bytes == 0
    assert mapped_bytes() - before < 8 << 20


def test_a_closed_pool_gives_nothing(memory):
    pool = small_pool(memory)
    memory.close()
    assert (draw(pool.record), pool.free, pool.count, pool.bytes) == (0, 0, 0, 0)
    assert not memory.grow(pool)


def test_an_array_that_somebody_holds_stays_readable(memory):
    pool = small_pool(memory)
    values = pool.view(take(pool.record)).values(0)
    values[:] = 5
    memory.close()
    gc.collect()
    assert values.tolist() == [5] * 16
