"""Blocks: rows in columns, in one piece of memory that compiled code knows by its address.

A block is a preamble of one cache line (`BlockRecord`), a `ColumnRef` for each column, and then
the columns: values of a fixed width from the start of a cache line on and, where the column is
nullable, a validity byte for each row. Texts are 16-byte views (`words.View`). The bytes of long
ones lie in the block itself, in a heap behind the columns: whoever writes a row copies them there,
so a block is handed on, recycled and counted as one thing. Only a block that rows of Arrow are
copied into may *borrow* theirs from objects that it keeps alive (`hold`).

    >>> from headrace.plan.schema import Schema
    >>> block = Block.allocate(Layout.of(Schema.of({"user": int, "score": float})), capacity=4)
    >>> block.values(0)[:2], block.values(1)[:2] = [7, 8], [0.5, 1.5]
    >>> block.rows = 2
    >>> block
    Block(2 of 4 rows: user: int64, score: float64)
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from headrace.stage.blocks.layout import (
    NUMPY,
    BlockRecord,
    ColumnLayout,
    ColumnRef,
    Layout,
    LayoutRecord,
    Template,
)
from headrace.stage.memory.kinds import aligned
from headrace.stage.memory.records import LINE, compiled, i16s, i32s, i64s, interpreted, u8s
from headrace.stage.strings.heap import Heap, empty_heap, start_heap
from headrace.stage.strings.words import views

__all__ = [
    "Block",
    "BlockRecord",
    "ColumnLayout",
    "ColumnRef",
    "Layout",
    "LayoutRecord",
    "gather",
    "scatter",
]

HEAP_HEADER = Heap.size


@compiled
def start_block_at(base, template_address, count, text):
    """Write the start of an empty block at an address on a line; its heap has `text` bytes."""
    template, block = BlockRecord(template_address), BlockRecord(base)
    block.rows = 0
    block.capacity = template.capacity
    block.watermark = 0
    block.without_watermark = 0
    block.heap = 0
    if template.heap != 0:
        block.heap = base + template.heap
        start_heap(Heap(block.heap), block.heap + HEAP_HEADER, text)
    for i in range(count):
        source, target = template.columns[i], block.columns[i]
        target.data = target.room = base + source.data
        target.valid = base + source.valid if source.valid != 0 else 0


_ROWS = BlockRecord.fields["rows"].offset
_empty_heap = interpreted(empty_heap)  # mostly two stores; no machine code is loaded for them


class Block:
    """Rows of one layout. `address` is that of its `record`, for calls of compiled code.

    `heaps` are objects that keep borrowed bytes of texts alive; add to them with `hold`.
    """

    __slots__ = (
        "_buffer", "_owned", "_rows", "_start", "_template",
        "address", "capacity", "heaps", "layout"
    )  # fmt: skip

    def __init__(self, layout: Layout, template: Template) -> None:
        buffer = np.empty(template.size, np.uint8)
        address = aligned(buffer.ctypes.data, LINE)
        start_block_at(address, template.address, len(template.offsets), template.text)
        self._lie_in(buffer, address, layout, template)
        self._owned = template.text > 0

    def __del__(self) -> None:
        if getattr(self, "_owned", False):  # what did not fit its heap
            _empty_heap(Heap(self.record.heap))

    @classmethod
    def at(cls, layout: Layout, template: Template, buffer: np.ndarray, address: int) -> Block:
        """The block that was started (`start_block_at`) at an address inside a buffer of bytes.

        >>> from headrace.plan.schema import Schema
        >>> layout = Layout.of(Schema.of({"n": int}))
        >>> block = Block.allocate(layout, 4)
        >>> block.rows = 3
        >>> Block.at(layout, layout.template(4), block._buffer, block.address)
        Block(3 of 4 rows: n: int64)
        """
        block = cls.__new__(cls)
        block._lie_in(buffer, address, layout, template)
        return block

    def _lie_in(self, buffer: np.ndarray, address: int, layout: Layout, template: Template) -> None:
        self.layout, self.capacity, self.address = layout, template.capacity, address
        self.heaps: list[Any] = []
        self._owned = False  # the heap is emptied by who owns the memory
        self._buffer, self._template = buffer, template
        self._start = -1  # of the block in the buffer, found when it is asked for
        self._rows = ctypes.c_int64.from_address(address + _ROWS)

    @classmethod
    def allocate(cls, layout: Layout, capacity: int, *, borrows: bool = False) -> Block:
        """An empty block; only its preamble is zeroed. borrows: see the module."""
        return cls(layout, layout.template(capacity, borrows=borrows))

    def __repr__(self) -> str:
        columns = ", ".join(map(repr, self.layout.schema))
        return f"Block({self.rows} of {self.capacity} rows: {columns})"

    @property
    def record(self) -> Any:
        """The BlockRecord at the block's address."""
        return BlockRecord(self.address)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self._rows.value

    @rows.setter
    def rows(self, rows: int) -> None:
        if not 0 <= rows <= self.capacity:
            raise ValueError(f"{rows} rows in a block for {self.capacity}")
        self._rows.value = rows

    def column(self, i: int) -> Any:
        """The ColumnRef of the i-th column."""
        return self.record.columns[i]

    def address_of(self, i: int) -> int:
        """Where the values of the i-th column lie."""
        return self.column(i).data

    def values(self, i: int) -> np.ndarray:
        """The i-th column as a NumPy array over the block's memory, unused rows included, or over
        the rows that a batch lends."""
        offset, kind = self._template.offsets[i][0], NUMPY[self.layout.columns[i].kind]
        address = self.address_of(i)
        if address == self.address + offset:
            return self._view(offset, kind)
        lent = (ctypes.c_uint8 * (self.rows * kind.itemsize)).from_address(address)
        return np.frombuffer(lent, kind)

    def validity(self, i: int) -> np.ndarray | None:
        """The validity bytes of the i-th column, or None where it is not nullable."""
        offset = self._template.offsets[i][1]
        return self._view(offset, NUMPY["u8"]) if offset else None

    def _view(self, offset: int, dtype: np.dtype) -> np.ndarray:
        if self._start < 0:
            self._start = self.address - self._buffer.ctypes.data
        return np.ndarray(self.capacity, dtype, self._buffer, self._start + offset)

    def hold(self, heaps: Iterable[Any]) -> None:
        """Keep these objects alive as long as the block; each is listed once."""
        for heap in heaps:
            if not any(heap is held for held in self.heaps):
                self.heaps.append(heap)

    def clear(self) -> None:
        """Forget the rows and the bytes of their texts."""
        self._rows.value = 0
        self.heaps = []
        if self._template.text:
            _empty_heap(Heap(self.record.heap))


