"""The reorder buffer of an operator that several workers run (Ordered, fig. 4).

What a slice becomes goes into the place of the slice's serial, and is sent in the order of the
serials. Nobody waits for one who is sending: who has put something in tries to set the flag; who
has set it sends all that is there in turn, clears it, and looks once more, since who came meanwhile
has left.

It differs from the figure in three ways. A place is a small port, since a slice may become many
blocks: those of the slice in turn pass through, those of others wait, and where the port is full
their maker is held up until its turn. A slice is claimed only when its serial is inside the buffer
(`in_window`), so that putting never fails. And sending stops where a reader's port is full; who
makes room has one of the operator's units run, which goes on with it.

Marks have serials of their own, so they pass in order with the rows around them. DONE ends the
output of a slice, and goes no further.

Where the state of an operator is partitioned, several workers may be on one slice (`hybrid`). What
they make of it lies in the ports of the parts, and is put together in its turn (`assembling`).
"""

from __future__ import annotations

from headrace.node.appending import append
from headrace.node.assembling import (
    AWAITING,
    FULL,
    HUNGRY,
    NOTHING,
    SENT,
    UNFINISHED,
    Assembly,
    assemble,
    has_come,
    is_due,
    was_put,
)
from headrace.node.emit import finish_mark, finish_slice, full_port, give_mark, hand_on, keep_mark
from headrace.node.hybrid import HybridQueue, Part, SortedSlice
from headrace.node.lock import Lock, acquire, release
from headrace.node.pool import Pool, available
from headrace.node.port import DONE, Mark, Port, Slice, has_more, has_room_now, peek, room_wanted
from headrace.node.port import ROWS as ROW_SLICE
from headrace.node.schedulers.hooks import ready
from headrace.node.ticks import now
from headrace.node.unit import MAIN, Output
from headrace.stage.blocks.copying import CopiedRows
from headrace.stage.memory.atomics import exchange, load_acquire, load_relaxed, store_release
from headrace.stage.memory.records import compiled, i64, i64s, line, record


@record
class ReorderBuffer:
    """The buffer. What is not said otherwise is written by who has the flag."""

    next: i64 = line()  # the serial in turn
    sending: i64 = line()  # the flag; written by everybody
    awaited: i64 = line()  # a claim waits for `next` to move; written by everybody
    lacks: i64 = line()  # what sending waits for: a port, a pool, a slice that is sorted, a part
    waited: i64  # ns that slices lay here that were done
    lock: Lock = line()  # where sending is lock-based
    locks: i64 = line()  # fixed: is it?
    size: i64  # fixed: of serials, a power of two
    output_count: i64  # fixed
    ports: i64  # fixed: address of the addresses of the ports, one for each output of each place
    outputs: i64  # fixed: address of the Outputs, where all is sent to,
    rows: i64  # fixed: and of the CopiedRows of each
    unit: i64  # fixed: the number of one of the operator's units
    assembly: i64  # fixed: where state is partitioned: address of the Assembly; 0: it is not
    slice: Slice = line()
    mark: Mark = line()


@compiled
def place_of(buffer, serial, output):
    """The port for what a slice gives to an output."""
    place = serial & (buffer.size - 1)
    return Port(i64s(buffer.ports)[place * buffer.output_count + output])


# ---- before a claim ------------------------------------------------------------------------


@compiled
def in_window(buffer, serial):
    """Is there a place for this serial: is what had it before sent?"""
    return serial - load_acquire(buffer, "next") < buffer.size


@compiled
def await_window(buffer, serial):
    """Say that a claim waits; is there a place after all? If not, who sends will tell."""
    exchange(buffer, "awaited", 1)  # an update: either who sends sees it, or we see `next`
    return in_window(buffer, serial)


@compiled
def await_turn(buffer, serial):
    """Is all sent that comes before this serial? If not, who sends will tell its unit."""
    if load_acquire(buffer, "next") == serial:
        return True
    exchange(place_of(buffer, serial, MAIN), "wants_room", 1)  # likewise
    return load_acquire(buffer, "next") == serial


# ---- sending -------------------------------------------------------------------------------


