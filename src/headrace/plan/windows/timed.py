"""What `process` with timers says of the times of rows: how long a state lives."""

from __future__ import annotations

from dataclasses import dataclass

from .waiting import Waiting


@dataclass(frozen=True)
class Timed(Waiting):
    """The state of a key, until so much after its last row or timer."""

    def __str__(self) -> str:
        return "timed" if self.kept is None else f"timed(ttl {self.kept})"
