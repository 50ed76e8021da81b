"""How many rows lie ahead in a channel, and at which positions they can be cut."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from headrace.plan.connector import Reader

POLL_ROWS = 65_536
MORE_SECONDS = 0.02  # for more rows: a reader may need a moment to get to the next file


@dataclass
class Stretch:
    """Rows of a channel that follow each other, and the positions behind some of them.

    >>> stretch = Stretch([(10, "a"), (20, "b"), (30, "c"), (40, "d")])
    >>> stretch.splits(2), stretch.splits(3)
    (['b'], ['b', 'c'])
    >>> stretch.take(25), stretch
    (Stretch(steps=[(10, 'a'), (20, 'b')]), Stretch(steps=[(10, 'c'), (20, 'd')]))
    """

    steps: list[tuple[int, Any]] = field(default_factory=list)  # so many rows before a position

    @property
    def rows(self) -> int:
        """How many they are."""
        return self.steps[-1][0] if self.steps else 0

    def add(self, rows: int, position: Any) -> None:
        """So many rows more, up to a position."""
        self.steps.append((self.rows + rows, position))

    def take(self, most: int) -> Stretch:
        """The first of them, at most so many; in any case up to the first position."""
        count = max(1, bisect_right(self.steps, most, key=lambda step: step[0]))
        taken = Stretch(self.steps[:count])
        self.steps = [(rows - taken.rows, position) for rows, position in self.steps[count:]]
        return taken

    def splits(self, parts: int) -> list[Any]:
        """Positions that cut them into so many parts of about the same size, or into fewer."""
        found: list[Any] = []
        steps = iter(self.steps)
        for part in range(1, parts):
            least = -(-self.rows * part // parts)
            position = next((p for rows, p in steps if rows >= least), self.steps[-1][1])
            if position == self.steps[-1][1]:
                break  # nothing lies behind it
            found.append(position)
        return found


class Ahead:
    """Goes ahead in a channel, and is followed by the batches that are planned.

    latest: the end of a channel whose positions are numbers that can be counted on: nothing is
    read then. It changes, and so has to be set whenever one goes on.
    """

    def __init__(self, connector: Any, channel: str, position: Any) -> None:
        self._connector, self._channel = connector, channel
        self.latest: int | None = None
        self.start = self._position = position  # of the next batch; how far we have gone
        self.ended = False
        self._stretch = Stretch()
        self._reader: Reader | None = None
        self._read_to: Any = None  # where it stands

    @property
    def rows(self) -> int:
        """How many rows lie ahead, as far as we have gone."""
        return self._stretch.rows

    def go_on(self, most: int, wait: float) -> bool:
        """At most so many rows more; False if there are none for now."""
        if self.latest is not None and self._position < self.latest:
            step = min(most, self.latest - self._position)
            self._position += step
            self._stretch.add(step, self._position)
            return True
        if self.latest is not None and self.rows:
            return False  # whether this is the end is seen next time
        return self._read(most, MORE_SECONDS if self.rows else wait)

    def _read(self, most: int, wait: float) -> bool:
        if self._read_to != self._position:
            self.close()  # we have gone on without it
        if self._reader is None:
            self._reader = self._connector.open(self._channel, self._position, None, [], None)
        try:
            batch = self._reader.poll(min(POLL_ROWS, most), wait)
        except BaseException:
            self.close()
            raise
        came = batch.ended or batch.rows is not None or batch.position != self._position
        self._position = self._read_to = batch.position
        self.ended = batch.ended
        if came:
            self._stretch.add(0 if batch.rows is None else batch.rows.num_rows, batch.position)
        if batch.ended:
            self.close()
        return came

    def take(self, most: int) -> Stretch | None:
        """The rows of the next batch, at most so many; None if nothing has come."""
        if not self._stretch.steps:
            return None
        taken = self._stretch.take(most)
        self.start = taken.steps[-1][1]
        return taken

    @property
    def has_ended(self) -> bool:
        """Was all taken that the channel will ever have?"""
        return self.ended and not self._stretch.steps

    def close(self) -> None:
        """Close what is open."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class Beside:
    """Goes ahead in channels in a thread of its own: the next batch is planned while one runs.

    Between `begin` and `pause` they are its own. What fails is left to who goes on there.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def begin(self, channels: Sequence[Ahead], step: int, most: int) -> None:
        """Go on until so many rows lie ahead in each, so many at a time."""
        self._stopping.clear()

        def run() -> None:
            for ahead in channels:
                with suppress(Exception):
                    while not self._stopping.is_set() and not ahead.ended and ahead.rows < most:
                        if not ahead.go_on(step, 0.0):
                            break

        self._thread = threading.Thread(target=run, name="headrace-ahead", daemon=True)
        self._thread.start()

    def pause(self) -> None:
        """Leave the channels to others."""
        if self._thread is not None:
            self._stopping.set()
            self._thread.join()
            self._thread = None
