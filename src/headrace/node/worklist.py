"""Several workers on one operator without state (Ordered §1.1, §3): its worklist.

So do several calls of a user's function (`map_batches`), on threads of the host.

Each has a unit of its own, with its own task and output blocks, and takes the next rows from the
ports that they all read. A claim seals: who has the flag cuts off a slice, as many rows as take
about the time of a run, and gives it the next serial, so serials are in the order of arrival. What
becomes of it goes through the reorder buffer (`reorder`), in that order; so do marks, each with a
serial of its own. An error is reported when all before it is sent: the first in order is the one.

Nobody waits for the flag, either: who has it looks again when it is cleared.
"""

from __future__ import annotations

from typing import Any

from headrace.node.batches import GivenRows, give_rows, start_call
from headrace.node.emit import (
    finish_slice,
    has_places,
    let_go,
    look_again,
    put_mark,
    seal,
    wait_for_more,
)
from headrace.node.port import DONE, Port, has_more, pending
from headrace.node.readers import retain
from headrace.node.reorder import (
    ReorderBuffer,
    await_turn,
    await_window,
    in_window,
    place_of,
    send,
    send_locked,
)
from headrace.node.running import at_rows, next_input, run_rows, start_rows
from headrace.node.schedulers.hooks import COST_UNIT, ready
from headrace.node.ticks import now
from headrace.node.unit import (
    BLOCKED,
    ENDING,
    FAILING,
    FINISHED,
    GO_ON,
    HOST,
    KERNEL,
    MAIN,
    MARKING,
    MORE,
    NEXT,
    ROWS,
    STARVED,
    Edge,
    Output,
    Run,
    Unit,
    is_cancelled,
)
from headrace.stage.memory.atomics import exchange, load_relaxed
from headrace.stage.memory.records import compiled, i64, i64s, line, record

HELP_NS = 20_000  # of work: what is left is worth another worker
TOO_FEW = -2  # besides the answers of units: rows that grow are left alone for a moment


@record
class Worklist:
    """What the units of an operator share. What is not said otherwise is written by who has the
    flag."""

    sealing: i64 = line()  # the flag; written by everybody
    serial: i64 = line()  # of the next slice or mark
    most: i64  # serials that were under way at once
    parts: i64  # fixed: where state is partitioned: address of the HybridQueue; 0: there is none
    front: Unit = line()  # stands for them all where rows and marks come in; nobody runs it
    buffer: ReorderBuffer = line()


@compiled
def run_shared(worker, unit):
    """A run of one of the units of an operator: as `run_kernel`, on its own slices."""
    buffer = Worklist(unit.worklist).buffer
    if buffer.locks != 0:
        return run_locked(worker, unit, buffer)
    return run_freely(worker, unit, buffer)


@compiled
def run_freely(worker, unit, buffer):
    """A run in which nobody waits for one who sends."""
    while True:
        if is_cancelled(unit):
            return FINISHED
        answer = work_on_slice(worker, unit)
        send(worker, buffer)
        if answer != GO_ON:
            return answer


@compiled
def run_locked(worker, unit, buffer):
    """A run in which who sends has a lock."""
    while True:
        if is_cancelled(unit):
            return FINISHED
        answer = work_on_slice(worker, unit)
        send_locked(worker, buffer)
        if answer != GO_ON:
            return answer


@compiled
def work_on_slice(worker, unit):
    """The next step: a claim, rows, the end of a slice, or its error."""
    run, work = Run(unit.run), Worklist(unit.worklist)
    if run.phase == NEXT:
        answer = claim_slice(worker, unit, work)
        return answer if unit.kind == KERNEL else call_for(unit, answer)
    if run.phase == ROWS:
        answer = give_output(worker, unit)
        if answer == HOST:
            run.phase, answer = FAILING, GO_ON
        return answer
    if run.phase == ENDING:
        return end_slice(worker, unit)
    return fail_in_turn(run, work.buffer)


@compiled
def give_output(worker, unit):
    """What the slice in work becomes: by a kernel, or copied from what a function has given."""
    if unit.kind == KERNEL:
        return run_rows(worker, unit)
    return give_rows(worker, unit, GivenRows(Run(unit.run).task))


@compiled
def call_for(unit, answer):
    """After the claim of a hosted unit: the host has to call a function for its rows."""
    if answer == GO_ON and Run(unit.run).phase == ROWS:
        return HOST
    if answer == STARVED:
        look_again(unit)
    return answer


# ---- claims --------------------------------------------------------------------------------


@compiled
def claim_slice(worker, unit, work):
    """Take the next rows, or let the next mark pass."""
    if worker.left <= 0:
        return MORE
    while True:
        taken = exchange(work, "sealing", 1)
        if taken != 0:
            return STARVED  # who has the flag looks again when it is cleared
        answer = seal_next(worker, unit, work)
        serial = work.serial
        exchange(work, "sealing", 0)  # an update: it sees what those saw who came
        if answer == GO_ON:
            if needs_help(unit, rows_left(work)):
                ready(worker, unit.peer)
            return GO_ON
        if answer == TOO_FEW:
            return STARVED
        if not has_input(work) or not in_window(work.buffer, serial):
            return answer