# ---- moving rows ---------------------------------------------------------------------------


@compiled
def all_within(indices_address, count, rows):
    """Is each index that of a row?"""
    indices = i32s(indices_address)
    outside = 0
    for k in range(count):
        outside |= indices[k] | (rows - 1 - indices[k])  # the sign stays where one is negative
    return outside >= 0


@compiled
def gather_values(source, target, width, indices_address, count):
    """target[k] = source[indices[k]], for values of 1, 2, 4, 8 or 16 bytes at two addresses."""
    indices = i32s(indices_address)
    if width == 1:
        from_1, to_1 = u8s(source), u8s(target)
        for k in range(count):
            to_1[k] = from_1[indices[k]]
    elif width == 2:
        from_2, to_2 = i16s(source), i16s(target)
        for k in range(count):
            to_2[k] = from_2[indices[k]]
    elif width == 4:
        from_4, to_4 = i32s(source), i32s(target)
        for k in range(count):
            to_4[k] = from_4[indices[k]]
    elif width == 8:
        from_8, to_8 = i64s(source), i64s(target)
        for k in range(count):
            to_8[k] = from_8[indices[k]]
    else:
        from_16, to_16 = views(source), views(target)
        for k in range(count):
            view, to = from_16[indices[k]], to_16[k]
            to.head = view.head
            to.tail = view.tail


@compiled
def gather_rows(source_address, indices_address, count, target_address, layout_address):
    """Append rows of a block to another of the same layout."""
    source, target = BlockRecord(source_address), BlockRecord(target_address)
    layout, start = LayoutRecord(layout_address), target.rows
    for i in range(layout.count):
        width, old, new = layout.widths[i], source.columns[i], target.columns[i]
        gather_values(old.data, new.data + start * width, width, indices_address, count)
        if new.valid != 0:
            gather_values(old.valid, new.valid + start, 1, indices_address, count)
    target.rows = start + count


