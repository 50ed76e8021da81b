"""The owner of a store: its memory goes when the owner does."""

from __future__ import annotations

import weakref
from functools import cache
from typing import Any

import numpy as np

from .memory.records import interpreted
from .store import NUMBER_SHIFT, SLOT_BYTES, Store
from .store_room import add_chunks, free_store, grow_store, reserve_slots, start_store

CHUNK_RECORDS = 256  # of a store that stays small, mostly


@cache
def by_host(function: Any) -> Any:
    """What the host does now and then: no machine code is loaded for it."""
    return interpreted(function)


class KeyedStore:
    """A store whose records have a given layout; `at` shows one that others own."""

    def __init__(
        self,
        entry: Any,
        *,
        chunk_records: int = CHUNK_RECORDS,
        keeps_text: bool = False,
        account: Any = None,
    ) -> None:
        """account: the Account that its memory counts against."""
        self.entry, self.header = entry, Store.allocate()
        shift, address = chunk_records.bit_length() - 1, address_of_account(account)
        by_host(start_store)(self.header, entry.size, shift, int(keeps_text), address)
        weakref.finalize(self, _release, self.header, account)

    @classmethod
    def at(cls, address: int, entry: Any) -> KeyedStore:
        """The store at an address."""
        made = cls.__new__(cls)
        made.entry, made.header = entry, Store(address)
        return made

    @property
    def count(self) -> int:
        """Records in use."""
        return self.header.count

    @property
    def size_bytes(self) -> int:
        """Memory of records, index and strings."""
        header = self.header
        index = (header.mask + 1) * SLOT_BYTES
        return header.capacity * self.entry.size + index + header.text_bytes

    def make_room(self) -> None:
        """Room for at least one more record and for the string that was wanted."""
        by_host(grow_store)(self.header)

    def reserve(self, records: int) -> None:
        """Room for so many records in all, at once."""
        header = self.header
        while header.capacity < records:
            by_host(add_chunks)(header)
        by_host(reserve_slots)(header, records)

    def put_keys_beside_slots(self, keys: np.ndarray) -> None:
        """For a table that stays as it is: `keys` are those of its records, in order. A key is
        then found without a look at its record."""
        index = _words(self.header.index, self.header.mask + 1)
        numbers = (index >> NUMBER_SHIFT) - 1
        self._slot_keys = np.where(numbers >= 0, keys[numbers], 0) if len(keys) else numbers
        self.header.slot_keys = self._slot_keys.ctypes.data

    # ---- snapshots ---------------------------------------------------------------------------

    def changed_numbers(self) -> np.ndarray:
        """Numbers of the records changed since the last `next_epoch`, in order of first change."""
        header, size = self.header, 1 << self.header.chunk_shift
        chunks: Any = _words(header.chunks, -(-header.changes // size)) if header.changes else []
        parts = [_words(int(at) + header.changed_at, size, np.int32) for at in chunks]
        every = np.concatenate(parts) if parts else np.zeros(0, np.int32)
        return every[: header.changes]

    def next_epoch(self) -> None:
        """Start a new interval: nothing has changed in it yet."""
        self.header.epoch += 1
        self.header.changes = 0


def address_of_account(account: Any) -> int:
    """The address of an Account for compiled code; 0: there is none."""
    return 0 if account is None else account.address


def _release(header: Any, account: Any) -> None:
    """Give memory back to an account, which must be there still."""
    by_host(free_store)(header)


def _words(address: int, count: int, kind: Any = np.int64) -> np.ndarray:
    """Memory of a store as an array that must not outlive it."""
    import ctypes

    size = count * np.dtype(kind).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address), kind)
