"""Sources: a slot claims the next rows of a channel, a *split*, and copies them into blocks.

A watermark is a function of all rows of a channel before it, so who claims a split must know the
largest time before its first row. The claim itself looks at the times of the rows that it hands
out: a quick pass over one column, under the channel's lock, while the work on the rows is done by
the slots in parallel. Splits are numbered in the order of their claims.

Every 50 ms a marker goes from each source to the sinks behind it (Enjima §4): between two blocks of
a split, however long it is, and where there are no rows, in a split without any.

Rows come from the host as Arrow batches (`feed`); when a channel has none left, whoever claims next
asks the host for more (POLL) and keeps the lock meanwhile.
"""

from __future__ import annotations

from headrace.node.blocks import NodeBlock
from headrace.node.emit import find_block, give_mark, hand_on, has_places, let_go
from headrace.node.pace import Pace, due_time, next_due, rows_due
from headrace.node.port import MARKER, SPLIT
from headrace.node.running import ENDED, GO_ON, STOPPED
from headrace.node.ticks import now
from headrace.node.unit import (
    AGAIN,
    BLOCKED,
    FAILED,
    FINISHED,
    HOST,
    MORE,
    NEXT,
    POLL,
    ROWS,
    STARVED,
    Output,
    QueryRecord,
    is_cancelled,
)
from headrace.stage.ahead import Ahead, aim
from headrace.stage.blocks.arrow import copy_block, fill_block
from headrace.stage.blocks.arrow_text import FeedRecord
from headrace.stage.blocks.layout import BlockRecord
from headrace.stage.clock import FOREVER, NEVER, ChannelRecord, ClockRecord, observe_block
from headrace.stage.memory.atomics import cas, fetch_add, load_relaxed, pause, store_release
from headrace.stage.memory.calls import call
from headrace.stage.memory.records import compiled, i64, i64s, line, record

SPINS = 2000  # looks at a channel that another slot is claiming from; tens of microseconds
MARKER_PERIOD = 50_000_000  # ns between two markers of a source
SOON = 50_000  # ns after which a slot tries again that found all channels taken


@record
class Request:
    """What `fill` and the clock work on: rows of a feed into a block."""

    block: i64
    feed: i64
    offset: i64
    count: i64
    clock: i64  # 0: the source has none
    channel: i64
    shift: i64  # added to the times
    time: i64  # their column


@record
class ChannelFeed:
    """A channel of a source, shared by the slots; `locked` guards the others."""

    locked: i64 = line()
    feed: i64 = line()  # the rows that the host has brought
    offset: i64  # of the next row to be claimed
    end: i64
    users: i64  # address of the count of splits that are read from the feed
    ended: i64  # no more rows come behind these
    over: i64  # its end was claimed
    largest: i64 = line()  # time so far
    claimed: i64  # rows so far
    shift: i64  # of the times in this round
    wake_at: i64  # ns: ask not before
    source: i64 = line()  # fixed: its number
    fill: i64  # address of the function that fills and observes; depends on the columns
    clock: i64
    time: i64  # the column with the time, or -1
    pace: i64  # 0: as fast as possible
    moved: i64  # the column that is moved in every round
    rounds: i64  # 1: when all rows are claimed, they come again
    span: i64  # and their times are so much later
    count: i64  # of rows in all; -1: no end
    markers: i64  # the MarkerClock of its source


@record
class MarkerClock:
    """When the next marker of a source is due; whoever moves it on sends one."""

    at: i64 = line()  # ns


@record
class SplitsRecord:
    """What the slots of a source stage share."""

    serial: i64 = line()  # of the next split
    count: i64 = line()  # fixed: of channels
    channels: i64
    rows: i64  # of a split, at most
    slots: i64  # that claim splits: with one, what it has read is known


@record
class SplitRecord:
    """The split that a slot works on."""

    shared: i64 = line()  # fixed
    turn: i64  # the channel to look at first
    channel: i64  # its number
    users: i64
    end: i64
    serial: i64
    ended: i64
    due: i64  # ns; 0: it has no rows
    marker: i64  # since when the marker is on its way that is to be sent next; 0: there is none
    marked: i64  # the row before which the last one was sent
    clock: ChannelRecord = line()
    request: Request


