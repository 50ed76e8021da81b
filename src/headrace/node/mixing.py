"""Units that hand on rows as they come, where nobody was promised an order; marks keep theirs.

MIX      the replicas of a replicated stage, instead of MERGE
COLLECT  the owners of key groups, instead of GATHER; the rows of each owner stay in its order

A mark says something about all rows before it, so it waits until these have gone by; rows behind it
may overtake it only on other edges.
"""

from __future__ import annotations

from headrace.node.emit import finish_mark, keep_mark
from headrace.node.passing import MergeRecord, mark_split, pass_rows, take_from
from headrace.node.port import PROGRESS, SPLIT, Port, peek
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
def run_mix(worker, unit):
    """Hand on what replicas give; the marks of splits in the order of the splits."""
    run = Run(unit.run)
    while True:
        if is_cancelled(unit):
            return FINISHED
        if run.phase == MARKING:
            answer = mark_split(worker, unit)
        else:
            serial = MergeRecord(run.task).serial
            answer = take_from(worker, unit, edge_that_may_go(unit, serial))
        if answer != GO_ON:
            return answer


@compiled
def edge_that_may_go(unit, serial):
    """An edge with something that need not wait, or -1: the end of a split has its turn."""
    run = Run(unit.run)
    edges = Edge(unit.edges)
    for k in range(unit.edge_count):
        place = (unit.turn + k) % unit.edge_count
        if peek(Port(edges[place].port), run.slice):
            if run.slice.kind != SPLIT or run.slice.serial == serial:
                run.reading, unit.turn = place, place + 1
                return place
    return -1


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
