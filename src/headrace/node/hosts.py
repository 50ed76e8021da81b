"""Threads of the host: they run the units that call Python (`unit.HOSTED`).

A call that blocks, in a connector or in a user's function, holds the thread that makes it and
nothing else: there are as many threads as calls are under way, and one more that waits for the next
unit (leader and followers). A thread that is not needed ends after a while. Where queries have
priorities, who is in a call takes `turns`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .core_slices import ask_for_slices
from .free_list import NO_UNIT
from .mode import Mode
from .turns import Turns
from .unit import HOST

WAIT_NS = 100_000_000  # for a unit, before a thread looks whether it is still needed
INTERPRETED_NS = 1_000_000  # the same while the loop is interpreted, which may end at any moment
MOST_WAITING = 4  # threads
SLICE_NS = 100_000  # of a core: these threads do a little at a time, workers have long runs


class Hosts:
    """The threads. `serve(unit)` does in Python what a hosted unit asks for; `end()` closes the
    engine, when it was left."""

    def __init__(
        self,
        mode: Mode,
        make_worker: Callable[[int], Any],
        serve: Callable[[int], None],
        end: Callable[[], None],
    ) -> None:
        self._mode, self._make_worker, self._serve, self._end = mode, make_worker, serve, end
        self.turns = Turns()
        self._lock = threading.Lock()  # guards what follows
        self._threads: list[threading.Thread] = []
        self._waiting = 0
        self._made = 0
        self._closed = self._left = False
        self._entry = threading.Condition()  # who is inside the interpreted engine, and who may be
        self._entries, self._shut = 0, False
        self._inside: set[int] = set()  # the numbers of their entries

    def start(self) -> None:
        """Let a first thread wait."""
        with self._lock:
            if not self._threads:
                self._add()

    def _add(self) -> None:
        self._made += 1
        self._waiting += 1
        worker = self._make_worker(-1 - self._made)
        name = f"headrace-host-{self._made}"
        thread = threading.Thread(target=self._run, args=(worker,), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self, timeout: float) -> None:
        """End the threads; those that are in a call end when they come back from it."""
        with self._lock:
            self._closed = True
            threads = list(self._threads)
        deadline = time.monotonic() + timeout
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))

    def leave(self) -> None:
        """Nobody needs the engine any more; a thread that waits will notice, and close it."""
        self._left = True

    @property
    def are_alive(self) -> bool:
        """Is there a thread that may run a unit?"""
        with self._lock:
            return any(thread.is_alive() for thread in self._threads)

    # ---- the two modes -----------------------------------------------------------------------

    @contextmanager
    def engine_entered(self) -> Iterator[None]:
        """Inside, the engine stays in its present mode."""
        with self._entry:
            while self._shut:
                self._entry.wait()
            number, self._entries = self._entries, self._entries + 1
            self._inside.add(number)
        try:
            yield
        finally:
            with self._entry:
                self._inside.remove(number)
                self._entry.notify_all()

    @contextmanager
    def shut_out(self) -> Iterator[None]:
        """Inside, no thread of the host is in the engine."""
        with self._entry:
            self._shut = True
            while self._inside:
                self._entry.wait()
        try:
            yield
        finally:
            with self._entry:
                self._shut = False
                self._entry.notify_all()

    def moment(self) -> int:
        """Now, for `have_left`."""
        with self._entry:
            return self._entries

    def have_left(self, moment: int) -> bool:
        """Have all threads left the engine that were inside at a moment?"""
        with self._entry:
            return min(self._inside, default=moment) >= moment

    # ---- a thread ----------------------------------------------------------------------------

    def _run(self, worker: Any) -> None:
        ask_for_slices(SLICE_NS)
        while not self._is_over():
            with self.engine_entered():
                compiled = self._mode.is_compiled
                ns = WAIT_NS if compiled else 0
                unit = self._mode.await_hosted(worker, ns)
            if unit == NO_UNIT:
                if not compiled:
                    time.sleep(INTERPRETED_NS / 1e9)
                if self._left and not self._closed:
                    self._end()
                continue
            with self._lock:
                self._waiting -= 1
                if self._waiting == 0 and not self._closed:
                    self._add()
            self._work_on(worker, unit)
            with self._lock:
                self._waiting += 1

    def _is_over(self) -> bool:
        with self._lock:
            over = self._closed or self._waiting > MOST_WAITING
            if over:
                self._waiting -= 1
                self._threads.remove(threading.current_thread())
            return over

    def _work_on(self, worker: Any, unit: int) -> None:
        while True:
            with self.engine_entered():
                answer = self._mode.run_hosted(worker, unit)
            if answer != HOST:
                return
            self._serve(unit)
