"""Arrow batches into blocks (`Feed`), and blocks into Arrow batches (`to_arrow`, `as_arrow`).

>>> from headrace.plan.schema import Schema
>>> from headrace.stage.blocks.block import Block, Layout
>>> batch = pa.record_batch({"user": ["ann", "bob", None], "n": [1, 2, 3]})
>>> layout = Layout.of(Schema.of(batch.schema))
>>> block = Block.allocate(layout, capacity=2)
>>> feed = Feed(layout, batch)
>>> feed.fill(block, offset=1, count=2)
>>> to_arrow(block).to_pylist()
[{'user': 'bob', 'n': 2}, {'user': None, 'n': 3}]
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.types import from_arrow
from headrace.stage.blocks.arrow_text import (
    BITS,
    CODES,
    LARGE_STRINGS,
    STRINGS,
    VALUES,
    VIEWS,
    FeedColumn,
    FeedRecord,
    fill_column,
    fill_validity,
    text_size,
    write_text,
)
from headrace.stage.blocks.block import Block, BlockRecord, ColumnLayout, Layout
from headrace.stage.blocks.packed import pack, unpack
from headrace.stage.blocks.unsigned import from_stored, stored_as, to_stored
from headrace.stage.memory.instructions import copy_bytes
from headrace.stage.memory.records import LINE, compiled
from headrace.stage.strings.words import LENGTH_MASK, View

_MOST_TEXT = 2**31 - 1  # bytes of one column of Arrow strings, whose offsets have 32 bits
_LARGE = (pa.large_string(), pa.large_binary())
_ARROW_VIEWS = (pa.string_view(), pa.binary_view())


COPIES = -2  # instead of the number of a column: nothing is lent, all columns are copied


@compiled
def fill_block(block_address, feed_address, offset, count, changed):
    """Rows of a batch as the rows of a block, all columns; sets its number of rows.

    Values that lie in the batch as they would in the block are lent: as long as the block has these
    rows, the batch must be there, and nobody may write to them. changed: a column that is to be
    written to, and so is copied; -1: none; COPIES: all are.
    """
    block, feed = BlockRecord(block_address), FeedRecord(feed_address)
    if count > 0:
        for i in range(feed.count):
            column, target = feed.columns[i], block.columns[i]
            if column.how == VALUES and changed != COPIES and changed != i:
                target.data = column.source + offset * column.width
                if target.valid != 0:
                    fill_validity(column, target.valid, offset, count)
            else:
                target.data = target.room
                fill_column(column, target.data, target.valid, offset, count)
    block.rows = count


@compiled
def lend_block(block_address, feed_address, offset, count, changed):
    """`fill_block` for columns that are all as in the block: the usual case, quick to compile."""
    block, feed = BlockRecord(block_address), FeedRecord(feed_address)
    for i in range(feed.count):
        column, target = feed.columns[i], block.columns[i]
        source = column.source + offset * column.width
        if changed != COPIES and changed != i:
            target.data = source
        else:
            target.data = target.room
            copy_bytes(target.data, source, count * column.width)
    block.rows = count


class Feed:
    """The rows of an Arrow batch, made ready to be copied into blocks of a layout.

    Columns are found by name, and the batch may have more than the layout. A null where the layout
    allows none is a DataError. Timestamps become microseconds in UTC: those without a time zone
    are taken as UTC, and nanoseconds are rounded down.
    """

    __slots__ = ("_address", "_alive", "_fill", "_fitting", "_heaps", "_record", "layout", "rows")

    def __init__(self, layout: Layout, batch: pa.RecordBatch) -> None:
        self.layout, self.rows = layout, batch.num_rows
        self._fitting = layout
        self._alive: list[Any] = []  # what the columns' addresses point into
        self._heaps: list[Any] = []  # the part of it that views point into
        columns = layout.columns
        self._record = FeedRecord.allocate(behind=len(columns) * FeedColumn.size)
        self._record.count = len(columns)
        described = self._record.columns
        for i, column in enumerate(columns):
            values = _fitting(column, _column_of(batch, column.name))
            _check_nulls(column, values)
            values = pack(values) if column.type.is_composite else to_stored(values)
            self._describe(described[i], column, values)
        self._address = self._record.address
        copied = all(
            described[i].how == VALUES and not column.type.nullable
            for i, column in enumerate(columns)
        )
        self._fill = lend_block if copied else fill_block

    @property
    def only_lends(self) -> bool:
        """Are all columns as in a block, so that `lend_block` fills it?"""
        return self._fill is lend_block

    @property
    def address(self) -> int:
        """The FeedRecord, for compiled code."""
        return self._address

    def fill(self, block: Block, offset: int, count: int) -> None:
        """Copy rows offset ... offset + count - 1 into the block, in place of its own.

        The block may have more columns behind, which are left as they are.
        """
        if offset < 0 or count < 0 or offset + count > self.rows:
            raise IndexError(f"rows {offset} to {offset + count} of a batch of {self.rows}")
        if count > block.capacity:
            raise ValueError(f"{count} rows do not fit {block!r}")
        if block.layout is not self._fitting and not self._fits(block):
            raise ValueError(f"rows of {self.layout.schema} do not fit {block!r}")
        block.clear()
        self._fill(block.address, self._address, offset, count, COPIES)
        if self._heaps:
            block.heaps = list(self._heaps)

    def _fits(self, block: Block) -> bool:
        """Does the block begin with our columns? Remembered, since blocks come again and again."""
        if not block.layout.begins_with(self.layout):
            return False
        self._fitting = block.layout
        return True

    def _describe(self, target: Any, column: ColumnLayout, values: pa.Array) -> None:
        self._alive.append(values)
        buffers, kind = values.buffers(), values.type
        if buffers[0] is not None and values.null_count:
            target.bitmap, target.bitmap_bit = buffers[0].address, values.offset
        if pa.types.is_dictionary(kind):
            self._describe_codes(target, column, values)
            return
        target.how, target.width = VALUES, column.width
        if pa.types.is_boolean(kind):
            target.how, target.width, target.source_bit = BITS, 0, values.offset
        elif kind in _ARROW_VIEWS:
            target.how = VIEWS
            addresses = np.array([_address(buffer) for buffer in buffers[2:]], np.int64)
            target.heap = addresses.ctypes.data
            self._alive.append(addresses)
        elif column.kind == "view":
            large = kind in _LARGE
            target.how, target.width = (LARGE_STRINGS, 8) if large else (STRINGS, 4)
            target.heap = _address(buffers[2])
        target.source = _address(buffers[1]) + values.offset * target.width
        if target.how == VALUES and target.width and target.source % target.width:
            self._align(target, len(values))
        if column.kind == "view":
            self._heaps += [buffer for buffer in buffers[2:] if buffer is not None]

    def _align(self, target: Any, rows: int) -> None:
        """Compiled code reads values that are lent, so they have to lie where values may."""
        given = (ctypes.c_uint8 * (rows * target.width)).from_address(target.source)
        copied = np.array(given, np.uint8)
        self._alive.append(copied)
        target.source = copied.ctypes.data

    def _describe_codes(self, target: Any, column: ColumnLayout, values: Any) -> None:
        """A dictionary's values become a table of views, once."""
        codes, dictionary = values.indices, values.dictionary
        size = len(dictionary)
        _check_lengths(column, dictionary)
        table, valid = np.empty(size * View.size + LINE, np.uint8), np.empty(size + LINE, np.uint8)
        entry = FeedColumn.allocate()
        self._describe(entry, column, dictionary)
        fill_table(entry.address, table.ctypes.data, valid.ctypes.data, size)
        self._alive += [codes, table, valid]
        target.how, target.width = CODES, codes.type.bit_width // 8
        target.source = _address(codes.buffers()[1]) + codes.offset * target.width
        target.table = table.ctypes.data
        target.table_valid = valid.ctypes.data if dictionary.null_count else 0


