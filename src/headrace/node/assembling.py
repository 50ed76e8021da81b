"""What the parts of an operator make of a slice, put together in the order of its rows.

Several workers may be on one slice, each on the rows of a part (`hybrid`). What they give lies in
the port of the part, slice by slice, each ended by DONE, and rows carry the place of the row that
they come from. When the slice has its turn in the reorder buffer, and all parts are done with it or
one lacks room, its rows are gone through in their order: what a row became is next in the port of
its part. So the sequence is that of one worker (Ordered, definition 5.1).

A part that has failed at a row says so: all before that row was given (`Part.passed`). It may
report the error when sending has come to that very row (`Part.at`), so the first error in order is
the one that is reported.
"""

from __future__ import annotations

from headrace.node.blocks import NodeBlock
from headrace.node.emit import (
    find_block,
    finish_mark,
    finish_slice,
    full_port,
    let_go,
    publish,
    tell_producer,
)
from headrace.node.gathering import (
    AT_MARK,
    EMPTY,
    HAS_ROWS,
    GatherRecord,
    Stand,
    copy_rows,
    count_taken,
)
from headrace.node.hybrid import HybridQueue, Part, SortedSlice, slice_of
from headrace.node.port import ROWS as ROW_SLICE
from headrace.node.port import Mark, Port, has_more, peek
from headrace.node.ticks import now
from headrace.stage.blocks.layout import BlockRecord
from headrace.stage.clock import NEVER
from headrace.stage.memory.atomics import exchange, load_acquire
from headrace.stage.memory.calls import call
from headrace.stage.memory.records import compiled, i32s, i64, i64s, line, record, u8s

# How sending went: all of a serial, all that was there, a port without room, an empty pool,
# parts that are not done, a part that has not come so far.
SENT, NOTHING, FULL, HUNGRY, UNFINISHED, AWAITING = range(6)
ROOM, NO_BLOCK = 0, -1  # besides the address of a full port


@record
class Assembly:
    """How far the slice in turn was put together; written by who sends."""

    begun: i64 = line()  # its serial, plus 1
    slice: i64  # its address
    row: i64  # the next one to be looked at
    waited: i64  # ns that it lay here when it was done
    done_at: i64  # when the last of its parts was
    queue: i64 = line()  # fixed: address of the HybridQueue,
    gather: i64  # and of the GatherRecord with a Stand for each part


# ---- for anybody ---------------------------------------------------------------------------


@compiled
def was_put(assembly, serial):
    """Was the slice or mark with this serial put into the queue? Before, its place is in use."""
    return load_acquire(HybridQueue(assembly.queue), "next") > serial


@compiled
def is_due(queue, slice):
    """Are all parts done with a slice, or does one of them lack room, or has it failed?"""
    left = load_acquire(slice, "left")
    parked = load_acquire(queue, "parked")
    return left == 0 or parked != 0


@compiled
def has_come(part):
    """Has a part given something, or failed, since sending waits for it?"""
    if has_more(Port(part.port)):
        return True
    passed = load_acquire(part, "passed")
    return passed > load_acquire(part, "at")


# ---- by who sends --------------------------------------------------------------------------


@compiled
def assemble(worker, assembly, output, serial):
    """Send what is there of a slice: how it went, and the address of what is missing. NOTHING: it
    has no rows, since it is a mark."""
    queue, gather = HybridQueue(assembly.queue), GatherRecord(assembly.gather)
    slice = slice_of(queue, serial)
    if slice.count == 0:
        return NOTHING, 0
    if not is_due(queue, slice):
        return UNFINISHED, slice.address
    if assembly.begun != serial + 1:
        begin_slice(assembly, gather, slice, serial)
    while look_at_parts(worker, assembly, gather, slice) > 0:
        room = room_to_write(worker, output, slice.split)
        if room == NO_BLOCK:
            return HUNGRY, output.pool
        if room != ROOM:
            return FULL, room
        gather.block = NodeBlock(output.block).block.address
        _, given = call(gather.merge, assembly.address)
        if given == 0:
            part = part_missing(assembly, gather, slice)
            await_part(worker, assembly, slice, part)
            return AWAITING, part.address
        leave_items(worker, assembly, gather, slice)
        publish(worker, output, slice.split, slice.due)
    assembly.waited = now() - assembly.done_at
    let_go(worker, slice.block)
    return SENT, 0


@compiled
def begin_slice(assembly, gather, slice, serial):
    """The turn of a slice."""
    assembly.begun, assembly.slice, assembly.row = serial + 1, slice.address, 0
    assembly.done_at = 0
    stands, order = Stand(gather.stands), u8s(slice.order)
    for k in range(gather.edge_count):
        stands[k].state, stands[k].head = AT_MARK, NEVER
    for k in range(slice.present):
        stands[order[k]].state = EMPTY
    if slice.split != gather.serial:
        gather.serial, gather.places = slice.split, 0


