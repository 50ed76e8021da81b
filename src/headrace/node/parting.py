"""Several workers on an operator whose state is partitioned: its units, and what they do.

Each worker has a unit, as in a crew without state (`worklist`), and each part of the key groups has
a Run, with its own state and blocks. A unit that has taken a part from the hybrid queue (`hybrid`)
works with the part's Run; where that lacks room it is put down, and the unit goes on with other
parts. So nothing that waits holds a worker, and what is first in turn can always go on.

A unit looks for parts that were put down, then takes what is next in the queue, and only where
there is nothing takes the next slice in. So slices are worked on in the order of arrival, and few
are under way.
"""

from __future__ import annotations

from headrace.node.blocks import NodeBlock
from headrace.node.emit import has_places, put_mark, seal
from headrace.node.hybrid import (
    BUSY,
    NO_PART,
    HybridQueue,
    Part,
    done,
    next_item,
    park,
    put_in,
    resume,
    slice_of,
    take,
    take_locked,
)
from headrace.node.port import DONE, Port
from headrace.node.reorder import send, send_locked
from headrace.node.running import run_rows, start_rows
from headrace.node.schedulers.hooks import ready
from headrace.node.ticks import now
from headrace.node.unit import (
    BLOCKED,
    ENDING,
    FAILING,
    FINISHED,
    GO_ON,
    HOST,
    MAIN,
    MORE,
    NEXT,
    ROWS,
    Output,
    Run,
    is_cancelled,
)
from headrace.node.worklist import Worklist, claim_slice, needs_help
from headrace.stage.memory.atomics import (
    exchange,
    fetch_add,
    load_acquire,
    store_relaxed,
    store_release,
)
from headrace.stage.memory.calls import call
from headrace.stage.memory.records import compiled, i32, i32s, i64, i64s
from headrace.stage.task import Task

WORD_BYTES, ROW_BYTES = i64.size, i32.size  # of a hash or place, and of the number of a row


@compiled
def run_parts(worker, unit):
    """A run of one of the units of an operator whose state is partitioned."""
    work = Worklist(unit.worklist)
    queue, first = HybridQueue(work.parts), 0
    while True:
        if is_cancelled(unit):
            return FINISHED
        if unit.part == NO_PART and first < queue.part_count:
            number = resume(queue, first)
            first = queue.part_count if number == NO_PART else number + 1
            if number != NO_PART:
                have(unit, queue, number)
        if unit.part == NO_PART:
            answer = find_work(worker, unit, work, queue)
        else:
            answer = work_on_part(worker, unit, queue)
        if work.buffer.locks != 0:
            send_locked(worker, work.buffer)
        else:
            send(worker, work.buffer)
        if answer != GO_ON:
            return answer


@compiled
def have(unit, queue, number):
    """This unit has a part from now on."""
    part = Part(queue.parts)[number]
    unit.part, unit.run = number, part.run
    store_relaxed(Port(part.port), "producer", unit.number)  # who is told of room


@compiled
def leave(unit):
    """It has none."""
    unit.part, unit.run = NO_PART, unit.own_run


# ---- slices --------------------------------------------------------------------------------


@compiled
def find_work(worker, unit, work, queue):
    """Take a part, or the next slice in."""
    if worker.left <= 0:
        return MORE
    number = take(queue) if queue.locks == 0 else take_locked(queue)
    if number == BUSY:
        return MORE  # it comes again, as it would wait for the lock
    if number != NO_PART:
        have(unit, queue, number)
        return GO_ON
    answer = claim_slice(worker, unit, work)
    if answer == GO_ON:
        take_in(worker, unit, queue)
    return answer


@compiled
def take_in(worker, unit, queue):
    """Sort what was claimed, and put it into the queue."""
    run = Run(unit.run)
    slice, cut = slice_of(queue, run.ticket), run.slice
    slice.count, slice.present = 0, 0  # a mark
    if run.phase == ROWS:
        run.phase = NEXT
        slice.block, slice.first, slice.count = cut.block, cut.first, cut.last - cut.first
        slice.split, slice.due = cut.serial, cut.due
        columns = NodeBlock(cut.block).block.columns
        slice.hashes = columns[queue.hash_column].data + cut.first * WORD_BYTES
        slice.places = columns[queue.place_column].data + cut.first * WORD_BYTES
        call(queue.sort, slice.address)
    count = slice.count
    put_in(queue, run.ticket)  # from now on it may be sent, and its place be used again
    if count > 1 and needs_help(unit, count):
        ready(worker, unit.peer)


# ---- parts ---------------------------------------------------------------------------------


@compiled
def work_on_part(worker, unit, queue):
    """The next step with a part. What lacks room is put down."""
    run = Run(unit.run)
    if run.phase == NEXT:
        if worker.left <= 0:
            return MORE
        begin_item(worker, unit, queue)
        return GO_ON
    if run.phase == ROWS:
        answer = run_rows(worker, unit)
        if answer == HOST:
            run.phase, answer = FAILING, GO_ON
    elif run.phase == ENDING:
        answer = end_item(worker, unit, queue)
    else:
        answer = fail_in_turn(unit, queue)
    if answer == BLOCKED:
        put_down(unit, queue)
        return GO_ON
    return answer


@compiled
def begin_item(worker, unit, queue):
    """Let the kernel have the rows of a slice that are the part's."""
    run, number = Run(unit.run), unit.part
    run.ticket = next_item(queue, Part(queue.parts)[number])
    slice, cut = slice_of(queue, run.ticket), run.slice
    cut.block, cut.first, cut.last = slice.block, slice.first, slice.first + slice.count
    cut.serial, cut.due = slice.split, slice.due
    start_rows(unit)
    task, starts = Task(run.task), i32s(slice.starts)
    task.selection = slice.rows + starts[number] * ROW_BYTES
    task.selected = starts[number + 1] - starts[number]
    worker.left -= task.selected


@compiled
def end_item(worker, unit, queue):
    """All that the rows became is in the port of the part, and so its end."""
    run, part = Run(unit.run), Part(queue.parts)[unit.part]
    output = Output(run.outputs)[MAIN]
    if not has_places(worker, output):
        return BLOCKED
    if output.open != 0:
        seal(worker, output)
    run.mark.kind, run.mark.value = DONE, now()
    put_mark(Port(part.port), run.mark)
    fetch_add(slice_of(queue, run.ticket), "left", -1)
    run.phase = NEXT
    part.rows += Task(run.task).selected
    if not done(part):
        leave(unit)  # somebody else may have it already
    return GO_ON


@compiled
def fail_in_turn(unit, queue):
    """A row has failed: that is said when all before it is sent."""
    run, part = Run(unit.run), Part(queue.parts)[unit.part]
    task, places = Task(run.task), i64s(slice_of(queue, run.ticket).places)
    place = places[i32s(task.selection)[task.row]]
    store_release(part, "passed", place)
    exchange(Port(part.port), "wants_room", 1)  # an update: either who sends sees it, or we `at`
    return HOST if load_acquire(part, "at") == place else BLOCKED


@compiled
def put_down(unit, queue):
    """Somebody goes on with the part when there is room, or when it is its turn."""
    number = unit.part
    leave(unit)
    park(queue, Part(queue.parts)[number])
