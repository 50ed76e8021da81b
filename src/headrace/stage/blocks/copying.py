"""Rows of a block copied behind those of another, the bytes of their strings, too."""

from __future__ import annotations

from typing import Any

from headrace.plan.nodes import WATERMARK
from headrace.stage.blocks.layout import Layout
from headrace.stage.memory.instructions import copy_bytes
from headrace.stage.memory.records import compiled, i64, line, record
from headrace.stage.row_watermarks import may_have_watermarks
from headrace.stage.strings.heap import Heap, has_overflown
from headrace.stage.strings.words import keep_words, views


@record
class CopiedColumn:
    """How a column is copied."""

    width: i64
    is_text: i64


@record
class CopiedRows:
    """The columns of some rows."""

    count: i64 = line()
    columns: i64  # address of a CopiedColumn for each
    has_watermark: i64  # one of them is that of watermarks


def describe_rows(rows: Any, layout: Layout) -> Any:
    """Write down how rows of a layout are copied; what is returned is to be kept as long."""
    columns = CopiedColumn.allocate(max(len(layout.columns), 1))
    rows.count, rows.columns = len(layout.columns), columns.address
    rows.has_watermark = WATERMARK in layout.schema
    for k, column in enumerate(layout.columns):
        columns[k].width, columns[k].is_text = column.width, column.kind == "view"
    return columns


@compiled
def copy_rows(rows, source, first, count, target):
    """Append rows to a block; gives how many, at least one: then the heap of the block is full."""
    columns, start = CopiedColumn(rows.columns), target.rows
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