@compiled
def copy_stamps(source_address, target_address):
    """What a block tells of its rows besides their number."""
    source, target = BlockRecord(source_address), BlockRecord(target_address)
    target.watermark = source.watermark


@compiled
def partition_rows(owners_address, rows, owners, starts_address, indices_address):
    """The rows of each owner, one owner after the other, each in order: those of owner k are
    indices[starts[k]] to indices[starts[k + 1] - 1]. starts: owners + 2 zeros, one for work.
    Gives False where a row's owner is not one of 0 ... owners - 1."""
    owner_of, starts, indices = i32s(owners_address), i64s(starts_address), i32s(indices_address)
    for row in range(rows):
        owner = owner_of[row]
        if owner < 0 or owner >= owners:
            return False
        starts[owner + 2] += 1
    for owner in range(owners):
        starts[owner + 2] += starts[owner + 1]
    for row in range(rows):  # starts[k + 1] runs from the start of owner k to its end
        owner = owner_of[row]
        indices[starts[owner + 1]] = row
        starts[owner + 1] += 1
    return True


def gather(block: Block, indices: np.ndarray, target: Block) -> None:
    """Append the rows of these numbers to a block of the same layout, which borrows their texts.

    >>> from headrace.plan.schema import Schema
    >>> layout = Layout.of(Schema.of({"n": int}))
    >>> block, target = Block.allocate(layout, 3), Block.allocate(layout, 8)
    >>> block.values(0)[:], block.rows = [10, 11, 12], 3
    >>> gather(block, np.array([2, 0, 2]), target)
    >>> target.values(0)[: target.rows].tolist()
    [12, 10, 12]
    """
    if block.layout is not target.layout and block.layout != target.layout:
        raise ValueError(f"rows of {block!r} do not fit {target!r}")
    if len(indices) > target.capacity - target.rows:
        raise ValueError(f"{len(indices)} more rows do not fit {target!r}")
    indices = np.ascontiguousarray(indices, np.int32)
    if not all_within(indices.ctypes.data, len(indices), block.rows):
        raise IndexError(f"a row that is not one of {block!r}")
    _gather(block, indices.ctypes.data, len(indices), target)


def _gather(block: Block, indices: int, count: int, target: Block) -> None:
    gather_rows(block.address, indices, count, target.address, block.layout.record.address)
    target.hold(block.heaps)
    if block.record.heap != 0:
        target.hold([block])


def scatter(block: Block, owners: np.ndarray, count: int) -> list[Block]:
    """A block for each of `count` owners with its rows, in their order; owners: one per row.

    They borrow the bytes of texts from the block, which must not be filled again.

    >>> from headrace.plan.schema import Schema
    >>> block = Block.allocate(Layout.of(Schema.of({"n": int})), 4)
    >>> block.values(0)[:], block.rows = [10, 11, 12, 13], 4
    >>> [part.values(0)[: part.rows].tolist() for part in scatter(block, np.array([1, 0, 1, 1]), 2)]
    [[11], [10, 12, 13]]
    """
    if len(owners) != block.rows:
        raise ValueError(f"{len(owners)} owners of the rows of {block!r}")
    owners = np.ascontiguousarray(owners, np.int32)
    starts, indices = np.zeros(count + 2, np.int64), np.empty(block.rows, np.int32)
    first = indices.ctypes.data
    if not partition_rows(owners.ctypes.data, block.rows, count, starts.ctypes.data, first):
        raise IndexError(f"an owner that is not one of {count}")
    bounds = starts.tolist()
    parts = []
    for start, end in pairwise(bounds[: count + 1]):
        # Few different capacities, since a layout remembers where things lie for each.
        room = 1 << max(end - start - 1, 0).bit_length()
        part = Block.allocate(block.layout, room, borrows=True)
        _gather(block, first + start * indices.itemsize, end - start, part)
        copy_stamps(block.address, part.address)
        parts.append(part)
    return parts
