"""Sources: a replica copies the rows of the split that it has claimed (`splits`) into blocks.

Every 50 ms a marker goes from each source to the sinks behind it (Enjima §4): between two blocks of
a split, however long it is, and where there are no rows, in a split without any.
"""

from __future__ import annotations

from headrace.node.blocks import FeedUsers, NodeBlock
from headrace.node.emit import find_block, give_mark, hand_on, has_places, let_go
from headrace.node.port import MARKER, SPLIT
from headrace.node.readers import borrow
from headrace.node.schedulers.hooks import EngineRecord
from headrace.node.splits import (
    ChannelFeed,
    MarkerClock,
    Request,
    SplitRecord,
    SplitsRecord,
    Timer,
    are_over,
    claim,
)
from headrace.node.ticks import now
from headrace.node.unit import (
    AGAIN,
    BLOCKED,
    FAILED,
    FINISHED,
    GO_ON,
    HOST,
    MORE,
    NEXT,
    POLL,
    ROWS,
    STARVED,
    Output,
    QueryRecord,
    Run,
    is_cancelled,
)
from headrace.stage.blocks.arrow import fill_block, lend_block
from headrace.stage.blocks.layout import BlockRecord
from headrace.stage.clock import (
    FOREVER,
    NEVER,
    TIME_BYTES,
    ClockRecord,
    observe_block,
    observe_column,
)
from headrace.stage.memory.atomics import cas, fetch_add, load_acquire, load_relaxed
from headrace.stage.memory.calls import call
from headrace.stage.memory.records import compiled, i64s

MARKER_PERIOD = 50_000_000  # ns between two markers of a source
REST = 2_000_000  # ns until a replica that nobody has the time for looks again


@compiled
def fill_lent(address):
    """Rows whose columns are all as in a block, and what they say about time."""
    request = Request(address)
    changed = request.moved if request.shift != 0 else -1
    lend_block(request.block, request.feed, request.offset, request.count, changed)
    return observe(request)


@compiled
def fill_mixed(address):
    """Rows with columns of any kind, and what they say about time."""
    request = Request(address)
    changed = request.moved if request.shift != 0 else -1
    fill_block(request.block, request.feed, request.offset, request.count, changed)
    return observe(request)


@compiled
def observe(request):
    """Move the times of a round, and write the watermarks where the source has a clock."""
    if request.shift != 0:
        move_times(request.block, request.moved, request.count, request.shift)
    if request.times != 0:
        where = request.block
        observe_block(request.clock, request.channel, where, request.times, request.valid)
    elif request.clock != 0:
        observe_column(request.clock, request.channel, request.block)
    return 0


@compiled
def move_times(block, column, count, shift):
    """The times of a later round."""
    times = i64s(BlockRecord(block).columns[column].data)
    for row in range(count):
        times[row] += shift


@compiled
def run_source(worker, unit):
    """Work on a split; claim one first, if there is none."""
    if is_cancelled(unit):
        return FINISHED
    run = Run(unit.run)
    query, split = QueryRecord(unit.query), SplitRecord(run.task)
    if run.phase == NEXT:
        draining = load_relaxed(query, "draining")
        if draining == 0 and rests(worker, unit, split):
            return STARVED
        answer = claim(worker, unit, split, draining)
        if answer != GO_ON:
            return answer
        run.phase, split.marked = ROWS, -1
    channel = ChannelFeed(SplitsRecord(split.shared).channels)[split.channel]
    output = Output(run.outputs)[channel.source]
    if not send_marker(worker, unit, split, channel, output):
        return BLOCKED
    if split.request.offset < split.end:
        return give_block(worker, unit, split, channel, output)
    if not end_split(worker, unit, split, channel):
        return BLOCKED
    if SplitsRecord(split.shared).replicas == 1:
        channel.largest = split.clock.largest
    if split.users != 0:
        fetch_add(FeedUsers(split.users), "count", -1)
        split.users = 0
    run.phase = NEXT
    return MORE


@compiled
def rests(worker, unit, split):
    """Are there fewer workers than replicas before it? A worker that goes from one replica to
    another finds neither in the caches of its core. It looks again after a while."""
    active = load_relaxed(EngineRecord(worker.engine), "active")
    if split.replica < active or are_over(SplitsRecord(split.shared)):
        return False
    unit.wake_at = now() + REST
    return True


@compiled
def end_split(worker, unit, split, channel):
    """The rows of the split are over, which all readers hear, also those of other sources: so a
    unit that reads several of them works on one split after the other. False: no room."""
    run = Run(unit.run)
    outputs, mark = Output(run.outputs), run.mark
    for k in range(unit.output_count):
        if not has_places(worker, outputs[k]):
            return False
    mark.kind, mark.serial = SPLIT, split.serial
    mark.channel, mark.ended, mark.due = split.channel, split.ended, split.due
    for k in range(unit.output_count):
        mark.value = watermark_of(channel, split) if k == channel.source else FOREVER
        give_mark(worker, outputs[k], mark)
    return True


@compiled
def send_marker(worker, unit, split, channel, output):
    """Send a marker if one is due, but no two in a row; False: there is no room for it."""
    run = Run(unit.run)
    if split.marker == 0:
        if split.marked == split.request.offset:
            return True
        moment, markers = now(), MarkerClock(channel.markers)
        at = load_relaxed(markers, "at")
        if moment < at or not cas(markers, "at", at, moment + MARKER_PERIOD):
            return True
        split.marker = moment
    if not has_places(worker, output):
        return False
    mark = run.mark
    mark.kind, mark.value, mark.serial = MARKER, 0, split.serial
    mark.channel, mark.ended, mark.due = split.channel, 0, split.marker
    give_mark(worker, output, mark)
    split.marker, split.marked = 0, split.request.offset
    return True


@compiled
def watermark_of(channel, split):
    """The watermark of a channel behind a split."""
    if channel.clock == 0 or split.clock.largest == NEVER:
        return NEVER
    return split.clock.largest - ClockRecord(channel.clock).bound


@compiled
def give_block(worker, unit, split, channel, output):
    """Copy the next rows of the split into a block, and give it to the readers."""
    run = Run(unit.run)
    if not has_places(worker, output) or not find_block(output):
        return BLOCKED
    request, record = split.request, NodeBlock(output.block).block
    request.block = record.address
    request.count = min(record.capacity, split.end - request.offset)
    request.channel = split.clock.address
    if channel.timer != 0:
        past = request.offset - split.first
        request.times = split.times + past * TIME_BYTES
        request.valid = split.valid + past if Timer(channel.timer).nullable != 0 else 0
    if split.users != 0:
        borrow(output.block, split.users)
    status, _ = call(split.fill, request.address)
    if status != 0:
        run.request = FAILED
        return HOST
    request.offset += request.count
    unit.rows_in += request.count
    block, output.block = output.block, 0  # the next rows get one of their own, from its start
    count, serial = request.count, split.serial
    hand_on(worker, output, block, 0, count, count, serial, split.since)
    let_go(worker, block)
    return AGAIN


@compiled
def run_reader(worker, unit):
    """Let the host poll the channel, unless what it brought lies there still."""
    draining = load_relaxed(QueryRecord(unit.query), "draining")
    if is_cancelled(unit) or draining != 0:
        return FINISHED
    run = Run(unit.run)
    channel = ChannelFeed(run.task)
    if run.phase == ROWS:  # the host has polled
        run.phase = NEXT
        return STARVED
    offer = load_acquire(channel, "offer")
    if offer != 0:
        return STARVED
    run.phase, run.request = ROWS, POLL
    return HOST
