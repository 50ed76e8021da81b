"""Streams' dynamic scheduler (§4.1, figs. 3 to 6): any thread runs any operator.

All operators are in one queue. A thread takes them out and puts them back until it finds one that
nobody has and that has rows, drains it, and puts it to the back. Where a queue is full, the thread
that wants to push runs its reader, up to a quarter of the queue. Sources have threads of their own,
which help the same way.

One thing is not as printed. A push into a full queue whose reader is taken by another thread is
tried again and again there (fig. 6), and a thread never leaves an operator that gets new rows all
the time: simulated for a second, nearly all threads come to spin at the head of a long pipeline.
Operators here can stop at a full queue, so a thread leaves them then and looks for other work.
"""

from __future__ import annotations

from collections import deque
from math import inf
from random import Random

from ...graph import Graph
from ..threads import Worker
from ..units import Unit
from .base import Base

QUANTUM = 200e-6  # seconds that one event stands for, at the most
FIRST_DELAY, LARGEST_DELAY = 1e-6, 10e-3  # fig. 5: × 10, "we block for up to ten milliseconds"


class Frame:
    """An operator that a thread has, how many rows it may still take, and where it came from."""

    __slots__ = ("budget", "listed", "unit")

    def __init__(self, unit: Unit, budget: float, listed: bool) -> None:
        self.unit, self.budget, self.listed = unit, budget, listed


class FreeList(Base):
    """So many scheduler threads, and one more for each source; `batch` bounds an event's rows.

    >>> FreeList(workers=8).locks_ports
    True
    """

    locks_ports = True

    def __init__(self, workers: int, batch: int = 256, seed: int = 0) -> None:
        self._workers, self._batch = workers, batch
        self._draw = Random(seed)
        self._free: deque[Unit] = deque()
        self._known: set[Unit] = set()
        self._sources: dict[Unit, Worker] = {}
        self._waiting: dict[Unit, list[Worker]] = {}  # who spins for room before a unit
        self._list_free = 0.0  # when the list's cache line is free again
        self._list_cpu = -1  # where it is

    def threads(self) -> list[Worker]:
        """Scheduler threads first, so that elasticity's level counts them, then the sources'."""
        pool = [Worker(number) for number in range(self._workers)]
        made = pool + self._new_sources(len(pool))
        # In the order of the pipeline, threads would begin side by side and wait for each other.
        self._draw.shuffle(self._free)
        return made

    def _new_sources(self, number: int) -> list[Worker]:
        made: list[Worker] = []
        for unit in self.simulation.units:
            if unit in self._known:
                continue
            self._known.add(unit)
            if unit.before:
                self._free.append(unit)
            else:
                made.append(Worker(number + len(made), own=unit))
                self._sources[unit] = made[-1]
        return made

    def update(self, graph: Graph) -> None:
        """New operators are in the list; removed ones leave it when a thread meets them."""
        for worker in self._new_sources(len(self.simulation.workers)):
            self.simulation.start(worker)

    def turn(self, worker: Worker) -> None:
        """Go on with what was begun, then find work (fig. 4)."""
        simulation = self.simulation
        while True:
            if self._go_on(worker):
                return
            own = worker.own
            if own is not None:  # a source's thread
                if own.number < 0 or not own.pending:
                    simulation.sleep(worker)
                    return
                worker.stack.append(Frame(own, inf, False))
            elif worker.number >= simulation.level:
                simulation.suspend(worker)
                return
            elif not self._find(worker):
                worker.delay = min(worker.delay * 10, LARGEST_DELAY) or FIRST_DELAY
                searched, worker.debt = (
                    worker.debt,
                    0.0,
                )  # the search was now, not before the next run
                worker.overhead += searched
                simulation.sleep(worker, simulation.now + searched + worker.delay)
                return

    def _go_on(self, worker: Worker) -> bool:
        """The operator on top of the stack; False: there is none left."""
        simulation, stack = self.simulation, worker.stack
        suspended = worker.own is None and worker.number >= simulation.level
        while stack:
            frame = stack[-1]
            unit = frame.unit
            if unit.number >= 0 and unit.pending and frame.budget > 0 and not suspended:
                full = unit.blocked_by()
                if full is None:
                    fits = QUANTUM / unit.spec.cost if unit.spec.cost else inf
                    limit = min(frame.budget, self._batch, max(fits, 1))
                    frame.budget -= simulation.run(unit.number, int(limit))
                    return True
                if full.held_lock or not full.pending:  # (full of rows under way)
                    if worker.own is None:
                        self._unwind(worker)
                        return False
                    self._waiting.setdefault(full, []).append(worker)
                    simulation.spin(worker)
                    return True
                full.held_lock = True  # fig. 6: reSchedule, a quarter of the queue
                worker.debt += simulation.machine.costs.lock
                stack.append(Frame(full, max(full.spec.capacity // 4, 1), False))
                continue
            self._leave(worker)
        return False

    def _leave(self, worker: Worker) -> None:
        """The operator on top of the stack is free again."""
        frame = worker.stack.pop()
        unit = frame.unit
        unit.held_lock = False
        self._let_go(unit)
        if frame.listed and unit.number >= 0:
            self._free.append(unit)
            self._touch_list(worker, 1)

    def _unwind(self, worker: Worker) -> None:
        """Somebody else has the reader of a full queue: leave it to them."""
        while worker.stack:
            self._leave(worker)

    def _find(self, worker: Worker) -> bool:
        """Fig. 5, findWorkNonBlocking: once around the list."""
        free = self._free
        for step in range(1, len(free) + 1):
            unit = free.popleft()
            if unit.number < 0:
                continue
            if unit.pending and not unit.held_lock and unit.blocked_by() is None:
                unit.held_lock = True
                worker.delay = 0.0
                worker.stack.append(Frame(unit, inf, True))
                self._touch_list(worker, step)
                return True
            free.append(unit)
        self._touch_list(worker, len(free))
        return False

    def _touch_list(self, worker: Worker, times: int) -> None:
        """Everybody's pops and pushes are one behind the other: they fight for one cache line."""
        machine, now = self.simulation.machine, self.simulation.now
        line = 0.0
        if self._list_cpu >= 0:
            line = machine.transfers[self._list_cpu][worker.cpu]
        self._list_cpu = worker.cpu
        self._list_free = max(self._list_free, now) + times * (machine.costs.lock + line)
        worker.debt += self._list_free - now

    def _let_go(self, unit: Unit) -> None:
        for worker in self._waiting.pop(unit, ()):
            self.simulation.wake(worker)

    def arrived(self, unit: Unit, by: Worker | None) -> None:
        """Only a source's thread waits for rows; the others look from time to time."""
        if by is None:
            self.simulation.wake(self._sources[unit])
        elif unit in self._waiting:
            self._let_go(unit)

    def drained(self, unit: Unit, by: Worker) -> None:
        """Who spins for room before a unit pushes again."""
        if unit.room > 0:
            self._let_go(unit)
