"""Rows that wait for their time: what operators that go by event time say of the times of rows.

Rows wait until the watermark is behind them, and then go on in the order of their times. There are
no windows; the panes are those of what is remembered for a key: the last version of a table, or the
state of `process`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from .base import FARTHEST, Window, Words
from .interval import ORDER


@dataclass(frozen=True)
class Waiting(Window):
    """What is remembered at a time is remembered for `kept` units more, or for ever (None). A row
    before the watermark is late."""

    columns: ClassVar[tuple[str, ...]] = (ORDER,)
    time: ClassVar[str | None] = None
    order: ClassVar[tuple[str, ...]] = (ORDER,)

    kept: int | None = None

    @property
    def size(self) -> int:
        """The length of a pane of what is remembered, where that is forgotten."""
        return max(self.kept or 0, 1)

    @property
    def farthest(self) -> int:
        """See Window."""
        return FARTHEST // 4

    def pane(self, words: Words, time: str) -> str:
        """See Window. What is remembered at this time lies there, and what was remembered before
        there or in the pane before."""
        return "0" if self.kept is None else f"window_start({time}, {self.size}, 0)"

    def late(self, words: Words, time: str, pane: str, watermark: str) -> str:
        """See Window."""
        return f"{time} < {watermark}"

    def first_end(self, words: Words, pane: str) -> str:
        """See Window. From then on nobody asks for what the pane holds."""
        return "LAST" if self.kept is None else f"({pane} + {self.size + self.kept})"

    def results(self, words: Words, end: str, measures: Mapping[str, str]) -> dict[str, str]:
        """See Window."""
        return {ORDER: end}
