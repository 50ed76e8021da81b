"""Slices that grow while their readers have not read them, as kernels give them (`node.emit`)."""

import numpy as np
import pytest
from tests.node.explore import planted

from headrace.node import emit
from headrace.node.blocks import NodeBlock
from headrace.node.emit import finish_slice, full_port, give_mark, has_places, ready_to_write, seal
from headrace.node.port import (
    END,
    ROWS,
    SPLIT,
    Slice,
    new_port,
    open_rows,
    peek,
    publish_rows,
    push_mark,
)
from headrace.node.unit import Mark, Output
from headrace.stage.memory.atomics import exchange, load_relaxed, pause
from headrace.stage.memory.records import i64, interpreted, line, record
from headrace.stage.strings.heap import new_heap
from headrace.stage.strings.heap import take as take_text

CAPACITY = 8  # rows of a block


class Written:
    """The output of a unit that runs again and again, with one block, and its readers."""

    def __init__(self, readers=1, ring=4):
        self.told, self.home = [], []
        swap = {
            "ready_near": lambda worker, unit: self.told.append(unit),
            "let_go": lambda worker, block: self.home.append(block),
            "ready": lambda worker, unit: None,
            "is_hosted": lambda worker, unit: False,
        }
        self.publish = interpreted(emit.publish, **swap)
        self.has_places = interpreted(has_places, **swap)
        self.ready_to_write = interpreted(ready_to_write, **swap)
        self.give_mark = interpreted(give_mark, **swap)
        self.finish_slice = interpreted(finish_slice, **swap)
        self.ports = [new_port(ring, 0, 1 + k) for k in range(readers)]
        self._addresses = np.array([port.address for port in self.ports], np.int64)
        self.output = Output.allocate()
        self.output.count, self.output.ports = readers, self._addresses.ctypes.data
        self.take_block()

    def take_block(self):
        self.block = NodeBlock.allocate()
        self.block.readers, self.block.block.capacity = 1, CAPACITY
        self.output.block, self.output.published = self.block.address, 0

    def run(self, rows, serial=0):
        """A run that adds rows to the block."""
        assert self.ready_to_write(None, self.output, serial)
        self.block.block.rows += rows
        self.publish(None, self.output, serial, 0)

    def mark(self):
        assert self.has_places(None, self.output)
        mark = Mark.allocate()
        mark.kind = SPLIT
        self.give_mark(None, self.output, mark)

    def read(self, reader=0):
        """What a reader finds, one thing after the other: (first, last, serial) or the mark."""
        port, got, seen = self.ports[reader], Slice.allocate(), []
        while peek(port, got):
            rows = got.kind == ROWS
            seen.append((got.first, got.last, got.serial) if rows else "mark")
            self.finish_slice(None, port, got, got.last - got.first)
        return seen


@pytest.mark.parametrize("readers", [1, 3])
def test_rows_that_nobody_has_read_are_one_slice(readers):
    written = Written(readers)
    for _ in range(6):
        written.run(1)
    assert [port.tail for port in written.ports] == [1] * readers  # places of the ring
    assert written.output.blocks == 1 and written.output.rows == 6
    assert written.block.readers == 1 + readers
    assert written.told == [1 + k for k in range(readers)] * 6
    assert [written.read(k) for k in range(readers)] == [[(0, 6, 0)]] * readers


def test_a_reader_that_is_faster_reads_behind_it():
    written, seen = Written(), []
    for rows in (2, 1, 3):
        written.run(rows)
        seen += written.read()
    assert seen == [(0, 2, 0), (2, 3, 0), (3, 6, 0)]
    assert written.ports[0].tail == 1 and written.ports[0].head == 0 and not written.home


def test_a_full_block_leaves_and_the_next_rows_get_a_new_one():
    written = Written()
    written.run(5)
    assert written.read() == [(0, 5, 0)]
    written.run(3)
    assert written.output.block == 0 and written.home == [written.block.address]  # the writer's
    assert written.read() == [(5, 8, 0)]
    assert written.home == [written.block.address] * 2  # and the reader's
    written.take_block()
    written.run(1)
    assert written.read() == [(0, 1, 0)] and written.ports[0].tail == 2


@pytest.mark.parametrize("rows_after", [0, 2])
def test_a_block_is_left_when_strings_do_not_fit_it(rows_after):
    written, heap = Written(), new_heap(4)
    written.block.block.heap = heap.address
    written.run(rows_after)
    take_text(heap, 10)  # of the row that comes now
    written.run(1)
    assert written.output.block == 0 and written.home == [written.block.address]
    assert written.read() == [(0, rows_after + 1, 0)]
    assert written.home == [written.block.address] * 2  # the slice has left the ring, too


