"""Arrow batches into blocks and out again, against pyarrow; compiled and interpreted."""

import ctypes
import mmap

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stage.batches import MODES, assert_same, batches, filled, mode

from headrace.plan.errors import DataError
from headrace.plan.schema import Schema
from headrace.plan.types import SCALARS, optional
from headrace.stage.blocks.arrow import Feed, as_arrow, to_arrow
from headrace.stage.blocks.arrow_text import expand_bits
from headrace.stage.blocks.block import Block, Layout
from headrace.stage.memory.records import interpreted

# ---- in and out ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODES)
@given(batches(), st.integers(1, 100))
def test_arrow_round_trip_in_pieces(name, made, capacity):
    layout, batch, wanted = made
    with mode(name):
        feed, block = Feed(layout, batch), Block.allocate(layout, capacity)
        for start in range(0, batch.num_rows, capacity):
            count = min(capacity, batch.num_rows - start)
            feed.fill(block, start, count)
            assert block.rows == count
            assert_same(to_arrow(block), wanted.slice(start, count))
        feed.fill(block, 0, 0)
        assert_same(to_arrow(block), wanted.slice(0, 0))


@given(batches(), st.integers(1, 4))
def test_a_block_as_it_lies_in_memory(made, room):
    layout, batch, wanted = made
    block = Block.allocate(layout, max(1, batch.num_rows * room))
    Feed(layout, batch).fill(block, 0, batch.num_rows)
    found = as_arrow(block)
    del block
    assert_same(found, wanted)


@pytest.mark.parametrize(("rows", "shared"), [(4, True), (2, True), (1, False)])
def test_only_blocks_that_are_mostly_empty_are_copied(rows, shared):
    block = Block.allocate(Layout.of(Schema.of({"n": int})), capacity=4)
    block.values(0)[:rows], block.rows = 7, rows
    found = as_arrow(block)
    block.values(0)[0] = 8
    assert found["n"][0].as_py() == (8 if shared else 7)


@given(batches())
def test_nulls_are_empty_views_and_validity_bytes_are_0_or_1(made):
    layout, batch, _ = made
    block = filled(layout, batch)
    for i, column in enumerate(layout.columns):
        valid = block.validity(i)
        if valid is not None:
            valid = valid[: block.rows]
            assert set(valid.tolist()) <= {0, 1}
            if column.kind == "view":
                assert not block.values(i)[: block.rows]["head"][valid == 0].any()


def test_columns_by_name_and_in_any_order():
    batch = pa.record_batch({"x": [1], "unread": [[1]], "y": ["a"]})
    layout = Layout.of(Schema.of({"y": optional(str), "x": optional(int)}))
    assert to_arrow(filled(layout, batch)).to_pylist() == [{"y": "a", "x": 1}]
    assert to_arrow(filled(layout, batch), ["x"]).to_pylist() == [{"x": 1}]


def test_a_block_may_have_more_columns_behind():
    narrow = Layout.of(Schema.of({"x": int}))
    block = Block.allocate(Layout.of(Schema.of({"x": int, "later": int})), 2)
    block.values(1)[:] = 5
    Feed(narrow, pa.record_batch({"x": [1, 2]})).fill(block, 0, 2)
    assert to_arrow(block).to_pylist() == [{"x": 1, "later": 5}, {"x": 2, "later": 5}]


def test_a_column_without_type_is_all_null():
    layout = Layout.of(Schema.of({"a": optional(str), "b": optional(bool)}))
    block = filled(layout, pa.record_batch({"a": pa.nulls(3), "b": pa.nulls(3)}))
    assert to_arrow(block).to_pylist() == [{"a": None, "b": None}] * 3


def test_no_columns():
    layout = Layout.of(Schema.of({}))
    block = Block.allocate(layout, 5)
    block.rows = 3
    assert to_arrow(block).num_rows == 3


def test_views_in_many_buffers():
    words = [f"a text that is longer than twelve bytes {i}" for i in range(50)]
    batch = pa.record_batch(
        {"s": pa.concat_arrays([pa.array([word], pa.string_view()) for word in words])}
    )
    assert len(batch.column(0).buffers()) > 40
    layout = Layout.of(Schema.of(batch.schema))
    assert to_arrow(filled(layout, batch)).column(0).to_pylist() == words


