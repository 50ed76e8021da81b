"""The schedulers of an engine and their hooks, which stay while a thread may call them."""

from __future__ import annotations

from typing import Any

from .hosts import Hosts
from .mode import Mode


class HookSets:
    """Sets of hooks (`schedulers.hooks`): the one in force, and those before it."""

    def __init__(self, mode: Mode, hosts: Hosts) -> None:
        self._mode, self._hosts = mode, hosts
        self._kept: dict[int, Any] = {}  # by address
        self._retired: list[tuple[int, int]] = []  # since when, and the address

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, scheduler: Any) -> int:
        """The address of a set of hooks, in the present mode. Nothing of it is moved or freed."""
        hooks = self._mode.hooks_of(scheduler)
        self._kept[hooks.address] = scheduler, hooks
        return int(hooks.address)

    def retire(self, hooks: int) -> None:
        """All workers have left these hooks: forget them, once no thread of the host that has
        found them before can be inside."""
        self._retired.append((self._hosts.moment(), hooks))
        while self._retired and self._hosts.have_left(self._retired[0][0]):
            del self._kept[self._retired.pop(0)[1]]

    def clear(self) -> None:
        """Forget all. Nobody is inside."""
        self._kept.clear()
        self._retired.clear()
