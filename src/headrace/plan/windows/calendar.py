"""Days, weeks, months, quarters and years in a time zone: a pane is a window, by its start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..durations import DAY, parse_every
from ..errors import ExpressionError
from ..types import DataType
from .base import FARTHEST, START, Window, Words

_LONGEST = {"microseconds": 1, "weeks": 7 * DAY, "months": 31 * DAY}  # of each unit
_SHORTEST = _LONGEST | {"months": 28 * DAY}


@dataclass(frozen=True)
class Calendar(Window):
    """Windows from one step of the calendar to the next."""

    every: str
    zone: str = ""

    @classmethod
    def of(cls, time: DataType, *, every: str, zone: str = "") -> Calendar:
        """From what a user gave (see Window)."""
        if time.name != "timestamp":
            raise ExpressionError(
                f"a window of {every!r} by the calendar needs a timestamp, and the time is {time}",
                "make the column a timestamp with hr.from_millis(...) or hr.from_seconds(...)",
            )
        unit, count = parse_every(every)
        if unit == "microseconds" and count % DAY:
            raise ExpressionError(
                f"a window in a zone is of whole days, and {every!r} is not",
                'write "1d", "1w", "1mo", "1q" or "1y", or leave zone= out',
            )
        return cls(every, zone)

    def __str__(self) -> str:
        return f"tumbling({self.every}{f' in {self.zone}' if self.zone else ''})"

    @property
    def shortest(self) -> int:
        """Units in the shortest window, but for the hours that a zone may take from it."""
        unit, count = parse_every(self.every)
        return count * _SHORTEST[unit]

    @property
    def farthest(self) -> int:
        """See Window."""
        return FARTHEST // 4

    def pane(self, words: Words, time: str) -> str:
        """See Window."""
        return words.truncate(time, self.every, self.zone)

    def first_end(self, words: Words, pane: str) -> str:
        """See Window."""
        unit, count = parse_every(self.every)  # half a day behind the longest is in the next one
        longest = count * _LONGEST[unit] + DAY // 2
        return words.truncate(f"({pane} + {longest})", self.every, self.zone)

    def results(self, words: Words, end: str, measures: Mapping[str, str]) -> dict[str, str]:
        """See Window."""
        return {START: words.truncate(f"({end} - 1)", self.every, self.zone)}
