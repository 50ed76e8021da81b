"""Windows of equal length that overlap, by panes that they share.

Panes are as long as all starts and ends of windows allow. Of a row that comes late, some windows
may have ended and others not: it enters a pane of its own, which belongs only to those that have
not. So the number of a pane is that of its place in time, times the most windows that a row can be
in, plus how many of them had ended.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..durations import in_units_of, positive_length
from ..errors import ExpressionError
from ..types import DataType
from .base import FARTHEST, START, Window, Words

MOST_WINDOWS = 4096  # that a row may be in


@dataclass(frozen=True)
class Sliding(Window):
    """Windows [k * every + offset, k * every + offset + size)."""

    size: int
    every: int
    offset: int = 0

    @classmethod
    def of(cls, time: DataType, *, size: Any, every: Any, offset: Any = 0) -> Sliding:
        """See Window."""
        length, step = positive_length(size, time, "size"), positive_length(every, time, "every")
        if step > length:
            raise ExpressionError(
                f"every={every!r} is longer than the window {size!r}: some rows would be in none",
                "filter those rows out, or give a longer window",
            )
        made = cls(length, step, in_units_of(offset, time, "offset") % step)
        if made._most > MOST_WINDOWS:
            raise ExpressionError(
                f"each row would be in {made._most} windows, and {MOST_WINDOWS} is the most",
                "give a larger every=, or a shorter window",
            )
        return made

    def __str__(self) -> str:
        offset = f"+{self.offset}" if self.offset else ""
        return f"sliding({self.size} every {self.every}{offset})"

    @property
    def _pane(self) -> int:
        """The length of a pane."""
        return math.gcd(self.size, self.every)

    @property
    def _most(self) -> int:
        """The most windows that a row can be in."""
        return -(-self.size // self.every)

    @property
    def step(self) -> int:
        """See Window."""
        return self.every

    @property
    def cells(self) -> tuple[int, int]:
        """See Window."""
        return self._pane, self.offset % self._pane

    @property
    def farthest(self) -> int:
        """See Window."""
        return min(FARTHEST, FARTHEST // self._most * self._pane)

    def pane(self, words: Words, time: str) -> str:
        """See Window."""
        return f"(({time} - {self.offset}) // {self._pane} * {self._most})"

    def shortened(self, words: Words, pane: str, watermark: str) -> str:
        """See Window."""
        ended = f"({watermark} - {self.first_end(words, pane)}) // {self.every} + 1"
        return f"({pane} + max(0, {ended}))"

    def first_end(self, words: Words, pane: str) -> str:
        """See Window."""
        end = f"({pane} // {self._most} + 1) * {self._pane}"  # of the pane
        first = f"-(({self.size} - {end}) // {self.every})"  # the number of the window, rounded up
        ended = f"{pane} % {self._most}"
        return f"(({first} + {ended}) * {self.every} + {self.size + self.offset})"

    def last_end(self, words: Words, pane: str) -> str:
        """See Window."""
        last = f"{pane} // {self._most} * {self._pane} // {self.every}"
        return f"({last} * {self.every} + {self.size + self.offset})"

    def results(self, words: Words, end: str, measures: Mapping[str, str]) -> dict[str, str]:
        """See Window."""
        return {START: f"({end} - {self.size})"}
