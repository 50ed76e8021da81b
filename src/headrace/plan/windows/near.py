"""What `dedup` says of the times of rows: for how long a row that was given counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from .base import FARTHEST, Window, Words


@dataclass(frozen=True)
class Near(Window):
    """Rows of a key that are nearer to each other than `size`. A row that is so far before the
    watermark, or farther, is late.

    No two rows that were given are in one pane, and those near a time are in its pane or beside it.
    """

    columns: ClassVar[tuple[str, ...]] = ()
    time: ClassVar[str | None] = None
    order: ClassVar[tuple[str, ...]] = ()

    size: int

    def __str__(self) -> str:
        return f"within {self.size}"

    @property
    def farthest(self) -> int:
        """See Window."""
        return FARTHEST // 4

    def pane(self, words: Words, time: str) -> str:
        """See Window."""
        return f"window_start({time}, {self.size}, 0)"

    def beside(self, pane: str) -> tuple[str, str]:
        """The panes beside a pane."""
        return f"{pane} - {self.size}", f"{pane} + {self.size}"

    def late(self, words: Words, time: str, pane: str, watermark: str) -> str:
        """See Window."""
        return f"{time} + {self.size} < {watermark}"

    def first_end(self, words: Words, pane: str) -> str:
        """See Window. From then on no row is near to one of the pane, or it is late."""
        return f"({pane} + {3 * self.size})"

    def results(self, words: Words, end: str, measures: Mapping[str, str]) -> dict[str, str]:
        """See Window."""
        return {}
