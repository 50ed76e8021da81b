"""One run of a unit, compiled: it goes on until it lacks something, and says what (`unit`).

A kernel unit takes slices from its ports in turn. Rows go through the kernel into the block that
is being filled; marks wait until the unit has done its part, then follow the rows:

    SPLIT       inside a slot: the rows of a split are over; partial results are given out
    SETTLED     behind the slots: all rows of a split have gone by
    WATERMARK   behind the slots: windows that it closes are given out first
    MARKER      every 50 ms from each source to the sinks, to see how long it takes (Enjima §4)
    PROGRESS    from an owner: all results up to a place were given (`gathering`)
    END         no more rows will come
"""

from __future__ import annotations

from headrace.node.blocks import NodeBlock
from headrace.node.emit import (
    finish_mark,
    finish_slice,
    give_mark,
    has_places,
    keep_mark,
    publish,
    ready_to_write,
)
from headrace.node.port import END, MARKER, PROGRESS, SETTLED, SPLIT, WATERMARK, Port, peek
from headrace.node.port import ROWS as ROW_SLICE
from headrace.node.readers import retain
from headrace.node.splits import ENDED, STOPPED
from headrace.node.ticks import now
from headrace.node.unit import (
    AGAIN,
    BLOCKED,
    FAILED,
    FINISHED,
    FIRING,
    FLUSHING,
    GO_ON,
    HOST,
    MARKING,
    MORE,
    NEXT,
    NO_MEMORY,
    ROWS,
    SAMPLE_GIVEN,
    SAMPLE_WANTED,
    STARVED,
    Edge,
    is_cancelled,
)
from headrace.stage.clock import FOREVER
from headrace.stage.memory.atomics import load_relaxed, store_release
from headrace.stage.memory.calls import call
from headrace.stage.memory.records import compiled, i64s
from headrace.stage.panes import Panes
from headrace.stage.store import Store
from headrace.stage.task import CONSUMED, NEED_MEMORY, NOT_SELECTED, Task
from headrace.stage.windows import (
    NONE_DUE,
    begin_firing,
    begin_flush,
    closes_windows,
    end_firing,
)

LEAST_REDUCTION = 2  # rows that become one partial result; if they are fewer, there are none
ENOUGH_ROWS = 1024  # of a split, to tell
TRY_EVERY = 16  # splits
PLACES = 1 << 32  # of the rows that one split may become at an exchange


# ---- what comes in -------------------------------------------------------------------------


@compiled
def next_input(unit):
    """The edge with something to read, or -1; it is looked at in `unit.slice`."""
    edges = Edge(unit.edges)
    for k in range(unit.edge_count):
        place = (unit.turn + k) % unit.edge_count
        edge = edges[place]
        if edge.waiting == 0 and peek(Port(edge.port), unit.slice):
            unit.reading, unit.turn = place, place + 1  # the others come first next time
            return place
    return -1


@compiled
def least_watermark(unit):
    """What all edges have reached."""
    edges = Edge(unit.edges)
    least = FOREVER
    for k in range(unit.edge_count):
        least = min(least, edges[k].watermark)
    return least


@compiled
def take_mark(unit):
    """What a mark means for this unit: gives its next phase. NEXT: nothing, it is forgotten."""
    mark, edge = unit.mark, Edge(unit.edges)[unit.reading]
    if mark.kind == SPLIT:
        edge.waiting = 1
        unit.least = mark.value if unit.arrived == 0 else min(unit.least, mark.value)
        unit.arrived += 1
        if unit.arrived < unit.edge_count:
            return NEXT
        unit.arrived, mark.value = 0, unit.least
        unit.serial = mark.serial
        for k in range(unit.edge_count):
            Edge(unit.edges)[k].waiting = 0
        flushes = unit.partial != 0 and mark.value != FOREVER  # else it had no rows of the split
        return FLUSHING if flushes else MARKING
    if mark.kind == MARKER or mark.kind == SETTLED or mark.kind == PROGRESS:
        return MARKING
    if mark.kind == WATERMARK:
        edge.watermark = max(edge.watermark, mark.value)
    else:
        edge.ended = 1
        edge.watermark = FOREVER
        unit.ended += 1
        mark.value = STOPPED if mark.value == STOPPED or unit.finished == STOPPED else ENDED
        if mark.value == STOPPED:
            unit.finished = STOPPED
    over = unit.ended == unit.edge_count
    least = least_watermark(unit)
    if unit.finished == STOPPED:
        least = unit.watermark  # what is open stays open
    if not over and least <= unit.watermark:
        return NEXT
    if not over:
        mark.kind, mark.value = WATERMARK, least
    unit.watermark = least
    fires = unit.advance != 0 and closes_windows(Task(unit.task), least)
    return FIRING if fires else MARKING


# ---- kernels -------------------------------------------------------------------------------


@compiled
def run_kernel(worker, unit):
    """See the top of this file."""
    while True:
        if is_cancelled(unit):
            return FINISHED
        if unit.phase == NEXT:
            answer = begin_input(worker, unit)
        elif unit.phase == ROWS:
            answer = run_rows(worker, unit)
        elif unit.phase == MARKING:
            answer = pass_mark(worker, unit)
        else:
            answer = give_windows(worker, unit)
        if answer != GO_ON:
            return answer


