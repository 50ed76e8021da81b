"""Rows of small slices, copied behind each other: so whoever reads them has large ones to read.

Slices of an operator that takes long for a row have few rows, and each worker writes its own into
its own block. Handed on as they are, each would be a descriptor and, at a sink, a call of Python.
"""

from __future__ import annotations

from headrace.node.blocks import NodeBlock
from headrace.node.emit import publish, ready_to_write
from headrace.stage.blocks.copying import copy_rows
from headrace.stage.memory.records import compiled

FEW = 256  # rows that are copied


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
    return count
