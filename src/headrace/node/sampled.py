"""Rows of kernels that run, for the thread that measures the operators inside them.

The host asks a unit for rows (SAMPLE_WANTED); who runs the unit holds the block that it has just
worked on (SAMPLE_GIVEN), which costs the kernel nothing; the host copies some rows and lets go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from headrace.stage.sampling import Sample

from .graph import Operator
from .unit import KERNEL, NO_SAMPLE, SAMPLE_GIVEN, SAMPLE_WANTED


def fused(operators: Iterable[Operator]) -> list[Operator]:
    """Those whose kernels run several operators."""
    kernels = [each for each in operators if each.kind == KERNEL]
    return [each for each in kernels if len(each.kernel.chain.nodes) > 1]


def ask_for_samples(operators: Iterable[Operator]) -> None:
    """Ask the units that have none."""
    for operator in fused(operators):
        if operator.unit.sampling == NO_SAMPLE:
            operator.unit.sampling = SAMPLE_WANTED


def take_samples(
    operators: Iterable[Operator], view: Callable[[int], Any], let_go: Callable[[int], None]
) -> list[tuple[str, Sample]]:
    """The rows that units have kept aside."""
    taken = []
    for operator in fused(operators):
        record = operator.unit
        if record.sampling == SAMPLE_GIVEN:
            block, first, last = record.sample_block, record.sample_first, record.sample_last
            cost = record.sample_ns / max(last - first, 1)
            taken.append((operator.name, Sample.of(view(block), first, last, cost)))
            record.sampling = NO_SAMPLE
            let_go(block)
    return taken
