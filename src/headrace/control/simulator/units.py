"""Operators at work in a simulation: their queues, what they have claimed, and their counters."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from math import inf
from random import Random

from .profile import Operator

ENDLESS = 1 << 60  # rows before a source that is never without
Chunk = tuple[int, float]  # rows that have the same clock time


class Unit:
    """One operator: rows wait in one queue before it, in order, with the clock time they have."""

    __slots__ = (
        "arrived", "before", "behind", "busy", "carry", "cost", "cursor", "endless", "held",
        "held_lock", "last_cpu", "last_end", "lock_free", "number", "owed", "pending", "queue",
        "rate", "reserved", "rows_in", "rows_out", "running", "selectivity", "spec", "window_start",
        "writer_cpu",
    )  # fmt: skip

    def __init__(self, number: int, spec: Operator) -> None:
        self.number, self.spec = number, spec
        self.before: list[Unit] = []
        self.behind: list[Unit] = []
        self.queue: deque[Chunk] = deque()
        self.endless = not spec.inputs and spec.arrivals == "endless"
        self.pending = ENDLESS if self.endless else 0
        self.held = 0  # rows taken by runs that are not over
        self.reserved = 0  # places for rows of runs that are not over
        self.running = 0
        self.held_lock = False  # Streams fig. 3: who consumes has the port
        self.lock_free = 0.0  # when the producers' lock of its queue is free again
        self.last_end = 0.0
        self.last_cpu = self.writer_cpu = -1
        self.carry = 0.0  # the part of a row that selectivity still owes
        self.owed = 0.0  # the part of a row that has not yet arrived
        self.cursor = 0  # which reader gets the next row of a split
        self.rows_in = self.rows_out = self.arrived = 0
        self.busy = 0.0
        # What a scheduler sees: the last window's, until then the profile's.
        self.cost, self.selectivity, self.rate = spec.cost, spec.selectivity, spec.rate
        self.window_start = (0, 0, 0.0, 0)  # rows in, rows out, busy and arrived at its start
        if spec.pending and not self.endless:
            self.push(spec.pending, 0.0)

    # ---- queue

    def push(self, rows: int, stamp: float) -> None:
        """Rows with this clock time come to wait."""
        queue = self.queue
        if queue and queue[-1][1] == stamp:
            rows_before, _ = queue[-1]
            queue[-1] = (rows_before + rows, stamp)
        else:
            queue.append((rows, stamp))
        self.pending += rows
        self.arrived += rows

    def take(self, rows: int, now: float) -> list[Chunk]:
        """The first rows."""
        if self.endless:
            return [(rows, now)]
        self.pending -= rows
        queue, found = self.queue, []
        while rows:
            here, stamp = queue[0]
            if here <= rows:
                queue.popleft()
                found.append((here, stamp))
                rows -= here
            else:
                queue[0] = (here - rows, stamp)
                found.append((rows, stamp))
                break
        return found

    @property
    def room(self) -> int:
        """Rows that still fit before it.

        Rows of a run come all at its end. Where many write, places that are reserved all that time
        would let only some of them run, so there the queue may hold more by what is under way.
        """
        if len(self.before) > 1:
            return self.spec.capacity - self.pending
        return self.spec.capacity - self.pending - self.reserved

    @property
    def head_time(self) -> float:
        """The clock time of the first row that waits."""
        return self.queue[0][1] if self.queue else inf

    @property
    def arrival_time(self) -> float:
        """The mean clock time of rows that wait."""
        if not self.queue:
            return inf
        return sum(rows * stamp for rows, stamp in self.queue) / self.pending

    # ---- runs

    def blocked_by(self) -> Unit | None:
        """A reader whose queue has no room for what a row may give."""
        if self.spec.split:
            behind = self.behind[self.cursor]
            return behind if behind.room <= 0 else None
        for behind in self.behind:
            if behind.room <= 0:
                return behind
        return None

    def ready(self) -> bool:
        """Can it run: rows, room, and not yet as many runs as it may have (Haren's canRun)?"""
        return (
            self.pending > 0 and self.running < self.spec.parallelism and self.blocked_by() is None
        )

    def takes(self, limit: int) -> int:
        """How many rows a run takes: pending, and what fits behind it (Enjima §3.1.2).

        One row may give more than fits; what is too much goes to an overflow buffer (Enjima §4).
        """
        rows = min(limit, self.pending)
        given = self.spec.selectivity
        if not self.behind or given == 0 or rows == 0:
            return rows
        if self.spec.split:
            readers = len(self.behind)
            # Reader number j from the cursor gets the rows j, j + readers, ...: it has room for the
            # first room × readers + j of them.
            wanted = min(readers, int(rows * given) + 1)
            room = min(
                max(self.behind[(self.cursor + j) % readers].room, 0) * readers + j
                for j in range(wanted)
            )
        else:
            room = min(behind.room for behind in self.behind)
        if room <= 0:
            return 0
        return min(rows, max(int(room / given), 1))

    def gives(self, chunks: list[Chunk]) -> list[Chunk]:
        """What comes out of rows: so many that in the long run selectivity is right."""
        given = self.spec.selectivity
        if given == 1.0:
            return chunks
        found = []
        for rows, stamp in chunks:
            self.carry += rows * given
            whole = int(self.carry + 1e-9)  # 20 × 0.3 are six rows
            if whole:
                self.carry -= whole
                found.append((whole, stamp))
        return found

    def shares(self, rows: int) -> list[tuple[Unit, int]]:
        """Which readers get how many of so many rows, from the cursor on; moves it."""
        if not self.spec.split:
            return [(behind, rows) for behind in self.behind]
        readers = len(self.behind)
        each, more = divmod(rows, readers)
        found = []
        for j in range(min(rows, readers)):
            found.append((self.behind[(self.cursor + j) % readers], each + (j < more)))
        self.cursor = (self.cursor + rows) % readers
        return found

    def seconds(self, rows: int, draw: Random) -> float:
        """The operator's own work for rows."""
        if self.spec.service == "exponential":
            return draw.gammavariate(rows, self.spec.cost)
        return rows * self.spec.cost

    # ---- counters

    def end_window(self, seconds: float) -> None:
        """What was counted since the last window becomes what a scheduler sees."""
        rows_in, rows_out, busy, arrived = self.window_start
        rows = self.rows_in - rows_in
        if rows:
            self.cost = (self.busy - busy) / rows
            self.selectivity = (self.rows_out - rows_out) / rows
        self.rate = (self.arrived - arrived) / seconds
        self.window_start = self.rows_in, self.rows_out, self.busy, self.arrived


def dealt(
    given: list[Chunk], shares: list[tuple[Unit, int]], split: bool
) -> Iterator[tuple[Unit, list[Chunk]]]:
    """Which rows go to whom: all to each reader, or the first so many to the first reader, ..."""
    if not split:
        for behind, _ in shares:
            yield behind, given
        return
    chunks = iter(given)
    left, stamp = 0, 0.0
    for behind, count in shares:
        part = []
        while count:
            if not left:
                left, stamp = next(chunks)
            rows = min(left, count)
            part.append((rows, stamp))
            left -= rows
            count -= rows
        yield behind, part
