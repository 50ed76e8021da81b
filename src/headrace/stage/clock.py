"""Watermarks: what the rows of a channel say about time.

The watermark of a channel after each row is the largest time so far minus a bound. It is a
function of the channel's row sequence alone, so the result does not depend on blocks or batches.
Each row gets the watermark just before it, in a hidden column. Where no row of a block can be late
for any window, that pass over the rows is left out, and the column says "no watermark yet".
"""

from __future__ import annotations

from headrace.plan.errors import DataError
from headrace.plan.expression_types import type_of
from headrace.plan.expressions import Column
from headrace.plan.nodes import WATERMARK, Project, Source
from headrace.plan.schema import Field, Schema

from .block import Block
from .generate.context import Chain
from .kernel import Kernel
from .records import compiled, flags, i64s
from .task import window_start

NEVER = -(1 << 63)  # a watermark before all times
FOREVER = (1 << 63) - 1  # the watermark of a channel that has ended
FARTHEST = 1 << 62  # times beyond it would overflow in windows


@compiled
def time_range(data, valid, rows):
    """(smallest, largest) time of a column; (FOREVER, NEVER) where there is none."""
    times = i64s(data)
    low, high = FOREVER, NEVER
    if valid == 0:
        for row in range(rows):
            low = min(low, times[row])
            high = max(high, times[row])
    else:
        present = flags(valid)
        for row in range(rows):
            if present[row]:
                low = min(low, times[row])
                high = max(high, times[row])
    return low, high


@compiled
def scan_watermarks(data, valid, rows, maximum, bound, target):
    """The watermark just before each row, from the largest time before the block on."""
    times, watermarks = i64s(data), i64s(target)
    for row in range(rows):
        watermarks[row] = maximum - bound if maximum != NEVER else NEVER
        if valid == 0 or flags(valid)[row]:
            maximum = max(maximum, times[row])


@compiled
def fill_watermarks(target, rows):
    """No watermark yet, for all rows."""
    watermarks = i64s(target)
    for row in range(rows):
        watermarks[row] = NEVER


class SourceClock:
    """Keeps the largest time of each channel of a source and writes the watermarks of its rows."""

    def __init__(self, source: Source, capacity: int, compiled: bool) -> None:
        assert source.clock is not None
        self.source, self.clock = source, source.clock
        self.largest: dict[str, int] = {}  # by channel
        names = source.schema.names
        self._target = names.index(WATERMARK) if WATERMARK in names else None
        self._column: int | None = None
        self._kernel: Kernel | None = None
        if isinstance(self.clock.time, Column):
            self._column = names.index(self.clock.time.name)
        else:
            self._kernel = Kernel(_time_chain(source), capacity, compiled)

    def observe(self, block: Block, channel: str) -> int:
        """Write the watermarks of a block's rows; gives the watermark after the last one."""
        data, valid = self._times(block)
        low, high = time_range(data, valid, block.rows)
        before = self.largest.get(channel, NEVER)
        if low <= high:
            if low < -FARTHEST or high > FARTHEST:
                raise DataError(
                    f"{self.source.name}: the event time {low if low < -FARTHEST else high} in "
                    f"{self.clock.time} is out of range\n  fix: filter such rows or correct them "
                    "before with_watermark, e.g. with hr.when(...)"
                )
            self.largest[channel] = max(before, high)
        after = self.watermark(channel)
        if self._target is not None:
            target = block.column(self._target).data
            if self._surely_on_time(low, high, after):
                fill_watermarks(target, block.rows)
            else:
                scan_watermarks(data, valid, block.rows, before, self.clock.bound, target)
        return after

    def watermark(self, channel: str) -> int:
        """The watermark of a channel now."""
        largest = self.largest.get(channel, NEVER)
        return NEVER if largest == NEVER else largest - self.clock.bound

    def _times(self, block: Block) -> tuple[int, int]:
        """(address of the times, address of their validity or 0) of a block."""
        column = self._column
        if self._kernel is not None:
            self._kernel.output.clear()
            self._kernel.start(block)
            self._kernel.run()
            block, column = self._kernel.output, 0
        ref = block.column(column)
        return ref.data, ref.valid

    def _surely_on_time(self, low: int, high: int, after: int) -> bool:
        if self.clock.exact:
            return False
        if low > high:
            return True
        return all(
            window_start(low, window.size, window.offset) + window.size > after
            for window in self.clock.windows
        )


def _time_chain(source: Source) -> Chain:
    """The event time of each row as a column of its own."""
    assert source.clock is not None
    rows = Schema(tuple(f for f in source.schema if f.name != WATERMARK))
    schema = Schema((Field("time", type_of(source.clock.time, rows)),))
    columns = (("time", source.clock.time),)
    node = Project((source,), schema, f"{source.name}.time", columns=columns)
    return Chain((node,), source.schema)
