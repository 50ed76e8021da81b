"""Putting a slice together, beside the reorder buffer, over all interleavings.

Two workers have a part of a slice each, give what their row becomes, and send; a watermark comes
behind. Everything is given once, by row, and nothing is left, whoever comes last.
"""

import numpy as np
import pytest
from tests.node import test_reorder
from tests.node.explore import planted
from tests.node.test_reorder import MOST, TOYS, Log, note

from headrace.node.assembling import (
    ROOM,
    Assembly,
    pick_in_order,
)
from headrace.node.blocks import NodeBlock
from headrace.node.gathering import GatherRecord, Stand, count_taken
from headrace.node.hybrid import HybridQueue, Part, SortedSlice, put_in, slice_of
from headrace.node.port import DONE, MARKER, Port, new_port, open_rows, push_mark
from headrace.node.reorder import can_go_on, place_of, send
from headrace.node.unit import MAIN, Output
from headrace.stage.blocks.layout import BlockRecord, ColumnRef
from headrace.stage.memory.atomics import fetch_add
from headrace.stage.memory.records import compiled, i32s, interpreted

ROWS = 2  # of the slice, each of a part of its own


@compiled
def room(worker, output, serial):
    """For `assembling.room_to_write`."""
    return ROOM


@compiled
def nothing(worker, output, serial, due):
    """For `emit.publish`."""


@compiled
def log_rows(log, address):
    """For `calls.call` of `assemble_rows`: the rows are logged by their parts, not copied."""
    assembly, made = Assembly(address), Log(log)
    gather = GatherRecord(assembly.gather)
    slice, block = SortedSlice(assembly.slice), BlockRecord(gather.block)
    picked = pick_in_order(assembly, gather, slice, block)
    count_taken(gather, picked, picked)
    for k in range(picked):
        note(made, i32s(gather.edges)[k])
    return 0, picked


@compiled
def work_on(log, buffer, queue, number, block):
    """One who has a part: its row, the end of its item, as `parting.end_item`."""
    port = Port(Part(queue.parts)[number].port)
    open_rows(port, block, 0, 1, 1, 0, 0)
    push_mark(port, DONE, 0, 0, 0, 0, 0)
    fetch_add(slice_of(queue, 0), "left", -1)
    send(log, buffer)


@compiled
def mark(log, buffer, queue):
    """One who has come to the watermark behind the slice."""
    push_mark(place_of(buffer, 1, MAIN), MARKER, 0, MOST, 0, 0, 0)
    put_in(queue, 1)
    send(log, buffer)


SWAP = {**TOYS, "room_to_write": room, "publish": nothing, "call": log_rows}


class Setting(test_reorder.Setting):
    """A slice of two rows, which was put into the queue, and its parts."""

    def __init__(self):
        super().__init__(2)
        self.queue, self.parts = HybridQueue.allocate(), Part.allocate(ROWS)
        self.slices, self.stands = SortedSlice.allocate(2), Stand.allocate(ROWS)
        self.assembly, self.gather = Assembly.allocate(), GatherRecord.allocate()
        self.places, self.bytes = np.array([10, 20]), np.arange(ROWS, dtype=np.uint8)
        self.ints = np.zeros((2, MOST), np.int32)
        self.ring = np.zeros(MOST, np.int64)
        self.ports = [new_port(2, producer=k) for k in range(ROWS)]
        self.blocks = [NodeBlock.allocate(behind=ColumnRef.size) for _ in range(ROWS)]
        self.target = NodeBlock.allocate()
        self.target.block.capacity = MOST
        queue, gather, slice = self.queue, self.gather, self.slices[0]
        queue.parts, queue.part_count, queue.next = self.parts.address, ROWS, 1
        queue.slices, queue.window = self.slices.address, 1
        queue.master, queue.mask = self.ring.ctypes.data, MOST - 1
        slice.sorted, slice.left, slice.count, slice.present = 1, ROWS, ROWS, ROWS
        slice.order = slice.parts = self.bytes.ctypes.data
        slice.places = self.places.ctypes.data
        for k, (port, block) in enumerate(zip(self.ports, self.blocks, strict=True)):
            self.parts[k].port = port.address
            block.block.columns[0].data = self.places[k:].ctypes.data
        gather.stands, gather.edge_count, gather.serial = self.stands.address, ROWS, 0
        gather.edges, gather.rows = (part.ctypes.data for part in self.ints)
        gather.merge = self.log.address
        self.assembly.queue, self.assembly.gather = queue.address, gather.address
        self.buffer.assembly = self.assembly.address
        Output(self.buffer.outputs).block = self.target.address


def workers(work=work_on, marks=True, **bugs):
    made, swap = Setting(), {**SWAP, **bugs}
    work, pass_by = interpreted(work, **swap), interpreted(mark, **swap)
    bodies = [
        lambda k=k: work(made.log, made.buffer, made.queue, k, made.blocks[k].address)
        for k in range(ROWS)
    ]
    if marks:
        bodies.append(lambda: pass_by(made.log, made.buffer, made.queue))

    def check(results):
        assert made.things == [0, 1, MOST][: ROWS + marks], f"given: {made.things}"
        assert made.buffer.next == ROWS - 1 + marks

    return bodies, check


def test_a_slice_is_put_together_once_and_in_order(explored):
    explored("two parts", *workers(marks=False), models=("sc",))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_watermark_stays_behind_a_slice_that_is_put_together(explored):
    explored("two parts and a watermark", *workers(), models=("sc",))


def test_leaving_without_a_look_at_the_parts_is_found(found):
    """Who was last with the slice found the flag taken by one who saw that it was not done."""
    bug = planted(
        can_go_on,
        "return is_due(HybridQueue(Assembly(buffer.assembly).queue), SortedSlice(lacks))",
        "return False",
    )
    failures = found(*workers(marks=False, can_go_on=bug), models=("sc",))
    assert set(failures) == {"sc"} and "given: []" in failures["sc"]


def early():
    """A part that says that it is done before the end of its item is there: it is waited for."""
    return planted(
        work_on,
        """    push_mark(port, DONE, 0, 0, 0, 0, 0)
    fetch_add(slice_of(queue, 0), "left", -1)
""",
        """    fetch_add(slice_of(queue, 0), "left", -1)
    push_mark(port, DONE, 0, 0, 0, 0, 0)
""",
    )


def test_a_part_that_comes_meanwhile_is_looked_at_again(explored):
    explored("an end that comes late", *workers(early(), marks=False), models=("sc",))


def test_leaving_without_a_look_at_the_part_that_is_missing_is_found(found):
    bug = planted(can_go_on, "return has_come(Part(lacks))", "return False")
    failures = found(*workers(early(), marks=False, can_go_on=bug), models=("sc",))
    assert set(failures) == {"sc"}
