"""Splits: a replica claims the next rows of a channel.

A watermark is a function of all rows of a channel before it, so who claims a split must know the
largest time before its first row. The claim itself looks at the times of the rows that it hands
out: a quick pass over one column, under the channel's lock, while the work on the rows is done by
the replicas in parallel. Splits are numbered in the order of their claims.

Rows come from the host as Arrow batches: the READER of a channel polls its connector, on a thread
of the host, and leaves an *offer*. Who claims and finds the last batch used up takes the offer, and
lets the reader read on: a batch is read while the one before it is worked on.

Rows that come at a rate make small splits where nothing waits, and each costs all units of the
query a run and its sinks a call of Python. So, as in Nagle's algorithm, where splits take long to
the sinks the next one waits for more rows (`enough_at`): who is late makes fewer splits, and larger
ones, instead of a queue of small ones.

Times that are computed from other columns, or may be null, are computed when their rows are
claimed (`Timer`), once; where the rows are filled in, the watermarks follow from what was noted.
"""

from __future__ import annotations

from headrace.node.blocks import FeedUsers
from headrace.node.pace import Pace, due_time, next_due, rows_due
from headrace.node.schedulers.hooks import ready
from headrace.node.ticks import now
from headrace.node.unit import FAILED_TIME, FINISHED, GO_ON, HOST, MAIN, STARVED, QueryRecord, Run
from headrace.stage.blocks.arrow_text import FeedRecord
from headrace.stage.blocks.layout import BlockRecord
from headrace.stage.clock import (
    FOREVER,
    NEVER,
    TIME_BYTES,
    ChannelRecord,
    ClockRecord,
    time_range,
)
from headrace.stage.memory.atomics import (
    cas,
    fetch_add,
    load_acquire,
    load_relaxed,
    load_sc,
    pause,
    store_relaxed,
    store_release,
    store_sc,
)
from headrace.stage.memory.calls import call
from headrace.stage.memory.instructions import copy_bytes
from headrace.stage.memory.records import compiled, i64, i64s, line, record
from headrace.stage.task import NOT_SELECTED, Task

SPINS = 2000  # looks at a channel that another replica is claiming from; tens of microseconds
SOON = 50_000  # ns after which a replica tries again that found all channels taken
LONGEST_WAIT = 5_000_000  # ns that rows which come at a rate wait for others
FULL_SPLITS = 16  # this part of the largest split, a block, waits for no others
LATER = 1 << 62  # ns: when somebody tells
ENDED, STOPPED = 1, 2  # how a channel ends: its source has no more, or we read no more


@record
class Request:
    """What `fill` and the clock work on: rows of a feed into a block."""

    block: i64
    feed: i64
    offset: i64
    count: i64
    clock: i64  # 0: the source has none
    channel: i64
    shift: i64  # added to the column `moved`
    moved: i64
    times: i64  # where the times of the rows lie; 0: in a column of the block
    valid: i64  # and whether they are there; 0: all are


@record
class Offer:
    """A batch that the host has read. Written by the host before it is seen."""

    feed: i64 = line()
    rows: i64
    users: i64  # address of its FeedUsers
    ended: i64  # no more rows come behind these
    reached: i64  # the time that the channel has come to without rows, or NEVER
    fill: i64  # address of the function that fills and observes; depends on the columns
    times: i64  # the feed of the columns that the times are computed from


@record
class Timer:
    """How times are computed; used by who has the channel's lock."""

    rows: i64 = line()  # fixed: address of the kernel
    task: i64  # fixed: its Task
    fill: i64  # fixed: address of the function that fills its input
    input: i64  # fixed: address of a block for the columns it reads,
    output: i64  # fixed: and of one for the times
    nullable: i64  # fixed: may a time be null?
    moved: i64  # fixed: the column that is moved in every round; -1: none
    request: Request = line()


@record
class ChannelFeed:
    """A channel of a source, shared by the replicas; `locked` guards the others."""

    locked: i64 = line()
    offer: i64 = line()  # the Offer that comes next; 0: the host is still reading
    feed: i64 = line()  # the rows that are being claimed
    offset: i64  # of the next row to be claimed
    end: i64
    users: i64  # address of their FeedUsers
    ended: i64  # no more rows come behind these
    fill: i64
    times: i64
    over: i64 = line()  # its end was claimed
    largest: i64 = line()  # time so far
    claimed: i64  # rows so far
    shift: i64  # of the times in this round
    wake_at: i64  # ns: ask not before
    silent_at: i64  # ns: when it has brought nothing for too long
    ending: i64  # the host has come to its end, and brings no rows with it
    source: i64 = line()  # fixed: its number
    reader: i64  # fixed: the number of the unit that polls it; -1: nobody has to
    clock: i64
    time: i64  # the column with the time, or -1
    timer: i64  # how the time is computed; 0: it is a column
    pace: i64  # 0: as fast as possible
    moved: i64  # the column that is moved in every round
    rounds: i64  # 1: when all rows are claimed, they come again
    span: i64  # and their times are so much later
    count: i64  # of rows in all; -1: no end
    markers: i64  # the MarkerClock of its source
    idle: i64  # ns that it may bring nothing before others carry it along; 0: as long as it likes


