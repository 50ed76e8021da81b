"""What `process` with timers says of the times of rows: how long a state lives.

A state lies in a pane of the last time that it was used. Where a timer of it is set for much later
than it would live otherwise, the pane must be longer: so panes have levels, each of which is twice
as long as the one before, and the number of a pane is its start plus its level.
"""

from __future__ import annotations

from dataclasses import dataclass

from .waiting import Waiting

SHORTEST = 64  # units of time in a pane of the first level: more than there are levels


@dataclass(frozen=True)
class Timed(Waiting):
    """The state of a key, until so much after its last row or timer."""

    def __str__(self) -> str:
        return "timed" if self.kept is None else f"timed(ttl {self.kept})"

    @property
    def size(self) -> int:
        """See Waiting."""
        return max(self.kept or 0, SHORTEST)
