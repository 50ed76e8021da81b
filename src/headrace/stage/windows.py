"""The memory of the open windows of an aggregate: each has its own store."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from headrace.plan.nodes import Tumbling

from .memory.records import interpreted
from .panes import LAST, MOST_SPARE, Panes, close_panes, enter_pane, lacks_pane, open_pane
from .store import KeyedStore

FIRST_SLOTS = 16


@cache
def _by_host(function: Any) -> Callable[..., Any]:
    """The host opens and closes few windows: no machine code is loaded for them."""
    return interpreted(function)


class OpenWindows:
    """Owns the stores. Compiled code finds them, and opens and closes windows, through `panes`."""

    def __init__(self, entry: Any, window: Tumbling, *, keeps_text: bool) -> None:
        self._entry, self._window, self._keeps_text = entry, window, keeps_text
        self._owned: dict[int, KeyedStore] = {}  # open or spare, by the address of their header
        self._saved = 0  # the serial of the last window before the last snapshot
        self.panes = Panes.allocate()
        self.panes.size = window.size
        self._lay_out(FIRST_SLOTS)

    @property
    def stores(self) -> dict[int, KeyedStore]:
        """Those of open windows, by window start; for other threads, as far as can be seen."""
        found = map(self._owned.get, self._open_addresses())
        return {store.header.window: store for store in found if store is not None}

    def _open_addresses(self) -> list[int]:
        return self._directory[self._directory != 0].tolist()

    @property
    def next_end(self) -> int:
        """The end of the window that closes first."""
        return self.panes.next_end

    def open(self, start: int) -> KeyedStore:
        """A store for a window that has none."""
        if _by_host(lacks_pane)(self.panes):
            self.make_room()
        return self._owned[_by_host(open_pane)(self.panes, start)]

    def make_room(self) -> None:
        """Room for at least one more window."""
        panes = self.panes
        if panes.spare == 0:
            store = KeyedStore(self._entry, keeps_text=self._keeps_text)
            self._owned[store.header.address] = store
            panes.spare, panes.spares = store.header.address, 1
        slots = len(self._directory)
        if 2 * (panes.count + 1) > slots:
            self._lay_out(2 * slots)

    def _lay_out(self, slots: int) -> None:
        """A directory of so many slots, with the windows that are open."""
        panes = self.panes
        before = self._open_addresses() if panes.count else []
        self._directory, self._due = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
        panes.directory, panes.due = self._directory.ctypes.data, self._due.ctypes.data
        panes.mask, panes.count, panes.next_end = slots - 1, 0, LAST
        for address in before:
            _by_host(enter_pane)(panes, address)

    def at(self, address: int) -> KeyedStore:
        """The store whose header lies at an address."""
        return self._owned[address]

    def due(self, watermark: int | None) -> list[KeyedStore]:
        """Stores of the windows that end at or before a watermark (None: all), in order."""
        size, stores = self._window.size, self.stores
        starts = sorted(s for s in stores if watermark is None or s + size <= watermark)
        return [stores[start] for start in starts]

    def close(self, stores: list[KeyedStore]) -> None:
        """Forget windows; their memory is used again."""
        self._due[: len(stores)] = [store.header.address for store in stores]
        _by_host(close_panes)(self.panes, len(stores))
        self.trim()

    def trim(self) -> None:
        """Give back the memory of spare stores, but for a few."""
        panes = self.panes
        while panes.spares > MOST_SPARE:
            store = self._owned.pop(panes.spare)
            panes.spare = store.header.next
            panes.spares -= 1

    # ---- snapshots ---------------------------------------------------------------------------

    def fresh(self) -> list[int]:
        """Windows opened since the last snapshot, in order."""
        stores = self.stores.items()
        return sorted(start for start, store in stores if store.header.serial > self._saved)

    def note_snapshot(self) -> None:
        """What is open now is known to a snapshot."""
        self._saved = self.panes.opened
