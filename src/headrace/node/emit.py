"""What units give: rows and marks into ports, and who has to be told.

A unit asks for room before it works (`ready_to_write`), so that giving never fails. A kernel goes
on writing into the same block. Every run publishes the rows it added: while they belong to the same
split and no mark has followed, the slice that it opened grows (Enjima §3.1.2), whether its reader
has begun to read it or not. So rows that nobody has read yet become larger batches, and a block of
a split takes one place of the ring, however many runs it took to fill it.
"""

from __future__ import annotations

from headrace.node.blocks import NodeBlock
from headrace.node.free_list import NO_UNIT
from headrace.node.growth import draw
from headrace.node.pool import Pool, ask_for_blocks, wanted
from headrace.node.port import (
    Mark,
    Port,
    close_rows,
    consume,
    has_room,
    is_empty,
    open_rows,
    publish_rows,
    push_mark,
    room_wanted,
    want_room,
)
from headrace.node.readers import release, retain
from headrace.node.schedulers.hooks import EngineRecord, ready, ready_near
from headrace.node.ticks import now
from headrace.node.unit import Edge, Unit
from headrace.stage.memory.atomics import load_relaxed
from headrace.stage.memory.records import compiled, i64s
from headrace.stage.strings.heap import Heap, has_overflown

MOMENT = 1_000_000  # ns that a hosted unit waits for rows to become many

# ---- telling others ------------------------------------------------------------------------


@compiled
def let_go(worker, block):
    """This reader is done with a block; if it goes home, who waits for it is told."""
    pool = Pool(NodeBlock(block).home)
    home = release(block)
    if home and wanted(pool):
        users = i64s(pool.users)
        for k in range(pool.user_count):
            ready(worker, users[k])


@compiled
def finish_slice(worker, port, slice, rows):
    """The slice at the head of a port is done with; it may still grow, then it stays."""
    block = consume(port, slice, rows)
    if block != 0:
        let_go(worker, block)
        tell_producer(worker, port)


@compiled
def finish_mark(worker, port, slice):
    """The mark at the head of a port was taken."""
    consume(port, slice, 0)
    tell_producer(worker, port)


@compiled
def tell_producer(worker, port):
    """Room was made in a port; if its producer waits for some, it is told."""
    if room_wanted(port):
        ready(worker, load_relaxed(port, "producer"))


@compiled
def tell_reader(worker, port):
    """There is something to read in a port. In a place of a reorder buffer it is read by whoever
    sends next (`reorder`), and nobody is told."""
    if port.consumer != NO_UNIT:
        ready_near(worker, port.consumer)


# ---- room ----------------------------------------------------------------------------------


@compiled
def has_places(worker, output):
    """Is there a place in every port? If not, their consumers will tell."""
    return full_port(worker, output) == 0


@compiled
def full_port(worker, output):
    """The address of a port without a place, whose consumer will tell; 0: all have one."""
    ports, count = i64s(output.ports), output.count
    for k in range(count):
        port = Port(ports[k])
        if has_room(port):
            continue
        if output.open != 0:
            seal(worker, output)  # it may be the slice that grows which has to leave
        if not want_room(port):
            return port.address
    return 0


@compiled
def seal(worker, output):
    """Let the open slice grow no more. Its readers, who may have read all of it, take it out."""
    output.open = 0
    ports, count = i64s(output.ports), output.count
    for k in range(count):
        port = Port(ports[k])
        close_rows(port)
        tell_reader(worker, port)


@compiled
def ready_to_write(worker, output, serial):
    """Is there room for rows of a split: a slice that may grow, or places in the ports and a block?
    If not, others will tell."""
    if output.open == serial + 1:
        return True
    return has_places(worker, output) and find_block(output)


@compiled
def find_block(output):
    """Is there a block to write into? If not, who brings the next one home will tell."""
    if output.block != 0:
        return True
    pool = Pool(output.pool)
    block = draw(pool)
    if block == 0:
        block = ask_for_blocks(pool)
    output.block, output.published = block, 0
    return block != 0


