"""The beginning of a source, to look at: a bounded piece of each of its channels."""

from __future__ import annotations

import time
from collections.abc import Sequence

from headrace.plan.connector import Batch, Position, Reader, Source, is_unordered
from headrace.plan.expressions import Expression

from .wrapped import WrappedSource


class PieceSource(WrappedSource):
    """At most so many rows of each channel of a source, and none that come later than so long.

    What it reads is not committed, and the source stays open for whoever runs the pipeline.

    >>> from headrace.connect.memory import MemorySource
    >>> piece = PieceSource(MemorySource({"n": [1, 2, 3]}), rows=2, seconds=1.0)
    >>> batch = piece.open("0").poll(100, 0.0)
    >>> batch.rows.to_pydict(), batch.ended
    ({'n': [1, 2]}, True)
    """

    def __init__(self, source: Source, rows: int, seconds: float) -> None:
        super().__init__(source.unpaced() if hasattr(source, "unpaced") else source)
        self._rows, self._seconds = rows, seconds
        self.unordered = is_unordered(source)

    def __str__(self) -> str:
        return f"{self._source}, {self._rows:,} rows of it"

    def open(
        self,
        channel: str,
        start: Position = None,
        stop: Position = None,
        columns: Sequence[str] | None = None,
        predicate: Expression | None = None,
    ) -> PieceReader:
        """Read the beginning of a channel."""
        reader = self._source.open(channel, start, stop, columns, predicate)
        return PieceReader(reader, self._rows, self._seconds)

    def committed(self, channel: str, position: Position) -> None:
        """Nothing is: it was only looked at."""

    def close(self) -> None:
        """The source is not ours to close."""


class PieceReader:
    """Ends a channel early."""

    def __init__(self, reader: Reader, rows: int, seconds: float) -> None:
        self._reader, self._left = reader, rows
        self._until = time.monotonic() + seconds

    def poll(self, max_rows: int, timeout: float) -> Batch:
        """The next rows, as long as the piece has some."""
        batch = self._reader.poll(min(max_rows, self._left), timeout)
        rows = batch.rows
        if rows is not None:
            rows = rows.slice(0, self._left)  # a reader may give more than it is asked for
            self._left -= rows.num_rows
        ended = batch.ended or self._left <= 0 or time.monotonic() >= self._until
        return Batch(rows, batch.position, ended)

    def close(self) -> None:
        """Stop reading."""
        self._reader.close()
