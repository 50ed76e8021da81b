"""What it costs a thread to take rows from a queue and to put them into the next."""

from __future__ import annotations

from .machine import LINE, Machine
from .units import Unit

RECORD_LINES = 3  # cache lines of an operator that move with it to another core


class Costing:
    """The costs on a machine, under a scheduler that locks queues or does not.

    >>> from headrace.control.simulator import Operator, machine_named
    >>> costing = Costing(machine_named("ideal"), locks_ports=False, sleeping_locks=False)
    >>> costing.reading(Unit(0, Operator("source", 1e-6)), rows=10, cpu=0)
    0.0
    """

    def __init__(self, machine: Machine, *, locks_ports: bool, sleeping_locks: bool) -> None:
        self._costs, self._l2_bytes = machine.costs, machine.l2_bytes
        self._transfers = machine.transfers
        self._locks_ports, self._sleeping_locks = locks_ports, sleeping_locks

    def reading(self, unit: Unit, rows: int, cpu: int) -> float:
        """Rows come from the core that wrote them, the operator from where it ran last."""
        costs, spec = self._costs, unit.spec
        seconds = 0.0
        if unit.before:
            lines = -(-spec.row_bytes // LINE)
            if unit.writer_cpu == cpu or unit.writer_cpu < 0:
                cold = unit.pending * spec.row_bytes > self._l2_bytes
                line = costs.from_l3 if cold else 0.0
            else:
                line = self._transfers[unit.writer_cpu][cpu]
            seconds = rows * (costs.pop + lines * line)
        if unit.last_cpu >= 0 and unit.last_cpu != cpu:
            seconds += RECORD_LINES * self._transfers[unit.last_cpu][cpu]
        return seconds

    def writing(self, behind: Unit, rows: int, cpu: int, now: float) -> tuple[float, float]:
        """What pushing rows costs, and when the lock of a queue with several writers is free."""
        costs = self._costs
        shared = len(behind.before) > 1
        each = costs.push
        if shared or self._locks_ports:
            each += costs.lock
            if behind.last_cpu >= 0:  # flags and ends of a queue are on one line (Streams fig. 3)
                each += self._transfers[behind.last_cpu][cpu]
        if not shared:
            return rows * each, 0.0
        held = each
        if behind.writer_cpu >= 0 and behind.writer_cpu != cpu:
            held += self._transfers[behind.writer_cpu][cpu]
        if behind.lock_free > now and self._sleeping_locks:
            held += costs.handoff
        behind.lock_free = max(now, behind.lock_free) + rows * held
        return rows * each, behind.lock_free
