"""The scheduler `lru`: Streams' free list (`free_list`), least recently run first."""

from __future__ import annotations

from headrace.node.free_list import FreeList
from headrace.node.free_list import next_task as next_listed
from headrace.node.free_list import on_done as done_listed
from headrace.node.free_list import on_ready as ready_listed
from headrace.node.schedulers.hooks import Turn
from headrace.stage.memory.records import compiled


@compiled
def on_ready(address):
    """See hooks."""
    turn = Turn(address)
    return ready_listed(FreeList(turn.scheduler), turn.unit, turn.worker)


@compiled
def next_task(address):
    """See hooks."""
    turn = Turn(address)
    unit, turn.limit = next_listed(FreeList(turn.scheduler), turn.worker)
    return unit


@compiled
def on_done(address):
    """See hooks."""
    turn = Turn(address)
    return done_listed(FreeList(turn.scheduler), turn.unit, turn.worker, turn.rows, turn.ns)
