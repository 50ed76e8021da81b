"""Units without a kernel: they hand on what others give, in the right order.

PASS    several operators as one stream, inside a slot
MERGE   the slots of a replicated stage, split by split
SINK    the end: how long things took is noted, rows are for the host
"""

from __future__ import annotations

from headrace.node.emit import (
    finish_mark,
    finish_slice,
    give_mark,
    hand_on,
    has_places,
    keep_mark,
    look_again,
    wait_for_more,
)
from headrace.node.histogram import Histogram, note
from headrace.node.port import END, MARKER, SETTLED, SPLIT, WATERMARK, Port, peek
from headrace.node.port import ROWS as ROW_SLICE
from headrace.node.running import next_input, pass_mark, take_mark
from headrace.node.splits import ENDED, STOPPED
from headrace.node.ticks import now
from headrace.node.unit import (
    BLOCKED,
    FINISH,
    FINISHED,
    GO_ON,
    HOST,
    MARKING,
    NEXT,
    ROWS,
    STARVED,
    WRITE,
    Edge,
    is_cancelled,
)
from headrace.stage.clock import FOREVER
from headrace.stage.memory.records import compiled, i64, i64s, line, record


@compiled
def run_pass(worker, unit):
    """Hand on rows and marks."""
    while True:
        if is_cancelled(unit):
            return FINISHED
        if unit.phase == MARKING:
            answer = pass_mark(worker, unit)
            if answer != GO_ON:
                return answer
            continue
        if next_input(unit) < 0:
            return STARVED
        slice = unit.slice
        port = Port(Edge(unit.edges)[unit.reading].port)
        if slice.kind != ROW_SLICE:
            keep_mark(unit.mark, slice)
            finish_mark(worker, port, slice)
            unit.phase = take_mark(unit)
        elif not pass_rows(worker, unit, port):
            return BLOCKED


@compiled
def pass_rows(worker, unit, port):
    """Hand on the slice that was peeked; False: no room."""
    slice = unit.slice
    first, last = slice.first, slice.last
    if first < last:  # none: all was read before, and it has ended to grow
        if not has_places(worker, unit.main):
            return False
        unit.rows_in += last - first
        hand_on(worker, unit.main, slice.block, first, last, last, slice.serial)
    finish_slice(worker, port, slice, slice.last - slice.first)
    return True


@record
class MergeRecord:
    """What a merge knows of the channels behind its slots."""

    serial: i64 = line()  # of the split whose turn it is
    channels: i64
    open: i64  # channels that have not ended
    stopped: i64
    watermarks: i64  # address of the watermark of each channel
    sent: i64  # the watermark that was handed on


@compiled
def run_merge(worker, unit):
    """Hand on what slots give, split by split, in order: rows keep the order of their channel
    (Ordered, definition 5.1)."""
    merge = MergeRecord(unit.task)
    while True:
        if is_cancelled(unit):
            return FINISHED
        if unit.phase == MARKING:  # three marks may follow the last rows of a split
            if not has_places(worker, unit.main):
                return BLOCKED
            if split_is_over(worker, unit, merge):
                unit.finished = ENDED
                return FINISHED
            continue
        place = edge_in_turn(unit, merge.serial)
        if place < 0:
            return STARVED
        slice, port = unit.slice, Port(Edge(unit.edges)[place].port)
        if slice.kind != ROW_SLICE:
            keep_mark(unit.mark, slice)
            finish_mark(worker, port, slice)
            unit.phase = MARKING
        elif not pass_rows(worker, unit, port):
            return BLOCKED


@compiled
def edge_in_turn(unit, serial):
    """The edge whose next slice belongs to the split whose turn it is, or -1."""
    edges = Edge(unit.edges)
    for k in range(unit.edge_count):
        place = (unit.turn + k) % unit.edge_count
        if peek(Port(edges[place].port), unit.slice) and unit.slice.serial == serial:
            unit.turn = place
            return place
    return -1


@compiled
def split_is_over(worker, unit, merge):
    """Turn the mark of a split into what comes behind it: the watermark over all channels, that it
    is settled, and the end, one in each call since each needs a place. Is it the end?"""
    mark, marks = unit.mark, i64s(merge.watermarks)
    if mark.kind == MARKER:  # on its way through the split
        give_mark(worker, unit.main, mark)
        unit.phase = NEXT
        return False
    if mark.kind == SPLIT:
        merge.serial += 1
        if mark.ended != 0:
            merge.open -= 1
            merge.stopped = max(merge.stopped, 1 if mark.ended == STOPPED else 0)
        marks[mark.channel] = FOREVER if mark.ended == ENDED else mark.value
        least = FOREVER
        for k in range(merge.channels):
            least = min(least, marks[k])
        mark.kind = SETTLED
        if merge.open > 0 and least > merge.sent:
            merge.sent = least
            due = mark.due
            mark.kind, mark.value, mark.due = WATERMARK, least, 0
            give_mark(worker, unit.main, mark)
            mark.kind, mark.due = SETTLED, due
        return False
    if mark.kind == SETTLED:
        give_mark(worker, unit.main, mark)
        if merge.open > 0:
            unit.phase = NEXT
        mark.kind = END
        mark.value = STOPPED if merge.stopped != 0 else ENDED
        return False
    mark.due = 0
    give_mark(worker, unit.main, mark)
    return True


@compiled
def note_latency(unit, ns):
    """All results of a split have come; if there were any, they took so long."""
    note(Histogram(unit.latency), ns)
    if unit.rows_in > unit.marked:
        unit.marked = unit.rows_in
        note(Histogram(unit.result_latency), ns)


@compiled
def run_sink(worker, unit):
    """Rows are for the host, and so is the end of the last input."""
    while True:
        if is_cancelled(unit):
            return FINISHED
        if unit.phase == ROWS:  # the host has written them
            unit.phase = NEXT
        elif next_input(unit) < 0:
            look_again(unit)
            return STARVED
        elif unit.slice.kind == ROW_SLICE and unit.slice.first < unit.slice.last:
            if wait_for_more(unit):
                return STARVED
            unit.rows_in += unit.slice.last - unit.slice.first
            unit.phase, unit.request = ROWS, WRITE
            return HOST
        slice, port = unit.slice, Port(Edge(unit.edges)[unit.reading].port)
        if slice.kind == ROW_SLICE:
            finish_slice(worker, port, slice, slice.last - slice.first)
            continue
        kind = slice.kind
        if kind == SETTLED and slice.block != 0:
            note_latency(unit, now() - slice.block)
        elif kind == MARKER:
            note(Histogram(unit.markers), now() - slice.block)
        finish_mark(worker, port, slice)
        if kind == END:
            unit.ended += 1
            if unit.ended == unit.edge_count:
                unit.request = FINISH
                return HOST