@record
class MarkerClock:
    """When the next marker of a source is due; whoever moves it on sends one."""

    at: i64 = line()  # ns


@record
class SplitsRecord:
    """What the replicas of a source stage share."""

    serial: i64 = line()  # of the next split
    count: i64 = line()  # fixed: of channels
    channels: i64
    rows: i64  # of a split, at most
    replicas: i64  # that claim splits: with one, what it has read is known
    peers: i64  # addresses of the channels that carry those along that are silent
    peer_count: i64


@record
class SplitRecord:
    """The split that a replica works on."""

    shared: i64 = line()  # fixed
    replica: i64  # fixed: its number
    turn: i64  # the channel to look at first
    channel: i64  # its number
    users: i64
    fill: i64
    end: i64
    serial: i64
    ended: i64
    due: i64  # ns: when its last row was; 0: it has no rows
    since: i64  # ns: when its first row was due
    marker: i64  # since when the marker is on its way that is to be sent next; 0: there is none
    marked: i64  # the row before which the last one was sent
    first: i64  # row of the split in its feed
    times: i64  # fixed: memory for the times of its rows, where they are computed,
    valid: i64  # fixed: and for their validity
    clock: ChannelRecord = line()
    request: Request


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
def claim(worker, unit, split, draining):
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
        silent_at = load_relaxed(channel, "silent_at")
        if min(later, marker_at, silent_at) > moment and draining == 0:
            wake = sooner(wake, min(later, marker_at, silent_at))
            continue
        if not lock(channel):
            wake = moment + SOON
            continue
        if channel.over != 0:
            unlock(channel)
            continue
        split.channel = place
        if later > moment and draining == 0:  # no rows, but a marker or a watermark may be due
            lifted = channel.idle != 0 and lift(shared, channel, moment)
            if lifted or marker_at <= moment:
                take_nothing(shared, channel, split)
                unlock(channel)
                return GO_ON
            unlock(channel)
            wake = sooner(wake, min(later, marker_at))
            continue
        begin_round(channel)
        if channel.offset == channel.end and channel.ended == 0 and draining == 0:
            if not take_offer(worker, channel):
                wake = sooner(wake, max(marker_at, moment + 1))
                unlock(channel)
                continue
        split.turn = place + 1
        taken = take_rows(unit, channel, split, draining, moment)
        if taken < 0:
            unlock(channel)
            Run(unit.run).request = FAILED_TIME
            return HOST
        if taken > 0:
            unlock(channel)
            return GO_ON
        wake = sooner(wake, min(channel.wake_at, max(marker_at, moment + 1)))
        unlock(channel)
    unit.wake_at = wake
    return STARVED if open > 0 else FINISHED


@compiled
def are_over(shared):
    """Was the end of all channels claimed?"""
    channels = ChannelFeed(shared.channels)
    for k in range(shared.count):
        over = load_relaxed(channels[k], "over")
        if over == 0:
            return False
    return True


@compiled
def sooner(wake, later):
    """The sooner of two times; 0 is none."""
    return later if wake == 0 else min(wake, later)


@compiled
def take_offer(worker, channel):
    """Go on with the batch that the host has read, and let it read the next one. False: there is
    none yet; who brings it will tell."""
    address = load_acquire(channel, "offer")
    if address == 0:
        store_sc(channel, "wake_at", LATER)  # then look again: the host writes the other way round
        address = load_sc(channel, "offer")
        if address == 0:
            return False
    offer = Offer(address)
    channel.feed, channel.offset, channel.end = offer.feed, 0, offer.rows
    channel.users, channel.ended = offer.users, offer.ended
    channel.fill, channel.times = offer.fill, offer.times
    channel.largest = max(channel.largest, offer.reached)
    store_relaxed(channel, "wake_at", 0)
    store_release(channel, "offer", 0)
    if channel.ended == 0:
        ready(worker, channel.reader)
    return True


@compiled
def make_offer(channel, offer):
    """By the host: let others claim what it has read."""
    store_sc(channel, "offer", offer)
    store_sc(channel, "wake_at", 0)


@compiled
def take_nothing(shared, channel, split):
    """Claim no rows of a channel that is ours: a split for a marker alone."""
    split.request.offset = split.end = channel.offset
    split.users, split.clock.largest = 0, channel.largest
    split.ended, split.due = 0, 0
    split.serial = fetch_add(shared, "serial", 1)


@compiled
def is_silent(channel, moment):
    """Has the channel brought nothing for too long, and is nothing there to be claimed?"""
    silent_at = load_relaxed(channel, "silent_at")
    later = load_relaxed(channel, "wake_at")
    ending = load_relaxed(channel, "ending")
    return silent_at <= moment and (later > moment or ending != 0)


