"""Blocks, and rows from block to block, against pyarrow; compiled and interpreted."""

import gc
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stage.batches import MODES, assert_same, batches, filled, mode

from headrace.plan.schema import Schema
from headrace.plan.types import SCALARS, optional
from headrace.stage.blocks.arrow import Feed, to_arrow
from headrace.stage.blocks.block import Block, BlockRecord, Layout, gather, scatter
from headrace.stage.memory.records import LINE
from headrace.stage.strings.heap import Heap, take

# ---- blocks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODES)
def test_columns_lie_on_lines_and_apart(name):
    schema = Schema.of({n: optional(kind) for n, kind in SCALARS.items()})
    layout = Layout.of(schema)
    for capacity in (1, 7, 64, 1000):
        with mode(name):
            block = Block.allocate(layout, capacity)
        parts = []
        for i, column in enumerate(layout.columns):
            ref = block.column(i)
            parts += [(ref.data, column.width * capacity), (ref.valid, capacity)]
        assert all(start % LINE == 0 for start, _ in parts) and block.address % LINE == 0
        end = block.address + BlockRecord.size
        for start, size in parts:
            assert start >= end
            end = start + size + LINE  # room for writers that overshoot
        record = block.record
        assert (block.rows, record.capacity, record.watermark) == (0, capacity, 0)


def test_a_preamble_is_one_line():
    assert BlockRecord.size == LINE


def test_only_nullable_columns_have_validity():
    block = Block.allocate(Layout.of(Schema.of({"a": int, "b": optional(int)})), 3)
    assert block.validity(0) is None and block.column(0).valid == 0
    assert block.validity(1) is not None and block.column(1).valid != 0


def test_a_layout_is_one_object_and_pickles():
    schema = Schema.of({"a": int, "b": str})
    layout = Layout.of(schema)
    assert layout is Layout.of(Schema.of({"a": int, "b": str}))
    Block.allocate(layout, 3)
    again = pickle.loads(pickle.dumps(layout))
    assert again == layout and again.schema == schema
    assert Block.allocate(again, 3).capacity == 3


def test_a_block_keeps_the_bytes_of_its_texts():
    words = [f"a text that is longer than twelve bytes {i}" for i in range(1000)]
    for kind in (
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int32(), pa.string()),
    ):
        gc.collect()
        before = pa.total_allocated_bytes()
        layout = Layout.of(Schema.of({"s": str}))
        block = filled(layout, pa.record_batch({"s": pa.array(words, kind)}))
        target = Block.allocate(layout, 1000)
        gather(block, np.arange(1000), target)
        gather(block, np.arange(0), target)
        assert len(target.heaps) == len(set(map(id, target.heaps))) > 0  # each once
        del block
        gc.collect()
        assert pa.total_allocated_bytes() >= before + 1000 * 40
        assert to_arrow(target).column(0).to_pylist() == words
        target.clear()
        gc.collect()
        assert pa.total_allocated_bytes() <= before + 1000


def test_a_filled_block_forgets_what_it_held():
    batch = pa.record_batch({"s": ["a text that is longer than twelve bytes"]})
    layout = Layout.of(Schema.of({"s": optional(str)}))
    block = Block.allocate(layout, 1)
    for _ in range(3):
        heap = Heap(block.record.heap)
        take(heap, 10), take(heap, 10_000)
        assert heap.used == 10 and heap.overflow_bytes == 10_000
        Feed(layout, batch).fill(block, 0, 1)
        assert heap.used == heap.overflow == 0 and len(block.heaps) == 1
    assert Block.allocate(layout, 1, borrows=True).record.heap == 0


# ---- rows from block to block --------------------------------------------------------------------


@pytest.mark.parametrize("name", MODES)
@given(batches(), st.data())
def test_gather(name, made, data):
    layout, batch, wanted = made
    row = st.integers(0, max(batch.num_rows - 1, 0))
    most = 40 if batch.num_rows else 0
    picks = [data.draw(st.lists(row, max_size=most)) for _ in range(2)]
    with mode(name):
        block = filled(layout, batch)
        target = Block.allocate(layout, max(1, sum(map(len, picks))))
        for pick in picks:
            gather(block, np.array(pick, np.int32), target)
        assert_same(to_arrow(target), wanted.take(pa.array(picks[0] + picks[1], pa.int32())))


@pytest.mark.parametrize("name", MODES)
@given(batches(), st.integers(1, 9), st.data())
def test_scatter(name, made, count, data):
    layout, batch, wanted = made
    size = batch.num_rows
    owners = data.draw(st.lists(st.integers(0, count - 1), min_size=size, max_size=size))
    with mode(name):
        block = filled(layout, batch)
        block.record.watermark = 7
        parts = scatter(block, np.array(owners, np.int32), count)
        assert len(parts) == count
        for owner, part in enumerate(parts):
            mine = [i for i, k in enumerate(owners) if k == owner]
            assert_same(to_arrow(part), wanted.take(pa.array(mine, pa.int32())))
            assert part.record.watermark == 7


@pytest.mark.parametrize("name", MODES)
def test_rows_that_are_not_there(name):
    layout = Layout.of(Schema.of({"n": int}))
    block, target = filled(layout, pa.record_batch({"n": [1, 2, 3]})), Block.allocate(layout, 3)
    other = Block.allocate(Layout.of(Schema.of({"m": int})), 3)
    with mode(name):
        for index in (3, -1, 2**31 - 1, -(2**31)):
            with pytest.raises(IndexError):
                gather(block, np.array([0, index], np.int32), target)
        with pytest.raises(ValueError, match="4 more rows do not fit"):
            gather(block, np.zeros(4, np.int32), target)
        with pytest.raises(ValueError, match="do not fit Block"):
            gather(block, np.zeros(1, np.int32), other)
        for owner in (2, -1):
            with pytest.raises(IndexError):
                scatter(block, np.array([0, owner, 1], np.int32), 2)
        with pytest.raises(ValueError, match="2 owners"):
            scatter(block, np.zeros(2, np.int32), 2)
    assert target.rows == 0
