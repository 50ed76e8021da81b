"""What units give: rows and marks into ports, and who has to be told.

A unit asks for room before it works (`ready_to_write`), so that giving never fails. A kernel goes
on writing into the same block; every run publishes the rows it added, as a slice of their own.
"""

from __future__ import annotations

from headrace.node.blocks import NodeBlock
from headrace.node.free_list import NO_UNIT
from headrace.node.growth import draw
from headrace.node.pool import Pool, ask_for_blocks, wanted
from headrace.node.port import Port, consume, has_room, push, push_rows, room_wanted, want_room
from headrace.node.readers import release, retain
from headrace.node.schedulers.hooks import ready
from headrace.stage.memory.records import compiled, i64s

# ---- telling others ------------------------------------------------------------------------


@compiled
def announce(worker, unit):
    """A unit has something to do. The first one is run by this worker when the present run is
    over: what it is to read is in this core's cache."""
    if worker.local == unit:
        return
    if worker.local == NO_UNIT:
        worker.local = unit
    else:
        ready(worker, unit)


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
    """The slice at the head of a port is done with."""
    block = consume(port, slice, rows)
    if block != 0:
        let_go(worker, block)
    if room_wanted(port):
        ready(worker, port.producer)


@compiled
def finish_mark(worker, port, slice):
    """The mark at the head of a port was taken."""
    consume(port, slice, 0)
    if room_wanted(port):
        ready(worker, port.producer)


# ---- room ----------------------------------------------------------------------------------


@compiled
def has_places(output):
    """Is there a place in every port? If not, their consumers will tell."""
    ports = i64s(output.ports)
    for k in range(output.count):
        port = Port(ports[k])
        if not has_room(port) and not want_room(port):
            return False
    return True


@compiled
def ready_to_write(output):
    """Are there places in the ports, and is there a block with room? If not, others will tell."""
    return has_places(output) and find_block(output)


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
def publish(worker, output, serial):
    """Give the readers the rows that were written since the last time; there is room."""
    block = output.block
    if block == 0:
        return
    record = NodeBlock(block).block
    first, last = output.published, record.rows
    if last > first:
        hand_on(worker, output, block, first, last, serial)
        output.published = last
    if last == record.capacity or output.count == 0:
        leave_block(worker, output)


@compiled
def leave_block(worker, output):
    """Write no more into the block; it goes home when its readers are done with it."""
    block = output.block
    if block != 0:
        output.block = 0
        let_go(worker, block)


@compiled
def hand_on(worker, output, block, first, last, serial):
    """Rows of a block, which the caller holds, for all readers."""
    output.rows += last - first
    output.blocks += 1
    if output.count == 0:
        return
    retain(block, output.count)
    ports = i64s(output.ports)
    for k in range(output.count):
        port = Port(ports[k])
        push_rows(port, block, first, last, serial, 0)
        announce(worker, port.consumer)


@compiled
def give_mark(worker, output, mark):
    """A mark for all readers; there is room.

    What is left of the block goes back: a thousand units of a chain that share a pool would each
    keep one that is nearly empty until their next rows come.
    """
    leave_block(worker, output)
    ports = i64s(output.ports)
    for k in range(output.count):
        port = Port(ports[k])
        due = mark.due
        push(port, mark.kind, due, mark.channel, mark.ended, mark.ended, mark.serial, mark.value)
        announce(worker, port.consumer)


@compiled
def keep_mark(mark, slice):
    """Remember a mark that was peeked."""
    mark.kind, mark.value, mark.serial = slice.kind, slice.value, slice.serial
    mark.channel, mark.ended, mark.due = slice.first, slice.last, slice.block
