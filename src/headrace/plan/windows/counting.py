"""Windows by the number of rows: they know no time, and are kept as running aggregates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Counting:
    """Each so many rows of a key, in their order."""

    rows: int

    def __str__(self) -> str:
        return f"counting({self.rows})"

    __repr__ = __str__
