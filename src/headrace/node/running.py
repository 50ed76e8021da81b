"""One run of a unit, compiled: it goes on until it lacks something, and says what (`unit`).

A kernel unit takes slices from its ports in turn. Rows go through the kernel into the block that
is being filled; marks wait until the unit has done its part, then follow the rows:

    SPLIT       inside a replica: the rows of a split are over; partial results are given out
    SETTLED     behind the replicas: all rows of a split have gone by
    WATERMARK   behind the replicas: windows that it closes are given out first
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
from headrace.node.schedulers.hooks import EngineRecord
from headrace.node.splits import ENDED, STOPPED
from headrace.node.ticks import now
from headrace.node.unit import (
    AGAIN,
    BLOCKED,
    ENDING,
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
    Output,
    Run,
    is_cancelled,
)
from headrace.stage.clock import FOREVER
from headrace.stage.memory.atomics import load_relaxed, store_release
from headrace.stage.memory.calls import call
from headrace.stage.memory.records import compiled, i64s
from headrace.stage.task import CONSUMED, NEED_MEMORY, NOT_SELECTED, Task, call_rows
from headrace.stage.windows import (
    NONE_DUE,
    begin_firing,
    begin_flush,
    choose_partials,
    closes_windows,
    end_firing,
)

PLACES = 1 << 32  # of the rows that one split may become at an exchange
OVERTIME = 2  # times as long as a run should take, it may
STATE_ROWS = 512  # between looks at the clock: state that grows makes rows dear all of a sudden


# ---- what comes in -------------------------------------------------------------------------


@compiled
def next_input(unit):
    """The edge with something to read, or -1; it is looked at in `run.slice`."""
    run = Run(unit.run)
    edges = Edge(unit.edges)
    for k in range(unit.edge_count):
        place = (unit.turn + k) % unit.edge_count
        edge = edges[place]
        if edge.waiting == 0 and peek(Port(edge.port), run.slice):
            run.reading, unit.turn = place, place + 1  # the others come first next time
            return place
    return -1


@compiled
def at_rows(worker, unit):
    """Has it come to rows? If not, what it has come to is taken: a mark, which decides about the
    next phase, or the end of a slice all of which was read before."""
    run = Run(unit.run)
    slice, port = run.slice, Port(Edge(unit.edges)[run.reading].port)
    if slice.kind != ROW_SLICE:
        keep_mark(run.mark, slice)
        finish_mark(worker, port, slice)
        run.phase = take_mark(unit)
        return False
    if slice.first == slice.last:
        finish_slice(worker, port, slice, 0)
        return False
    return True


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
    run = Run(unit.run)
    mark, edge = run.mark, Edge(unit.edges)[run.reading]
    if mark.kind == SPLIT:
        edge.waiting = 1
        unit.least = mark.value if unit.arrived == 0 else min(unit.least, mark.value)
        unit.arrived += 1
        if unit.arrived < unit.edge_count:
            return NEXT
        unit.arrived, mark.value = 0, unit.least
        run.serial = mark.serial
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
    fires = unit.advance != 0 and closes_windows(Task(run.task), least)
    return FIRING if fires else MARKING


# ---- kernels -------------------------------------------------------------------------------


@compiled
def run_kernel(worker, unit):
    """See the top of this file."""
    run = Run(unit.run)
    while True:
        if is_cancelled(unit):
            return FINISHED
        if run.phase == NEXT:
            answer = begin_input(worker, unit)
        elif run.phase == ROWS:
            answer = run_rows(worker, unit)
        elif run.phase == MARKING:
            answer = pass_mark(worker, unit)
        else:
            answer = give_windows(worker, unit)
        if answer != GO_ON:
            return answer


@compiled
def begin_input(worker, unit):
    """Look at what is next, and prepare for it."""
    run = Run(unit.run)
    if next_input(unit) < 0:
        if unit.place > unit.told:  # before it starves
            unit.told, run.phase = unit.place, MARKING
            run.mark.kind, run.mark.value = PROGRESS, unit.place
            return GO_ON
        return STARVED
    if not at_rows(worker, unit):
        return GO_ON
    most = worker.left
    if unit.room != 0 and most > 0:
        most = min(most, STATE_ROWS) if has_time(worker) else 0
    if most <= 0:
        return MORE
    slice = run.slice
    slice.last = min(slice.last, slice.first + most)
    worker.left -= slice.last - slice.first
    start_rows(unit)
    return GO_ON


@compiled
def has_time(worker):
    """May the present run take more rows, by the clock? It always takes some."""
    run_ns = EngineRecord(worker.engine).run_ns
    if run_ns == 0:
        return True
    moment = now()
    if worker.until == 0:
        worker.until = moment + OVERTIME * run_ns
    return moment < worker.until


@compiled
def start_rows(unit):
    """Prepare the kernel for the slice in work."""
    run = Run(unit.run)
    slice, task = run.slice, Task(run.task)
    if slice.serial != run.serial or task.places == 0:
        task.places = slice.serial * PLACES
    task.input = NodeBlock(slice.block).block.address
    task.first, task.last = slice.first, slice.last
    task.row, task.selected = 0, NOT_SELECTED
    run.serial, run.due = slice.serial, slice.due
    if unit.owned == 0:
        unit.rows_in += slice.last - slice.first
    run.phase, run.begun = ROWS, 0


@compiled
def bind_outputs(worker, unit):
    """Let the kernel write where there is room; False: there is none."""
    run = Run(unit.run)
    outputs, task = Output(run.outputs), Task(run.task)
    for k in range(unit.output_count):
        output = outputs[k]
        if output.pool != 0:
            if not ready_to_write(worker, output, run.serial):
                return False
            task.outputs[k] = NodeBlock(output.block).block.address
    return True


@compiled
def publish_all(worker, unit):
    """Give the readers what the kernel has written."""
    run = Run(unit.run)
    outputs = Output(run.outputs)
    for k in range(unit.output_count):
        publish(worker, outputs[k], run.serial, run.due)


@compiled
def run_rows(worker, unit):
    """Let the kernel work on the slice."""
    run = Run(unit.run)
    if run.begun != 0:  # the host may have left a dead letter
        publish_all(worker, unit)
    if not bind_outputs(worker, unit):
        return BLOCKED
    wanted = load_relaxed(unit, "sampling")
    timed = wanted == SAMPLE_WANTED and run.begun == 0 and unit.own_run == 0  # all rows of a slice
    begun = now() if timed else 0
    run.begun = 1
    status, answer = call_rows(Edge(unit.edges)[run.reading].rows, run.task)
    if status != 0:
        run.request = FAILED
        return HOST
    ns = now() - begun if begun != 0 else 0
    publish_all(worker, unit)
    if answer == CONSUMED:
        slice = run.slice
        if wanted == SAMPLE_WANTED:
            keep_sample(unit, slice, ns)
        if unit.owned != 0:
            unit.rows_in += Task(run.task).selected
        if unit.single != 0:
            selected = Task(run.task).selected
            unit.reached += slice.last - slice.first if selected < 0 else selected
        if unit.place_column >= 0:
            places = NodeBlock(slice.block).block.columns[unit.place_column]
            unit.place = i64s(places.data)[slice.last - 1]
        if unit.worklist != 0:
            run.phase = ENDING
            return GO_ON
        port = Port(Edge(unit.edges)[run.reading].port)
        finish_slice(worker, port, slice, slice.last - slice.first)
        run.phase = NEXT
        return GO_ON
    if answer == NEED_MEMORY:
        return make_room(unit)
    return AGAIN


@compiled
def make_room(unit):
    """What the kernel lacks, if there is memory for it."""
    run = Run(unit.run)
    status, _ = call(unit.room, run.task)
    if status != 0:
        run.request = NO_MEMORY
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
    run = Run(unit.run)
    outputs = Output(run.outputs)
    for k in range(unit.output_count):
        if not has_places(worker, outputs[k]):
            return BLOCKED
    for k in range(unit.output_count):
        give_mark(worker, outputs[k], run.mark)
    run.phase = NEXT
    if run.mark.kind != END:
        return GO_ON
    unit.finished = ENDED
    return FINISHED


# ---- windows -------------------------------------------------------------------------------


@compiled
def give_windows(worker, unit):
    """Give out windows: all, as partial results, or those that the watermark has closed."""
    run = Run(unit.run)
    task = Task(run.task)
    if task.due_count == NONE_DUE:
        if run.phase == FIRING:
            begin_firing(task, unit.watermark)
        else:
            if unit.single != 0:
                choose_partials(task, unit.reached)
                unit.reached = 0
            begin_flush(task)
    if not bind_outputs(worker, unit):
        return BLOCKED
    status, answer = call(unit.advance, run.task)
    if status != 0:
        run.request = FAILED
        return HOST
    publish_all(worker, unit)
    if answer == NEED_MEMORY:
        return make_room(unit)
    if answer != CONSUMED:
        return AGAIN
    end_firing(task)
    run.phase = MARKING
    return GO_ON
