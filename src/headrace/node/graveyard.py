"""What queries that have ended leave behind, until none of their units can use it any more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .graph import Operator
from .memory import Memory

HOME_SECONDS = 0.2  # that the end of a query waits for its units; most come home at once
TIDY_SECONDS = 0.05  # between two looks, where there is something left
LOOK_SECONDS = 0.0005


@dataclass(eq=False)
class Remains:
    """What the units of a query that has ended may still use."""

    operators: dict[int, Operator]  # by number
    memory: Memory
    kept: Any


class Graveyard:
    """The remains of queries whose units are not home."""

    def __init__(
        self, are_home: Callable[[Iterable[int]], bool], free: Callable[[Remains], None]
    ) -> None:
        """are_home: can no thread run these units any more? free: give remains back; called once
        for each."""
        self._are_home, self._free = are_home, free
        self._lock = threading.Lock()  # of what follows
        self.remains: list[Remains] = []
        self._tidying: threading.Thread | None = None

    def bury(self, remains: Remains) -> None:
        """Free remains: now, if the units are home soon; if not, later, by a thread."""
        with self._lock:
            self.remains.append(remains)
        deadline = time.monotonic() + HOME_SECONDS
        while self.tidy() and remains in self.remains:
            if time.monotonic() > deadline:
                self._tidy_later()
                return
            time.sleep(LOOK_SECONDS)

    def tidy(self) -> bool:
        """Free what the units that have come home since have used; is anything left?"""
        with self._lock:
            waiting = list(self.remains)
        for each in waiting:
            # twice: one may make another ready that was looked at before
            if self._are_home(each.operators) and self._are_home(each.operators):
                with self._lock:
                    if each not in self.remains:
                        continue
                    self.remains.remove(each)
                self._free(each)
        return bool(self.remains)

    def _tidy_later(self) -> None:
        with self._lock:
            if self.remains and self._tidying is None:
                name = "headrace-graveyard"
                self._tidying = threading.Thread(target=self._keep_tidy, name=name, daemon=True)
                self._tidying.start()

    def _keep_tidy(self) -> None:
        while True:
            self.tidy()
            with self._lock:
                if not self.remains:
                    self._tidying = None
                    return
            time.sleep(TIDY_SECONDS)