@pytest.mark.parametrize("read_before", [False, True])
def test_a_mark_ends_the_slice_and_stays_behind_its_rows(read_before):
    written = Written()
    written.run(2)
    before = written.read() if read_before else []
    written.mark()
    first = written.block.address
    assert written.home == [first]  # the writer's
    written.take_block()
    written.run(1, serial=1)
    rest = [(2, 2, 0), "mark"] if read_before else ["mark"]
    assert before + written.read() == [(0, 2, 0), *rest, (0, 1, 1)]
    assert written.home == [first] * 2  # and the reader's


def test_rows_of_another_split_are_a_slice_of_their_own():
    written = Written()
    written.run(2, serial=4)
    written.run(2, serial=5)
    assert written.read() == [(0, 2, 4), (2, 4, 5)]


def test_a_slice_grows_while_the_ring_is_full():
    written = Written(ring=1)
    written.run(1)
    assert written.ready_to_write(None, written.output, 0)
    written.run(2)
    assert not written.ready_to_write(None, written.output, 1)  # another split needs a place
    assert written.ports[0].wants_room
    assert written.read() == [(0, 3, 0)] and written.ready_to_write(None, written.output, 1)


def test_a_slice_that_was_read_makes_room_for_a_mark():
    written = Written(ring=1)
    written.run(1)
    assert written.read() == [(0, 1, 0)] and not written.has_places(None, written.output)
    assert written.told == [1, 1]  # there are no more rows, but it has to leave
    assert written.read() == [(1, 1, 0)]
    written.mark()
    assert written.read() == ["mark"]


# ---- all interleavings ---------------------------------------------------------------------


@record
class Bell:
    rung: i64 = line()


def ring(bell):
    """As `claims.announce`: an update, so that what was published before is seen."""
    exchange(bell, "rung", 1)


def await_bell(bell):
    while load_relaxed(bell, "rung") == 0:
        pause()
    exchange(bell, "rung", 0)


def write_and_end(port, output, bell, sizes):
    """Rows in an open slice, then a mark; whoever finds no room sleeps until it is told."""
    open_rows(port, 64, 0, sizes[0], 8, 0, 0)
    output.open = 1
    ready_near(None, 1)
    for i in range(1, len(sizes)):
        publish_rows(port, sizes[i])
        ready_near(None, 1)
    while not has_places(None, output):
        await_bell(bell)
    push_mark(port, END, 0, 0, 0, 0, 0)
    ready_near(None, 1)


def read_to_the_end(port, got, bell):
    rows = 0
    while True:
        found = peek(port, got)
        if not found:
            await_bell(bell)
            continue
        if got.kind == END:
            return rows
        rows += got.last - got.first
        finish_slice(None, port, got, got.last - got.first)


def ready_near(worker, unit):
    """Put in place below."""


def told(capacity, sizes, **bugs):
    port, got, output = new_port(capacity, 0, 1), Slice.allocate(), Output.allocate()
    addresses = np.array([port.address], np.int64)
    output.count, output.ports = 1, addresses.ctypes.data
    reader, writer, rings = Bell.allocate(), Bell.allocate(), interpreted(ring)
    swap = {
        "ready_near": lambda worker, unit: rings(reader),
        "ready": lambda worker, unit: rings(writer),
        "let_go": lambda worker, block: None,
        **bugs,
    }
    write, read = interpreted(write_and_end, **swap), interpreted(read_to_the_end, **swap)

    def check(results):
        assert results[1] == sum(sizes) and len(addresses) == 1

    return [lambda: write(port, output, writer, sizes), lambda: read(port, got, reader)], check


@pytest.mark.parametrize("capacity", [1, 2])
def test_rows_and_the_mark_behind_them_arrive(explored, capacity):
    explored(f"a slice that grows in a port of {capacity}", *told(capacity, (1, 1)))


def test_a_slice_that_is_not_sealed_is_found(found):
    bug = planted(full_port, "if output.open != 0:", "if output.open > 1:")
    assert set(found(*told(1, (1, 1), full_port=bug))) == {"sc", "tso", "weak"}


def test_a_reader_that_is_not_told_of_the_seal_is_found(found):
    bug = planted(seal, "        tell_reader(worker, port)\n", "")
    assert set(found(*told(1, (1, 1), seal=bug))) == {"sc", "tso", "weak"}


def test_a_writer_that_is_not_told_of_room_is_found(found):
    bug = planted(finish_slice, "if block != 0:", "if block != 0 and rows > 0:")
    assert set(found(*told(1, (1,), finish_slice=bug))) == {"sc", "tso", "weak"}
