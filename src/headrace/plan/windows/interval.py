"""The panes of an interval join: rows of both sides, kept as long as a partner may come.

A pane is as long as the interval reaches, so that the partners of a row lie in the pane before its
own, in its own, and in the one behind. Each pane of rows on the left is a *window*, which ends when
all partners of these have come; a pane belongs to the windows of its neighbours, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ..schema import HIDDEN_PREFIX
from .base import FARTHEST, Window, Words

ORDER = f"{HIDDEN_PREFIX}order"  # in which pairs are given out, before the key


@dataclass(frozen=True)
class Interval(Window):
    """Partners from `before` a row on the left until `after` it. A row before the watermark is
    late."""

    columns: ClassVar[tuple[str, ...]] = (ORDER,)
    time: ClassVar[str | None] = None
    order: ClassVar[tuple[str, ...]] = (ORDER,)

    before: int
    after: int

    def __str__(self) -> str:
        return f"interval(-{self.before}, +{self.after})"

    @property
    def size(self) -> int:
        """The length of a pane."""
        return max(self.before, self.after, 1)

    @property
    def step(self) -> int:
        """See Window."""
        return self.size

    @property
    def farthest(self) -> int:
        """See Window."""
        return FARTHEST // 4

    def pane(self, words: Words, time: str) -> str:
        """See Window."""
        return f"window_start({time}, {self.size}, 0)"

    def late(self, words: Words, time: str, pane: str, watermark: str) -> str:
        """See Window."""
        return f"{time} < {watermark}"

    def first_end(self, words: Words, pane: str) -> str:
        """See Window. Where partners come behind, that of the pane before."""
        return f"({pane} + {self.size})"

    def last_end(self, words: Words, pane: str) -> str:
        """See Window. Where partners come before, that of the pane behind."""
        return f"({pane} + {self.size * (1 + (self.before > 0) + (self.after > 0))})"

    def left_pane(self, end: str) -> str:
        """The pane of rows on the left whose window ends."""
        return f"({end} - {self.size * (1 + (self.after > 0))})"

    def are_partners(self, left: str, right: str) -> str:
        """Are the times of two rows near enough?"""
        return f"-{self.before} <= {right} - {left} <= {self.after}"

    def results(self, words: Words, end: str, measures: Mapping[str, str]) -> dict[str, str]:
        """See Window."""
        return {ORDER: end}
