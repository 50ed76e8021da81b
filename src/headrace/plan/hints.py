"""What a plan tells a source of its rows, so that it may leave out those that nobody needs."""

from __future__ import annotations

from typing import Any

from .connector import Position, Reader, ReadsAhead, keeps_times
from .expressions import Column
from .nodes import Source


def time_told(node: Source) -> str | None:
    """The column by which a source that leaves out rows says how far they move the watermark; None
    where it cannot."""
    if node.clock is None or not isinstance(node.clock.time, Column):
        return None
    return node.clock.time.name if keeps_times(node.connector) else None


def read_on(reader: Reader, threads: int) -> None:
    """Let a reader that can read ahead do so on some threads."""
    if threads > 1 and isinstance(reader, ReadsAhead):
        reader.read_on(threads)


def open_source(
    node: Source, channel: str, start: Position = None, stop: Position = None, connector: Any = None
) -> Reader:
    """Read a channel as the plan needs it.

    connector: the source's own in another form, which gives the same rows.
    """
    opened = node.connector if connector is None else connector
    given = [channel, start, stop, list(node.given.names), node.predicate]
    if node.predicate is not None and node.clock is not None:
        given.append(time_told(node))
    reader: Reader = opened.open(*given)
    return reader