@compiled
def lift(shared, channel, moment):
    """Carry a channel along that is ours and silent: its watermark becomes the least of its peers
    that are not. Has it moved? Where all are silent nothing does."""
    if not is_silent(channel, moment):
        return False
    peers, least = i64s(shared.peers), FOREVER
    for k in range(shared.peer_count):
        peer = ChannelFeed(peers[k])
        over = load_relaxed(peer, "over")
        if over != 0 or peer.clock == 0 or is_silent(peer, moment):
            continue
        largest = load_relaxed(peer, "largest")  # of rows that were claimed, so it holds
        if largest == NEVER:
            return False
        least = min(least, largest - ClockRecord(peer.clock).bound)
    if least == FOREVER:
        return False
    largest = least + ClockRecord(channel.clock).bound
    if largest <= channel.largest:
        return False
    channel.largest = largest
    return True


@compiled
def begin_round(channel):
    """All rows were claimed, and come again, later."""
    if channel.rounds != 0 and channel.offset == channel.end and channel.end > 0:
        channel.offset = 0
        channel.shift += channel.span


@compiled
def take_rows(unit, channel, split, draining, moment):
    """Claim rows of a channel that is ours: how many splits? 0: not yet; -1: the time of a row
    cannot be computed."""
    shared = SplitsRecord(split.shared)
    left = channel.end - channel.offset if draining == 0 else 0
    if channel.rounds != 0 and channel.count >= 0:
        left = min(left, channel.count - channel.claimed)
    count = min(shared.rows, left)
    split.due = split.since = moment
    if channel.pace != 0 and left > 0:
        pace = Pace(channel.pace)
        count = min(count, rows_due(pace, moment) - channel.claimed)
        if count <= 0:
            channel.wake_at = next_due(pace, channel.claimed)
            return 0
        split.since = due_time(pace, channel.claimed)
        if count < left and count * FULL_SPLITS < shared.rows:
            channel.wake_at = enough_at(unit, channel, split.since)
            if channel.wake_at > moment:
                return 0
        split.due = due_time(pace, channel.claimed + count - 1)
    request = split.request
    request.feed, request.offset, request.clock = channel.feed, channel.offset, channel.clock
    request.shift, request.moved = channel.shift, channel.moved
    request.times, request.valid = 0, 0
    split.first, split.end, split.fill = channel.offset, channel.offset + count, channel.fill
    split.users, split.clock.largest = 0, channel.largest
    if count > 0:
        if channel.idle != 0:
            channel.silent_at = moment + channel.idle
        if channel.timer != 0:
            if not compute_times(channel, split, count):
                return -1
        elif channel.time >= 0 and shared.replicas > 1:
            channel.largest = max(channel.largest, largest_time(channel, count))
        split.users = channel.users
        fetch_add(FeedUsers(channel.users), "count", 1)
    channel.offset += count
    channel.claimed += count
    ended = channel.ended != 0 and channel.offset == channel.end
    if channel.rounds != 0 and channel.claimed == channel.count:
        ended = True
    split.ended = ENDED if ended else (STOPPED if draining != 0 else 0)
    if split.ended != 0:
        channel.over = 1
    split.serial = fetch_add(shared, "serial", 1)
    return 1


@compiled
def enough_at(unit, channel, since):
    """When rows that come at a rate, the first of them since then, are enough for a split. They
    wait for others half as long as the last split was on its way, at most, and never until the
    channel seems silent."""
    transit = load_relaxed(QueryRecord(unit.query), "transit")
    return min(since + min(transit // 2, LONGEST_WAIT), channel.silent_at)


@compiled
def compute_times(channel, split, count):
    """Compute the times of the next rows, and note them; False: that of a row failed."""
    timer = Timer(channel.timer)
    task, block = Task(timer.task), BlockRecord(timer.input)
    output = BlockRecord(timer.output)
    start = 0
    while start < count:
        some = min(block.capacity, count - start)
        fill = timer.request
        fill.block, fill.feed, fill.offset = timer.input, channel.times, channel.offset + start
        fill.count, fill.shift, fill.moved = some, channel.shift, timer.moved
        if timer.moved < 0:
            fill.shift = 0
        call(timer.fill, fill.address)
        task.input, task.first, task.last, task.row = timer.input, 0, some, 0
        task.selected, task.outputs[MAIN] = NOT_SELECTED, timer.output
        output.rows = 0
        status, _ = call(timer.rows, timer.task)
        if status != 0:
            return False
        times = output.columns[0]
        _, high = time_range(times.data, times.valid, some)
        channel.largest = max(channel.largest, high)
        copy_bytes(split.times + start * TIME_BYTES, times.data, some * TIME_BYTES)
        if times.valid != 0:
            copy_bytes(split.valid + start, times.valid, some)
        start += some
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
