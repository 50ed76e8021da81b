"""Batches lend blocks their values: nothing is written to, and nothing goes too early."""

import gc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stage.both import MODES

import headrace as hr
from headrace import col
from headrace.plan.schema import Schema
from headrace.stage.blocks.arrow import COPIES, Feed, fill_block, lend_block, to_arrow
from headrace.stage.blocks.block import Block
from headrace.stage.blocks.layout import Layout

SECONDS = 120.0


def columns(rows):
    return {
        "n": pa.array(range(rows), pa.int64()),
        "x": pa.array([k / 2 for k in range(rows)], pa.float64()),
        "b": pa.array([k % 3 == 0 for k in range(rows)]),
        "m": pa.array([None if k % 5 == 0 else k for k in range(rows)], pa.int64()),
        "s": pa.array([f"row {k} of some" for k in range(rows)]),
    }


@given(
    rows=st.integers(1, 30),
    cut=st.tuples(st.integers(0, 29), st.integers(0, 29)),
    changed=st.integers(-2, 4),
    mode=st.sampled_from(MODES),
)
def test_rows_are_the_same_lent_or_copied(rows, cut, changed, mode):
    """Blocks are used again: what was lent before is not taken for the block's own memory."""
    batch = pa.record_batch(columns(rows)).slice(rows // 4)
    first, last = sorted(min(each, batch.num_rows) for each in cut)
    layout = Layout.of(Schema.of(batch.schema))
    block, feed = Block.allocate(layout, 30, borrows=True), Feed(layout, batch)
    for given_rows, how in (((0, batch.num_rows), -1), ((first, last), changed)):
        mode(fill_block)(
            block.address, feed.address, given_rows[0], given_rows[1] - given_rows[0], how
        )
    assert to_arrow(block).to_pydict() == batch.slice(first, last - first).to_pydict()
    if last > first and changed in (COPIES, 0):
        block.values(0)[0] = -7
        assert batch["n"][first].as_py() != -7
    block.clear()
    feed.fill(block, 0, batch.num_rows)
    assert all(block.column(i).data == block.column(i).room for i in range(len(layout.columns)))


@pytest.mark.parametrize("changed", [-1, 0, COPIES])
def test_plain_columns_are_lent(changed):
    batch = pa.record_batch({"n": [1, 2, 3], "k": [4, 5, 6]})
    layout = Layout.of(Schema.of({"n": int, "k": int}))
    block, feed = Block.allocate(layout, 3), Feed(layout, batch)
    assert feed.only_lends
    lend_block(block.address, feed.address, 1, 2, changed)
    own = [block.column(i).data == block.column(i).room for i in range(2)]
    assert own == {-1: [False, False], 0: [True, False], COPIES: [True, True]}[changed]
    assert to_arrow(block).to_pydict() == {"n": [2, 3], "k": [5, 6]}


def test_numbers_with_nulls_are_lent_and_their_validity_copied():
    batch = pa.record_batch({"n": [1, None, 3, None], "s": ["a", None, "b", "c"]})
    layout = Layout.of(Schema.of(batch.schema))
    block, feed = Block.allocate(layout, 4, borrows=True), Feed(layout, batch)
    fill_block(block.address, feed.address, 1, 3, -1)
    assert [block.column(i).data == block.column(i).room for i in range(2)] == [False, True]
    assert to_arrow(block).to_pydict() == batch.slice(1).to_pydict()


def test_values_that_lie_askew_are_copied_once():
    """Compiled code loads words from where words may lie."""
    memory = np.zeros(8 * 5, np.uint8)
    start = 8 - memory.ctypes.data % 8 + 1
    memory[start : start + 24] = np.array([7, 8, 9], np.int64).view(np.uint8)
    askew = pa.Array.from_buffers(pa.int64(), 3, [None, pa.py_buffer(memory[start : start + 24])])
    layout = Layout.of(Schema.of({"n": int}))
    feed, block = Feed(layout, pa.record_batch({"n": askew})), Block.allocate(layout, 3)
    lend_block(block.address, feed.address, 0, 3, -1)
    assert block.address_of(0) % 8 == 0 and block.values(0).tolist() == [7, 8, 9]


@pytest.mark.parametrize("engine", ["thread", "node"])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "interpreted"])
def test_a_table_that_is_replayed_in_rounds_stays_as_it_is(engine, compiled):
    """The times of later rounds are moved, in blocks alone."""
    table = pa.table({"t": list(range(50)), "n": list(range(50))})
    events = hr.read.replay(table, rows=170, time="t", span=100).with_watermark("t", 0)
    windows = events.with_columns(k=col("n") % 2).key_by("k").window(hr.tumbling(10))
    counted = windows.agg(rows=hr.count())
    out = counted.write.collect()
    hr.run(out, engine=engine, compiled=compiled)
    assert table.to_pydict() == {"t": list(range(50)), "n": list(range(50))}
    assert sum(out.result()["rows"].to_pylist()) == 170


@pytest.mark.parametrize("engine", ["thread", "node"])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "interpreted"])
def test_batches_stay_while_blocks_need_them(engine, compiled):
    """Each batch is forgotten by its source at once, and each row becomes more than a block."""

    def batches():
        for start in range(0, 40, 10):
            yield from ({"n": n} for n in range(start, start + 10))
            gc.collect()

    def repeated(n: int):
        for k in range(37):
            yield n * 100 + k

    rows = hr.read.iterate(batches(), schema={"n": int})
    out = rows.flat_map(repeated, output="m").write.collect()
    hr.run(out, engine=engine, compiled=compiled, capacity=16)
    assert out.result()["m"].to_pylist() == [n * 100 + k for n in range(40) for k in range(37)]
