"""The hidden column with the watermark before each row, and blocks that surely hold none.

In the first `without_watermark` rows of a block the column says NEVER, whatever the block was used
for before. Whoever writes rows keeps that true; so where no row of a source can be late, the column
is written once for a block, and the operators behind neither copy it nor look at it.
"""

from __future__ import annotations

from .blocks.layout import BlockRecord
from .memory.records import compiled, i64s

NEVER = -(1 << 63)  # a watermark before all times


@compiled
def clear_watermarks(block_address, column):
    """Let the column say NEVER, in all rows that the block has room for."""
    block = BlockRecord(block_address)
    watermarks = i64s(block.columns[column].data)
    for row in range(block.capacity):
        watermarks[row] = NEVER
    block.without_watermark = block.capacity


@compiled
def may_have_watermarks(out):
    """Rows with watermarks of their own follow."""
    out.without_watermark = min(out.without_watermark, out.rows)


@compiled
def copies_watermarks(block, last, out, column):
    """Must the column be copied with the rows of a block up to `last`? If not, it says NEVER in
    the output already."""
    if block.without_watermark < last:
        may_have_watermarks(out)
        return True
    if out.without_watermark < out.capacity and out.rows == 0:
        clear_watermarks(out.address, column)
    return out.without_watermark < out.capacity
