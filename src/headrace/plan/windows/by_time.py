"""What `sort_by_time` and `merge` say of the times of rows: nothing is remembered behind them."""

from __future__ import annotations

from dataclasses import dataclass

from .waiting import Waiting


@dataclass(frozen=True)
class ByTime(Waiting):
    """Each row by itself, when the watermark is behind it."""

    def __str__(self) -> str:
        return "the order of time"