@compiled
def look_at_parts(worker, assembly, gather, slice):
    """See what is next of every part; gives how many have something to come."""
    stands, order, left = Stand(gather.stands), u8s(slice.order), 0
    for k in range(slice.present):
        number = order[k]
        if stands[number].state != AT_MARK:
            part = Part(HybridQueue(assembly.queue).parts)[number]
            look_at_part(worker, assembly, part, stands[number], gather.place)
            left += 1 if stands[number].state != AT_MARK else 0
    return left


@compiled
def look_at_part(worker, assembly, part, stand, place):
    """See what is next of a part. First whether it has failed: what it has given is there then."""
    passed = load_acquire(part, "passed")
    port, slice = Port(part.port), stand.slice
    stand.passed, stand.state, stand.head = passed, EMPTY, NEVER
    while stand.state == EMPTY and peek(port, slice):
        if slice.kind != ROW_SLICE:
            assembly.done_at = max(assembly.done_at, Mark(slice.mark).value)
            finish_mark(worker, port, slice)
            stand.state = AT_MARK
        elif slice.first < slice.last:
            stand.state, stand.next = HAS_ROWS, slice.first
            stand.places = NodeBlock(slice.block).block.columns[place].data
            stand.head = i64s(stand.places)[slice.first]
        else:
            finish_slice(worker, port, slice, 0)
            if slice.whole == 0:
                return


@compiled
def room_to_write(worker, output, serial):
    """As `emit.ready_to_write`: ROOM, NO_BLOCK, or the address of the full port."""
    if output.open == serial + 1:
        return ROOM
    full = full_port(worker, output)
    if full != 0:
        return full
    found = find_block(output)
    return ROOM if found else NO_BLOCK


@compiled
def leave_items(worker, assembly, gather, slice):
    """Let go of the rows that were given."""
    stands, order = Stand(gather.stands), u8s(slice.order)
    for k in range(slice.present):
        number = order[k]
        taken = stands[number].taken
        if taken > 0:
            part = Part(HybridQueue(assembly.queue).parts)[number]
            finish_slice(worker, Port(part.port), stands[number].slice, taken)


@compiled
def part_missing(assembly, gather, slice):
    """The part whose rows, or whose end, are missing: that of the next row, or any."""
    stands, order = Stand(gather.stands), u8s(slice.order)
    parts = Part(HybridQueue(assembly.queue).parts)
    if assembly.row < slice.count:
        return parts[u8s(slice.parts)[assembly.row]]
    k = 0
    while stands[order[k]].state == AT_MARK:
        k += 1
    return parts[order[k]]


@compiled
def await_part(worker, assembly, slice, part):
    """Say which row is waited for; if the part has failed there, it is told."""
    if assembly.row < slice.count:
        # an update: either the part sees it, or we see that it waits
        exchange(part, "at", i64s(slice.places)[assembly.row])
        tell_producer(worker, Port(part.port))


# ---- rows ----------------------------------------------------------------------------------


@compiled
def assemble_rows(address):
    """The next rows into the block that is being filled; gives how many. Called by its address, as
    `gathering.merge_rows`."""
    assembly = Assembly(address)
    gather, row = GatherRecord(assembly.gather), assembly.row
    block = BlockRecord(gather.block)
    picked = pick_in_order(assembly, gather, SortedSlice(assembly.slice), block)
    given = copy_rows(gather, block, picked) if picked > 0 else 0
    if given < picked:
        assembly.row = row  # the others come again
    count_taken(gather, picked, given)
    return given


@compiled
def pick_in_order(assembly, gather, slice, block):
    """Note the part and number of the next rows, as far as it is known what rows have become."""
    edges, rows, stands = i32s(gather.edges), i32s(gather.rows), Stand(gather.stands)
    parts, places = u8s(slice.parts), i64s(slice.places)
    row, picked, room = assembly.row, 0, block.capacity - block.rows
    while row < slice.count and picked < room:
        number = parts[row]
        stand = stands[number]
        if stand.head == places[row]:
            edges[picked], rows[picked] = number, stand.next
            picked += 1
            stand.next += 1
            more = stand.next < stand.slice.last
            stand.head = i64s(stand.places)[stand.next] if more else NEVER
        elif stand.head == NEVER and is_open(stand, places[row]):
            break
        else:
            row += 1
    assembly.row = row
    return picked


@compiled
def is_open(stand, place):
    """Of a part with no row to be seen: may the row at this place become more than it has?"""
    if stand.state == EMPTY:
        return place >= stand.passed
    return stand.state == HAS_ROWS  # what lies behind those that were picked
