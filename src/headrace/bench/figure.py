"""A figure: what it is called, what it must reach, and what is reported of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

RATIO = "×"


class Skipped(Exception):
    """A figure that cannot be measured here, and why."""


@dataclass(frozen=True)
class Figure:
    """A figure: its name, its unit, and what it must reach, from above or from below."""

    name: str
    title: str
    limit: float
    at_most: bool = False
    unit: str = RATIO

    def is_reached(self, value: float) -> bool:
        """Is the value as good as it must be?

        >>> Figure("idle", "", 2.0, at_most=True).is_reached(1.5)
        True
        """
        return value <= self.limit if self.at_most else value >= self.limit


def by_name(*figures: Figure) -> dict[str, Figure]:
    """Figures by their names, in this order."""
    return {figure.name: figure for figure in figures}


@dataclass(frozen=True)
class Found:
    """The value of a figure, whether all results were right, and what else is to be known."""

    value: float | None
    correct: bool | None  # None: nothing was computed
    details: dict[str, Any] = field(default_factory=dict)
    counts: bool = True  # False: too little was seen for the value to count

    @classmethod
    def nothing(cls, why: str) -> Found:
        """What is found where a figure cannot be measured."""
        return cls(None, None, {"skipped": why})

    def said(self, figure: Figure) -> dict[str, Any]:
        """What is reported: one JSON line.

        >>> said = Found(1.5, True).said(Figure("speed", "2 workers against 1", 1.6))
        >>> said["ratio"], said["must_reach"], said["reached"]
        (1.5, 1.6, False)
        """
        value = None if self.value is None else round(self.value, 4)
        enough = bool(self.correct) and self.counts and self.value is not None
        reached = enough and figure.is_reached(self.value or 0.0)
        named = {"ratio": value} if figure.unit == RATIO else {}
        return {
            "figure": figure.name,
            "title": figure.title,
            "value": value,
            **named,
            "unit": figure.unit,
            "must_reach": figure.limit,
            "at_most": figure.at_most,
            "reached": None if self.correct is None else reached,
            "correct": self.correct,
            **self.details,
        }
