"""How interpreted code reaches memory: every access goes through `current`.

A model checker subclasses Memory, puts an instance in `memory.current`, and yields to its scheduler
before it acts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Memory:
    """Plain memory."""

    def load(self, address: int, ctype: Any, order: str) -> Any:
        """order: "plain", "relaxed", "acquire" or "sc"."""
        return ctype.from_address(address).value

    def store(self, address: int, ctype: Any, value: Any, order: str) -> None:
        """order: "plain", "relaxed", "release" or "sc"."""
        ctype.from_address(address).value = value

    def update(self, address: int, ctype: Any, change: Callable[[Any], Any]) -> Any:
        """One atomic read-modify-write; gives the old value."""
        old = ctype.from_address(address).value
        ctype.from_address(address).value = change(old)
        return old

    def pause(self) -> None:
        """A thread spins and waits for a change."""


current = Memory()
