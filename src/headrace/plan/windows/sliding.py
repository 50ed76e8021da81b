"""Windows of equal length that overlap, by panes that they share.

Panes reach from each start or end of a window to the next one: there is one in each step, or two
where the length of a window is no multiple of the step. Of a row that comes late, some windows may
have ended and others not: it enters a pane of its own, which belongs only to those that have not.
So the number of a pane is that of its place in time, times the most windows that a row can be in,
plus how many of them had ended.
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
        """From what a user gave (see Window)."""
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
    def _rest(self) -> int:
        """How far an end of a window lies behind a start."""
        return self.size % self.every

    @property
    def _parts(self) -> int:
        """Panes in a step."""
        return 2 if self._rest else 1

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
        length = math.gcd(self.size, self.every)
        return length, self.offset % length

    @property
    def farthest(self) -> int:
        """See Window."""
        return min(FARTHEST, FARTHEST // (self._parts * self._most) * self.every)

    def pane(self, words: Words, time: str) -> str:
        """See Window."""
        shifted = f"({time} - {self.offset})"
        place = f"{shifted} // {self.every}"
        if self._rest:
            place = f"(2 * ({place}) + (0 if {shifted} % {self.every} < {self._rest} else 1))"
        return f"({place} * {self._most})"

    def shortened(self, words: Words, pane: str, watermark: str) -> str:
        """See Window."""
        end = self.first_end(words, pane)  # a watermark before all times would overflow
        ended = f"({watermark} - {end}) // {self.every} + 1 if {watermark} >= {end} else 0"
        return f"({pane} + ({ended}))"

    def first_end(self, words: Words, pane: str) -> str:
        """See Window."""
        second = f"{pane} // {self._most} % 2" if self._rest else "1"  # part of the step
        number = f"{self._step(pane)} - {self.size // self.every} + {second}"
        return self._end(f"({number} + {pane} % {self._most})")

    def last_end(self, words: Words, pane: str) -> str:
        """See Window."""
        return self._end(self._step(pane))

    def _step(self, pane: str) -> str:
        """The number of the step that a pane lies in, and of the window that begins with it."""
        return f"({pane} // {self._most * self._parts})"

    def _end(self, number: str) -> str:
        """The end of a window."""
        return f"({number} * {self.every} + {self.size + self.offset})"

    def results(self, words: Words, end: str, measures: Mapping[str, str]) -> dict[str, str]:
        """See Window."""
        return {START: f"({end} - {self.size})"}
