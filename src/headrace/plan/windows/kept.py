"""Tumbling windows that are kept for late rows: two results, the second one with all rows.

A window is given out when the watermark has come to its end, and is kept until it has come
`lateness` further. Rows that come in between enter a pane of their own, which belongs only to the
window as it is given out for the second time, with all its rows, for the keys that had late ones.
So what is given does not depend on when rows and watermarks meet, on any engine.

The number of a pane is that of its window, times two, plus one for late rows. No two windows are
given out at one time: where the lateness is a multiple of the size, it is one unit longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..durations import in_units_of, positive_length
from ..errors import ExpressionError
from ..types import DataType
from .base import FARTHEST, START, Window, Words

GIVEN, UPDATED = "window_given", "window_updated"


@dataclass(frozen=True)
class Kept(Window):
    """Windows [k * size + offset, (k + 1) * size + offset), given out at their ends and `lateness`
    later."""

    columns: ClassVar[tuple[str, ...]] = (START, GIVEN, UPDATED)
    flags: ClassVar[tuple[str, ...]] = (UPDATED,)
    time: ClassVar[str | None] = GIVEN
    order: ClassVar[tuple[str, ...]] = (GIVEN,)

    size: int
    offset: int
    lateness: int

    @classmethod
    def of(cls, time: DataType, *, size: Any, lateness: Any, offset: Any = 0) -> Kept:
        """From what a user gave (see Window)."""
        length = positive_length(size, time, "size")
        kept = positive_length(lateness, time, "lateness")
        if length == 1:
            raise ExpressionError(
                f"windows of one unit, size={size!r}, cannot be kept for late rows",
                "give a larger size=, or let with_watermark wait longer",
            )
        kept += kept % length == 0
        return cls(length, in_units_of(offset, time, "offset") % length, kept)

    def __str__(self) -> str:
        offset = f"+{self.offset}" if self.offset else ""
        return f"tumbling({self.size}{offset}, lateness {self.lateness})"

    @property
    def step(self) -> int:
        """See Window."""
        return self.lateness

    @property
    def cells(self) -> tuple[int, int]:
        """See Window."""
        return self.size, self.offset

    @property
    def farthest(self) -> int:
        """See Window."""
        return FARTHEST - self.lateness

    def pane(self, words: Words, time: str) -> str:
        """See Window."""
        return f"(2 * (({time} - {self.offset}) // {self.size}))"

    def shortened(self, words: Words, pane: str, watermark: str) -> str:
        """See Window."""
        return f"({pane} + (1 if {self._end(pane)} <= {watermark} else 0))"

    def _end(self, pane: str) -> str:
        return f"({pane} // 2 * {self.size} + {self.size + self.offset})"

    def first_end(self, words: Words, pane: str) -> str:
        """See Window."""
        return f"({self._end(pane)} + {pane} % 2 * {self.lateness})"

    def last_end(self, words: Words, pane: str) -> str:
        """See Window."""
        return f"({self._end(pane)} + {self.lateness})"

    def _again(self, end: str) -> str:
        """Is a window that is given out at `end` given out for the second time?"""
        return f"(({end} - {self.offset}) % {self.size} != 0)"

    def repeats(self, end: str, pane: str) -> str:
        """See Window."""
        return f"({self._again(end)} and {pane} % 2 == 0)"

    def results(self, words: Words, end: str, measures: Mapping[str, str]) -> dict[str, str]:
        """See Window."""
        again = self._again(end)
        start = f"({end} - {self.size} - ({self.lateness} if {again} else 0))"
        return {START: start, GIVEN: end, UPDATED: again}
