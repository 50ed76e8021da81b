"""BATCHES units: a user's function over Arrow batches (`map_batches`), on a thread of the host.

The host is given the rows of a slice and brings back what the function made of them as a batch of
its own; it is copied into blocks here, as a source does, so that back-pressure and order are those
of all units.
"""

from __future__ import annotations

from headrace.node.blocks import FeedUsers, NodeBlock
from headrace.node.emit import (
    find_block,
    finish_slice,
    hand_on,
    has_places,
    let_go,
    look_again,
    wait_for_more,
)
from headrace.node.port import Port
from headrace.node.readers import borrow
from headrace.node.running import at_rows, next_input, pass_mark
from headrace.node.splits import Request
from headrace.node.unit import (
    BLOCKED,
    CALL,
    ENDING,
    FAILED,
    FINISHED,
    GO_ON,
    HOST,
    MAIN,
    MARKING,
    NEXT,
    ROWS,
    STARVED,
    Edge,
    Output,
    Run,
    is_cancelled,
)
from headrace.stage.memory.atomics import fetch_add
from headrace.stage.memory.calls import call
from headrace.stage.memory.records import compiled, i64, line, record


@record
class GivenRows:
    """What the function gave for the slice in work. Written by who runs the unit."""

    end: i64 = line()
    users: i64  # the FeedUsers of the batch; the host has counted this unit
    fill: i64  # address of the function that fills a block
    request: Request = line()


@compiled
def run_batches(worker, unit):
    """Slices to the host, its batches into blocks, marks behind them."""
    run = Run(unit.run)
    while True:
        if is_cancelled(unit):
            return FINISHED
        if run.phase == MARKING:
            answer = pass_mark(worker, unit)
        elif run.phase == ROWS:
            answer = give_rows(worker, unit, GivenRows(run.task))
        else:
            answer = begin_slice(worker, unit)
        if answer != GO_ON:
            return answer


@compiled
def begin_slice(worker, unit):
    """Look at what is next; rows are for the host."""
    run = Run(unit.run)
    if next_input(unit) < 0:
        look_again(unit)
        return STARVED
    if not at_rows(worker, unit):
        return GO_ON
    if wait_for_more(unit, run.slice):
        return STARVED
    start_call(unit)
    return HOST


@compiled
def start_call(unit):
    """The host has to call the function for the slice in work."""
    run = Run(unit.run)
    slice = run.slice
    run.serial, run.due = slice.serial, slice.due
    unit.rows_in += slice.last - slice.first
    run.phase, run.request = ROWS, CALL


@compiled
def give_rows(worker, unit, given):
    """Copy what the function gave into blocks; when all is given, the slice is done with."""
    run = Run(unit.run)
    request, output = given.request, Output(run.outputs)[MAIN]
    if request.offset == given.end:
        if given.users != 0:
            fetch_add(FeedUsers(given.users), "count", -1)
            given.users = 0
        if unit.worklist != 0:
            run.phase = ENDING
            return GO_ON
        slice, port = run.slice, Port(Edge(unit.edges)[run.reading].port)
        finish_slice(worker, port, slice, slice.last - slice.first)
        run.phase = NEXT
        return GO_ON
    if not has_places(worker, output) or not find_block(output):
        return BLOCKED
    block = NodeBlock(output.block).block
    request.block, request.count = block.address, min(block.capacity, given.end - request.offset)
    borrow(output.block, given.users)
    status, _ = call(given.fill, request.address)
    if status != 0:
        run.request = FAILED
        return HOST
    request.offset += request.count
    full, output.block = output.block, 0
    count = request.count
    hand_on(worker, output, full, 0, count, count, run.serial, run.due)
    let_go(worker, full)
    return GO_ON
