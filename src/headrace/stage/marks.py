"""The hidden column with the watermark before each row, and blocks that surely hold none.

In the first `unmarked` rows of a block the column says NEVER, whatever the block was used for
before. Whoever writes rows keeps that true; so where no row of a source can be late, the column is
written once in the life of a block, and the operators behind neither copy it nor look at it.
"""

from __future__ import annotations

from .blocks.layout import BlockRecord
from .memory.records import compiled, i64s

NEVER = -(1 << 63)  # a watermark before all times


@compiled
def unmark(block_address, column):
    """Let the column say NEVER, in all rows that the block has room for."""
    block = BlockRecord(block_address)
    watermarks = i64s(block.columns[column].data)
    for row in range(block.capacity):
        watermarks[row] = NEVER
    block.unmarked = block.capacity


@compiled
def may_mark(out):
    """Rows with watermarks of their own follow."""
    out.unmarked = min(out.unmarked, out.rows)


@compiled
def copies_marks(block, last, out, column):
    """Must the column be copied with the rows of a block up to `last`? If not, it says NEVER in
    the output already."""
    if block.unmarked < last:
        may_mark(out)
        return True
    if out.unmarked < out.capacity and out.rows == 0:
        unmark(out.address, column)
    return out.unmarked < out.capacity
