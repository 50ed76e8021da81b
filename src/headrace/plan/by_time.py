"""Operators whose rows wait until the watermark is behind them, and go on in the order of event
time: the node of `sort_by_time` and `merge`, and what it has in common with `process` with timers.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from .nodes import OperatorClass, Windowed, visible
from .schema import HIDDEN_PREFIX

INPUT = f"{HIDDEN_PREFIX}input"  # the number of the input that a row comes from


@dataclass(frozen=True, eq=False)
class InTurn(Windowed):
    """What works on rows one after the other, in the order of event time.

    at: the event time of the rows.
    """

    at: str = ""

    @property
    @abstractmethod
    def kept(self) -> tuple[str, ...]:
        """The columns of a row that waits, besides its key and its time."""


@dataclass(frozen=True, eq=False)
class SortByTime(InTurn):
    """The rows as they are; of equal times by their input (`INPUT`), then in the order of rows."""

    kind: ClassVar[str] = "sort_by_time"
    operator_class: ClassVar[OperatorClass] = OperatorClass.STATEFUL

    @property
    def kept(self) -> tuple[str, ...]:
        """See InTurn."""
        return tuple(n for n in visible(self.schema).names if n not in (self.at, INPUT))

    def detail(self) -> str:
        """See Node."""
        return f"by {self.at}, then by input"
