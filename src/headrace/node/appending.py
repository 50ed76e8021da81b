"""Rows of small slices, copied behind each other: so whoever reads them has large ones to read.

Slices of an operator that takes long for a row have few rows, and each worker writes its own into
its own block. Handed on as they are, each would be a descriptor and, at a sink, a call of Python.
"""

from __future__ import annotations

from headrace.node.blocks import NodeBlock
from headrace.node.emit import leave_block, publish, ready_to_write, seal
from headrace.stage.memory.instructions import copy_bytes
from headrace.stage.memory.records import compiled, i64, line, record
from headrace.stage.row_watermarks import may_have_watermarks
from headrace.stage.strings.heap import Heap, has_overflown
from headrace.stage.strings.words import keep_words, views

FEW = 256  # rows that are copied


@record
class AppendedColumn:
    """How a column is copied."""

    width: i64
    is_text: i64


@record
class AppendedRows:
    """The columns of an output."""

    count: i64 = line()
    columns: i64  # address of an AppendedColumn for each
    has_watermark: i64  # one of them is that of watermarks


@compiled
def append(worker, output, rows, slice):
    """Copy the first rows of a small slice into the output's own block, and publish them; gives how
    many. 0: it is not small, or there is no room for it."""
    count = slice.last - slice.first
    if count > FEW or not ready_to_write(worker, output, slice.serial):
        return 0
    source, target = NodeBlock(slice.block).block, NodeBlock(output.block).block
    count = copy_rows(rows, source, slice.first, min(count, target.capacity - target.rows), target)
    publish(worker, output, slice.serial, slice.due)
    if output.open != 0 and target.heap != 0 and has_overflown(Heap(target.heap)):
        seal(worker, output)
        leave_block(worker, output)
    return count


@compiled
def copy_rows(rows, source, first, count, target):
    """Append rows to a block; gives how many, at least one: then the heap of the block is full."""
    columns, start = AppendedColumn(rows.columns), target.rows
    for k in range(rows.count):
        width, old, new = columns[k].width, source.columns[k], target.columns[k]
        if columns[k].is_text != 0:
            count = copy_texts(old.data, first, count, Heap(target.heap), new.data, start)
        else:
            copy_bytes(new.data + start * width, old.data + first * width, count * width)
        if new.valid != 0:
            copy_bytes(new.valid + start, old.valid + first, count)
    if rows.has_watermark != 0:
        may_have_watermarks(target)
    target.rows = start + count
    return count


@compiled
def copy_texts(data, first, count, heap, into, start):
    """A column of strings; gives how many fit."""
    old, new = views(data), views(into)
    for k in range(count):
        view, copied = old[first + k], new[start + k]
        copied.head = view.head
        copied.tail = keep_words(view.head, view.tail, heap)
        if has_overflown(heap):
            return k + 1
    return count
