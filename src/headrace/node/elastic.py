"""How many workers run, by the rows that they read (`workers="auto"`; Streams §4.2, figs. 7, 8).

Every period the rate of rows read from sources goes to the controller (`control.elasticity`), and
as many workers run as it answers; the others are suspended. Where nothing is read nothing can be
learnt: a quiet engine stays as it is.

The paper's least level is one more than an operator has input ports, since a thread of its that
finds a port full works there itself, and may wait for itself. A worker of ours never waits for
room, so the least level is one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import psutil

from headrace.control.elasticity import Elasticity

PERIOD = 0.1  # seconds
JOIN_SECONDS = 0.2


class Elastic:
    """A thread that lets more or fewer workers run, from `start` to `stop`."""

    def __init__(
        self,
        most: int,
        rows_read: Callable[[], Mapping[Any, int]],
        running: Callable[[], int],
        let_work: Callable[[int], None],
    ) -> None:
        """rows_read: so far, of each query. running: workers that run, also those that were asked
        to stop and cannot yet. let_work: let so many run."""
        self._controller = Elasticity(most)
        self._rows_read, self._running, self._let_work = rows_read, running, let_work
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-elastic", daemon=True)

    @property
    def level(self) -> int:
        """How many workers should run now."""
        return self._controller.level

    def start(self) -> None:
        """Begin with the least level."""
        self._let_work(self.level)
        self._thread.start()

    def stop(self) -> None:
        """Change nothing any more."""
        self._over.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        before, began = dict(self._rows_read()), time.monotonic()
        psutil.cpu_percent()  # the next one counts from here
        while not self._over.wait(PERIOD):
            now, moment = dict(self._rows_read()), time.monotonic()
            cpu = psutil.cpu_percent() / 100
            rows = sum(max(0, count - before.get(query, 0)) for query, count in now.items())
            rate = rows / (moment - began)
            if rows and now.keys() == before.keys():  # else another load has begun meanwhile
                self.note(rate, cpu)
            before, began = now, moment

    def note(self, rate: float, cpu: float) -> None:
        """A period is over: rows read in a second, and the part of the machine that was used."""
        level = self.level
        if self._controller.update(rate, cpu, self._running()) != level:
            self._let_work(self.level)
