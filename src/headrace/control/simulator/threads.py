"""Threads and the operating system that puts them on logical processors.

One queue of threads that can run, a time slice, and a price for every change: what an operating
system does, with all its cleverness left out. A thread that wakes goes back to where it ran if that
is idle, else to the first idle processor: whole cores before second hardware threads.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from .machine import Machine


class State(Enum):
    """What a thread does."""

    NEW = "new"
    RUNNING = "running"  # an operator
    SPINNING = "spinning"  # waits, and keeps its processor
    SLEEPING = "sleeping"
    WAKING = "waking"  # was woken, and is not there yet
    READY = "ready"  # waits for a processor
    SUSPENDED = "suspended"  # by elasticity


@dataclass(eq=False)
class Worker:
    """A thread. `own` is the operator that only it runs, where there is one."""

    number: int
    own: Any = None
    cpu: int = -1
    state: State = State.NEW
    since: float = 0.0  # when it got its processor
    debt: float = 0.0  # seconds that it spends before the next rows: wake-ups, searches, switches
    token: int = 0  # of its last wait; timers of earlier ones are void
    busy: float = 0.0  # seconds with rows
    overhead: float = 0.0  # seconds with everything else, spinning included
    stack: list[Any] = field(default_factory=list)  # operators begun and not finished
    delay: float = 0.0  # of its back-off
    waiting_since: float = 0.0  # when it began to spin
    run: tuple[Any, float, int] | None = None  # operator, start and rows of the run under way


class Processors:
    """Which thread is on which logical processor, and who waits for one.

    >>> processors = Processors(Machine("two", cores=2))
    >>> processors.take(Worker(0)), processors.take(Worker(1)), processors.take(Worker(2))
    (True, True, False)
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._idle = list(range(machine.processors))
        self._is_idle = [True] * machine.processors
        self._last = [-1] * machine.processors  # the thread that ran there last
        self._core = [machine.core_of(cpu) for cpu in range(machine.processors)]
        self._busy = [0] * machine.physical  # hardware threads at work on each core
        self._speed = [machine.speed(busy) for busy in range(machine.smt + 1)]
        self.ready: deque[Worker] = deque()
        self.switches = 0

    def take(self, worker: Worker) -> bool:
        """A processor for a thread; without one it waits in `ready`."""
        cpu = worker.cpu if worker.cpu >= 0 and self._is_idle[worker.cpu] else self._first_idle()
        if cpu < 0:
            worker.state = State.READY
            self.ready.append(worker)
            return False
        self._is_idle[cpu] = False
        self._busy[self._core[cpu]] += 1
        self._put(worker, cpu)
        return True

    def leave(self, worker: Worker) -> Worker | None:
        """The thread gives its processor up; the thread that gets it, if one waits."""
        cpu = worker.cpu
        if self.ready:
            follower = self.ready.popleft()
            self._put(follower, cpu)
            return follower
        self._is_idle[cpu] = True
        self._busy[self._core[cpu]] -= 1
        heapq.heappush(self._idle, cpu)
        return None

    def speed(self, cpu: int) -> float:
        """How fast it is now, with the hardware threads beside it."""
        return self._speed[self._busy[self._core[cpu]]]

    def _first_idle(self) -> int:
        while self._idle:
            cpu = heapq.heappop(self._idle)
            if self._is_idle[cpu]:
                return cpu
        return -1

    def _put(self, worker: Worker, cpu: int) -> None:
        worker.cpu = cpu
        if self._last[cpu] != worker.number:
            self._last[cpu] = worker.number
            self.switches += 1
            worker.debt += self._machine.costs.switch