# ---- giving --------------------------------------------------------------------------------


@compiled
def publish(worker, output, serial, due):
    """Give the readers the rows that were written since the last time; there is room. due: when
    the oldest of the rows that they come from was."""
    block = output.block
    if block == 0:
        return
    record = NodeBlock(block).block
    first, last = output.published, record.rows
    if last > first:
        if output.open == serial + 1:
            grow(worker, output, last - first)
        else:
            hand_on(worker, output, block, first, last, record.capacity, serial, due)
            output.open = serial + 1
        output.published = last
    if record.heap != 0 and has_overflown(Heap(record.heap)):
        leave_full_heap(worker, output)
    elif last == record.capacity or output.count == 0:
        leave_block(worker, output)


@compiled
def leave_full_heap(worker, output):
    """The block has places for more rows, but not for their strings."""
    if output.open != 0:
        seal(worker, output)
    leave_block(worker, output)


@compiled
def leave_block(worker, output):
    """Write no more into the block; it goes home when its readers are done with it."""
    block = output.block
    output.open = 0
    if block != 0:
        output.block = 0
        let_go(worker, block)


@compiled
def grow(worker, output, rows):
    """More rows in the open slice, for all readers. A hosted one is not told: it looks by itself
    after a moment (`wait_for_more`), and so calls Python for many rows instead of for few."""
    output.rows += rows
    ports = i64s(output.ports)
    for k in range(output.count):
        port = Port(ports[k])
        publish_rows(port, rows)
        if not is_hosted(worker, port.consumer):
            tell_reader(worker, port)


@compiled
def is_hosted(worker, unit):
    """Does a unit run on a thread of the host?"""
    if unit == NO_UNIT:
        return False
    return Unit(EngineRecord(worker.engine).units)[unit].hosted != 0


@compiled
def wait_for_more(unit, slice):
    """Shall a hosted unit leave the slice that it has come to alone for a moment, since it is
    small and grows?"""
    block = NodeBlock(slice.block).block
    if slice.whole != 0 or 2 * (slice.last - slice.first) >= block.capacity:
        unit.patience = 0
        return False
    moment = now()
    if unit.patience == 0:
        unit.patience = moment + MOMENT
    if moment >= unit.patience:
        unit.patience = 0
        return False
    unit.wake_at = unit.patience
    return True


@compiled
def look_again(unit):
    """A hosted unit has read all there is; where a slice may still grow, it comes back."""
    edges = Edge(unit.edges)
    for k in range(unit.edge_count):
        port = Port(edges[k].port)
        if not is_empty(port):
            unit.wake_at = now() + MOMENT


@compiled
def hand_on(worker, output, block, first, last, limit, serial, due):
    """Rows of a block, which the caller holds, for all readers; they may grow up to `limit`."""
    output.rows += last - first
    output.blocks += 1
    if output.count == 0:
        return
    retain(block, output.count)
    ports = i64s(output.ports)
    for k in range(output.count):
        port = Port(ports[k])
        open_rows(port, block, first, last, limit, serial, due)
        tell_reader(worker, port)


@compiled
def give_mark(worker, output, mark):
    """A mark for all readers; there is room. What lies before it grows no more.

    What is left of the block goes back: a thousand units of a chain that share a pool would each
    keep one that is nearly empty until their next rows come.
    """
    leave_block(worker, output)
    ports = i64s(output.ports)
    for k in range(output.count):
        port = Port(ports[k])
        put_mark(port, mark)
        tell_reader(worker, port)


@compiled
def put_mark(port, mark):
    """A mark into a port; there is room."""
    push_mark(port, mark.kind, mark.serial, mark.value, mark.channel, mark.ended, mark.due)


@compiled
def keep_mark(mark, slice):
    """Remember a mark that was peeked."""
    peeked = Mark(slice.mark)
    mark.kind, mark.serial, mark.value = peeked.kind, peeked.serial, peeked.value
    mark.channel, mark.ended, mark.due = peeked.channel, peeked.ended, peeked.due
