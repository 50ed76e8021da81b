"""How many workers run, by the rows that they take (`workers="auto"`; Streams §4.2, figs. 7, 8).

Every period the rate of rows that operators took, all together, goes to the controller
(`control.elasticity`), and as many workers run as it answers; the others are suspended. Rows that
are only read say little where queues are long: they fill up for seconds. Where nothing is done
nothing can be learnt: a quiet engine stays as it is.

The paper's least level is one more than an operator has input ports, since a thread of its that
finds a port full works there itself, and may wait for itself. A worker of ours never waits for
room, so the least level is one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Protocol

import psutil

from headrace.control.elasticity import Elasticity

PERIOD = 0.1  # seconds
JOIN_SECONDS = 0.2


class Working(Protocol):
    """A query."""

    def rows_taken(self) -> int:
        """Rows that its operators have taken so far."""


class Workers(Protocol):
    """The engine: all its workers, those that run (also those that were asked to stop and cannot
    yet), and its queries."""

    @property
    def workers(self) -> int: ...
    @property
    def running(self) -> int: ...
    @property
    def queries(self) -> Sequence[Working]: ...
    def suspend(self, workers: int) -> None:
        """Let only so many run."""


class Elastic:
    """A thread that lets more or fewer workers run, from `start` to `stop`."""

    def __init__(self, engine: Workers) -> None:
        self._engine, self._controller = engine, Elasticity(engine.workers)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-elastic", daemon=True)

    @property
    def level(self) -> int:
        """How many workers should run now."""
        return self._controller.level

    def start(self) -> None:
        """Begin with the least level."""
        self._engine.suspend(self.level)
        self._thread.start()

    def stop(self) -> None:
        """Change nothing any more."""
        self._over.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        before, began = self._rows_taken(), time.monotonic()
        psutil.cpu_percent()  # the next one counts from here
        while not self._over.wait(PERIOD):
            now, moment = self._rows_taken(), time.monotonic()
            cpu = psutil.cpu_percent() / 100
            rows = sum(max(0, count - before.get(query, 0)) for query, count in now.items())
            rate = rows / (moment - began)
            if rows and now.keys() == before.keys():  # else another load has begun meanwhile
                self.note(rate, cpu)
            before, began = now, moment

    def _rows_taken(self) -> dict[Working, int]:
        return {query: query.rows_taken() for query in self._engine.queries}

    def note(self, rate: float, cpu: float) -> None:
        """A period is over: rows taken in a second, and the part of the machine that was used."""
        level = self.level
        if self._controller.update(rate, cpu, self._engine.running) != level:
            self._engine.suspend(self.level)
