"""How interpreted code reaches memory: every access goes through `current`.

A model checker subclasses Memory, puts an instance in `memory.current`, and yields to its scheduler
before it acts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Memory:
    """Plain memory. Threads may share it: updates and ordered stores exclude each other.

    The garbage collector may run a finalizer in the middle of an update, on the same thread, and
    that one may update memory as well: hence a lock that its holder may take again, and a count of
    changes that tells an update to start again.
    """

    def __init__(self) -> None:
        self._one_at_a_time = threading.RLock()
        self._changes = 0

    def load(self, address: int, ctype: Any, order: str) -> Any:
        """order: "plain", "relaxed", "acquire" or "sc"."""
        return ctype.from_address(address).value

    def store(self, address: int, ctype: Any, value: Any, order: str) -> None:
        """order: "plain", "relaxed", "release" or "sc"."""
        if order == "plain":
            ctype.from_address(address).value = value
            return
        with self._one_at_a_time:
            self._changes += 1
            ctype.from_address(address).value = value

    def update(self, address: int, ctype: Any, change: Callable[[Any], Any]) -> Any:
        """One atomic read-modify-write; gives the old value."""
        with self._one_at_a_time:
            cell, began = ctype.from_address(address), -1
            while began != self._changes:
                began = self._changes
                old = cell.value
                new = change(old)
            cell.value = new
            self._changes += 1
        return old

    def pause(self) -> None:
        """A thread spins and waits for a change."""


current = Memory()