@compiled
def begin_input(worker, unit):
    """Look at what is next, and prepare for it."""
    if next_input(unit) < 0:
        if unit.place > unit.told:  # before it starves
            unit.told, unit.phase = unit.place, MARKING
            unit.mark.kind, unit.mark.value = PROGRESS, unit.place
            return GO_ON
        return STARVED
    slice = unit.slice
    port = Port(Edge(unit.edges)[unit.reading].port)
    if slice.kind != ROW_SLICE:
        keep_mark(unit.mark, slice)
        finish_mark(worker, port, slice)
        unit.phase = take_mark(unit)
        return GO_ON
    if slice.first == slice.last:  # all was read before, and it grows no more
        finish_slice(worker, port, slice, 0)
        return GO_ON
    if worker.left <= 0:
        return MORE
    slice.last = min(slice.last, slice.first + worker.left)
    worker.left -= slice.last - slice.first
    task = Task(unit.task)
    if slice.serial != unit.serial or task.places == 0:
        task.places = slice.serial * PLACES
    task.input = NodeBlock(slice.block).block.address
    task.first, task.last = slice.first, slice.last
    task.row, task.selected = 0, NOT_SELECTED
    unit.serial = slice.serial
    if unit.owned == 0:
        unit.rows_in += slice.last - slice.first
    unit.phase, unit.begun = ROWS, 0
    return GO_ON


@compiled
def bind_outputs(worker, unit):
    """Let the kernel write where there is room; False: there is none."""
    task = Task(unit.task)
    if unit.main.pool != 0:
        if not ready_to_write(worker, unit.main, unit.serial):
            return False
        task.output = NodeBlock(unit.main.block).block.address
    if unit.late.pool != 0:
        if not ready_to_write(worker, unit.late, unit.serial):
            return False
        task.late_output = NodeBlock(unit.late.block).block.address
    return True


@compiled
def publish_all(worker, unit):
    """Give the readers what the kernel has written."""
    publish(worker, unit.main, unit.serial)
    publish(worker, unit.late, unit.serial)


@compiled
def run_rows(worker, unit):
    """Let the kernel work on the slice."""
    if not bind_outputs(worker, unit):
        return BLOCKED
    wanted = load_relaxed(unit, "sampling")
    begun = now() if wanted == SAMPLE_WANTED and unit.begun == 0 else 0
    unit.begun = 1
    status, answer = call(unit.rows, unit.task)
    if status != 0:
        unit.request = FAILED
        return HOST
    ns = now() - begun if begun != 0 else 0
    publish_all(worker, unit)
    if answer == CONSUMED:
        slice = unit.slice
        port = Port(Edge(unit.edges)[unit.reading].port)
        if wanted == SAMPLE_WANTED:
            keep_sample(unit, slice, ns)
        if unit.owned != 0:
            unit.rows_in += Task(unit.task).selected
        if unit.single != 0:
            selected = Task(unit.task).selected
            unit.reached += slice.last - slice.first if selected < 0 else selected
        if unit.place_column >= 0:
            places = NodeBlock(slice.block).block.columns[unit.place_column]
            unit.place = i64s(places.data)[slice.last - 1]
        finish_slice(worker, port, slice, slice.last - slice.first)
        unit.phase = NEXT
        return GO_ON
    if answer == NEED_MEMORY:
        return make_room(unit)
    return AGAIN


@compiled
def make_room(unit):
    """What the kernel lacks, if there is memory for it."""
    status, _ = call(unit.room, unit.task)
    if status != 0:
        unit.request = NO_MEMORY
        return HOST
    return GO_ON


@compiled
def keep_sample(unit, slice, ns):
    """Hold the rows that were just worked on for the host, which measures operators (`sampled`)."""
    retain(slice.block, 1)
    unit.sample_block, unit.sample_first, unit.sample_last = slice.block, slice.first, slice.last
    unit.sample_ns = ns
    store_release(unit, "sampling", SAMPLE_GIVEN)


@compiled
def pass_mark(worker, unit):
    """Hand on a mark behind the rows."""
    if not has_places(worker, unit.main) or not has_places(worker, unit.late):
        return BLOCKED
    give_mark(worker, unit.main, unit.mark)
    give_mark(worker, unit.late, unit.mark)
    unit.phase = NEXT
    if unit.mark.kind != END:
        return GO_ON
    unit.finished = ENDED
    return FINISHED


# ---- windows -------------------------------------------------------------------------------


@compiled
def give_windows(worker, unit):
    """Give out windows: all, as partial results, or those that the watermark has closed."""
    task = Task(unit.task)
    if task.due_count == NONE_DUE:
        if unit.phase == FIRING:
            begin_firing(task, unit.watermark)
        else:
            if unit.single != 0:
                choose_partials(unit, task)
            begin_flush(task)
    if not bind_outputs(worker, unit):
        return BLOCKED
    status, answer = call(unit.advance, unit.task)
    if status != 0:
        unit.request = FAILED
        return HOST
    publish_all(worker, unit)
    if answer == NEED_MEMORY:
        return make_room(unit)
    if answer != CONSUMED:
        return AGAIN
    end_firing(task)
    unit.phase = MARKING
    return GO_ON


@compiled
def choose_partials(unit, task):
    """Partial results that hardly reduce rows are left out: each row goes on by itself for some
    splits. Then they are tried, and measured, once more."""
    if task.direct != 0:
        unit.tried += 1
        task.direct = 1 if unit.tried < TRY_EVERY else 0
    elif unit.reached >= ENOUGH_ROWS:
        records = count_records(Panes(task.panes))
        task.direct = 1 if LEAST_REDUCTION * records > unit.reached else 0
        unit.tried = 0
    unit.reached = 0


@compiled
def count_records(panes):
    """The records of all open windows."""
    slots, records = i64s(panes.directory), 0
    for at in range(panes.mask + 1):
        if slots[at] != 0:
            records += Store(slots[at]).count
    return records
