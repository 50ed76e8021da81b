"""The scheduler `dedicated`: a thread for each unit; who runs is the operating system's to say.

Streams' dedicated threading model (§2.2), Enjima's thread-based scheduling (§2.2, the T of TQ and
TM in fig. 9): what schedulers are compared with. A worker has the number of its unit, and runs no
other. Without work it sleeps on a bell of its own; whoever makes its unit ready rings it.
"""

from __future__ import annotations

from typing import Any

from headrace.node.free_list import NO_UNIT
from headrace.node.parking import Lot, wake_one
from headrace.node.schedulers.free_list import AT_ONCE, Standing, take
from headrace.node.schedulers.hooks import Turn
from headrace.node.schedulers.near import on_done
from headrace.node.unit import SOURCE, Unit
from headrace.stage.memory.atomics import load_sc, store_sc
from headrace.stage.memory.records import compiled, i64, line, record

NAP = 50_000_000  # ns, after which a thread looks whether all are to stop


@record
class Bed:
    """Where the worker of one unit sleeps."""

    lot: Lot = line()


@record
class DedicatedRecord:
    """The memory of the scheduler."""

    standings: i64 = line()  # fixed: of each unit
    beds: i64  # fixed: of each unit
    units: i64  # fixed: how many there may be


class Dedicated:
    """The scheduler; `memory` is the address that its hooks are told.

    >>> scheduler, turn, units = Dedicated(units=8), Turn.allocate(), Unit.allocate(8)
    >>> turn.scheduler, turn.units, turn.worker = scheduler.memory, units.address, 3
    >>> turn.unit = 3
    >>> next_task(turn.address), on_ready(turn.address), next_task(turn.address)
    (-1, 0, 3)
    """

    hooks: tuple[Any, ...]  # on_ready, next_task, on_done, has_work, give_back: set below

    def __init__(self, units: int) -> None:
        self._record, self._standings = DedicatedRecord.allocate(), Standing.allocate(units)
        self._beds = Bed.allocate(units)
        record = self._record
        record.standings, record.beds = self._standings.address, self._beds.address
        record.units = units

    @property
    def memory(self) -> int:
        """The address of its record."""
        return self._record.address

    def lot(self, unit: int) -> int:
        """Where the worker of a unit sleeps: an address."""
        return self._beds[unit].lot.address


@compiled
def on_ready(address):
    """See hooks."""
    turn = Turn(address)
    record = DedicatedRecord(turn.scheduler)
    store_sc(Standing(record.standings)[turn.unit], "ready", 1)
    wake_one(Bed(record.beds)[turn.unit].lot)
    return 0


@compiled
def next_task(address):
    """See hooks. Who is no worker moves units to another scheduler, and takes any."""
    turn = Turn(address)
    record = DedicatedRecord(turn.scheduler)
    if turn.worker < 0:
        for unit in range(record.units):
            taken = take(record, unit)
            if taken:
                return unit
        return NO_UNIT
    taken = take(record, turn.worker)
    if taken:
        turn.nap = AT_ONCE
        return turn.worker
    # those of sources look at the clock; all would be woken by it else
    turn.nap = NAP if Unit(turn.units)[turn.worker].kind == SOURCE else -NAP
    return NO_UNIT


@compiled
def is_ready(address):
    """has_work; see hooks."""
    turn = Turn(address)
    record = DedicatedRecord(turn.scheduler)
    return load_sc(Standing(record.standings)[turn.worker], "ready") if turn.worker >= 0 else 0


@compiled
def give_back(address):
    """See hooks. Nothing is kept for a worker alone."""
    Turn(address).nap = 0
    return 1


Dedicated.hooks = (on_ready, next_task, on_done, is_ready, give_back)
