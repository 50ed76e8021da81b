"""Units without a kernel: they hand on what others give, in the right order.

PASS    several operators as one stream, inside a replica
MERGE   the replicas of a replicated stage, split by split
MIX     the same, rows in any order
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
from headrace.node.port import END, MARKER, SETTLED, SPLIT, WATERMARK, Mark, Port, peek
from headrace.node.port import ROWS as ROW_SLICE
from headrace.node.running import at_rows, next_input, pass_mark
from headrace.node.splits import ENDED, STOPPED
from headrace.node.ticks import now
from headrace.node.unit import (
    BLOCKED,
    FINISH,
    FINISHED,
    GO_ON,
    HOST,
    MAIN,
    MARKING,
    MIX,
    NEXT,
    ROWS,
    STARVED,
    WRITE,
    Edge,
    Output,
    QueryRecord,
    Run,
    is_cancelled,
)
from headrace.stage.clock import FOREVER
from headrace.stage.memory.atomics import store_relaxed
from headrace.stage.memory.records import compiled, i64, i64s, line, record


@compiled
def run_pass(worker, unit):
    """Hand on rows and marks."""
    run = Run(unit.run)
    while True:
        if is_cancelled(unit):
            return FINISHED
        if run.phase == MARKING:
            answer = pass_mark(worker, unit)
            if answer != GO_ON:
                return answer
        elif next_input(unit) < 0:
            return STARVED
        elif at_rows(worker, unit) and not pass_rows(worker, unit):
            return BLOCKED


@compiled
def pass_rows(worker, unit):
    """Hand on the slice that was peeked; False: no room."""
    run = Run(unit.run)
    slice, output = run.slice, Output(run.outputs)[MAIN]
    first, last = slice.first, slice.last
    if first < last:
        if not has_places(worker, output):
            return False
        unit.rows_in += last - first
        hand_on(worker, output, slice.block, first, last, last, slice.serial, slice.due)
    finish_slice(worker, Port(Edge(unit.edges)[run.reading].port), slice, last - first)
    return True


@record
class MergeRecord:
    """What a merge knows of the channels behind its replicas."""

    serial: i64 = line()  # of the split whose turn it is
    channels: i64
    open: i64  # channels that have not ended
    stopped: i64
    watermarks: i64  # address of the watermark of each channel
    sent: i64  # the watermark that was handed on


@compiled
def run_merge(worker, unit):
    """Hand on what replicas give: split by split, in order, so that rows keep the order of their
    channel (Ordered, definition 5.1); or, as MIX, rows as they come and the ends of splits in
    order, where nobody was promised more."""
    run = Run(unit.run)
    while True:
        if is_cancelled(unit):
            return FINISHED
        if run.phase == MARKING:
            answer = mark_split(worker, unit)
        else:
            serial = MergeRecord(run.task).serial
            mixes = unit.kind == MIX
            place = edge_that_may_go(unit, serial) if mixes else edge_in_turn(unit, serial)
            answer = take_from(worker, unit, place)
        if answer != GO_ON:
            return answer


@compiled
def mark_split(worker, unit):
    """Hand on a mark of a replica; three may follow the last rows of a split."""
    run = Run(unit.run)
    output = Output(run.outputs)[MAIN]
    if not has_places(worker, output):
        return BLOCKED
    if split_is_over(worker, run, MergeRecord(run.task), output):
        unit.finished = ENDED
        return FINISHED
    return GO_ON


@compiled
def take_from(worker, unit, place):
    """Take what was peeked at an edge (-1: none): rows are handed on, a mark comes next."""
    if place < 0:
        return STARVED
    run = Run(unit.run)
    slice = run.slice
    if slice.kind == ROW_SLICE:
        return GO_ON if pass_rows(worker, unit) else BLOCKED
    keep_mark(run.mark, slice)
    finish_mark(worker, Port(Edge(unit.edges)[place].port), slice)
    run.phase = MARKING
    return GO_ON


@compiled
def edge_in_turn(unit, serial):
    """The edge whose next slice belongs to the split whose turn it is, or -1."""
    run = Run(unit.run)
    edges = Edge(unit.edges)
    for k in range(unit.edge_count):
        place = (unit.turn + k) % unit.edge_count
        if peek(Port(edges[place].port), run.slice) and run.slice.serial == serial:
            run.reading, unit.turn = place, place
            return place
    return -1


@compiled
def edge_that_may_go(unit, serial):
    """An edge with something that need not wait, or -1: the end of a split has its turn."""
    run = Run(unit.run)
    edges = Edge(unit.edges)
    for k in range(unit.edge_count):
        place = (unit.turn + k) % unit.edge_count
        if peek(Port(edges[place].port), run.slice):
            if run.slice.kind != SPLIT or run.slice.serial == serial:
                run.reading, unit.turn = place, place + 1
                return place
    return -1


@compiled
def split_is_over(worker, run, merge, output):
    """Turn the mark of a split into what comes behind it: the watermark over all channels, that it
    is settled, and the end, one in each call since each needs a place. Is it the end?"""
    mark, watermarks = run.mark, i64s(merge.watermarks)
    if mark.kind == MARKER:  # on its way through the split
        give_mark(worker, output, mark)
        run.phase = NEXT
        return False
    if mark.kind == SPLIT:
        merge.serial += 1
        if mark.ended != 0:
            merge.open -= 1
            merge.stopped = max(merge.stopped, 1 if mark.ended == STOPPED else 0)
        watermarks[mark.channel] = FOREVER if mark.ended == ENDED else mark.value
        least = FOREVER
        for k in range(merge.channels):
            least = min(least, watermarks[k])
        mark.kind = SETTLED
        if merge.open > 0 and least > merge.sent:
            merge.sent = least
            due = mark.due
            mark.kind, mark.value, mark.due = WATERMARK, least, 0
            give_mark(worker, output, mark)
            mark.kind, mark.due = SETTLED, due
        return False
    if mark.kind == SETTLED:
        give_mark(worker, output, mark)
        if merge.open > 0:
            run.phase = NEXT
        mark.kind = END
        mark.value = STOPPED if merge.stopped != 0 else ENDED
        return False
    mark.due = 0
    give_mark(worker, output, mark)
    return True


@compiled
def note_latency(unit, ns):
    """All results of a split have come; if there were any, they took so long."""
    note(Histogram(unit.latency), ns)
    store_relaxed(QueryRecord(unit.query), "transit", ns)
    if unit.rows_in > unit.marked:
        unit.marked = unit.rows_in
        note(Histogram(unit.result_latency), ns)


@compiled
def run_sink(worker, unit):
    """Rows are for the host, and so is the end of the last input."""
    run = Run(unit.run)
    while True:
        if is_cancelled(unit):
            return FINISHED
        if run.phase == ROWS:  # the host has written them
            run.phase = NEXT
        elif next_input(unit) < 0:
            look_again(unit)
            return STARVED
        elif run.slice.kind == ROW_SLICE and run.slice.first < run.slice.last:
            if wait_for_more(unit, run.slice):
                return STARVED
            unit.rows_in += run.slice.last - run.slice.first
            run.phase, run.request = ROWS, WRITE
            return HOST
        slice, port = run.slice, Port(Edge(unit.edges)[run.reading].port)
        if slice.kind == ROW_SLICE:
            finish_slice(worker, port, slice, slice.last - slice.first)
            continue
        kind, due = slice.kind, Mark(slice.mark).due
        if kind == SETTLED and due != 0:
            note_latency(unit, now() - due)
        elif kind == MARKER:
            note(Histogram(unit.markers), now() - due)
        finish_mark(worker, port, slice)
        if kind == END:
            unit.ended += 1
            if unit.ended == unit.edge_count:
                run.request = FINISH
                return HOST