@compiled
def fill_copied(address):
    """Rows whose columns are copied as they are, and what they say about time."""
    request = Request(address)
    copy_block(request.block, request.feed, request.offset, request.count)
    return observe(request)


@compiled
def fill_mixed(address):
    """Rows with columns of any kind, and what they say about time."""
    request = Request(address)
    fill_block(request.block, request.feed, request.offset, request.count)
    return observe(request)


@compiled
def observe(request):
    """Move the times of a round, and write the watermarks where the source has a clock."""
    if request.shift != 0:
        times = i64s(BlockRecord(request.block).columns[request.time].data)
        for row in range(request.count):
            times[row] += request.shift
    if request.clock != 0:
        observe_block(request.clock, request.channel, request.block, request.block)
    return 0


@compiled
def lock(channel):
    """Try for a moment to get the channel."""
    for _ in range(SPINS):
        locked = load_relaxed(channel, "locked")
        if locked == 0 and cas(channel, "locked", 0, 1):
            return True
        pause()
    return False


@compiled
def unlock(channel):
    """Let others claim."""
    store_release(channel, "locked", 0)


@compiled
def run_source(worker, unit):
    """Work on a split; claim one first, if there is none."""
    query, split = QueryRecord(unit.query), SplitRecord(unit.task)
    if is_cancelled(unit):
        return FINISHED
    if unit.phase == NEXT:
        draining = load_relaxed(query, "draining")
        answer = claim(unit, split, draining)
        if answer != GO_ON:
            return answer
        unit.phase, split.marked = ROWS, -1
    channel = ChannelFeed(SplitsRecord(split.shared).channels)[split.channel]
    output = Output(unit.outputs)[channel.source]
    if not send_marker(worker, unit, split, channel, output):
        return BLOCKED
    if split.request.offset < split.end:
        return give_block(worker, unit, split, channel, output)
    if not end_split(worker, unit, split, channel):
        return BLOCKED
    if SplitsRecord(split.shared).slots == 1:
        channel.largest = split.clock.largest
    if split.users != 0:
        fetch_add(FeedUsers(split.users), "count", -1)
    unit.phase = NEXT
    return MORE


@compiled
def end_split(worker, unit, split, channel):
    """The rows of the split are over, which all readers hear, also those of other sources: so a
    unit that reads several of them works on one split after the other. False: no room."""
    outputs, mark = Output(unit.outputs), unit.mark
    for k in range(unit.sources):
        if not has_places(worker, outputs[k]):
            return False
    mark.kind, mark.serial = SPLIT, split.serial
    mark.channel, mark.ended, mark.due = split.channel, split.ended, split.due
    for k in range(unit.sources):
        mark.value = watermark_of(channel, split) if k == channel.source else FOREVER
        give_mark(worker, outputs[k], mark)
    return True


@compiled
def send_marker(worker, unit, split, channel, output):
    """Send a marker if one is due, but no two in a row; False: there is no room for it."""
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
    mark = unit.mark
    mark.kind, mark.value, mark.serial = MARKER, 0, split.serial
    mark.channel, mark.ended, mark.due = split.channel, 0, split.marker
    give_mark(worker, output, mark)
    split.marker, split.marked = 0, split.request.offset
    return True


@record
class FeedUsers:
    """How many splits are being read from a feed; the host keeps its rows until there are none."""

    count: i64 = line()


@compiled
def watermark_of(channel, split):
    """The watermark of a channel behind a split."""
    if channel.clock == 0 or split.clock.largest == NEVER:
        return NEVER
    return split.clock.largest - ClockRecord(channel.clock).bound


@compiled
def give_block(worker, unit, split, channel, output):
    """Copy the next rows of the split into a block, and give it to the readers."""
    if not has_places(worker, output) or not find_block(output):
        return BLOCKED
    request, record = split.request, NodeBlock(output.block).block
    request.block = record.address
    request.count = min(record.capacity, split.end - request.offset)
    request.channel = split.clock.address
    status, _ = call(channel.fill, request.address)
    if status != 0:
        unit.request = FAILED
        return HOST
    request.offset += request.count
    unit.rows_in += request.count
    if output.ahead != 0:
        coming = min(record.capacity, split.end - request.offset)
        aim(Ahead(output.ahead), request.feed, request.offset, coming)
    block, output.block = output.block, 0  # the next rows get one of their own, from its start
    hand_on(worker, output, block, 0, request.count, request.count, split.serial)
    let_go(worker, block)
    return AGAIN


