"""One window of all rows, which ends with the sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from .base import Window, Words


@dataclass(frozen=True)
class Everything(Window):
    """All rows; no row is late."""

    uses_time: ClassVar[bool] = False
    columns: ClassVar[tuple[str, ...]] = ()
    time: ClassVar[str | None] = None
    order: ClassVar[tuple[str, ...]] = ()

    def __str__(self) -> str:
        return "everything"

    def pane(self, words: Words, time: str) -> str:
        """See Window."""
        return "0"

    def first_end(self, words: Words, pane: str) -> str:
        """See Window."""
        return "(LAST - 1)"

    def results(self, words: Words, end: str, measures: Mapping[str, str]) -> dict[str, str]:
        """See Window."""
        return {}