@compiled
def fill_table(column_address, data, valid, count):
    if count > 0:
        fill_column(FeedColumn(column_address), data, valid, 0, count)


def _buffer(memory: Any) -> pa.Buffer:
    return pa.py_buffer(memory)


def _address(buffer: pa.Buffer | None) -> int:
    return 0 if buffer is None else buffer.address


# ---- columns that need a change first --------------------------------------------------------


def _column_of(batch: pa.RecordBatch, name: str) -> pa.Array:
    found = batch.schema.get_all_field_indices(name)
    if len(found) != 1:
        there = "twice" if found else f"not; there are: {', '.join(batch.schema.names)}"
        raise DataError(f"column {name!r} is in the batch {there}")
    return batch.column(found[0])


def _fitting(column: ColumnLayout, values: Any) -> Any:
    """The column as an array that can be copied as it is."""
    kind, wanted = values.type, column.type.to_arrow()
    if kind == wanted:
        return values
    found = from_arrow(kind)
    if pa.types.is_null(kind):
        return pa.nulls(len(values), wanted)  # type: ignore[call-overload]
    if found is None or found.name != column.type.name:
        raise DataError(
            f"column {column.name!r} is {kind} in the batch, but the pipeline was built for "
            f"{column.type}\n  fix: cast it in the source, or give the source the right schema"
        )
    if column.type.is_text:
        if not pa.types.is_dictionary(kind):
            _check_lengths(column, values)
        return values
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return _from_nanoseconds(values)
    try:
        return values.cast(wanted)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"column {column.name!r} is {kind} and cannot be {wanted}: {error}"
        ) from None