@compiled
def claim(unit, split, draining):
    """Take the next rows of some channel."""
    shared = SplitsRecord(split.shared)
    channels = ChannelFeed(shared.channels)
    moment, wake, open = now(), 0, 0
    for k in range(shared.count):
        place = (split.turn + k) % shared.count
        channel = channels[place]
        over = load_relaxed(channel, "over")
        if over != 0:
            continue
        open += 1
        later = load_relaxed(channel, "wake_at")
        marker_at = load_relaxed(MarkerClock(channel.markers), "at")
        if min(later, marker_at) > moment and draining == 0:
            wake = sooner(wake, min(later, marker_at))
            continue
        if not lock(channel):
            wake = moment + SOON
            continue
        if channel.over != 0:
            unlock(channel)
            continue
        split.channel = place
        if later > moment and draining == 0:  # there are no rows, but a marker is due
            take_nothing(shared, channel, split)
            unlock(channel)
            return GO_ON
        begin_round(channel)
        if channel.offset == channel.end and channel.ended == 0 and draining == 0:
            unit.request = POLL
            return HOST  # with the lock
        split.turn = place + 1
        if take_rows(shared, channel, split, draining, moment):
            unlock(channel)
            return GO_ON
        wake = sooner(wake, min(channel.wake_at, max(marker_at, moment + 1)))
        unlock(channel)
    unit.wake_at = wake
    return STARVED if open > 0 else FINISHED


@compiled
def sooner(wake, later):
    """The sooner of two times; 0 is none."""
    return later if wake == 0 else min(wake, later)


@compiled
def take_nothing(shared, channel, split):
    """Claim no rows of a channel that is ours: a split for a marker alone."""
    split.request.offset = split.end = channel.offset
    split.users, split.clock.largest = 0, channel.largest
    split.ended, split.due = 0, 0
    split.serial = fetch_add(shared, "serial", 1)


@compiled
def begin_round(channel):
    """All rows were claimed, and come again, later."""
    if channel.rounds != 0 and channel.offset == channel.end and channel.end > 0:
        channel.offset = 0
        channel.shift += channel.span


@compiled
def take_rows(shared, channel, split, draining, moment):
    """Claim rows of a channel that is ours; False: none is due yet."""
    left = channel.end - channel.offset if draining == 0 else 0
    if channel.rounds != 0 and channel.count >= 0:
        left = min(left, channel.count - channel.claimed)
    count = min(shared.rows, left)
    split.due = moment
    if channel.pace != 0 and left > 0:
        pace = Pace(channel.pace)
        count = min(count, rows_due(pace, moment) - channel.claimed)
        if count <= 0:
            channel.wake_at = next_due(pace, channel.claimed)
            return False
        split.due = due_time(pace, channel.claimed + count - 1)
    request = split.request
    request.feed, request.offset, request.clock = channel.feed, channel.offset, channel.clock
    request.shift, request.time = channel.shift, channel.moved
    split.end = channel.offset + count
    split.users, split.clock.largest = 0, channel.largest
    if count > 0:
        split.users = channel.users
        fetch_add(FeedUsers(channel.users), "count", 1)
        if channel.time >= 0 and shared.slots > 1:
            channel.largest = max(channel.largest, largest_time(channel, count))
    channel.offset += count
    channel.claimed += count
    ended = channel.ended != 0 and channel.offset == channel.end
    if channel.rounds != 0 and channel.claimed == channel.count:
        ended = True
    split.ended = ENDED if ended else (STOPPED if draining != 0 else 0)
    if split.ended != 0:
        channel.over = 1
    split.serial = fetch_add(shared, "serial", 1)
    return True


@compiled
def largest_time(channel, count):
    """The largest time of the next rows, from the feed itself."""
    column = FeedRecord(channel.feed).columns[channel.time]
    values = i64s(column.source + channel.offset * column.width)
    largest = NEVER
    for row in range(count):
        largest = max(largest, values[row])
    return largest + channel.shift
