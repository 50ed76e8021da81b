"""What an as-of join says of the times of rows: how long the versions of a table are kept."""

from __future__ import annotations

from dataclasses import dataclass

from .waiting import Waiting


@dataclass(frozen=True)
class AsOf(Waiting):
    """The last version of a key that is not older than so much."""

    def __str__(self) -> str:
        return "asof" if self.kept is None else f"asof({self.kept})"
