"""The records of a query's units: ports, pools and all that compiled code finds by address."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.plan.nodes import KEY_HASH, PLACE, SHARED, WATERMARK, Exchange, Node
from headrace.plan.schema import Schema
from headrace.stage.blocks.copying import CopiedRows, describe_rows
from headrace.stage.blocks.layout import ColumnLayout, Layout
from headrace.stage.clock import NEVER
from headrace.stage.memory.calls import address_of

from .assembling import Assembly, assemble_rows
from .batches import GivenRows
from .channels import Channels
from .gathering import (
    BYTES_1,
    BYTES_2,
    BYTES_4,
    BYTES_8,
    FLOAT_4,
    FLOAT_8,
    TEXT,
    GatheredColumn,
    GatherRecord,
    Stand,
    merge_rows,
)
from .graph import Graph, Operator, Out
from .hybrid import NO_PART, HybridQueue, Part, SortedSlice, sort_rows
from .memory import BlockPool, Memory
from .mode import Mode
from .passing import MergeRecord
from .pool import Pool
from .port import new_port
from .splits import SplitRecord
from .unit import (
    BATCHES,
    GATHER,
    HOSTED,
    KERNEL,
    MAIN,
    MERGE,
    MIX,
    READER,
    SINK,
    SOURCE,
    Edge,
    Output,
    QueryRecord,
    Run,
    Unit,
)
from .worklist import Worklist

KINDS = {
    "flag": BYTES_1, "i8": BYTES_1, "i16": BYTES_2, "i32": BYTES_4, "i64": BYTES_8,
    "f32": FLOAT_4, "f64": FLOAT_8, "view": TEXT,
}  # fmt: skip
RING = 16  # descriptors in a port
SOURCE_RING = 2  # of a source: what it has read waits in its channel, not behind a slow reader
QUEUE_RING = 1024  # of all, where rows travel one by one (Enjima §4: the baseline)
BLOCKS = 4  # of a pool, to begin with
SPLIT_BLOCKS = 16  # of a split, at most
WINDOW = 8  # slices of a reorder buffer for each unit of the operator, at least
PLACE_RING = 4  # descriptors that a slice may leave there before it is its turn
PART_ROWS = 64  # of a block of a part, at least; all parts together have blocks of the usual size


@dataclass(eq=False)
class _Writers:
    """Outputs that take their blocks from one pool."""

    layout: Layout
    owner: str
    borrows: bool
    outputs: list[tuple[int, Any]] = field(default_factory=list)  # (number of the unit, Output)
    capacity: int = 0  # rows of a block; 0: as everywhere
    users: list[int] = field(default_factory=list)  # who is told of a block; none: those of outputs


class Building:
    """Makes the records of a graph; they live as long as this object."""

    def __init__(
        self,
        graph: Graph,
        channels: dict[int, Channels],
        memory: Memory,
        numbers: list[int],
        table: Any,
        blank: Any,
        mode: Mode,
        latencies: tuple[Any, Any],
        markers: dict[str, Any],
        locks: bool = False,
        queues: bool = False,
    ) -> None:
        """locks: who sends what several workers give has a lock (`reorder.send_locked`). queues:
        blocks have one row, so ports have more places."""
        self.graph, self.memory, self._mode, self._blank = graph, memory, mode, blank
        self.query = QueryRecord.allocate()
        self._latencies, self._markers, self._locks = latencies, markers, locks
        self._queues = queues
        self._kept: list[Any] = []
        self._writers: dict[Any, _Writers] = {}
        self.pools: dict[int, BlockPool] = {}  # by address
        self.operators = dict(zip(numbers, graph.operators, strict=True))
        self.channels = channels  # by the number of their stage
        for number, operator in self.operators.items():
            operator.number, operator.unit, operator.run = number, table[number], Run.allocate()
        outs = self._ports()
        for operator in self.operators.values():
            self._operator(operator, outs[id(operator)])
        for operator in self.operators.values():
            if operator.crew and operator.crew[0] is operator:
                self._crew(operator, outs[id(operator)])
        for writers in self._writers.values():
            self._pool(writers)
        for operator in self.operators.values():  # from now on a worker may run it
            operator.unit.query = self.query.address

    def _words(self, values: list[int]) -> int:
        array = np.array(values or [0], np.int64)
        self._kept.append(array)
        return array.ctypes.data

    def _ports(self) -> dict[int, list[list[Any]]]:
        """The ports of each output of each operator."""
        outs: dict[int, list[list[Any]]] = {}
        for operator in self.operators.values():
            made = outs[id(operator)] = []
            ring = min(RING, SOURCE_RING) if operator.kind == SOURCE else RING
            if self._queues:
                ring = QUEUE_RING
            for out in operator.outs:
                ports = []
                for reader in out.readers:
                    ports.append(new_port(ring, operator.number, reader.number))
                    reader.ports.append(ports[-1])
                made.append(ports)
        return outs

    def _operator(self, operator: Operator, outs: list[list[Any]]) -> None:
        unit, run, blank = operator.unit, operator.run, Unit.allocate()
        ctypes.memmove(blank.address, self._blank.address, Unit.size)
        blank.number = operator.number  # never another one: a worker may still be leaving the unit
        ctypes.memmove(unit.address, blank.address, Unit.size)
        unit.kind, unit.run = operator.kind, run.address
        unit.watermark, unit.seen = NEVER, time.monotonic_ns()
        unit.hosted = operator.kind in HOSTED
        self._edges(operator)
        self._outputs(operator, outs)
        if operator.kind == SOURCE:
            self._source(operator)
        elif operator.kind == READER:
            channel = self.channels[operator.stage].all[operator.channel]
            run.task, channel.record.reader = channel.record.address, operator.number
        elif operator.kind == KERNEL:
            self._kernel(operator)
        elif operator.kind == BATCHES:
            given = GivenRows.allocate()
            self._kept.append(given)
            run.task = given.address
        elif operator.kind in (MERGE, MIX):
            self._merge(operator)
        elif operator.kind == GATHER:
            self._gather(operator)
        elif operator.kind == SINK:
            unit.latency, unit.result_latency = (h.address for h in self._latencies)
            unit.markers = self._markers[operator.name].address

    def _edges(self, operator: Operator) -> None:
        edges = Edge.allocate(max(len(operator.ports), 1))
        self._kept.append(edges)
        for k, port in enumerate(operator.ports):
            edges[k].port, edges[k].watermark = port.address, NEVER
            if operator.kind == KERNEL:
                edges[k].rows = address_of(operator.kernel.compiled_rows)
        operator.unit.edges, operator.unit.edge_count = edges.address, len(operator.ports)

    def _outputs(self, operator: Operator, outs: list[list[Any]]) -> None:
        outputs = Output.allocate(max(len(operator.outs), 1))
        self._kept.append(outputs)
        operator.run.outputs, operator.unit.output_count = outputs.address, len(operator.outs)
        for k, (out, ports) in enumerate(zip(operator.outs, outs, strict=True)):
            self._output(operator, out, outputs[k], ports)

    def _crew(self, first: Operator, outs: list[list[Any]]) -> None:
        """What the units of one operator share: its inputs, and the way to its readers."""
        work, front, count = Worklist.allocate(), Run.allocate(), len(first.outs)
        size = 1 << (WINDOW * len(first.crew) - 1).bit_length()
        ports = [new_port(PLACE_RING) for _ in range(size * count)]
        outputs = Output(first.run.outputs) if first.parts else Output.allocate(count)
        self._kept += [work, front, ports, outputs]
        first.worklist = work
        for k, (out, ports_behind) in enumerate(zip(first.outs, outs, strict=True)):
            if first.parts:
                break  # its own output is the one that all is sent to
            sent = Out(out.layout)  # rows are copied there, with the bytes of their strings
            self._output(first, sent, outputs[k], ports_behind, "sent")
        work.front.run, work.front.watermark = front.address, NEVER
        work.front.edges, work.front.edge_count = first.unit.edges, first.unit.edge_count
        buffer = work.buffer
        buffer.size, buffer.output_count, buffer.unit = size, count, first.number
        buffer.locks = self._locks
        buffer.ports = self._words([port.address for port in ports])
        buffer.outputs, buffer.rows = outputs.address, self._appended(first.outs)
        for mate, peer in zip(first.crew, [*first.crew[1:], first], strict=True):
            unit, given = mate.unit, Output(mate.run.outputs)
            unit.edges, unit.edge_count = first.unit.edges, first.unit.edge_count
            unit.worklist, unit.crew, unit.peer = work.address, len(first.crew), peer.number
            if first.parts:
                unit.own_run, unit.part, unit.output_count = unit.run, NO_PART, count
                continue
            for k in range(count):
                given[k].count, given[k].ports = 1, self._words([ports[k].address])
        if first.parts:
            self._parts(first, work, size)

    def _parts(self, first: Operator, work: Any, window: int) -> None:
        """The queue of an operator: its parts, and how what they give is put together."""
        count, capacity = len(first.parts), self.graph.capacity
        queue, parts = HybridQueue.allocate(), Part.allocate(count)
        slices, assembly = SortedSlice.allocate(window), Assembly.allocate()
        self._kept += [queue, slices, assembly]
        first.part_records = parts
        names = first.kernel.chain.input.names
        queue.parts, queue.part_count, queue.slices = parts.address, count, slices.address
        queue.locks = self.graph.stages[first.stage].partitioning == SHARED
        queue.window, queue.mask = window - 1, window * count - 1
        queue.master, queue.sort = self._zeros(window * count, "i8"), self._mode.code(sort_rows)
        queue.hash_column, queue.place_column = names.index(KEY_HASH), names.index(PLACE)
        for number, part in enumerate(first.parts):
            record, run = parts[number], Run.allocate()
            output, port = Output.allocate(), new_port(RING, first.number)
            self._kept += [run, output, port]
            record.run, record.port = run.address, port.address
            record.serials = self._zeros(window, "i8")
            run.task, run.outputs = part.kernel.task.address, output.address
            output.count, output.ports = 1, self._words([port.address])
            self._writers[first.number, number] = _Writers(
                part.kernel.outputs[MAIN].layout,
                first.name,
                False,
                [(first.number, output)],
                min(capacity, max(PART_ROWS, capacity // count)),
                [mate.number for mate in first.crew],
            )
        for place in range(window):
            slice = slices[place]
            slice.part_count, slice.order = count, self._zeros(count, "u1")
            slice.parts, slice.rows = self._zeros(capacity, "u1"), self._zeros(capacity, "i4")
            slice.starts, slice.ends = self._zeros(count + 1, "i4"), self._zeros(count, "i4")
        root, layout = first.root, first.main.layout
        assert root is not None and layout is not None
        gather = self._gather_record(root, layout, count, assemble_rows)
        assembly.queue, assembly.gather = queue.address, gather.address
        work.parts, work.buffer.assembly = queue.address, assembly.address

    def _zeros(self, count: int, kind: str) -> int:
        array = np.zeros(count, kind)
        self._kept.append(array)
        return array.ctypes.data

    def _appended(self, outs: list[Out]) -> int:
        """How rows of these outputs are copied."""
        made = CopiedRows.allocate(len(outs))
        self._kept.append(made)
        for k, out in enumerate(outs):
            assert out.layout is not None
            self._kept.append(describe_rows(made[k], out.layout))
        return made.address

    def _output(
        self, operator: Operator, out: Out, into: Any, ports: list[Any], use: str = ""
    ) -> None:
        into.count, into.ports = len(ports), self._words([port.address for port in ports])
        if out.layout is not None:
            # a source knows which of its blocks have no watermarks, so its pool is its own; one of
            # a crew must never lack blocks that others hold until its turn is over, so it has one
            own = (operator.number, use) if operator.crew else None
            key = (out.layout, operator.replica, operator.stage, out.borrows, own)
            made = _Writers(out.layout, operator.name, out.borrows)
            self._writers.setdefault(key, made).outputs.append((operator.number, into))

    def _pool(self, writers: _Writers) -> None:
        """Units that write rows of one layout share a pool: a block that one has read is filled by
        the next one, while it is in the cache. It may grow until all ports are full of blocks."""
        ports = sum(output.count for _, output in writers.outputs)
        most = len(writers.outputs) * (RING + 1) + ports * RING + BLOCKS
        pool = self.memory.pool(
            writers.layout,
            writers.capacity or self.graph.capacity,
            # Interpreted, nobody makes more while it runs: all are there, and few are ever touched.
            blocks=BLOCKS if self._mode.compiles else most,
            most=most,
            owner=writers.owner,
            borrows=writers.borrows,
            eager=self._mode.compiles,
        )
        self.pools[pool.address] = pool
        record = Pool(pool.address)
        users = writers.users or [number for number, _ in writers.outputs]
        record.users, record.user_count = self._words(users), len(users)
        for _, output in writers.outputs:
            output.pool = pool.address

    def _kernel(self, operator: Operator) -> None:
        record, kernel = operator.unit, operator.kernel
        chain, operator.run.task = kernel.chain, kernel.task.address
        if chain.keeps_panes:
            record.advance = address_of(kernel.compiled_advance)
        if kernel.stores_anything:
            record.room = address_of(kernel.compiled_room)
        if chain.windowed is not None:
            record.partial = chain.windowed.phase == "partial"
            record.single = chain.gives_single_rows
        record.place_column, record.place, record.told = -1, NEVER, NEVER
        record.owned = chain.is_owned
        if operator.groups is not None:
            groups, names = operator.groups, chain.input.names
            kernel.task.low_group, kernel.task.high_group = groups.start, groups.stop
            if PLACE in names:
                record.place_column = names.index(PLACE)

    def _merge(self, operator: Operator) -> None:
        merge, channels = MergeRecord.allocate(), self.channels[operator.stage].all
        marks = np.full(max(len(channels), 1), NEVER, np.int64)
        merge.channels = merge.open = len(channels)
        merge.watermarks, merge.sent = marks.ctypes.data, NEVER
        self._kept += [merge, marks]
        operator.run.task = merge.address

    def _gather(self, operator: Operator) -> None:
        root, layout = operator.root, operator.main.layout
        assert root is not None and layout is not None
        gather = self._gather_record(root, layout, len(operator.ports), merge_rows)
        operator.run.task = gather.address

    def _gather_record(self, root: Node, layout: Layout, edges: int, merge: Any) -> Any:
        """How rows of several edges come together."""
        gather, sent, given = GatherRecord.allocate(), root.inputs[0].schema, layout.schema
        order = root.order if isinstance(root, Exchange) else ()
        gather.place = -1 if order else sent.index(PLACE)
        gather.watermark = given.index(WATERMARK) if WATERMARK in given else -1
        gather.columns, gather.count = self._columns(given.names, sent), len(given)
        gather.keys, gather.key_count = self._columns(order, sent), len(order)
        stands = Stand.allocate(edges)
        for k in range(edges):
            stands[k].passed = NEVER
        gather.stands, gather.edge_count, gather.serial = stands.address, edges, -1
        gather.merge = self._mode.code(merge)
        capacity = self.graph.capacity
        gather.edges, gather.rows = self._zeros(capacity, "i4"), self._zeros(capacity, "i4")
        self._kept += [gather, stands]
        return gather

    def _columns(self, names: Sequence[str], sent: Schema) -> int:
        """Columns of rows that are given, as `gathering` finds them in rows that are sent."""
        made = GatheredColumn.allocate(max(len(names), 1))
        for k, name in enumerate(names):
            kind = ColumnLayout.of(name, sent[name]).kind
            made[k].kind, made[k].nullable = KINDS[kind], sent[name].nullable
            made[k].source = -1 if name == PLACE else sent.index(name)
        self._kept.append(made)
        return made.address

    def _source(self, operator: Operator) -> None:
        run, split = operator.run, SplitRecord.allocate()
        self._kept.append(split)
        split.replica = split.turn = operator.replica or 0
        run.task = split.address
        channels = self.channels[operator.stage]
        split.shared = channels.shared.address
        if channels.compute_times:
            times = np.empty(channels.shared.rows, np.int64)
            valid = np.empty(channels.shared.rows, np.uint8)
            self._kept += [times, valid]
            split.times, split.valid = times.ctypes.data, valid.ctypes.data
