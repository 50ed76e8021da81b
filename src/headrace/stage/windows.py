"""The windows of an aggregate: how they are given out, and who owns their panes.

Compiled code opens and closes panes through `panes`, and takes memory for them through `room`.
Which of them are due, and what becomes of those that were given out, is decided here, once for all
who run a kernel.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np

from .keyed_store import CHUNK_RECORDS, KeyedStore, address_of_account, by_host
from .memory.records import array, compiled, i64, i64s
from .panes import (
    WAITING,
    Panes,
    close_panes,
    closed_panes,
    empty_panes,
    find_pane,
    holds_rows,
    lacks_pane,
    note_window,
    open_pane,
    order_ends,
    panes_with,
    pass_window,
    spare_pane,
)
from .room import free_panes, grow_panes, lay_out_panes, trim_panes, trim_room, widen_panes
from .row_queue import clear_queue
from .store import NOT_ORDERED, SLOT_BYTES, Store
from .task import NOT_SELECTED

FIRST_SLOTS = 16
LEAST_REDUCTION = 2  # rows that become one partial result; if they are fewer, there are none
ENOUGH_ROWS = 1024  # of a split, to tell
TRY_EVERY = 16  # splits
NONE_DUE = -1  # task.due_count: no windows are being given out


@compiled
def closes_windows(task, watermark):
    """Are there windows that end at or before a watermark?"""
    return task.panes != 0 and Panes(task.panes).next_end <= watermark


@compiled
def begin_firing(task, watermark):
    """The windows that end at or before a watermark are to be given out, one after the other."""
    panes = Panes(task.panes)
    task.watermark = watermark
    if panes.partial != 0:
        give_out(task, panes, closed_panes(panes, watermark))
    else:
        give_out(task, panes, note_window(panes, watermark))
    return task.due_count


@compiled
def next_window(task):
    """A window was given out: go on with the next one."""
    panes = Panes(task.panes)
    if panes.gathered != 0:
        spare_pane(panes, panes.gathered)
        panes.gathered = 0
    pass_window(panes, task.due_count)
    give_out(task, panes, note_window(panes, task.watermark))


@compiled
def begin_flush(task):
    """All windows are to be given out, as partial results, which are merged later."""
    panes = Panes(task.panes)
    give_out(task, panes, panes_with(panes, True))
    return task.due_count


@compiled
def give_out(task, panes, count):
    task.due, task.due_count, task.firing, task.place = panes.due, count, 0, 0
    task.ordered = NOT_SELECTED


@compiled
def end_firing(task):
    """All was given out. Panes that gave partial results stay open."""
    panes = Panes(task.panes)
    if panes.partial != 0:
        empty_panes(panes, task.due_count)
    else:
        widen_panes(panes, task.order_room // 2)
    task.due_count = NONE_DUE
    trim_room(task, panes)
    return 0


@compiled
def choose_partials(task, rows):
    """Partial results that hardly reduce rows are left out: each row goes on by itself for some
    splits (`task.direct`). Then they are tried, and measured, once more.

    rows: that have come to a window since the last split.
    """
    if task.direct != 0:
        task.direct += 1
        if task.direct > TRY_EVERY:
            task.direct = 0
    elif rows >= ENOUGH_ROWS and LEAST_REDUCTION * count_records(Panes(task.panes)) > rows:
        task.direct = 1


@compiled
def count_records(panes):
    """The records of all open windows."""
    directory, records = i64s(panes.directory), 0
    for at in range(panes.mask + 1):
        if directory[at] != 0:
            records += Store(directory[at]).count
    return records


class OpenWindows:
    """Owns the windows of one kernel."""

    def __init__(
        self,
        entry: Any,
        *,
        keeps_text: bool,
        step: int = 0,
        delay: int = 0,
        partial: bool = False,
        account: Any = None,
    ) -> None:
        self._entry, self._saved = entry, 0  # the serial of the last window before the snapshot
        self.panes = panes = Panes.allocate()
        panes.step, panes.delay, panes.partial = step, delay, partial
        panes.account = address_of_account(account)
        panes.entry_size, panes.keeps_text = entry.size, keeps_text
        panes.chunk_shift = CHUNK_RECORDS.bit_length() - 1
        by_host(lay_out_panes)(panes, FIRST_SLOTS)
        weakref.finalize(self, _release, panes, account)

    @property
    def stores(self) -> dict[int, KeyedStore]:
        """Those of open panes, by number; for other threads, as far as can be seen: directories and
        the records of stores stay as long as this one (`room`)."""
        panes = self.panes
        size = (panes.mask + 1) * SLOT_BYTES  # before the directory, which never becomes smaller
        copied = np.frombuffer(ctypes.string_at(panes.directory, size), np.int64)
        found = [KeyedStore.at(address, self._entry) for address in copied[copied != 0].tolist()]
        return {store.header.window: store for store in found}

    @property
    def next_end(self) -> int:
        """The end of the window that is over first."""
        return self.panes.next_end

    def open(self, pane: int, first: int, last: int) -> KeyedStore:
        """A store for a pane that has none, with the ends of its first and its last window."""
        if by_host(lacks_pane)(self.panes):
            by_host(grow_panes)(self.panes)
        return KeyedStore.at(by_host(open_pane)(self.panes, pane, first, last), self._entry)

    def close(self, closed: list[int]) -> None:
        """Forget panes; their memory is used again."""
        panes = self.panes
        due = array(i64, address=panes.due)
        for k, pane in enumerate(closed):
            due[k] = by_host(find_pane)(panes, pane)
        by_host(close_panes)(panes, len(closed))
        by_host(trim_panes)(panes)

    def ends(self) -> dict[int, tuple[int, int]]:
        """For each open pane: the ends of the first window to be given out, and of the last."""
        return {pane: (s.header.first, s.header.last) for pane, s in self.stores.items()}

    def set_ends(self, ends: dict[int, tuple[int, int]]) -> None:
        """Take up what `ends` gave. In which order records go on is to be found again: another one
        may have given some of them out meanwhile. Rows that come to wait do so in a new pane, where
        no other one has their number."""
        by_host(clear_queue)(self.panes)
        rows = [store for store in self.stores.values() if by_host(holds_rows)(store.header)]
        numbers = [store.header.window - WAITING + 1 for store in rows]
        self.panes.taking = max([self.panes.taking, *numbers])
        for pane, store in self.stores.items():
            store.header.first, store.header.last = ends[pane]
            store.header.given, store.header.queued = NOT_ORDERED, 0
        by_host(order_ends)(self.panes)

    # ---- snapshots ---------------------------------------------------------------------------

    def fresh(self) -> list[int]:
        """Panes opened since the last snapshot, in order."""
        stores = self.stores.items()
        return sorted(pane for pane, store in stores if store.header.serial > self._saved)

    def note_snapshot(self) -> None:
        """What is open now is known to a snapshot."""
        self._saved = self.panes.opened


def _release(panes: Any, account: Any) -> None:
    """Give memory back to an account, which must be there still."""
    by_host(free_panes)(panes)
