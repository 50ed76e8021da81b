"""The open windows of an aggregate, each with its own store."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.plan.nodes import Tumbling

from .store import KeyedStore
from .strings.hashing import hash_int
from .task import Panes

FIRST_SLOTS = 16
LAST = (1 << 63) - 1  # later than every window
MOST_SPARE = 8  # closed windows whose memory is kept for new ones


class OpenWindows:
    """Stores by window start. Compiled code finds them through `panes`; only the host adds some."""

    def __init__(self, entry: Any, window: Tumbling, *, keeps_text: bool) -> None:
        self._entry, self._window, self._keeps_text = entry, window, keeps_text
        self.stores: dict[int, KeyedStore] = {}  # by window start
        self._by_address: dict[int, KeyedStore] = {}
        self._spare: list[KeyedStore] = []
        self.fresh: set[int] = set()  # windows opened since the last snapshot
        self.next_end = LAST  # the end of the window that closes first
        self.panes = Panes.allocate()
        self._lay_out()

    def open(self, start: int) -> KeyedStore:
        """A store for a window that has none."""
        store = self._spare.pop() if self._spare else self._new()
        self.panes.opened += 1
        store.header.window, store.header.serial = start, self.panes.opened
        self.fresh.add(start)
        self.next_end = min(self.next_end, start + self._window.size)
        self.stores[start] = self._by_address[store.header.address] = store
        if 2 * len(self.stores) > len(self._directory):
            self._lay_out()
        else:
            self._enter(start, store)
        return store

    def _new(self) -> KeyedStore:
        return KeyedStore(self._entry, keeps_text=self._keeps_text)

    def at(self, address: int) -> KeyedStore:
        """The store whose header lies at an address."""
        return self._by_address[address]

    def due(self, watermark: int | None) -> list[KeyedStore]:
        """Stores of the windows that end at or before a watermark (None: all), in order."""
        size = self._window.size
        starts = sorted(s for s in self.stores if watermark is None or s + size <= watermark)
        return [self.stores[start] for start in starts]

    def close(self, stores: list[KeyedStore]) -> None:
        """Forget windows; their memory is used again."""
        for store in stores:
            del self.stores[store.header.window]
            del self._by_address[store.header.address]
            if len(self._spare) < MOST_SPARE:
                store.clear()
                self._spare.append(store)
        if stores:
            self.next_end = min(self.stores) + self._window.size if self.stores else LAST
            self._lay_out()

    def _lay_out(self) -> None:
        """Write the directory anew."""
        slots = FIRST_SLOTS
        while slots < 4 * len(self.stores):
            slots *= 2
        self._directory = np.zeros(slots, np.int64)
        self.panes.directory, self.panes.mask = self._directory.ctypes.data, slots - 1
        for start, store in self.stores.items():
            self._enter(start, store)

    def _enter(self, start: int, store: KeyedStore) -> None:
        mask = len(self._directory) - 1
        at = hash_int(start) & mask
        while self._directory[at]:
            at = (at + 1) & mask
        self._directory[at] = store.header.address