def _from_nanoseconds(values: Any) -> pa.Array:
    """Rounded down, also before 1970, where Arrow's cast would round up."""
    nanoseconds = np.frombuffer(values.buffers()[1], np.int64)[values.offset :][: len(values)]
    microseconds = pa.array(nanoseconds // 1000)
    if values.null_count:
        import pyarrow.compute as pc

        microseconds = pc.if_else(values.is_valid(), microseconds, None)
    return microseconds.cast(pa.timestamp("us", "UTC"))


def _check_lengths(column: ColumnLayout, values: Any) -> None:
    """A view has 32 bits for the length; only large strings can be longer."""
    if values.type in _LARGE and values.nbytes > LENGTH_MASK:
        import pyarrow.compute as pc

        longest = pc.max(pc.binary_length(values)).as_py()
        if longest is not None and longest > LENGTH_MASK:
            raise DataError(f"column {column.name!r} has a value of {longest} bytes; 4 GiB is most")


def _check_nulls(column: ColumnLayout, values: Any) -> None:
    if column.type.nullable:
        return
    hidden = pa.types.is_dictionary(values.type) and values.dictionary.null_count
    if values.null_count == 0 and not hidden:
        return
    if hidden:
        values = values.dictionary_decode()
    import pyarrow.compute as pc

    row = pc.index(values.is_null(), True).as_py()
    if row >= 0:
        raise DataError(
            f"column {column.name!r} is null in row {row} of the batch, but its type is "
            f"{column.type}\n  fix: declare it optional({column.type}), or fill nulls in the source"
        )


# ---- blocks to batches -----------------------------------------------------------------------


def to_arrow(
    block: Block, names: Sequence[str] | None = None, first: int = 0, last: int | None = None
) -> pa.RecordBatch:
    """A copy of the rows [first, last) as an Arrow batch, of all columns or of those named.

    Its schema is that of the layout, and texts are Arrow strings. See the module for an example.
    """
    schema, rows = block.layout.schema, range(first, block.rows if last is None else last)
    chosen = range(len(schema)) if names is None else [schema.index(name) for name in names]
    kept = block.layout.arrow_schema if names is None else schema.select(names).to_arrow()
    return _batch([_array(block, i, rows) for i in chosen], kept, len(rows))


def as_arrow(block: Block) -> pa.RecordBatch:
    """The rows of a block that nobody fills again, as an Arrow batch.

    Numbers and times are not copied: the batch keeps the memory of the block. A block that is
    mostly empty is copied all the same, so that a few rows do not hold the room for many.

    >>> from headrace.plan.schema import Schema
    >>> block = Block.allocate(Layout.of(Schema.of({"n": int})), capacity=2)
    >>> block.values(0)[:], block.rows = [1, 2], 2
    >>> as_arrow(block).to_pydict()
    {'n': [1, 2]}
    """
    layout, rows = block.layout, range(block.rows)
    copied = 2 * block.rows < block.capacity
    arrays = [_array(block, i, rows, copied) for i in range(len(layout.columns))]
    return _batch(arrays, layout.arrow_schema, len(rows))


def _batch(arrays: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))  # type: ignore[arg-type]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(block: Block, i: int, rows: range, copied: bool = True) -> pa.Array:
    column, some = block.layout.columns[i], slice(rows.start, rows.stop)
    valid, bitmap, nulls = block.validity(i), None, 0
    if valid is not None:
        nulls = len(rows) - int(np.count_nonzero(valid[some]))
        bitmap = _buffer(_bits(valid[some])) if nulls else None
    if column.kind == "view":
        parts = _text(block, i, rows)
    elif column.kind == "flag":
        parts = [_buffer(_bits(block.values(i)[some]))]
    elif copied:
        parts = [_copied(block.address_of(i) + rows.start * column.width, len(rows) * column.width)]
    else:
        parts = [_buffer(block.values(i)[some])]
    kind = column.type.to_arrow()
    if column.type.is_composite:
        packed = pa.Array.from_buffers(pa.binary(), len(rows), [bitmap, *parts], nulls)
        return unpack(packed, kind)
    made = pa.Array.from_buffers(stored_as(kind), len(rows), [bitmap, *parts], nulls)
    return from_stored(made, kind)


def _copied(address: int, count: int) -> pa.Buffer:
    buffer = pa.allocate_buffer(count)
    ctypes.memmove(buffer.address, address, count)
    return buffer


def _bits(flags: np.ndarray) -> np.ndarray:
    return np.packbits(flags, bitorder="little")


def _text(block: Block, i: int, some: range) -> list[pa.Buffer]:
    """Arrow's offsets and bytes of a column of views."""
    ref, rows = block.column(i), len(some)
    data_at = ref.data + some.start * View.size
    valid_at = ref.valid + some.start if ref.valid else 0
    size = text_size(data_at, valid_at, rows)
    if size > _MOST_TEXT:
        raise DataError(
            f"column {block.layout.columns[i].name!r} has {size} bytes of text in {rows} rows, and "
            "an Arrow string column holds at most 2 GiB\n  fix: use smaller blocks"
        )
    offsets, data = np.empty(rows + 1, np.int32), np.empty(size + View.size, np.uint8)
    write_text(data_at, valid_at, rows, offsets.ctypes.data, data.ctypes.data)
    return [_buffer(offsets), _buffer(data[:size])]
