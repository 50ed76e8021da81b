"""Rows that an operator failed on: left out, and given as dead letters where these are wanted.

An operator that leaves rows out begins its kernel, and nothing behind it there can fail
(`plan/fusion.py`). So the row in work is the one that failed, and it has left no trace: rows that
it gave before it failed stay given, and its state is as it was before.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headrace.plan.nodes import ERROR_MESSAGE, ERROR_OPERATOR
from headrace.plan.schema import Schema

from .blocks.arrow import Feed, to_arrow
from .blocks.block import Block, BlockRecord
from .blocks.copying import CopiedRows, copy_rows, describe_rows
from .blocks.layout import Layout
from .failure import one_row, real_error
from .keyed_store import by_host
from .strings.heap import Heap, has_overflown
from .task import SIDE, pass_over


class DeadLetters:
    """Writes the dead letters of a kernel."""

    def __init__(self, schema: Schema) -> None:
        self._layout = Layout.of(schema)
        self._copied: Any = CopiedRows.allocate()
        self._columns = describe_rows(self._copied, self._layout)

    def write(self, row: Block, operator: str, message: str, address: int) -> None:
        """Append a row, the operator that failed and why to the block at an address."""
        told = {ERROR_OPERATOR: operator, ERROR_MESSAGE: message}
        given, schema = to_arrow(row), self._layout.schema
        columns = [
            pa.array([told[name]]) if name in told else given.column(name) for name in schema.names
        ]
        made = Block.allocate(self._layout, 1, borrows=True)
        feed = Feed(self._layout, pa.record_batch(columns, names=list(schema.names)))
        feed.fill(made, 0, 1)
        by_host(copy_rows)(self._copied, made.record, 0, 1, BlockRecord(address))


def leave_out(kernel: Any, error: Exception | None = None) -> bool:
    """Leave out the row that failed, if its operator says so; the kernel can go on behind it.

    error: what the kernel raised, where it is known.
    """
    if not kernel.chain.tolerates or kernel.is_firing:
        return False
    if kernel.letters is not None:
        row = one_row(kernel.block, kernel.row_in_work)
        real = real_error(kernel, row, error)
        said = f"{type(real).__name__}: {real}"
        operator = kernel.chain.nodes[0].name
        kernel.letters.write(row, operator, said, kernel.task.outputs[SIDE])
    by_host(pass_over)(kernel.task)
    return True


def is_full(block: Block) -> bool:
    """Is there no room for another row?"""
    heap = block.record.heap
    return block.rows == block.capacity or (heap != 0 and by_host(has_overflown)(Heap(heap)))
