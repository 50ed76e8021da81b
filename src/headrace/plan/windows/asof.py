"""What an as-of join says of the times of rows: how long the versions of a table are kept.

Rows of both sides wait until the watermark is behind them, and then go on in the order of their
times. There are no windows; the panes are those of versions, the last row of each key on the right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from .base import FARTHEST, Window, Words
from .interval import ORDER


@dataclass(frozen=True)
class AsOf(Window):
    """The last version of a key that is not older than `tolerance`. A row before the watermark is
    late."""

    columns: ClassVar[tuple[str, ...]] = (ORDER,)
    time: ClassVar[str | None] = None
    order: ClassVar[tuple[str, ...]] = (ORDER,)

    tolerance: int | None = None

    def __str__(self) -> str:
        return "asof" if self.tolerance is None else f"asof({self.tolerance})"

    @property
    def size(self) -> int:
        """The length of a pane of versions, where they are forgotten."""
        return max(self.tolerance or 0, 1)

    @property
    def farthest(self) -> int:
        """See Window."""
        return FARTHEST // 4

    def pane(self, words: Words, time: str) -> str:
        """See Window. A version of this time lies there, and one that a row may ask for there or
        in the pane before."""
        return "0" if self.tolerance is None else f"window_start({time}, {self.size}, 0)"

    def late(self, words: Words, time: str, pane: str, watermark: str) -> str:
        """See Window."""
        return f"{time} < {watermark}"

    def first_end(self, words: Words, pane: str) -> str:
        """See Window. From then on nobody asks for a version of the pane."""
        return "LAST" if self.tolerance is None else f"({pane} + {self.size + self.tolerance})"

    def results(self, words: Words, end: str, measures: Mapping[str, str]) -> dict[str, str]:
        """See Window."""
        return {ORDER: end}
