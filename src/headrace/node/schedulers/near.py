"""The scheduler `near`: who reads what was just written comes next; else, least recently run.

What a worker gave is read next by the same worker, while it is in this core's cache, and a unit
whose output was full goes on when its readers have run: so a source goes block by block all the way
down a chain before it copies the next block (Bobox's immediate tasks, §4.2; Streams fig. 6 without
its recursion). All else is in one free list (Streams figs. 4-5): only what a worker leaves behind
is taken by others. Where units wait there, a worker leaves what it has begun after a while, and at
once when it only makes a reader fall behind that waits there itself: rows that are read late have
left the cache, and a run over many of them is over its bound again.
"""

from __future__ import annotations

from typing import Any

from headrace.node.free_list import NO_UNIT, FreeList, has_work, new_free_list, pick, put
from headrace.node.schedulers.hooks import AGAIN, NEAR, Turn, has_seat
from headrace.stage.memory.records import array, compiled, i64, line, record

MOST_KEPT = 8192  # units that a worker has begun and not finished
PATIENCE_NS = 200_000  # of who waits in the list, while a worker goes on with what it has begun


@record
class Kept:
    """What is kept for one worker, which alone writes it."""

    near: i64 = line()
    depth: i64
    went_on: i64  # ns, since it last took a unit of the list
    begun: array(i64, MOST_KEPT) = line()  # units that go on later, the last one first


@record
class NearRecord:
    """The memory of the scheduler."""

    list: i64 = line()  # fixed
    kept: i64  # fixed: of each worker
    workers: i64  # fixed


class Near:
    """The scheduler; `memory` is the address that its hooks are told."""

    def __init__(self, units: int, workers: int) -> None:
        self._list, self._record = new_free_list(units), NearRecord.allocate()
        self._kept = Kept.allocate(max(workers, 1))
        for number in range(workers):
            self._kept[number].near = NO_UNIT
        record = self._record
        record.list, record.kept = self._list.address, self._kept.address
        record.workers = workers

    hooks: tuple[Any, ...]  # on_ready, next_task, on_done, has_work, give_back: set below

    @property
    def memory(self) -> int:
        """The address of its record."""
        return self._record.address


@compiled
def on_ready(address):
    """See hooks."""
    turn = Turn(address)
    record = NearRecord(turn.scheduler)
    if has_seat(record, turn.worker):
        kept = Kept(record.kept)[turn.worker]
        if turn.how == NEAR and kept.near == NO_UNIT:
            kept.near = turn.unit
            return 0
        if turn.how == AGAIN and kept.depth < MOST_KEPT:
            kept.begun[kept.depth] = turn.unit
            kept.depth += 1
            return 0
    put(FreeList(record.list), turn.unit)
    return 1


@compiled
def next_task(address):
    """See hooks."""
    turn = Turn(address)
    record = NearRecord(turn.scheduler)
    if has_seat(record, turn.worker):
        kept = Kept(record.kept)[turn.worker]
        if kept.near != NO_UNIT:
            unit, kept.near = kept.near, NO_UNIT
            return unit
        if kept.depth > 0 and kept.went_on >= PATIENCE_NS:
            others_wait = has_work(FreeList(record.list))
            if others_wait:
                leave_begun(record, kept)
                turn.more = 1
        if kept.depth > 0:
            kept.depth -= 1
            return kept.begun[kept.depth]
        kept.went_on = 0
    return pick(FreeList(record.list))


@compiled
def on_done(address):
    """See hooks."""
    turn = Turn(address)
    record = NearRecord(turn.scheduler)
    if has_seat(record, turn.worker):
        kept = Kept(record.kept)[turn.worker]
        kept.went_on = PATIENCE_NS if turn.behind != 0 else kept.went_on + turn.ns
    return 0


@compiled
def is_ready(address):
    """has_work; see hooks."""
    turn = Turn(address)
    record = NearRecord(turn.scheduler)
    if has_seat(record, turn.worker):
        kept = Kept(record.kept)[turn.worker]
        if kept.near != NO_UNIT or kept.depth > 0:
            return 1
    there = has_work(FreeList(record.list))
    return 1 if there else 0


@compiled
def give_back(address):
    """See hooks."""
    turn = Turn(address)
    record = NearRecord(turn.scheduler)
    if not has_seat(record, turn.worker):
        return 0
    kept = Kept(record.kept)[turn.worker]
    if kept.near != NO_UNIT:
        put(FreeList(record.list), kept.near)
        kept.near = NO_UNIT
    leave_begun(record, kept)
    return 1


@compiled
def leave_begun(record, kept):
    """What a worker has begun comes after those who wait in the list."""
    while kept.depth > 0:
        kept.depth -= 1
        put(FreeList(record.list), kept.begun[kept.depth])


Near.hooks = (on_ready, next_task, on_done, is_ready, give_back)
