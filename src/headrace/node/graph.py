"""A plan into units and ports: what the workers of an engine run for one query.

The plan is cut at its exchanges. A stage that reads sources has no state of its own but partial
results, so it is *replicated*: each replica has its own units for it, and only what crosses an
exchange, or goes to a sink, is merged, in the order of the splits. A stage behind an exchange by
key has a copy for each owner of key groups, any other one has one copy. Inside a copy of a stage,
every chain of operators is a unit; where there is one copy, a chain without state has a *crew*, a
unit for each worker, which share its rows (`worklist`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from headrace.plan.fusion import is_stateless
from headrace.plan.nodes import Node, Sink, Source
from headrace.plan.planner import Plan, StagePlan
from headrace.plan.rewrites.orders import is_mixed
from headrace.plan.rewrites.owners import is_collected
from headrace.stage.blocks.layout import Layout
from headrace.stage.input import Input
from headrace.stage.kernel import Kernel
from headrace.stage.store import GROUPS, first_group
from headrace.stage.task import MAIN
from headrace.stage.units import BatchesUnit, KernelUnit, OutputUnit
from headrace.stage.units import Unit as StageUnit
from headrace.stage.wiring import Wiring

from .unit import BATCHES, COLLECT, GATHER, KERNEL, MERGE, MIX, PASS, READER, SINK, SOURCE, Run

PARTS_PER_WORKER = 16  # of the state of an operator whose key groups lie in one queue


@dataclass(eq=False)
class Out:
    """An output of a unit: the layout of its rows (None: it hands on those of others)."""

    layout: Layout | None
    readers: list[Operator] = field(default_factory=list)
    borrows: bool = False  # its values, and the bytes of its strings, lie in batches of the host


@dataclass(eq=False)
class Operator:
    """A unit as Python sees it: where it stands in the plan, and its records once it is built."""

    kind: int
    name: str
    stage: int
    outs: list[Out] = field(default_factory=list)
    kernel_unit: KernelUnit | None = None
    batches: BatchesUnit | None = None
    sink: Sink | None = None
    channel: int = 0  # of a reader: its place among the channels of its stage
    root: Node | None = None  # of a gathering: the exchange or sink that it is for
    groups: range | None = None  # of an owner: its key groups
    replica: int | None = None
    crew: list[Operator] = field(default_factory=list)  # all units that share its rows, if several
    parts: list[KernelUnit] = field(default_factory=list)  # that its crew shares by one queue
    senders: list[Operator] = field(default_factory=list)  # one for each edge
    inputs: dict[str, Input] = field(default_factory=dict)  # of a source unit
    number: int = -1  # as workers and schedulers know it
    unit: Any = None  # the record,
    run: Any = None  # and what it has under way
    worklist: Any = None  # of the first of a crew: what they share,
    part_records: Any = None  # and, where they share parts, their records
    error: BaseException | None = None  # of a function's call, until it is its turn to be reported
    ports: list[Any] = field(default_factory=list)  # of its edges

    @property
    def main(self) -> Out:
        """Its first output."""
        return self.outs[MAIN]

    @property
    def kernel(self) -> Kernel:
        """The kernel that it runs."""
        assert self.kernel_unit is not None
        return self.kernel_unit.kernel

    @property
    def kernels(self) -> list[Kernel]:
        """All of its kernels: of one that works on parts its share of them, for what is counted."""
        if not self.parts:
            return [] if self.kernel_unit is None else [self.kernel]
        return [part.kernel for part in self.parts[self.crew.index(self) :: len(self.crew)]]

    @property
    def rows_by_part(self) -> list[int]:
        """Rows that it has worked on, where it has some of the key groups: for each part."""
        if self.part_records is not None:
            return [self.part_records[number].rows for number in range(len(self.parts))]
        return [] if self.groups is None else [self.unit.rows_in]

    @property
    def kernel_in_work(self) -> Kernel:
        """The kernel of what it has under way."""
        under_way = Run(self.unit.run).task
        parts = [part.kernel for part in self.parts]
        return next((k for k in parts if k.task.address == under_way), self.kernel)


class Graph:
    """The units of a query, and who reads whom."""

    def __init__(
        self,
        plan: Plan,
        replicas: int,
        owners: int,
        capacity: int,
        compiled: bool = True,
        account: Any = None,
    ) -> None:
        self.replicas, self.owners, self._account = replicas, owners, account
        self.capacity, self.is_compiled = capacity, compiled
        self.operators: list[Operator] = []
        self.sources: list[Source] = []
        self.sinks: dict[str, Sink] = {}
        self.stages = plan.stages() if owners == 1 else plan.owned_stages()
        self._merges: dict[str, Operator] = {}  # by the name of an exchange or sink
        self._wirings: dict[tuple[int, int], Wiring] = {}
        self._operators: dict[int, Operator] = {}  # by the id of a stage's unit
        self._received: dict[str, list[Operator]] = {}  # readers of an exchange
        self._tables: dict[int, Any] = {}
        for stage in self.stages:
            self._place(stage)
        for stage in self.stages:
            self._connect(stage)
        for unit in self.operators:
            for out in unit.outs:
                for reader in out.readers:
                    reader.senders.append(unit)

    # ---- units -------------------------------------------------------------------------------

    def _copies(self, stage: StagePlan) -> range:
        if stage.is_replicated:
            return range(self.replicas)
        return range(self.owners if stage.is_owned else 1)

    def _place(self, stage: StagePlan) -> None:
        replicated = stage.is_replicated
        if replicated:
            self.sources += [n for n in stage.inputs if isinstance(n, Source)]
        for root in stage.roots:
            if isinstance(root, Sink):
                self.sinks[root.name] = root
        for copy in self._copies(stage):
            wiring = Wiring(stage, self.capacity, self.is_compiled, self._tables, self._account)
            self._wirings[stage.number, copy] = wiring
            replica = copy if replicated or stage.is_owned else None
            if replicated:
                self._place_source(stage, wiring, copy)
            for unit in wiring.units:
                if isinstance(unit, KernelUnit) and stage.has_parts:
                    self._place_parts(stage, unit)
                elif isinstance(unit, KernelUnit):
                    self._place_kernel(stage, unit, replica)
                elif isinstance(unit, BatchesUnit):
                    outs = [Out(unit.layout, borrows=True)]
                    operator = Operator(BATCHES, unit.name, stage.number, outs, replica=replica)
                    operator.batches = unit
                    self._add(unit, operator)
                    calls = _calls(unit, self.replicas, replicated)
                    self._give_crew(operator, min(calls, stage.width or calls))
                elif isinstance(unit, OutputUnit) and replicated and len(unit.watermarks) > 1:
                    self._add(
                        unit, Operator(PASS, unit.name, stage.number, [Out(None)], replica=replica)
                    )
        for root in stage.roots:
            if replicated:
                kind = MIX if is_mixed(root) else MERGE
                operator = Operator(kind, root.name, stage.number, [Out(None)])
                self._merges[root.name] = self._add(None, operator)
            elif stage.is_owned and is_collected(root):
                operator = Operator(COLLECT, root.name, stage.number, [Out(None)])
                self._merges[root.name] = self._add(None, operator)
            elif stage.is_owned:
                layout = Layout.of(root.schema)
                operator = Operator(GATHER, root.name, stage.number, [Out(layout)], root=root)
                self._merges[root.name] = self._add(None, operator)
            if isinstance(root, Sink):
                self._add(None, Operator(SINK, root.name, stage.number, sink=root))

    def _add(self, unit: StageUnit | None, operator: Operator) -> Operator:
        self.operators.append(operator)
        if unit is not None:
            self._operators[id(unit)] = operator
        return operator

    def _place_source(self, stage: StagePlan, wiring: Wiring, replica: int) -> None:
        inputs = {n.name: wiring.inputs[n.name] for n in stage.inputs if isinstance(n, Source)}
        outs = [Out(i.layout, borrows=True) for i in inputs.values()]
        names = ", ".join(inputs)
        operator = Operator(SOURCE, names, stage.number, outs, replica=replica, inputs=inputs)
        self.operators.append(operator)
        for name in inputs:
            self._operators[id(wiring.inputs[name])] = operator

    def _place_kernel(self, stage: StagePlan, unit: KernelUnit, replica: int | None) -> None:
        outs = [Out(block.layout) for block in unit.kernel.outputs.values()]
        operator = Operator(
            KERNEL, unit.name, stage.number, outs, kernel_unit=unit, replica=replica
        )
        if stage.is_owned:
            assert replica is not None
            groups = first_group(replica, self.owners), first_group(replica + 1, self.owners)
            operator.groups = range(*groups)
        self._add(unit, operator)
        if replica is None and is_stateless(unit.chain.nodes):
            self._give_crew(operator, min(self.replicas, stage.width or self.replicas))

    def _give_crew(self, first: Operator, units: int) -> None:
        """So many units for an operator."""
        if units > 1:
            crew = [first, *(self._place_mate(first) for _ in range(1, units))]
            for mate in crew:
                mate.crew = crew

    def _place_parts(self, stage: StagePlan, unit: KernelUnit) -> None:
        """A unit for each worker, and a kernel for each part of the key groups."""
        (root,) = stage.roots
        count = min(GROUPS, 1 << (PARTS_PER_WORKER * self.replicas - 1).bit_length())
        parts = [unit, *(self._another(unit) for _ in range(1, count))]
        for number, part in enumerate(parts):
            groups = first_group(number, count), first_group(number + 1, count)
            part.kernel.task.low_group, part.kernel.task.high_group = groups
        crew = [
            Operator(KERNEL, unit.name, stage.number, kernel_unit=part, root=root, parts=parts)
            for part in parts[: self.replicas]
        ]
        crew[0].outs = [Out(Layout.of(root.schema))]
        for mate in crew:
            mate.crew = crew
            self._add(mate.kernel_unit, mate)

    def _another(self, unit: KernelUnit) -> KernelUnit:
        """The same chain, with a kernel of its own."""
        return KernelUnit(unit.chain, self.capacity, self.is_compiled, self._tables, self._account)

    def _place_mate(self, first: Operator) -> Operator:
        """Another unit of an operator, with a kernel or a count of calls of its own."""
        outs = [replace(out, readers=[]) for out in first.outs]
        mate = Operator(first.kind, first.name, first.stage, outs, replica=first.replica)
        if first.batches is not None:
            mate.batches = BatchesUnit(first.batches.node, self.capacity)
            return self._add(mate.batches, mate)
        assert first.kernel_unit is not None
        mate.kernel_unit = self._another(first.kernel_unit)
        return self._add(mate.kernel_unit, mate)

    def place_readers(self, stage: int, polled: Sequence[bool]) -> None:
        """A unit for each channel of a stage that is to be polled; known when it starts."""
        for channel, is_polled in enumerate(polled):
            if is_polled:
                operator = Operator(READER, "", stage, channel=channel)
                self.operators.append(operator)

    def _sink(self, name: str) -> Operator:
        return next(u for u in self.operators if u.kind == SINK and u.name == name)

    # ---- wires -------------------------------------------------------------------------------

    def _connect(self, stage: StagePlan) -> None:
        for copy in self._copies(stage):
            wiring = self._wirings[stage.number, copy]
            for unit in wiring.units:
                if isinstance(unit, KernelUnit):
                    for k, out in enumerate(self._operators[id(unit)].outs):
                        out.readers = self._readers(stage, unit, k)
                elif isinstance(unit, BatchesUnit):
                    self._operators[id(unit)].main.readers = self._readers(stage, unit, MAIN)
                elif isinstance(unit, OutputUnit) and id(unit) in self._operators:
                    self._operators[id(unit)].main.readers = [self._merges[unit.name]]
            if stage.is_replicated:
                self._connect_source(stage, wiring)
        if stage.is_replicated or stage.is_owned:
            for root in stage.roots:
                self._merges[root.name].main.readers = list(self._behind(root))

    def _connect_source(self, stage: StagePlan, wiring: Wiring) -> None:
        inputs = [n for n in stage.inputs if isinstance(n, Source)]
        for k, node in enumerate(inputs):
            operator = self._operators[id(wiring.inputs[node.name])]
            operator.outs[k].readers = self._readers(stage, wiring.inputs[node.name], MAIN)

    def _readers(self, stage: StagePlan, unit: StageUnit, output: int) -> list[Operator]:
        found: list[Operator] = []
        for reader, _ in unit.readers[output]:
            if not isinstance(reader, OutputUnit) or id(reader) in self._operators:
                found.append(self._operators[id(reader)])
            elif stage.is_replicated or stage.is_owned:
                found.append(self._merges[reader.name])
            else:
                found.extend(self._behind(reader.node))
        return found

    def _behind(self, root: Node) -> Iterator[Operator]:
        """Who reads what a stage gives: its sink, or the readers in the stage it is sent to."""
        if isinstance(root, Sink):
            yield self._sink(root.name)
            return
        for stage in self.stages:
            for copy in () if stage.is_replicated else self._copies(stage):
                wiring = self._wirings[stage.number, copy]
                if root.name in wiring.inputs:
                    yield from self._readers(stage, wiring.inputs[root.name], MAIN)


def _calls(unit: BatchesUnit, workers: int, replicated: bool) -> int:
    """How many calls of a function a copy of its stage makes at a time."""
    node = unit.node
    most = node.max_in_flight or (workers if node.stateless else 1)
    return max(1, most // workers) if replicated else most


def addresses(values: Sequence[int]) -> np.ndarray:
    """Words for compiled code; keep the array."""
    return np.array(values, np.int64) if values else np.zeros(1, np.int64)
