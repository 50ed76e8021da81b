"""COLLECT units: what the owners of key groups give, handed on as it comes, instead of GATHER.

The rows of each owner stay in its order. A mark says something about all rows before it, so it
waits until those of all owners have gone by.
"""

from __future__ import annotations

from headrace.node.emit import finish_mark, keep_mark
from headrace.node.passing import pass_rows
from headrace.node.port import PROGRESS, Port
from headrace.node.port import ROWS as ROW_SLICE
from headrace.node.running import next_input, pass_mark
from headrace.node.unit import (
    BLOCKED,
    FINISHED,
    GO_ON,
    MARKING,
    STARVED,
    Edge,
    Run,
    is_cancelled,
)
from headrace.stage.memory.records import compiled


@compiled
def run_collect(worker, unit):
    """Hand on what owners give; a mark when all have come to it."""
    run = Run(unit.run)
    while True:
        if is_cancelled(unit):
            return FINISHED
        if run.phase == MARKING:
            answer = pass_mark(worker, unit)
            if answer != GO_ON:
                return answer
        elif unit.arrived == unit.edge_count:
            unit.arrived = 0
            for k in range(unit.edge_count):
                Edge(unit.edges)[k].waiting = 0
            run.phase = MARKING
        elif next_input(unit) < 0:
            return STARVED
        elif run.slice.kind != ROW_SLICE:
            take_mark_of_owner(worker, unit)
        elif not pass_rows(worker, unit):
            return BLOCKED


@compiled
def take_mark_of_owner(worker, unit):
    """An owner has come to a mark. How far it has come besides, nobody asks."""
    run = Run(unit.run)
    edge, slice = Edge(unit.edges)[run.reading], run.slice
    if slice.kind != PROGRESS:
        keep_mark(run.mark, slice)
        edge.waiting = 1
        unit.arrived += 1
    finish_mark(worker, Port(edge.port), slice)
