"""BATCHES units: a user's function over Arrow batches (`map_batches`), on a thread of the host.

The host is given the rows of a slice and brings back what the function made of them as a batch of
its own; it is copied into blocks here, as a source does, so that back-pressure and order are those
of all units.
"""

from __future__ import annotations

from headrace.node.blocks import FeedUsers, NodeBlock
from headrace.node.emit import (
    find_block,
    finish_mark,
    finish_slice,
    hand_on,
    has_places,
    keep_mark,
    let_go,
    look_again,
    wait_for_more,
)
from headrace.node.port import ROWS as ROW_SLICE
from headrace.node.port import Port
from headrace.node.readers import borrow
from headrace.node.running import next_input, pass_mark, take_mark
from headrace.node.splits import Request
from headrace.node.unit import (
    BLOCKED,
    CALL,
    FAILED,
    FINISHED,
    GO_ON,
    HOST,
    MARKING,
    NEXT,
    ROWS,
    STARVED,
    Edge,
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
    while True:
        if is_cancelled(unit):
            return FINISHED
        if unit.phase == MARKING:
            answer = pass_mark(worker, unit)
        elif unit.phase == ROWS:
            answer = give_rows(worker, unit, GivenRows(unit.task))
        else:
            answer = begin_slice(worker, unit)
        if answer != GO_ON:
            return answer


@compiled
def begin_slice(worker, unit):
    """Look at what is next; rows are for the host."""
    if next_input(unit) < 0:
        look_again(unit)
        return STARVED
    slice, port = unit.slice, Port(Edge(unit.edges)[unit.reading].port)
    if slice.kind != ROW_SLICE:
        keep_mark(unit.mark, slice)
        finish_mark(worker, port, slice)
        unit.phase = take_mark(unit)
        return GO_ON
    if slice.first == slice.last:
        finish_slice(worker, port, slice, 0)
        return GO_ON
    if wait_for_more(unit):
        return STARVED
    unit.serial = slice.serial
    unit.rows_in += slice.last - slice.first
    unit.phase, unit.request = ROWS, CALL
    return HOST


@compiled
def give_rows(worker, unit, given):
    """Copy what the function gave into blocks; when all is given, the slice is done with."""
    request, output = given.request, unit.main
    if request.offset == given.end:
        if given.users != 0:
            fetch_add(FeedUsers(given.users), "count", -1)
            given.users = 0
        slice, port = unit.slice, Port(Edge(unit.edges)[unit.reading].port)
        finish_slice(worker, port, slice, slice.last - slice.first)
        unit.phase = NEXT
        return GO_ON
    if not has_places(worker, output) or not find_block(output):
        return BLOCKED
    block = NodeBlock(output.block).block
    request.block, request.count = block.address, min(block.capacity, given.end - request.offset)
    if output.borrows != 0:
        borrow(output.block, given.users)
    status, _ = call(given.fill, request.address)
    if status != 0:
        unit.request = FAILED
        return HOST
    request.offset += request.count
    full, output.block = output.block, 0
    hand_on(worker, output, full, 0, request.count, request.count, unit.serial)
    let_go(worker, full)
    return GO_ON
