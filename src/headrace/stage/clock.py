"""Watermarks: what the rows of a channel say about time.

The watermark of a channel after each row is the largest time so far minus a bound. It is a
function of the channel's row sequence alone, so the result does not depend on blocks or batches.
Each row gets the watermark just before it, in a hidden column. Where no row of a block can be late
for any window, that pass over the rows is left out, and the column says "no watermark yet".

The clock of rows without an order is *steady*: it stands still until `settle` says that a batch of
them is over, and then moves to the largest time of the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headrace.plan.errors import DataError
from headrace.plan.expression_types import type_of
from headrace.plan.expressions import Column
from headrace.plan.nodes import TIME, WATERMARK, Project, Source
from headrace.plan.schema import Field, Schema
from headrace.plan.windows.base import FARTHEST

from .blocks.block import Block
from .blocks.layout import BlockRecord
from .failure import explain_failure
from .generate.context import Chain
from .kernel import Kernel
from .memory.instructions import copy_bytes
from .memory.records import array, compiled, flags, i64, i64s, interpreted, line, record
from .row_watermarks import NEVER, clear_watermarks
from .task import MAIN, window_start

TIME_BYTES = i64.size
FOREVER = (1 << 63) - 1  # the watermark of a channel that has ended


@record
class ClockRecord:
    """The clock of a source for compiled code; fixed."""

    bound: i64
    column: i64  # of the block with the times
    target: i64  # of the source's block: the watermarks; -1: nobody wants them
    kept: i64  # of the source's block: times that were computed; -1: nobody wants them
    exact: i64
    steady: i64
    farthest: i64  # times beyond it would overflow in windows
    count: i64  # of windows
    cells: array(i64) = line()  # length and offset of the grid of each


@record
class ChannelRecord:
    """What a channel knows of time; written by the thread that reads the channel."""

    largest: i64
    settled: i64  # the largest time before the batch; a steady clock shows it


@compiled
def time_range(data, valid, rows):
    """(smallest, largest) time of a column; (FOREVER, NEVER) where there is none."""
    values = i64s(data)
    low, high = FOREVER, NEVER
    if valid == 0:
        for row in range(rows):
            low = min(low, values[row])
            high = max(high, values[row])
    else:
        present = flags(valid)
        for row in range(rows):
            if present[row]:
                low = min(low, values[row])
                high = max(high, values[row])
    return low, high


@compiled
def scan_watermarks(data, valid, rows, largest, bound, steady, target):
    """The watermark just before each row, from the largest time before the block on."""
    values, present, watermarks = i64s(data), flags(valid), i64s(target)
    for row in range(rows):
        watermarks[row] = largest - bound if largest != NEVER else NEVER
        if steady == 0 and (valid == 0 or present[row]):
            largest = max(largest, values[row])


@compiled
def surely_on_time(clock, low, high, after):
    """Can no row of a block be late for any window?"""
    if clock.exact != 0:
        return False
    if low > high:
        return True
    for k in range(clock.count):
        size, offset = clock.cells[2 * k], clock.cells[2 * k + 1]
        if window_start(low, size, offset) + size <= after:
            return False
    return True


@compiled
def keep_times(column, data, valid, rows):
    """Copy times into a column of a block."""
    copy_bytes(column.data, data, rows * TIME_BYTES)
    if valid != 0:
        copy_bytes(column.valid, valid, rows)


@compiled
def observe_block(clock_address, channel_address, block_address, data, valid):
    """Write the watermarks of a block's rows, whose times (and their validity, or 0) lie at two
    addresses; gives the watermark after the last one."""
    clock, channel = ClockRecord(clock_address), ChannelRecord(channel_address)
    block = BlockRecord(block_address)
    low, high = time_range(data, valid, block.rows)
    if low <= high and (low < -clock.farthest or high > clock.farthest):
        raise OverflowError("an event time is out of range")
    if clock.kept >= 0:
        keep_times(block.columns[clock.kept], data, valid, block.rows)
    before = channel.largest
    channel.largest = max(before, high)
    reached = channel.largest
    if clock.steady != 0:
        before = reached = channel.settled
    after = reached - clock.bound if reached != NEVER else NEVER
    if clock.target >= 0:
        target = block.columns[clock.target].data
        if not surely_on_time(clock, low, high, after):
            scan_watermarks(data, valid, block.rows, before, clock.bound, clock.steady, target)
            block.without_watermark = 0
        elif block.without_watermark < block.rows:
            clear_watermarks(block_address, clock.target)
    block.watermark = after
    return after


@compiled
def observe_column(clock_address, channel_address, block_address):
    """`observe_block` for times that are a column of the block."""
    times = BlockRecord(block_address).columns[ClockRecord(clock_address).column]
    return observe_block(clock_address, channel_address, block_address, times.data, times.valid)


class SourceClock:
    """Keeps the largest time of each channel of a source and writes the watermarks of its rows."""

    def __init__(self, source: Source, capacity: int, compiled: bool) -> None:
        assert source.clock is not None
        self.source, clock = source, source.clock
        self._time = clock.time
        self._channels: dict[str, Any] = {}
        names = source.schema.names
        self._kernel: Kernel | None = None
        self._record = ClockRecord.allocate(behind=len(clock.windows) * 2 * i64.size)
        record = self._record
        record.bound, record.exact, record.steady = clock.bound, clock.exact, clock.steady
        record.target = names.index(WATERMARK) if WATERMARK in names else -1
        record.kept = names.index(TIME) if TIME in names else -1
        record.count = len(clock.windows)
        for k, window in enumerate(clock.windows):
            record.cells[2 * k], record.cells[2 * k + 1] = window.cells
        record.farthest = min([FARTHEST, *(window.farthest for window in clock.windows)])
        if isinstance(clock.time, Column):
            record.column = names.index(clock.time.name)
        else:
            self._kernel = Kernel(time_chain(source), capacity, compiled)
        self._observe = observe_block if compiled else interpreted(observe_block)

    def observe(self, block: Block, channel: str) -> int:
        """Write the watermarks of a block's rows; gives the watermark after the last one."""
        if self._kernel is None:
            times = block.column(self._record.column)
        else:
            times = self._computed_times(block).column(0)
        given = self.address, self.channel_address(channel), block.address
        with self.explaining():
            return self._observe(*given, times.data, times.valid)

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Errors of the clock, as the user should see them."""
        try:
            yield
        except OverflowError:
            raise DataError(
                f"{self.source.written}: a time in {self._time} is out of range\n"
                "  fix: correct such rows before with_watermark, e.g. with hr.when(...)"
            ) from None

    @property
    def reads_a_column(self) -> bool:
        """Is the time a column of the source, which compiled code finds by itself?"""
        return self._kernel is None

    @property
    def address(self) -> int:
        """The ClockRecord, for compiled code."""
        return self._record.address

    def channel_address(self, name: str) -> int:
        """The ChannelRecord of a channel, for compiled code."""
        return self._channel(name).address

    def _computed_times(self, block: Block) -> Block:
        kernel = self._kernel
        assert kernel is not None
        kernel.outputs[MAIN].clear()
        kernel.start(block)
        try:
            kernel.run()
        except Exception as error:
            explain_failure(kernel, error)
        return kernel.outputs[MAIN]

    def _channel(self, name: str) -> Any:
        found = self._channels.get(name)
        if found is None:
            found = self._channels[name] = ChannelRecord.allocate()
            found.largest = found.settled = NEVER
        return found

    def settle(self, channel: str) -> int:
        """A batch of a channel is over; gives the watermark behind it."""
        found = self._channel(channel)
        found.settled = found.largest
        return NEVER if found.largest == NEVER else found.largest - self._record.bound

    def saved(self) -> dict[str, int]:
        """The largest time of each channel."""
        return {name: channel.largest for name, channel in self._channels.items()}

    def restored(self, saved: dict[str, int]) -> None:
        """Take up what `saved` gave."""
        for name, largest in saved.items():
            channel = self._channel(name)
            channel.largest = channel.settled = largest


def time_chain(source: Source) -> Chain:
    """The event time of each row as a column of its own."""
    assert source.clock is not None
    schema = Schema((Field("time", type_of(source.clock.time, source.given)),))
    columns = (("time", source.clock.time),)
    site = source.clock.site
    node = Project((source,), schema, f"{source.name}.time", site=site, columns=columns)
    return Chain((node,), source.schema)
