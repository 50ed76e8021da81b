"""The scheduler `lru`: Streams' free list (`free_list`), least recently run first."""

from __future__ import annotations

from headrace.node import free_list
from headrace.node.free_list import FreeList
from headrace.node.schedulers.hooks import Turn
from headrace.stage.memory.records import compiled


@compiled
def on_ready(address):
    """See hooks."""
    turn = Turn(address)
    return free_list.on_ready(FreeList(turn.scheduler), turn.unit, turn.worker)


@compiled
def next_task(address):
    """See hooks."""
    turn = Turn(address)
    unit, turn.limit = free_list.next_task(FreeList(turn.scheduler), turn.worker)
    return unit


@compiled
def on_done(address):
    """See hooks."""
    turn = Turn(address)
    return free_list.on_done(FreeList(turn.scheduler), turn.unit, turn.worker, turn.rows, turn.ns)
