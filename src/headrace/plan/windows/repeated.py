"""Windows that are given out more than once: early, at their end, and once more for late rows.

A window is given out at *moments*: every `early` units from its start on, at its end, and
`lateness` units behind it. A row counts at the first of them that is behind its time and behind the
watermark before it, and at all that follow; so what is given does not depend on when rows and
watermarks meet, on any engine. All of them but the one at the end have only those keys that had
rows since the moment before.

A pane holds the rows whose first moment is the same; its number is the start of the window plus
that of the moment, of which there are fewer than units in the window. No two windows are given out
at one time: where the lateness would bring that about, it is longer by a unit or two.

Every so many rows of a key (`rows`), a result is given at once, with the row; that needs no pane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any

from ..durations import positive_length
from ..errors import ExpressionError
from ..types import DataType
from .base import START, Window, Words
from .calendar import Calendar
from .counting import Counting
from .tumbling import Tumbling

GIVEN, EARLY, UPDATED = "window_given", "window_early", "window_updated"
MOST_MOMENTS = 4096  # of a window


@dataclass(frozen=True)
class Repeated(Window):
    """Windows of some kind, each with a pane of its own, and when else they are given out.

    early: units from one early result to the next; rows: of a key, likewise; 0: there are none.
    lateness: units from the end to the last result; 0: the one at the end is the last.
    """

    whole: Tumbling | Calendar
    early: int = 0
    rows: int = 0
    lateness: int = 0

    @classmethod
    def of(
        cls,
        time: DataType,
        *,
        whole: Callable[..., Tumbling | Calendar],
        early: Any = None,
        lateness: Any = None,
        **given: Any,
    ) -> Repeated:
        """From what a user gave (see Window)."""
        window = whole(time, **given)
        rows = early.rows if isinstance(early, Counting) else 0
        often = 0 if early is None or rows else positive_length(early, time, "early")
        if often >= window.shortest:
            raise ExpressionError(
                f"early={early!r} is not shorter than the window: nothing would come early",
                "give a shorter early=",
            )
        if often and window.shortest > MOST_MOMENTS * often:
            raise ExpressionError(
                f"with early={early!r} a window would be given out "
                f"{-(-window.shortest // often)} times, and {MOST_MOMENTS} is the most",
                "give a longer early=, or a shorter window",
            )
        kept = 0 if lateness is None else positive_length(lateness, time, "lateness")
        if kept and 1 in (window.shortest, often):
            raise ExpressionError(
                "windows that are given out at every unit of time cannot be kept for late rows",
                "give a larger size= or early=, or let with_watermark wait longer",
            )
        while kept and kept % window.shortest % (often or window.shortest) == 0:
            kept += 1
        return cls(window, often, rows, kept)

    def __str__(self) -> str:
        said = f"early {self.early}, " if self.early else ""
        said += f"early every {self.rows} rows, " if self.rows else ""
        said += f"lateness {self.lateness}, " if self.lateness else ""
        return f"{str(self.whole).removesuffix(')')}, {said.removesuffix(', ')})"

    # ---- when it is given out ----------------------------------------------------------------

    @property
    def _moments(self) -> int:
        """How many moments a window has up to its end."""
        return -(-self.whole.shortest // self.early) if self.early else 1

    @property
    def step(self) -> int:
        """See Window."""
        return self.early

    @property
    def delay(self) -> int:
        """See Window."""
        return self.lateness

    @property
    def cells(self) -> tuple[int, int]:
        """See Window."""
        length, offset = self.whole.cells
        length = gcd(length, self.early or length)
        return length, offset % length

    @property
    def farthest(self) -> int:
        """See Window."""
        return self.whole.farthest - self.lateness

    def pane(self, words: Words, time: str) -> str:
        """See Window."""
        start = self.whole.pane(words, time)
        return f"({start} + ({time} - {start}) // {self.early})" if self.early else start

    def shortened(self, words: Words, pane: str, watermark: str) -> str | None:
        """See Window."""
        if not self._is_repeated:
            return None
        start, made = self.whole.pane(words, pane), pane
        if self.early:
            behind = f"{start} + ({watermark} - {start}) // {self.early}"
            made = f"(max({pane}, {behind}) if {watermark} >= {start} else {pane})"
        if self.lateness:
            end = self.whole.first_end(words, start)
            made = f"({start} + {self._moments} if {watermark} >= {end} else {made})"
        return made

    def first_end(self, words: Words, pane: str) -> str:
        """See Window."""
        start = self.whole.pane(words, pane)
        made = end = self.whole.first_end(words, start)
        if self.early:
            made = f"min({start} + ({pane} - {start} + 1) * {self.early}, {end})"
        if self.lateness:
            made = f"({end} + {self.lateness} if {pane} == {start} + {self._moments} else {made})"
        return made

    def last_end(self, words: Words, pane: str) -> str:
        """See Window."""
        return f"({self._end(words, pane)} + {self.lateness})"

    def repeats(self, words: Words, end: str, pane: str) -> str | None:
        """See Window."""
        if not self._is_repeated:
            return None
        return f"({end} != {self._end(words, pane)} and {self.first_end(words, pane)} < {end})"

    def counts(self, words: Words, pane: str) -> str:
        """See Window."""
        return f"{pane} == {self.whole.pane(words, pane)}" if self.lateness else "True"

    @property
    def _is_repeated(self) -> bool:
        """Are there more moments than one?"""
        return bool(self.early or self.lateness)

    def _end(self, words: Words, pane: str) -> str:
        """The end of the window of a pane."""
        return self.whole.first_end(words, self.whole.pane(words, pane))

    # ---- what is given out -------------------------------------------------------------------

    @property
    def columns(self) -> tuple[str, ...]:
        """See Window."""
        return (START, *((GIVEN,) if self._is_repeated else ()), *self.flags)

    @property
    def flags(self) -> tuple[str, ...]:
        """See Window."""
        early = (EARLY,) if self.early or self.rows else ()
        return (*early, UPDATED) if self.lateness else early

    @property
    def time(self) -> str:
        """See Window."""
        return GIVEN if self._is_repeated else START

    @property
    def order(self) -> tuple[str, ...]:
        """See Window."""
        return (self.time,)

    def results(self, words: Words, end: str, measures: Mapping[str, str]) -> dict[str, str]:
        """See Window."""
        start, updated = self.whole.pane(words, f"({end} - 1)"), "False"
        if self.lateness:
            updated = f"({end} != {self.whole.first_end(words, start)})"
            if self.early:
                updated = f"({updated} and ({end} - {start}) % {self.early} != 0)"
            last = f"({end} - 1 - ({self.lateness} if {updated} else 0))"
            start = self.whole.pane(words, last)
        early = f"({end} < {self.whole.first_end(words, start)})"
        made = {START: start, GIVEN: end, EARLY: early, UPDATED: updated}
        return {name: made[name] for name in self.columns}

    def results_with_row(self, words: Words, pane: str) -> dict[str, str]:
        """See Window."""
        return self.results(words, self._end(words, pane), {}) | {EARLY: "True"}
