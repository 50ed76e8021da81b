"""A stage's plan into units, and the wires between them."""

from __future__ import annotations

from typing import Any

from headrace.plan.fusion import chains
from headrace.plan.graph import consumers, walk
from headrace.plan.nodes import Aside, DeadLetters, Late, MapBatches, Node, Source, Union
from headrace.plan.planner import StagePlan

from .drive import Driver
from .generate.context import Chain
from .input import Input
from .kernel import Tables
from .task import MAIN, SIDE
from .units import BatchesUnit, KernelUnit, OutputUnit, Unit
from .windows import OpenWindows


class Wiring:
    """The units of a stage, inputs first, each with its readers.

    Chains of operators are units, and so are inputs, outputs and plain Python. Unions, late rows
    and dead letters are wires: whoever reads them reads the units behind.
    """

    def __init__(
        self,
        plan: StagePlan,
        capacity: int,
        compiled: bool,
        tables: Tables | None = None,
        account: Any = None,
    ) -> None:
        self._plan, self._capacity, self._compiled = plan, capacity, compiled
        self._account = account
        self._tables: Tables = {} if tables is None else tables
        self.inputs: dict[str, Input] = {}
        self.outputs: dict[str, OutputUnit] = {}
        self.units: list[Unit] = []
        self._made: dict[int, Unit] = {}  # by the id of the node whose rows a unit gives
        self._first: dict[int, Unit] = {}  # by the id of the node that reads a unit's input
        self._inside: dict[int, Unit] = {}  # by the id of every node of a chain
        self._make_units()
        self._readers = consumers(plan.roots)
        for node in walk(plan.roots):
            if isinstance(node, Aside):
                self._connect(self._inside[id(node.input)], SIDE, node)
            elif id(node) in self._made:
                self._connect(self._made[id(node)], MAIN, node)

    def _make_units(self) -> None:
        roots = self._plan.roots
        late_read = {id(node.input) for node in walk(roots) if isinstance(node, Late)}
        letters = {id(n.input): n.schema for n in walk(roots) if isinstance(n, DeadLetters)}
        by_last = {id(chain[-1]): chain for chain in chains(roots, self._plan.fuse)}
        for node in walk(roots):
            unit: Unit
            if id(node) in by_last:
                nodes = by_last[id(node)]
                late_wanted = any(id(each) in late_read for each in nodes)
                wanted = late_wanted, letters.get(id(nodes[0]))
                chain = Chain(nodes, nodes[0].inputs[0].schema, *wanted)
                given = self._capacity, self._compiled, self._tables, self._account
                unit = KernelUnit(chain, *given)
                self._first[id(nodes[0])] = unit
                self._inside.update((id(each), unit) for each in nodes)
            elif not node.inputs:
                unit = self.inputs[node.name] = Input(node, self._capacity, self._compiled)
            elif isinstance(node, MapBatches):
                unit = BatchesUnit(node, self._capacity)
            elif node in roots:
                unit = self.outputs[node.name] = OutputUnit(node)
            else:
                continue
            self._made[id(node)] = unit
            self._first.setdefault(id(node), unit)
            self.units.append(unit)

    def _connect(self, unit: Unit, output: int, node: Node) -> None:
        """Every reader of a node's rows, through unions, becomes a reader of a unit."""
        pending = list(self._readers.get(id(node), ()))
        while pending:
            reader = pending.pop(0)
            if isinstance(reader, Union):
                pending.extend(self._readers.get(id(reader), ()))
            elif not isinstance(reader, Aside):
                target = self._first[id(reader)]
                unit.readers[output].append((target, target.add_input()))

    def windows(self) -> list[OpenWindows]:
        """The open windows of all kernels."""
        kernels = [unit.kernel for unit in self.units if isinstance(unit, KernelUnit)]
        return [kernel.windows for kernel in kernels if kernel.windows is not None]

    def drivers(self) -> dict[str, Driver]:
        """Drivers of the sources that one kernel alone reads, if their clock reads a column."""
        found = {}
        for source in self.inputs.values():
            readers = [unit for unit, _ in source.readers[MAIN]]
            timed = source.clock is None or source.clock.reads_a_column
            if len(readers) != 1 or not timed or not isinstance(source.node, Source):
                continue
            if self._compiled and isinstance(reader := readers[0], KernelUnit):
                found[source.name] = Driver(reader.kernel, source.clock, self._capacity)
        return found
