"""What a kind of windows says of itself; nothing else knows the kinds by name.

A row enters one *pane*, which is a number, and a pane belongs to one or several windows, which are
known by their ends: the first one, and every `step` units later another one, up to the last. A
window is given out when the watermark has come to its end, as all panes that belong to it, brought
together by key. So rows are aggregated once, however many windows share them (Enjima, section 4).

The windows of a `MergingWindow` belong to a key, grow, and become one where they touch: each record
of a pane ends by itself (`record_end`), and goes over into the pane behind, if that has one of the
same key that begins before this end.

The methods give Python expressions as text, which the stage puts into its kernels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

START, END = "window_start", "window_end"
FARTHEST = 1 << 62  # times beyond it would overflow in windows


class Words(Protocol):
    """What formulas need besides arithmetic."""

    def truncate(self, time: str, every: str, zone: str) -> str:
        """A time cut down to a step of the calendar, in a zone ("" for UTC)."""
        ...


@dataclass(frozen=True)
class Window(ABC):
    """A kind of windows, with its lengths in units of the time column.

    Each has a class method `of(time, **given)`: it makes one for a type of time from what a user
    gave, or raises an ExpressionError where that makes no sense.
    """

    uses_time: ClassVar[bool] = True  # else all rows lie in one window, until the sources end
    measures: ClassVar[tuple[tuple[str, str], ...]] = ()  # kept of rows' times: name and aggregate

    @property
    def rows(self) -> int:
        """Rows of a key that give an early result; 0: there are none."""
        return 0

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of a result that say of what window it is."""
        return (START,)

    @property
    def flags(self) -> tuple[str, ...]:
        """Those of them that are truth values, not times."""
        return ()

    @property
    def time(self) -> str | None:
        """Which of them is the event time of results."""
        return START

    @property
    def order(self) -> tuple[str, ...]:
        """The columns by which windows are given out, before the key."""
        return (START,)

    @property
    def step(self) -> int:
        """From the end of a window to the end of the next one that shares a pane with it."""
        return 0

    @property
    def delay(self) -> int:
        """The same of the last window of a pane, where it is another one."""
        return 0

    @property
    def cells(self) -> tuple[int, int]:
        """(length, offset) of a grid: a watermark up to the end of its cell leaves a row alone."""
        return 1, 0

    @property
    def farthest(self) -> int:
        """Times beyond it overflow."""
        return FARTHEST

    @abstractmethod
    def pane(self, words: Words, time: str) -> str:
        """The pane that a row enters."""

    def late(self, words: Words, time: str, pane: str, watermark: str) -> str:
        """Have all windows of a row ended by the watermark before it?"""
        return f"{self.last_end(words, pane)} <= {watermark}"

    def shortened(self, words: Words, pane: str, watermark: str) -> str | None:
        """The pane of a row some of whose windows have ended; None: a pane has one window."""
        return None

    @abstractmethod
    def first_end(self, words: Words, pane: str) -> str:
        """When the first window of a pane ends."""

    def first_use(self, words: Words, pane: str) -> str:
        """The end of the first window that needs to know the rows of a pane: partial results of it
        are given out before a watermark reaches that."""
        return self.first_end(words, pane)

    def last_end(self, words: Words, pane: str) -> str:
        """When the last window of a pane ends."""
        return self.first_end(words, pane)

    def repeats(self, words: Words, end: str, pane: str) -> str | None:
        """Were the rows of a pane given out before the window that is given out at `end`? Then they
        only count for keys that have rows in another pane, too. None: never."""
        return None

    def counts(self, words: Words, pane: str) -> str:
        """Does every so many `rows` of a key in a pane give an early result?"""
        return "True"

    def results_with_row(self, words: Words, pane: str) -> dict[str, str]:
        """The values of `columns` for such a result."""
        return {}

    @abstractmethod
    def results(self, words: Words, end: str, measures: Mapping[str, str]) -> dict[str, str]:
        """The values of `columns` for a window that ends at `end`."""


@dataclass(frozen=True)
class MergingWindow(Window):
    """A kind of windows that grow, and become one where they touch."""

    record_order: ClassVar[str]  # the measure by which the records of a pane end

    @abstractmethod
    def record_end(self, measures: Mapping[str, str]) -> str:
        """When the window of a record ends."""

    @abstractmethod
    def begins(self, measures: Mapping[str, str]) -> str:
        """When the window of a record begins."""

    @abstractmethod
    def following(self, pane: str) -> str:
        """The pane behind."""
