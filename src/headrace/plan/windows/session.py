"""Sessions: the rows of a key that follow each other in less than a gap.

Two rows of one pane, which is as long as the gap, are always in one session, and a session that
goes on has a row in the very next pane. So a pane keeps one record for each key, with the times of
the first and the last row, and sessions come about when records of neighbouring panes merge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..durations import positive_length
from ..schema import HIDDEN_PREFIX
from ..types import DataType
from .base import END, FARTHEST, START, MergingWindow, Words

FIRST, LAST = f"{HIDDEN_PREFIX}first", f"{HIDDEN_PREFIX}last"


@dataclass(frozen=True)
class Session(MergingWindow):
    """Windows [first, last + gap) of a key. A row before the watermark is late."""

    columns: ClassVar[tuple[str, ...]] = (START, END)
    time: ClassVar[str | None] = END
    order: ClassVar[tuple[str, ...]] = (END,)
    measures: ClassVar[tuple[tuple[str, str], ...]] = ((FIRST, "min"), (LAST, "max"))
    record_order: ClassVar[str] = LAST

    gap: int

    @classmethod
    def of(cls, time: DataType, *, gap: Any) -> Session:
        """From what a user gave (see Window)."""
        return cls(positive_length(gap, time, "gap"))

    def __str__(self) -> str:
        return f"session({self.gap})"

    @property
    def farthest(self) -> int:
        """See Window."""
        return FARTHEST // 2  # the last end of a pane lies two gaps behind it

    def pane(self, words: Words, time: str) -> str:
        """See Window."""
        return f"window_start({time}, {self.gap}, 0)"

    def late(self, words: Words, time: str, pane: str, watermark: str) -> str:
        """See Window."""
        return f"{time} < {watermark}"

    def first_end(self, words: Words, pane: str) -> str:
        """See Window."""
        return f"({pane} + {self.gap})"

    def first_use(self, words: Words, pane: str) -> str:
        """See Window. A session of the pane before may end behind the first row of this one."""
        return f"({pane} + 1)"

    def last_end(self, words: Words, pane: str) -> str:
        """See Window."""
        return f"({pane} + {2 * self.gap})"

    def results(self, words: Words, end: str, measures: Mapping[str, str]) -> dict[str, str]:
        """See Window."""
        return {START: measures[FIRST], END: end}

    def record_end(self, measures: Mapping[str, str]) -> str:
        """See Window."""
        return f"({measures[LAST]} + {self.gap})"

    def begins(self, measures: Mapping[str, str]) -> str:
        """See Window."""
        return measures[FIRST]

    def following(self, pane: str) -> str:
        """See Window."""
        return f"({pane} + {self.gap})"
