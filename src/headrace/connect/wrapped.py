"""Sources that give the rows of another source in their own way."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.plan.connector import Position, Source
from headrace.plan.located import Located
from headrace.plan.schema import Schema


class WrappedSource(Located):
    """Another source, but for how it is opened: `open` is left to those who derive from this."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def schema(self) -> Schema:
        """That of the source."""
        return self._source.schema()

    def channels(self) -> Sequence[str]:
        """Those of the source."""
        return self._source.channels()

    def latest(self) -> dict[str, Position]:
        """As the source says."""
        return self._source.latest()

    def committed(self, channel: str, position: Position) -> None:
        """Hand it on."""
        self._source.committed(channel, position)

    def close(self) -> None:
        """Close the source."""
        self._source.close()
