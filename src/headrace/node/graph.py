"""A plan into units and ports: what the workers of an engine run for one query.

The plan is cut at its exchanges. A stage that reads sources has no state of its own but partial
results, so it is *replicated*: each slot has its own units for it, and only what crosses an
exchange, or goes to a sink, is merged, in the order of the splits. A stage behind an exchange has
one copy. Inside a stage, every chain of operators is a unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.plan.nodes import Node, Sink, Source
from headrace.plan.planner import Plan, StagePlan
from headrace.stage.blocks.layout import Layout
from headrace.stage.input import Input
from headrace.stage.store import first_group
from headrace.stage.units import LATE, MAIN, BatchesUnit, KernelUnit, OutputUnit
from headrace.stage.units import Unit as StageUnit
from headrace.stage.wiring import Wiring

from .unit import BATCHES, GATHER, KERNEL, MERGE, PASS, READER, SINK, SOURCE


@dataclass(eq=False)
class Out:
    """An output of a unit: the layout of its rows (None: it hands on those of others)."""

    layout: Layout | None
    readers: list[Placed] = field(default_factory=list)
    borrows: bool = False  # the bytes of its strings lie in batches of the host


@dataclass(eq=False)
class Placed:
    """A unit in the making."""

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
    slot: int | None = None
    senders: list[Placed] = field(default_factory=list)  # one for each edge
    inputs: dict[str, Input] = field(default_factory=dict)  # of a source unit

    @property
    def main(self) -> Out:
        """Its first output."""
        return self.outs[0]


class Graph:
    """The units of a query, and who reads whom."""

    def __init__(
        self,
        plan: Plan,
        slots: int,
        owners: int,
        capacity: int,
        compiled: bool = True,
        account: int = 0,
    ) -> None:
        self.slots, self.owners, self._account = slots, owners, account
        self.capacity, self.is_compiled = capacity, compiled
        self.units: list[Placed] = []
        self.sources: list[Source] = []
        self.sinks: dict[str, Sink] = {}
        self.stages = plan.stages() if owners == 1 else plan.owned_stages()
        self._merges: dict[str, Placed] = {}  # by the name of an exchange or sink
        self._wirings: dict[tuple[int, int], Wiring] = {}
        self._placed: dict[int, Placed] = {}  # by the id of a stage's unit
        self._received: dict[str, list[Placed]] = {}  # readers of an exchange
        self._tables: dict[int, Any] = {}
        for stage in self.stages:
            self._place(stage)
        for stage in self.stages:
            self._connect(stage)
        for unit in self.units:
            for out in unit.outs:
                for reader in out.readers:
                    reader.senders.append(unit)

    # ---- units -------------------------------------------------------------------------------

    def _copies(self, stage: StagePlan) -> range:
        if stage.is_replicated:
            return range(self.slots)
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
            slot = copy if replicated or stage.is_owned else None
            if replicated:
                self._place_source(stage, wiring, copy)
            for unit in wiring.units:
                if isinstance(unit, KernelUnit):
                    self._place_kernel(stage, unit, slot)
                elif isinstance(unit, BatchesUnit):
                    outs = [Out(unit.layout, borrows=True)]
                    placed = Placed(BATCHES, unit.name, stage.number, outs, slot=slot)
                    placed.batches = unit
                    self._add(unit, placed)
                elif isinstance(unit, OutputUnit) and replicated and len(unit.watermarks) > 1:
                    self._add(unit, Placed(PASS, unit.name, stage.number, [Out(None)], slot=slot))
        for root in stage.roots:
            if replicated:
                self._merges[root.name] = self._add(
                    None, Placed(MERGE, root.name, stage.number, [Out(None)])
                )
            elif stage.is_owned:
                layout = Layout.of(root.schema)
                placed = Placed(GATHER, root.name, stage.number, [Out(layout)], root=root)
                self._merges[root.name] = self._add(None, placed)
            if isinstance(root, Sink):
                self._add(None, Placed(SINK, root.name, stage.number, sink=root))

    def _add(self, unit: StageUnit | None, placed: Placed) -> Placed:
        self.units.append(placed)
        if unit is not None:
            self._placed[id(unit)] = placed
        return placed

    def _place_source(self, stage: StagePlan, wiring: Wiring, slot: int) -> None:
        inputs = {n.name: wiring.inputs[n.name] for n in stage.inputs if isinstance(n, Source)}
        outs = [Out(i.layout, borrows=True) for i in inputs.values()]
        names = ", ".join(inputs)
        placed = Placed(SOURCE, names, stage.number, outs, slot=slot, inputs=inputs)
        self.units.append(placed)
        for name in inputs:
            self._placed[id(wiring.inputs[name])] = placed

    def _place_kernel(self, stage: StagePlan, unit: KernelUnit, slot: int | None) -> None:
        outs = [Out(unit.kernel.output.layout)]
        late = unit.kernel.late_output
        outs.append(Out(None if late is None else late.layout))
        placed = Placed(KERNEL, unit.name, stage.number, outs, kernel_unit=unit, slot=slot)
        if stage.is_owned:
            assert slot is not None
            groups = first_group(slot, self.owners), first_group(slot + 1, self.owners)
            placed.groups = range(*groups)
        self._add(unit, placed)

    def place_readers(self, stage: int, polled: Sequence[bool]) -> None:
        """A unit for each channel of a stage that is to be polled; known when it starts."""
        for channel, is_polled in enumerate(polled):
            if is_polled:
                placed = Placed(READER, "", stage, channel=channel)
                self.units.append(placed)

    def _sink(self, name: str) -> Placed:
        return next(u for u in self.units if u.kind == SINK and u.name == name)

    # ---- wires -------------------------------------------------------------------------------

    def _connect(self, stage: StagePlan) -> None:
        for copy in self._copies(stage):
            wiring = self._wirings[stage.number, copy]
            for unit in wiring.units:
                if isinstance(unit, KernelUnit):
                    placed = self._placed[id(unit)]
                    placed.outs[0].readers = self._readers(stage, unit, MAIN)
                    placed.outs[1].readers = self._readers(stage, unit, LATE)
                elif isinstance(unit, BatchesUnit):
                    self._placed[id(unit)].main.readers = self._readers(stage, unit, MAIN)
                elif isinstance(unit, OutputUnit) and id(unit) in self._placed:
                    self._placed[id(unit)].main.readers = [self._merges[unit.name]]
            if stage.is_replicated:
                self._connect_source(stage, wiring)
        if stage.is_replicated or stage.is_owned:
            for root in stage.roots:
                self._merges[root.name].main.readers = list(self._behind(root))

    def _connect_source(self, stage: StagePlan, wiring: Wiring) -> None:
        inputs = [n for n in stage.inputs if isinstance(n, Source)]
        for k, node in enumerate(inputs):
            placed = self._placed[id(wiring.inputs[node.name])]
            placed.outs[k].readers = self._readers(stage, wiring.inputs[node.name], MAIN)

    def _readers(self, stage: StagePlan, unit: StageUnit, port: str) -> list[Placed]:
        found: list[Placed] = []
        for reader, _ in unit.readers[port]:
            if not isinstance(reader, OutputUnit) or id(reader) in self._placed:
                found.append(self._placed[id(reader)])
            elif stage.is_replicated or stage.is_owned:
                found.append(self._merges[reader.name])
            else:
                found.extend(self._behind(reader.node))
        return found

    def _behind(self, root: Node) -> Iterator[Placed]:
        """Who reads what a stage gives: its sink, or the readers in the stage it is sent to."""
        if isinstance(root, Sink):
            yield self._sink(root.name)
            return
        for stage in self.stages:
            for copy in () if stage.is_replicated else self._copies(stage):
                wiring = self._wirings[stage.number, copy]
                if root.name in wiring.inputs:
                    yield from self._readers(stage, wiring.inputs[root.name], MAIN)


def addresses(values: Sequence[int]) -> np.ndarray:
    """Words for compiled code; keep the array."""
    return np.array(values, np.int64) if values else np.zeros(1, np.int64)
