"""Rows from files of any format: one file after the other, a piece at a time.

A format (`Format`) opens files and gives their rows (`Content`); what is here is the same for all
of them: which files, which part of them, which columns, and what does not fit.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from headrace.plan.connector import Batch
from headrace.plan.errors import DataError
from headrace.plan.expressions import Expression, columns_of
from headrace.plan.located import Located, says_where
from headrace.plan.schema import Schema, schema_of_arrow
from headrace.plan.types import from_arrow
from headrace.stage.blocks.validation import validated

from .ahead import Ahead, Making, Users
from .arrow import (
    check_names,
    first_null,
    has_nulls,
    is_lossless,
    null_error,
)
from .paths import FilePath
from .pushdown import mask, usable

CHANNEL = "files"
# What is decoded at a time: bounds the memory of a reader, and its calls.
DECODED_ROWS = 131_072
DECODED_BYTES = 64 << 20
# What is given at a time where files are small, and how long it is looked for.
GATHERED_ROWS = 8192
GATHER_SECONDS = 0.005
NO_ROWS = pa.record_batch({"": pa.nulls(0)})
SAMPLED_ROWS = 4096  # of a piece: they tell how many a predicate keeps
WORTH_COPYING = 16  # one row of so many: where a predicate keeps more, the filter behind is quicker

Numbers = range | np.ndarray  # of rows; they rise
Place = dict[str, Any]  # a position: {"file": its name, "row": how many of its rows lie before}


@dataclass(frozen=True)
class Selection:
    """What is wanted of files: columns, and rows for which a predicate may be true."""

    columns: Schema
    predicate: Expression | None
    schema: Schema  # of all columns, those of the predicate included
    time: str | None = None  # what is left out must move a watermark as far

    @classmethod
    def of(
        cls,
        schema: Schema,
        columns: Sequence[str] | None,
        predicate: Expression | None,
        time: str | None = None,
    ) -> Selection:
        """What `Source.open` is asked for."""
        wanted = schema if columns is None else schema.select(columns)
        return cls(wanted, usable(predicate, schema), schema, time)


class Described(Protocol):
    """A file that says what is in it."""

    @property
    def name(self) -> str:
        """Its name, for positions."""
        ...

    @property
    def path(self) -> str:
        """Its whole path, for messages."""
        ...

    @property
    def schema(self) -> pa.Schema | None:
        """The columns it says it has; None where the format does not say."""
        ...


class Content(Described, Protocol):
    """One open file."""

    def count(self) -> int:
        """How many rows it has."""
        ...

    def batches(
        self, selection: Selection, start: int, stop: int | None
    ) -> Iterator[tuple[pa.RecordBatch, Numbers]]:
        """At least the rows from `start` to `stop`; for each of them the number of the row behind.

        A format may leave out rows that the predicate rules out; where they tell the time, only
        if `stand_ins` are given for them.
        """
        ...

    def close(self) -> None:
        """Close the file."""
        ...


@runtime_checkable
class Divided(Protocol):
    """An open file whose parts can be read by several threads at once."""

    def parts(self, start: int, stop: int | None) -> Sequence[tuple[int, int]]:
        """Ranges of rows that follow each other from `start` to `stop`; none if there are none."""
        ...


@runtime_checkable
class Guessing(Protocol):
    """An open file of a format that does not tell types, of which they can be guessed."""

    def guess(self) -> pa.Schema:
        """The columns it seems to have."""
        ...


class Format(Protocol):
    """A format of files."""

    @property
    def kind(self) -> str:
        """Its name, as in read.<kind>."""
        ...

    @property
    def endings(self) -> tuple[str, ...]:
        """How the names of such files end."""
        ...

    def open(self, path: FilePath, name: str) -> Content:
        """Open a file; a DataError where it is not of this format."""
        ...

    def unfinished(self, path: Path) -> str:
        """What a file that is still being written lacks; "" where it is whole."""
        ...


def schema_of_files(
    form: Format, path: str, base: FilePath, names: Sequence[str], given: Any
) -> tuple[Schema, dict[str, pa.DataType]]:
    """The schema given, or that of the first file and the columns of it that stay unread."""
    if given is not None:
        return Schema.of(given), {}
    if not names:
        raise DataError(f"there are no {form.kind} files in {path}; give schema=")
    content = form.open(base / names[0], names[0])
    try:
        found = content.guess() if isinstance(content, Guessing) else content.schema
    finally:
        content.close()
    if found is None:
        raise DataError(f"{form.kind} files do not tell the types of their columns; give schema=")
    check_names(found)
    return schema_of_arrow(found)


def check_channel(source: Any, channel: str) -> None:
    """A channel that a source of files does not have is a DataError."""
    if channel != CHANNEL:
        raise DataError(f"{source}: no channel {channel!r}")


def check_columns(content: Described, schema: Schema) -> None:
    """A file that lacks a column, or has one of another type, is a DataError."""
    if content.schema is None:
        return
    check_names(content.schema)
    kinds = {field.name: field.type for field in content.schema}
    for field in schema:
        kind = kinds.get(field.name)
        if kind is None:
            raise DataError(f"{content.path} has no column {field.name!r} ({field.type})")
        if not is_lossless(kind, field.type):
            raise DataError(
                f"{content.path}: column {field.name!r} is {kind}, and should be {field.type}"
            )


def row_numbers(first: int, count: int) -> range:
    """For each of some rows that follow each other the number of the row behind."""
    return range(first + 1, first + count + 1)


def rows_at_once(kinds: Iterable[pa.DataType]) -> int | None:
    """How many rows of columns of these types to decode at a time; None where texts are among them
    that are not codes.

    >>> rows_at_once([pa.int64()]), rows_at_once([pa.int64()] * 1000), rows_at_once([pa.string()])
    (131072, 8388, None)
    """
    try:
        width = sum(kind.bit_width for kind in kinds) // 8
    except ValueError:  # not of fixed width
        return None
    return max(1, min(DECODED_ROWS, DECODED_BYTES // max(1, width)))


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small batches put together, as long as neither their rows nor their bytes are many.

    >>> [batch.num_rows for batch in joined([pa.record_batch({"n": [1, 2]})] * 3)]
    [6]
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if waiting and (rows > DECODED_ROWS or size > DECODED_BYTES):
            yield _together(waiting)
            waiting, rows, size = [], batch.num_rows, batch.nbytes
        waiting.append(batch)
    if waiting:
        yield _together(waiting)


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    joining: Any = pa  # its stubs lack the function
    return batches[0] if len(batches) == 1 else joining.concat_batches(batches)


@dataclass
class Piece:
    """Some rows of a file, and for each of them (and for all) the number of the row behind."""

    file: str
    rows: pa.RecordBatch
    behind: Numbers
    end: int

    def size(self) -> int:
        """How many bytes it takes."""
        numbers = 0 if isinstance(self.behind, range) else self.behind.nbytes
        return self.rows.nbytes + numbers


class FileReader(Located):
    """Reads files one after the other, a piece at a time."""

    def __init__(
        self,
        form: Format,
        base: FilePath,
        names: Sequence[str],
        selection: Selection,
        start: Place | None,
        stop: Place | None,
    ) -> None:
        self._format, self._base, self._names = form, base, names
        self._selection, self._start, self._stop = selection, start, stop
        self._position = start
        self._threads = 1
        self._pieces: Generator[Piece, None, None] | Ahead[Piece] = self._read()
        self._piece: Piece | None = None  # the one that is being given
        self._given = 0  # how many of its rows have been given
        self._is_over = False
        self._failed: DataError | None = None
        self._closed = threading.Event()

    def read_on(self, threads: int) -> None:
        """Read on so many threads, ahead of who polls: files, and parts of those that have some.

        It is called before the first poll, and whoever calls it closes the reader.
        """
        self._threads = threads
        if threads > 1:
            most = DECODED_BYTES // threads
            self._pieces = Ahead(self._makings(), threads=threads, most=most, size=Piece.size)

    @says_where
    def poll(self, max_rows: int, timeout: float) -> Batch:
        """The next rows, of a piece or of several small ones; looks `timeout` seconds for them."""
        if self._failed is not None:
            raise self._failed
        # Behind the end of a file there is a next one: who does not wait gets its rows, too.
        piece = self._next(time.monotonic() + max(timeout, GATHER_SECONDS))
        if self._closed.is_set():
            self._pieces.close()
            return Batch(None, self._position)
        if piece is None:
            return Batch(None, self._position, ended=self._is_over)
        parts = [self._give(piece, max_rows)]
        if piece.rows.num_columns:
            self._gather(parts, max_rows)
        return Batch(_together(parts), self._position)

    def _next(self, deadline: float) -> Piece | None:
        """The piece to give rows of; None at the end, after the deadline, or when closed."""
        while self._piece is None and not self._closed.is_set():
            piece = next(self._pieces, None)
            if piece is None:
                self._is_over = True
                return None
            self._given = 0
            if piece.rows.num_rows:
                self._piece = piece
            else:
                self._position = {"file": piece.file, "row": piece.end}
                if time.monotonic() > deadline:
                    return None
        return None if self._closed.is_set() else self._piece

    def _gather(self, parts: list[pa.RecordBatch], max_rows: int) -> None:
        """Add what fits, as long as it is little: of many small files, few batches are made."""
        count, size = parts[0].num_rows, parts[0].nbytes
        most, until = min(max_rows, GATHERED_ROWS, DECODED_ROWS), time.monotonic() + GATHER_SECONDS
        while count < most and time.monotonic() < until:
            try:
                piece = self._next(until)
            except DataError as error:  # behind the rows that were found before it
                self._failed = error
                return
            if piece is None or not piece.rows.schema.equals(parts[0].schema):
                return
            count, size = count + piece.rows.num_rows, size + piece.rows.nbytes
            if count > most or size > DECODED_BYTES:
                return
            parts.append(self._give(piece, max_rows))

    def close(self) -> None:
        """Give no more rows; the file is closed by the thread that reads, or with the reader."""
        self._closed.set()
        if isinstance(self._pieces, Ahead):
            self._pieces.close()

    def _give(self, piece: Piece, max_rows: int) -> pa.RecordBatch:
        start, rows = self._given, piece.rows
        self._given = min(start + max_rows, rows.num_rows)
        if self._given == rows.num_rows:
            self._position, self._piece = {"file": piece.file, "row": piece.end}, None
        else:
            self._position = {"file": piece.file, "row": int(piece.behind[self._given - 1])}
        return rows.slice(start, self._given - start)

    def _read(self) -> Generator[Piece, None, None]:
        for making in self._makings():
            yield from making()

    def _makings(self) -> Iterator[Making[Piece]]:
        """What reads the parts of the files, one after the other."""
        for name in self._names:
            content = self._format.open(self._base / name, name)
            try:
                check_columns(content, self._selection.columns)
            except DataError:
                content.close()
                raise
            start = self._start["row"] if self._start and self._start["file"] == name else 0
            stop = self._stop["row"] if self._stop and self._stop["file"] == name else None
            parts: Sequence[tuple[int, int | None]] = []
            if self._threads > 1 and isinstance(content, Divided):
                parts = content.parts(start, stop)
            parts = parts or [(start, stop)]
            users = Users(len(parts), content.close)
            for first, end in parts:
                yield partial(self._read_part, content, first, end, users)

    def _read_part(
        self, content: Content, start: int, stop: int | None, users: Users
    ) -> Iterator[Piece]:
        try:
            yield from self._read_rows(content, start, stop)
        finally:
            users.leave()

    def _read_rows(self, content: Content, start: int, stop: int | None) -> Iterator[Piece]:
        name, path = content.name, content.path
        reached = start
        for rows, behind in content.batches(self._selection, start, stop):
            low = bisect_right(behind, start)
            high = len(behind) if stop is None else bisect_right(behind, stop)
            reached = int(behind[-1])
            if low < high:
                rows, behind = rows.slice(low, high - low), behind[low:high]
                yield self._matching(name, self._checked(path, rows, behind), behind)
        end = content.count() if stop is None or reached < stop else stop
        stop = end if stop is None else stop
        for row in (start, stop):
            if not 0 <= row <= end:
                raise DataError(f"{path} has {end} rows, not {row}; it has changed")
        yield Piece(name, NO_ROWS, range(0), stop)  # what was left out counts as read

    def _checked(self, path: str, batch: pa.RecordBatch, behind: Numbers) -> pa.RecordBatch:
        """The columns of the schema, in its order and types; a file can hold anything."""
        validated(batch, path)
        columns = []
        for field in self._selection.columns:
            column = batch.column(field.name)
            if not field.type.nullable and has_nulls(column):
                raise null_error(field, int(behind[first_null(column)]) - 1, f"{path}: ")
            kind = from_arrow(column.type)
            wider = kind is None or kind.name != field.type.name
            columns.append(column.cast(field.type.to_arrow()) if wider else column)
        if not columns:
            return batch.select([])
        return pa.record_batch(columns, names=list(self._selection.columns.names))

    def _matching(self, name: str, rows: pa.RecordBatch, behind: Numbers) -> Piece:
        """The rows that the predicate keeps, if it is worth while to copy them; the first ones
        tell whether it may be."""
        end, predicate = int(behind[-1]), self._selection.predicate
        if predicate is not None and self._selection.time is None and _can_mask(predicate, rows):
            first = rows.slice(0, SAMPLED_ROWS)
            kept = mask(predicate, first)
            if _are_few(kept) and first.num_rows < rows.num_rows:
                kept = mask(predicate, rows)
            if _are_few(kept):
                rows = rows.filter(kept)
                behind = np.asarray(behind)[kept.fill_null(False).to_numpy(zero_copy_only=False)]
        return Piece(name, rows, behind, end)


def _are_few(kept: Any) -> bool:
    """Does a mask keep so few rows that it is worth while to copy them?"""
    return (kept.true_count or 0) * WORTH_COPYING <= len(kept)


def _can_mask(predicate: Expression, rows: pa.RecordBatch) -> bool:
    """Are the columns of the predicate here, in types that Arrow compares as a stage does?"""
    return all(
        name in rows.schema.names and _is_own(rows[name].type) for name in columns_of(predicate)
    )


def _is_own(kind: pa.DataType) -> bool:
    """Is this the type that headrace has, but for the layout of texts?"""
    found = from_arrow(kind)
    return found is not None and (found.is_text or found.to_arrow() == kind)