@compiled
def needs_help(unit, left):
    """Is what is left worth another worker? What Python takes for it nobody knows."""
    if unit.cost == 0 or unit.hosted != 0:
        return left > 0
    return left * unit.cost >= HELP_NS * COST_UNIT


@compiled
def has_input(work):
    """Is there something to be taken? By anybody."""
    edges = Edge(work.front.edges)
    for k in range(work.front.edge_count):
        if has_more(Port(edges[k].port)):
            return True
    return False


@compiled
def rows_left(work):
    """Rows and marks that nobody has taken. By anybody."""
    edges, count = Edge(work.front.edges), 0
    for k in range(work.front.edge_count):
        count += max(0, pending(Port(edges[k].port)))
    return count


@compiled
def seal_next(worker, unit, work):
    """Give the next rows or the next mark a serial, by who has the flag."""
    front, buffer = work.front, work.buffer
    if not in_window(buffer, work.serial) and not await_window(buffer, work.serial):
        return BLOCKED
    ahead = Run(front.run)
    while True:
        if next_input(front) < 0:
            return STARVED
        if at_rows(worker, front):
            if unit.hosted != 0 and wait_for_more(unit, ahead.slice):
                return TOO_FEW
            seal_rows(worker, unit, work)
            return GO_ON
        if ahead.phase == MARKING:
            ahead.phase = NEXT
            run = Run(unit.run)
            run.ticket = next_serial(work)
            put_mark(place_of(buffer, run.ticket, MAIN), ahead.mark)
            return GO_ON


@compiled
def next_serial(work):
    """The next serial, which is inside the reorder buffer."""
    serial = work.serial
    work.serial = serial + 1
    sent = load_relaxed(work.buffer, "next")
    work.most = max(work.most, work.serial - sent)
    return serial


@compiled
def seal_rows(worker, unit, work):
    """Cut off a slice that is now this unit's, and let its outputs be the place of its serial."""
    run, serial = Run(unit.run), next_serial(work)
    run.ticket = serial
    cut_rows(worker, unit, work)
    if work.parts != 0:
        return  # it is to be sorted first
    worker.left -= run.slice.last - run.slice.first
    for k in range(unit.output_count):
        port = place_of(work.buffer, serial, k)
        port.producer = unit.number
        i64s(Output(run.outputs)[k].ports)[0] = port.address
    if unit.kind == KERNEL:
        start_rows(unit)
    else:
        start_call(unit)


@compiled
def cut_rows(worker, unit, work):
    """The next rows, as many as this run may take, as the unit's slice."""
    run, ahead = Run(unit.run), Run(work.front.run)
    peeked, slice = ahead.slice, run.slice
    rows = peeked.last - peeked.first
    if unit.hosted == 0:  # Python is called for as many as there are
        rows = min(rows, worker.left)
    run.reading, run.phase = ahead.reading, ROWS
    slice.block, slice.serial, slice.due = peeked.block, peeked.serial, peeked.due
    slice.first, slice.last = peeked.first, peeked.first + rows
    retain(slice.block, 1)
    finish_slice(worker, Port(Edge(work.front.edges)[ahead.reading].port), peeked, rows)


# ---- the end of a slice --------------------------------------------------------------------


@compiled
def end_slice(worker, unit):
    """All that a slice becomes is in its place, and so its end."""
    run = Run(unit.run)
    outputs = Output(run.outputs)
    if not has_places(worker, outputs[MAIN]):
        return BLOCKED
    for k in range(unit.output_count):
        if outputs[k].open != 0:
            seal(worker, outputs[k])
    run.mark.kind, run.mark.value = DONE, now()
    put_mark(Port(i64s(outputs[MAIN].ports)[0]), run.mark)
    let_go(worker, run.slice.block)
    run.phase = NEXT
    return GO_ON


@compiled
def fail_in_turn(run, buffer):
    """A row has failed: that is said when all before it is sent."""
    return HOST if await_turn(buffer, run.ticket) else BLOCKED


def reorder_figures(work: Any) -> dict[str, float]:
    """How many slices and marks were sent, and how long they lay in the reorder buffer when they
    were done, in all; how many are under way or lie there, how many were at most and can be.

    >>> reorder_figures(Worklist.allocate())["reorder_seconds"]
    0.0
    """
    return {
        "reordered": work.buffer.next,
        "reorder_seconds": work.buffer.waited / 1e9,
        "reordering": work.serial - work.buffer.next,
        "reordering_most": work.most,
        "reordering_room": work.buffer.size,
    }
