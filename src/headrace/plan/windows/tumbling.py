"""Windows of equal length that follow each other: a pane is a window, known by its start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..durations import in_units_of, positive_length
from ..types import DataType
from .base import START, Window, Words


@dataclass(frozen=True)
class Tumbling(Window):
    """Windows [k * size + offset, (k + 1) * size + offset)."""

    size: int
    offset: int = 0

    @classmethod
    def of(cls, time: DataType, *, size: Any, offset: Any = 0) -> Tumbling:
        """From what a user gave (see Window)."""
        length = positive_length(size, time, "size")
        return cls(length, in_units_of(offset, time, "offset") % length)

    def __str__(self) -> str:
        return f"tumbling({self.size}{f'+{self.offset}' if self.offset else ''})"

    @property
    def shortest(self) -> int:
        """Units in a window."""
        return self.size

    @property
    def cells(self) -> tuple[int, int]:
        """See Window."""
        return self.size, self.offset

    def pane(self, words: Words, time: str) -> str:
        """See Window."""
        return f"window_start({time}, {self.size}, {self.offset})"

    def first_end(self, words: Words, pane: str) -> str:
        """See Window."""
        return f"({pane} + {self.size})"

    def results(self, words: Words, end: str, measures: Mapping[str, str]) -> dict[str, str]:
        """See Window."""
        return {START: f"({end} - {self.size})"}
