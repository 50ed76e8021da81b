"""Many blocks in one call: lend rows, tell time, run the kernel, without Python in between.

This is how a stage feeds a kernel that alone reads a source whose columns are as in blocks. It
stops where the host is needed: the kernel asks for something, a window is due, a row failed.
"""

from __future__ import annotations

from typing import Any

from .blocks.arrow import Feed, lend_block
from .blocks.block import Block
from .clock import SourceClock, observe_column
from .kernel import Kernel
from .memory.calls import address_of
from .memory.records import compiled, i64, record
from .task import CONSUMED, NOT_SELECTED, Task, call_rows

MOST_BLOCKS = 64  # in one call, so that Ctrl-C and others get their turn
FAILED = -1  # an answer besides those of kernels: the row at task.row raised an error


@record
class DriveRecord:
    """What a drive works on; written by the thread that runs the stage."""

    feed: i64
    offset: i64  # the next row of the feed
    end: i64
    block: i64  # filled again and again
    capacity: i64
    clock: i64  # 0: no clock
    channel: i64
    next_end: i64  # the end of the window that closes first
    watermark: i64  # after the last block
    task: i64
    rows: i64  # address of the kernel


@compiled
def drive(address):
    """Run blocks until something else has to be done; gives the kernel's answer, or FAILED."""
    run = DriveRecord(address)
    task = Task(run.task)
    for _ in range(MOST_BLOCKS):
        count = min(run.capacity, run.end - run.offset)
        lend_block(run.block, run.feed, run.offset, count, -1)
        run.offset += count
        if run.clock != 0:
            run.watermark = observe_column(run.clock, run.channel, run.block)
        task.input = run.block
        task.first = 0
        task.last = count
        task.row = 0
        task.selected = NOT_SELECTED
        status, answer = call_rows(run.rows, run.task)
        if status != 0:
            return FAILED
        due = run.clock != 0 and run.watermark >= run.next_end
        if answer != CONSUMED or due or run.offset == run.end:
            return answer
    return CONSUMED


class Driver:
    """Drives one kernel from the feeds of one source."""

    def __init__(self, kernel: Kernel, clock: SourceClock | None, capacity: int) -> None:
        self.kernel, self.clock = kernel, clock
        self._run: Any = DriveRecord.allocate()
        self._run.capacity, self._run.task = capacity, kernel.task.address
        self._run.rows = address_of(kernel.compiled_rows)

    def run(self, feed: Feed, offset: int, block: Block, channel: str, next_end: int) -> int:
        """The answer after some blocks; `offset` says how far it came."""
        run, clock = self._run, self.clock
        run.feed, run.offset, run.end = feed.address, offset, feed.rows
        run.block, run.next_end = block.address, next_end
        if clock is not None:
            run.clock, run.channel = clock.address, clock.channel_address(channel)
        self.kernel.bind(block)
        if clock is None:
            return drive(run.address)
        with clock.explaining():
            return drive(run.address)

    @property
    def offset(self) -> int:
        """The next row of the feed."""
        return self._run.offset

    @property
    def watermark(self) -> int:
        """The watermark after the last block."""
        return self._run.watermark