def test_nanoseconds_are_rounded_down_also_before_1970():
    source = pa.array([-1, 1, None, -1000, 1999], pa.int64()).view(pa.timestamp("ns"))
    block = filled(
        Layout.of(Schema.of({"t": optional("timestamp")})), pa.record_batch({"t": source})
    )
    assert to_arrow(block).column(0).view(pa.int64()).to_pylist() == [-1, 0, None, -1, 1]


def test_a_dictionary_with_more_than_128_values_in_unsigned_bytes():
    values = [f"value {i}" for i in range(256)]
    source = pa.DictionaryArray.from_arrays(pa.array(range(256), pa.uint8()), pa.array(values))
    block = filled(Layout.of(Schema.of({"s": optional(str)})), pa.record_batch({"s": source}))
    assert to_arrow(block).column(0).to_pylist() == values


def test_the_schema_of_stored_batches_survives():
    schema = Schema.of(SCALARS)
    block = Block.allocate(Layout.of(schema), 4)
    assert to_arrow(block).schema == schema.to_arrow()


def with_garbage_under_null(kind):
    """Row 1 is null, and what lies there is a long text or (views, codes) nonsense."""
    bitmap = pa.py_buffer(bytes([0b101]))
    if kind == "codes":
        codes = pa.Array.from_buffers(
            pa.int32(), 3, [bitmap, pa.py_buffer(np.array([0, 2**31 - 1, 1], np.int32))]
        )
        return pa.DictionaryArray.from_arrays(codes, pa.array(["first", "last"]), safe=False)
    if kind == "views":
        words = np.frombuffer(pa.array(["first", "", "last"], pa.string_view()).buffers()[1], "i8")
        words = words[:6].copy()
        words[2:4] = 1 << 30, -1
        return pa.Array.from_buffers(pa.string_view(), 3, [bitmap, pa.py_buffer(words)])
    source = pa.array(["first", "a text of more than twelve bytes", "last"], kind)
    return pa.Array.from_buffers(kind, 3, [bitmap, *source.buffers()[1:]])


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), "views", "codes"])
def test_what_lies_under_a_null_is_not_read(name, kind):
    with mode(name):
        batch = pa.record_batch({"s": with_garbage_under_null(kind)})
        block = filled(Layout.of(Schema.of({"s": optional(str)})), batch)
        assert block.values(0)[1].tolist() == (0, 0)
        assert to_arrow(block)["s"].to_pylist() == ["first", None, "last"]


# ---- nothing is read that does not belong to the batch -------------------------------------------


def at_the_end_of_a_page(content):
    """A buffer behind which memory cannot be read."""
    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    area[page - len(content) : page] = content
    libc = ctypes.CDLL(None, use_errno=True)
    forbidden = 0  # PROT_NONE
    assert libc.mprotect(ctypes.c_void_p(start + page), ctypes.c_size_t(page), forbidden) == 0
    return pa.foreign_buffer(start + page - len(content), len(content), base=area)


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 7, 8, 11, 12, 13, 15, 16, 17, 33])
def test_strings_at_the_end_of_a_page(size):
    text = b"abcdefghijklmnopqrstuvwxyz0123456789"[:size]
    offsets = np.array([0, size], np.int32).tobytes()
    buffers = [None, at_the_end_of_a_page(offsets), at_the_end_of_a_page(text)]
    batch = pa.record_batch({"s": pa.Array.from_buffers(pa.string(), 1, buffers)})
    assert to_arrow(filled(Layout.of(Schema.of(batch.schema)), batch))["s"].to_pylist() == [
        text.decode()
    ]


@pytest.mark.parametrize("first", range(9))
@pytest.mark.parametrize("count", [1, 7, 8, 9, 16, 23, 40])
def test_bitmaps_at_the_end_of_a_page(first, count):
    drawn = np.random.default_rng(first).integers(0, 2, first + count).astype(bool)
    buffer = at_the_end_of_a_page(np.packbits(drawn, bitorder="little").tobytes())
    source = pa.Array.from_buffers(pa.bool_(), count, [buffer, buffer], offset=first)
    batch = pa.record_batch({"b": source})
    found = to_arrow(filled(Layout.of(Schema.of(batch.schema)), batch))["b"]
    assert found.to_pylist() == [True if bit else None for bit in drawn[first:]]


