"""The node of `dedup` within a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .nodes import Running
from .windows.near import Near


@dataclass(frozen=True, eq=False)
class DedupWithin(Running):
    """The rows of a key that are near to none that was given, by event time, at once.

    at: the event time of the rows.
    """

    window: Near = None  # type: ignore[assignment]
    at: str = ""
    kind: ClassVar[str] = "dedup"

    def detail(self) -> str:
        """See Node."""
        return f"{', '.join(self.key)} {self.window}"