@compiled
def send(worker, buffer):
    """Send what is there, in order, unless somebody else does."""
    while True:
        taken = exchange(buffer, "sending", 1)
        if taken != 0:
            return  # who has the flag looks again when it is cleared
        how = send_in_order(worker, buffer)
        lacks = buffer.lacks
        exchange(buffer, "sending", 0)  # an update: it sees what those have put in who came
        if not can_go_on(buffer, how, lacks):
            return


@compiled
def send_locked(worker, buffer):
    """The same with a lock (fig. 2), to be compared with: who comes waits for one who is sending.
    Nobody leaves without a look, so nobody has to look twice. In the figure a lock also guards what
    is put in; here it has a place of its own."""
    acquire(buffer.lock)
    send_in_order(worker, buffer)
    release(buffer.lock)


@compiled
def can_go_on(buffer, how, lacks):
    """Has something come, or was room made, since sending has stopped? By anybody."""
    if how == FULL:
        return has_room_now(Port(lacks))
    if how == HUNGRY:
        return available(Pool(lacks)) > 0
    if how == UNFINISHED:
        return is_due(HybridQueue(Assembly(buffer.assembly).queue), SortedSlice(lacks))
    if how == AWAITING:
        return has_come(Part(lacks))
    serial = load_acquire(buffer, "next")
    if buffer.assembly != 0:
        return was_put(Assembly(buffer.assembly), serial)
    for k in range(buffer.output_count):
        if has_more(place_of(buffer, serial, k)):
            return True
    return False


@compiled
def send_in_order(worker, buffer):
    """Send until something is missing; gives what."""
    serial = load_relaxed(buffer, "next")
    while True:
        how = send_serial(worker, buffer, serial)
        if how != SENT:
            return how
        serial += 1
        store_release(buffer, "next", serial)
        turn = place_of(buffer, serial, MAIN)
        if room_wanted(turn):  # it waits for its turn
            ready(worker, turn.producer)
        if exchange(buffer, "awaited", 0) != 0:
            ready(worker, buffer.unit)


@compiled
def send_serial(worker, buffer, serial):
    """What is there of a serial. Its mark, behind all rows of all outputs, comes last."""
    if buffer.assembly != 0:
        assembly = Assembly(buffer.assembly)
        if not was_put(assembly, serial):
            return NOTHING
        how, buffer.lacks = assemble(worker, assembly, Output(buffer.outputs), serial)
        if how == SENT:
            buffer.waited += assembly.waited
        if how != NOTHING:
            return how
    how = send_rows(worker, buffer, serial, MAIN)
    if how == FULL:
        return FULL
    at_mark = how == SENT
    for k in range(1, buffer.output_count):
        how = send_rows(worker, buffer, serial, k)
        if how == FULL:
            return FULL
    return send_mark(worker, buffer, serial) if at_mark else NOTHING


@compiled
def send_rows(worker, buffer, serial, k):
    """The rows for an output: SENT if a mark is next."""
    port, slice, output = place_of(buffer, serial, k), buffer.slice, Output(buffer.outputs)[k]
    while peek(port, slice):
        if slice.kind != ROW_SLICE:
            return SENT
        rows = slice.last - slice.first
        if rows > 0:
            rows = append(worker, output, CopiedRows(buffer.rows)[k], slice)
        if rows == 0 and slice.first < slice.last:
            buffer.lacks = full_port(worker, output)
            if buffer.lacks != 0:
                return FULL
            rows = pass_slice(worker, output, slice)
        finish_slice(worker, port, slice, rows)
    return NOTHING


@compiled
def pass_slice(worker, output, slice):
    """Hand on a slice as it is; gives how many rows it has."""
    output.open = 0  # what was appended before grows no more
    first, last = slice.first, slice.last
    hand_on(worker, output, slice.block, first, last, last, slice.serial, slice.due)
    return last - first


@compiled
def send_mark(worker, buffer, serial):
    """The mark at the end of a serial, to all outputs."""
    port, slice, outputs = place_of(buffer, serial, MAIN), buffer.slice, Output(buffer.outputs)
    peek(port, slice)
    if slice.kind == DONE:
        buffer.waited += now() - Mark(slice.mark).value
    else:
        for k in range(buffer.output_count):
            buffer.lacks = full_port(worker, outputs[k])
            if buffer.lacks != 0:
                return FULL
        keep_mark(buffer.mark, slice)
        for k in range(buffer.output_count):
            give_mark(worker, outputs[k], buffer.mark)
    finish_mark(worker, port, slice)
    return SENT