@pytest.mark.parametrize("name", MODES)
def test_bits_to_bytes(name):
    expand = interpreted(expand_bits) if name == "interpreted" else expand_bits
    drawn = np.random.default_rng(1).integers(0, 2, 80, np.uint8)
    bitmap = np.packbits(drawn, bitorder="little")
    for first in range(18):
        for count in range(41):
            target = np.full(64, 9, np.uint8)
            expand(bitmap.ctypes.data, first, count, target.ctypes.data)
            assert target[:count].tolist() == drawn[first : first + count].tolist()
            assert (target[count:] == 9).all()


# ---- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        pa.array(["a", "b", None]),
        pa.array(["a", "b", None], pa.string_view()),
        pa.array(["a", "b", None]).dictionary_encode(),
        pa.DictionaryArray.from_arrays([0, 0, 1], pa.array(["a", None])),
        pa.array(["x", None, "a", "b", None]).slice(2),
    ],
)
def test_a_null_where_none_may_be(source):
    layout = Layout.of(Schema.of({"name": str}))
    with pytest.raises(
        DataError, match=r"'name' is null in row 2 of the batch.*string\n.*optional"
    ):
        Feed(layout, pa.record_batch({"name": source}))


def test_a_null_in_a_dictionary_that_no_row_uses():
    source = pa.DictionaryArray.from_arrays([0, 0], pa.array(["a", None]))
    layout = Layout.of(Schema.of({"s": str}))
    block = filled(layout, pa.record_batch({"s": source}))
    assert to_arrow(block).column(0).to_pylist() == ["a", "a"]


def test_a_column_of_another_type():
    layout = Layout.of(Schema.of({"n": int}))
    with pytest.raises(DataError, match=r"'n' is int32 in the batch.*int64"):
        Feed(layout, pa.record_batch({"n": pa.array([1], pa.int32())}))


def test_a_column_that_is_missing_or_twice():
    layout = Layout.of(Schema.of({"n": int}))
    with pytest.raises(DataError, match="'n' is in the batch not; there are: m"):
        Feed(layout, pa.record_batch({"m": [1]}))
    with pytest.raises(DataError, match="'n' is in the batch twice"):
        Feed(layout, pa.record_batch([pa.array([1]), pa.array([2])], names=["n", "n"]))


def test_a_timestamp_that_does_not_fit():
    source = pa.array([2**62], pa.int64()).view(pa.timestamp("s"))
    layout = Layout.of(Schema.of({"t": optional("timestamp")}))
    with pytest.raises(DataError, match=r"'t' is timestamp\[s\] and cannot be"):
        Feed(layout, pa.record_batch({"t": source}))


def test_rows_and_blocks_that_do_not_fit():
    layout, other = Layout.of(Schema.of({"n": int})), Layout.of(Schema.of({"m": int}))
    feed, block = Feed(layout, pa.record_batch({"n": [1, 2, 3]})), Block.allocate(layout, 2)
    for start, count in ((0, 4), (3, 1), (-1, 1), (0, -1)):
        with pytest.raises(IndexError):
            feed.fill(block, start, count)
    with pytest.raises(ValueError, match="3 rows do not fit"):
        feed.fill(block, 0, 3)
    with pytest.raises(ValueError, match="do not fit Block"):
        feed.fill(Block.allocate(other, 4), 0, 1)
    with pytest.raises(ValueError, match="3 rows in a block for 2"):
        block.rows = 3
    with pytest.raises(ValueError, match="at least one row"):
        Block.allocate(layout, 0)


def test_more_text_than_an_arrow_column_holds():
    block = Block.allocate(Layout.of(Schema.of({"s": str})), 2)
    block.values(0)["head"] = 2**30  # views of bytes that are never read
    block.rows = 2
    with pytest.raises(DataError, match="'s' has 2147483648 bytes of text in 2 rows"):
        to_arrow(block)
