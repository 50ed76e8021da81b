"""What the simulator has to know of a query: its operators, as they stood in a run.

They are those that policies see (`features`), so what only brings copies together is one, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headrace.control.simulator.measured import MANY, Measured
from headrace.plan.fusion import is_stateless
from headrace.stage.store import GROUPS
from headrace.stage.task import MAIN

from .graph import Operator
from .unit import HOSTED, READER, SOURCE, SUFFIXES

TIMES = ("seconds", "starved", "blocked")  # all that a unit can do


def measured(
    operators: Iterable[Operator], metrics: Mapping[str, Mapping[str, Any]], port_rows: int
) -> Iterator[Measured]:
    """Each operator once, however many copies it has. port_rows: that fit into a port."""
    copies: dict[str, list[Operator]] = {}
    for operator in operators:
        if operator.kind != READER:  # a part of its source
            for name in operator.inputs or (_name(operator),):
                copies.setdefault(name, []).append(operator)
    for name, (operator, *others) in copies.items():
        counted = metrics[name]
        beside = sum(metrics[each]["rows_in"] for each in operator.inputs)  # that one unit reads
        part = counted["rows_in"] / beside if beside else 1.0
        inputs, late = _senders(operator) if operator.kind != SOURCE else ([], [])
        yield Measured(
            name,
            tuple(inputs),
            counted["rows_in"],
            counted["rows_out"],
            counted["seconds"] * part,
            parallelism=_parallelism(operator),
            hosted=operator.kind in HOSTED,
            capacity=port_rows,
            state_bytes=counted.get("state_bytes", 0),
            late=counted["late_rows"],
            late_inputs=tuple(late),
            lasted=sum(counted[what] for what in TIMES) / (1 + len(others)),
            waited=counted["starved"] / (1 + len(others)),
        )


def _name(operator: Operator) -> str:
    return operator.name + SUFFIXES.get(operator.kind, "")


def _senders(reader: Operator) -> tuple[list[str], list[str]]:
    """The names of those whose rows it reads, and of those whose late rows."""
    inputs: dict[str, None] = {}
    late: dict[str, None] = {}
    for sender in reader.senders:
        names = list(sender.inputs) or [_name(sender)] * len(sender.outs)
        for place, out in enumerate(sender.outs):
            if reader in out.readers:
                is_late = sender.kind != SOURCE and place != MAIN
                (late if is_late else inputs)[names[place]] = None
    return list(inputs), list(late)


def _parallelism(operator: Operator) -> int:
    """As many runs at once as there may be, with any number of workers."""
    if operator.groups is not None or operator.parts:
        return GROUPS
    if operator.kind == SOURCE or operator.replica is not None:
        return MANY
    stateless = operator.kernel_unit is not None and is_stateless(operator.kernel_unit.chain.nodes)
    return MANY if stateless else 1
