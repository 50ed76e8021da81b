"""Rows of kernels that run, for the thread that measures the operators inside them.

The host asks a unit for rows (SAMPLE_WANTED); who runs the unit holds the block that it has just
worked on (SAMPLE_GIVEN), which costs the kernel nothing; the host copies some rows and lets go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from headrace.stage.sampling import Sample

from .building import Made
from .unit import KERNEL, NO_SAMPLE, SAMPLE_GIVEN, SAMPLE_WANTED


def fused_units(units: Iterable[Made]) -> list[Made]:
    """Those whose kernels run several operators."""
    kernels = [unit for unit in units if unit.placed.kind == KERNEL]
    return [unit for unit in kernels if len(unit.kernel.chain.nodes) > 1]


def ask_for_samples(units: Iterable[Made]) -> None:
    """Ask the units that have none."""
    for unit in fused_units(units):
        if unit.record.sampling == NO_SAMPLE:
            unit.record.sampling = SAMPLE_WANTED


def take_samples(
    units: Iterable[Made], view: Callable[[int], Any], let_go: Callable[[int], None]
) -> list[tuple[str, Sample]]:
    """The rows that units have kept aside."""
    taken = []
    for unit in fused_units(units):
        record = unit.record
        if record.sampling == SAMPLE_GIVEN:
            block, first, last = record.sample_block, record.sample_first, record.sample_last
            cost = record.sample_ns / max(last - first, 1)
            taken.append((unit.placed.name, Sample.of(view(block), first, last, cost)))
            record.sampling = NO_SAMPLE
            let_go(block)
    return taken
