"""What a connector is: the protocol that every source and sink follows, on every engine.

A source has *channels* (a Kafka partition, a folder, a table, a generator), each with its own
order of rows and its own watermark. A *position* is a small JSON value that names exactly what
lies before it, so that the range between two positions can be read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from .expressions import Expression
from .schema import Schema

Position = Any


@dataclass(frozen=True)
class Batch:
    """Rows that a reader gave, and the position after them. `ended`: the channel has no more.

    reached: where there are no rows, the event time that the channel has come to, in stored form:
    none that follows is earlier. The position before it is another one.
    """

    rows: pa.RecordBatch | None
    position: Position
    ended: bool = False
    reached: int | None = None


@dataclass(frozen=True)
class Rounds:
    """Rows of a channel that come again and again: what an engine needs to read them by itself.

    In every round after the first, the column `time` is moved by `span` (in stored form). `count`
    rows come in all; None: there is no end.
    """

    rows: pa.RecordBatch
    time: str | None
    span: int
    count: int | None


class Reader(Protocol):
    """One channel, read from a position on by one thread."""

    def poll(self, max_rows: int, timeout: float) -> Batch:
        """At most `max_rows` rows; none (`rows` is None) if nothing came within `timeout` s."""
        ...

    def close(self) -> None:
        """Stop reading; may be called from any thread, and more than once.

        A poll that waits comes back soon. Behind a close there are no rows, and no end either: who
        stops reading a channel has not come to its end.
        """
        ...


@runtime_checkable
class ReadsAhead(Protocol):
    """A reader that can work on several threads, ahead of who polls it."""

    def read_on(self, threads: int) -> None:
        """Use so many threads; before the first poll, by who closes the reader in the end."""
        ...


@runtime_checkable
class Source(Protocol):
    """Where rows come from.

    A source that can read the range between any two positions again says so with an attribute
    `replayable = True`; see `is_replayable`. One that gives rows at a rate has a method
    `unpaced()`: the same source without it, for ranges that are read again.
    """

    def schema(self) -> Schema:
        """The columns of every channel."""
        ...

    def channels(self) -> Sequence[str]:
        """The names of the channels."""
        ...

    def latest(self) -> dict[str, Position]:
        """For each channel the position behind everything that is there now (None: unknown)."""
        ...

    def open(
        self,
        channel: str,
        start: Position = None,
        stop: Position = None,
        columns: Sequence[str] | None = None,
        predicate: Expression | None = None,
    ) -> Reader:
        """Read a channel from `start` (None: its beginning) to `stop` (None: its end, if any).

        Only `columns` are wanted. Rows for which `predicate` is not true may be left out: the
        watermark does not need them, which the caller has made sure of. A source that `keeps_times`
        has one more parameter, `time`: a column that tells the time. Among what it then gives for
        rows that it leaves out are the least and the largest time of them.
        """
        ...

    def committed(self, channel: str, position: Position) -> None:
        """Everything before the position is safe: it will not be asked for again."""
        ...

    def close(self) -> None:
        """Free what the source holds; may be called from any thread, and more than once."""
        ...


def is_replayable(source: Source) -> bool:
    """Can the range between two positions of the source be read again, with the same rows?"""
    return bool(getattr(source, "replayable", False))


def is_unordered(source: Source) -> bool:
    """Do the rows of a batch come in any order, so that time cannot follow it?

    A source says so with an attribute `unordered = True`. No row of a batch is then late for
    another one: watermarks move when a batch is over.
    """
    return bool(getattr(source, "unordered", False))


def is_bounded(source: Source) -> bool:
    """Does every channel end, with rows that are all there already?

    A source says so with an attribute `bounded = True`.
    """
    return bool(getattr(source, "bounded", False))


def keeps_times(source: Source) -> bool:
    """May the source leave out rows that tell the time, and give others for them that tell it?

    A source says so with an attribute `keeps_times = True`.
    """
    return bool(getattr(source, "keeps_times", False))


@runtime_checkable
class Statistics(Protocol):
    """What a source may know besides: a maximum without reading all rows for it."""

    def maximum(self, column: str, channel: str, position: Position) -> Any:
        """The largest value of a column before a position, in stored form; None if there is none.

        Nulls and NaN do not count. This is what the watermark at a position comes from.
        """
        ...


@runtime_checkable
class Sink(Protocol):
    """Where rows go, in two phases: staged by a task, published once by a commit.

    A batch is written in one or several attempts, each by one sink object, and published once. The
    names of batches differ between jobs that write to the same place: a name that was published
    before means that its rows are there already. A sink object that commits what others staged
    does so after they were closed. Where those may be in other processes, the sink says so with an
    attribute `distributed = True`, and can be pickled when it is open. One with an attribute
    `keeps_ends = True` has a third argument of `commit`, a text that stands for where the batch
    ends: it refuses a batch that was published with another one.
    """

    def open(self, schema: Schema) -> None:
        """Get ready for rows of a schema; an error here comes before any row is read."""
        ...

    def write(self, rows: pa.RecordBatch, batch: str, attempt: str) -> Any:
        """Stage rows under the name of a batch and an attempt; gives a message for commit."""
        ...

    def commit(self, batch: str, messages: Sequence[Any]) -> None:
        """Publish what the messages stand for, in one step; a repeated commit does nothing."""
        ...

    def abort(self, batch: str, attempt: str) -> None:
        """Remove what an attempt left behind."""
        ...

    def close(self) -> None:
        """Free what the sink holds; may be called from any thread, and more than once."""
        ...
