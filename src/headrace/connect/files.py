"""Rows from files of any format: one file after the other, a piece at a time.

A format (`Format`) opens files and gives their rows (`Content`); what is here is the same for all
of them: which files, which part of them, which columns, and what does not fit.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
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

from .arrow import (
    check_names,
    first_null,
    has_nulls,
    is_lossless,
    null_error,
    said_of_unread,
)
from .paths import FilePath, find_files, readable_path, whole_path, without_credentials
from .pushdown import mask, usable

CHANNEL = "files"
# What is decoded at a time: bounds the memory of a reader, and its calls.
DECODED_ROWS = 131_072
DECODED_BYTES = 64 << 20
# What is given at a time where files are small, and how long it is looked for.
GATHERED_ROWS = 8192
GATHER_SECONDS = 0.005
NO_ROWS = pa.record_batch({"": pa.nulls(0)})
WORTH_COPYING = 16  # one row of so many: where a predicate keeps more, the filter behind is quicker

Place = dict[str, Any]  # a position: {"file": its name, "row": how many of its rows lie before}


@dataclass(frozen=True)
class Selection:
    """What is wanted of files: columns, and rows for which a predicate may be true."""

    columns: Schema
    predicate: Expression | None
    schema: Schema  # of all columns, those of the predicate included

    @classmethod
    def of(
        cls, schema: Schema, columns: Sequence[str] | None, predicate: Expression | None
    ) -> Selection:
        """What `Source.open` is asked for."""
        wanted = schema if columns is None else schema.select(columns)
        return cls(wanted, usable(predicate, schema), schema)


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
    ) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        """At least the rows from `start` to `stop`; for each of them the number of the row behind.

        A format may leave out rows that the predicate rules out.
        """
        ...

    def close(self) -> None:
        """Close the file."""
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


class FileSource(Located):
    """The rows of a file, of the files of a folder, or of those that a glob names.

    Files are read in the order of their names, those that are there when reading starts. Without a
    schema, it is that of the first file, less the columns that headrace has no type for. Other
    files must have the columns too, in types of which every value fits.

    Guarantees: replayable, as long as the files stay as they are; a position is a file and a row
    in it.
    """

    replayable = True
    bounded = True

    def __init__(self, path: str | os.PathLike[str], form: Format, *, schema: Any = None) -> None:
        self._path, self._format = readable_path(path), form
        base, names = find_files(self._path, form.endings)
        self._schema, self._unread = schema_of_files(form, self._path, base, names, schema)

    def __str__(self) -> str:
        path = without_credentials(self._path)
        return f"{self._format.kind} {path}{said_of_unread(self._unread)}"

    def schema(self) -> Schema:
        """The schema given, or that of the first file."""
        return self._schema

    def channels(self) -> Sequence[str]:
        """One: the files follow each other."""
        return [CHANNEL]

    @says_where
    def latest(self) -> dict[str, Place | None]:
        """The end of the last file; None where there is no file."""
        base, names = find_files(self._path, self._format.endings)
        if not names:
            return {CHANNEL: None}
        content = self._format.open(base / names[-1], names[-1])
        try:
            return {CHANNEL: {"file": names[-1], "row": content.count()}}
        finally:
            content.close()

    @says_where
    def open(
        self,
        channel: str,
        start: Place | None = None,
        stop: Place | None = None,
        columns: Sequence[str] | None = None,
        predicate: Expression | None = None,
    ) -> FileReader:
        """Read the files from `start` to `stop`."""
        check_channel(self, channel)
        base, names = self._between(start, stop)
        selection = Selection.of(self._schema, columns, predicate)
        reader = FileReader(self._format, base, names, selection, start, stop)
        reader.place = self.place
        return reader

    def files(self) -> dict[str, tuple[int, int]]:
        """The files that are there now: for each its size, and when it was changed (ns)."""
        base, names = find_files(self._path, self._format.endings)
        found = ((name, (base / name).stat()) for name in names)
        return {name: (each.st_size, each.st_mtime_ns) for name, each in found}

    def table(self) -> pa.Table:
        """All rows."""
        reader = self.open(CHANNEL)
        tables = [self._schema.to_arrow().empty_table()]
        ended = False
        while not ended:
            batch = reader.poll(DECODED_ROWS, 0.0)
            ended = batch.ended
            if batch.rows is not None:
                tables.append(pa.Table.from_batches([batch.rows]))
        return pa.concat_tables(tables[1:] or tables, promote_options="permissive")

    def committed(self, channel: str, position: Place) -> None:
        """Nothing to do: the files belong to someone else."""

    def close(self) -> None:
        """Nothing to do: readers hold the files."""

    def _between(self, start: Place | None, stop: Place | None) -> tuple[FilePath, list[str]]:
        """The files that have rows between two positions."""
        base, names = find_files(self._path, self._format.endings)
        for position in (start, stop):
            if position is not None and position["file"] not in names:
                gone = whole_path(base / position["file"])
                raise DataError(f"{gone} is gone, and was read up to before")
        first = "" if start is None else start["file"]
        kept = [n for n in names if n >= first and (stop is None or n <= stop["file"])]
        return base, kept


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


def row_numbers(first: int, count: int) -> np.ndarray:
    """For each of some rows that follow each other the number of the row behind."""
    return np.arange(first + 1, first + count + 1)


def rows_at_once(kinds: Iterable[pa.DataType]) -> int | None:
    """How many rows of columns of these types to decode at a time; None where texts are among them.

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
    behind: np.ndarray
    end: int


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
        self._pieces = self._read()
        self._piece: Piece | None = None  # the one that is being given
        self._given = 0  # how many of its rows have been given
        self._is_over = False
        self._failed: DataError | None = None
        self._closed = threading.Event()

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

    def _give(self, piece: Piece, max_rows: int) -> pa.RecordBatch:
        start, rows = self._given, piece.rows
        self._given = min(start + max_rows, rows.num_rows)
        if self._given == rows.num_rows:
            self._position, self._piece = {"file": piece.file, "row": piece.end}, None
        else:
            self._position = {"file": piece.file, "row": int(piece.behind[self._given - 1])}
        return rows.slice(start, self._given - start)

    def _read(self) -> Generator[Piece, None, None]:
        for name in self._names:
            content = self._format.open(self._base / name, name)
            try:
                check_columns(content, self._selection.columns)
                yield from self._read_file(content)
            finally:
                content.close()

    def _read_file(self, content: Content) -> Iterator[Piece]:
        name, path = content.name, content.path
        start = self._start["row"] if self._start and self._start["file"] == name else 0
        stop = self._stop["row"] if self._stop and self._stop["file"] == name else None
        reached = start
        for rows, behind in content.batches(self._selection, start, stop):
            low = int(np.searchsorted(behind, start, "right"))
            high = len(behind) if stop is None else int(np.searchsorted(behind, stop, "right"))
            reached = int(behind[-1])
            if low < high:
                rows, behind = rows.slice(low, high - low), behind[low:high]
                yield self._matching(name, self._checked(path, rows, behind), behind)
        end = content.count() if stop is None or reached < stop else stop
        stop = end if stop is None else stop
        for row in (start, stop):
            if not 0 <= row <= end:
                raise DataError(f"{path} has {end} rows, not {row}; it has changed")
        yield Piece(name, NO_ROWS, np.empty(0, np.int64), stop)  # what was left out counts as read

    def _checked(self, path: str, batch: pa.RecordBatch, behind: np.ndarray) -> pa.RecordBatch:
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

    def _matching(self, name: str, rows: pa.RecordBatch, behind: np.ndarray) -> Piece:
        """The rows that the predicate keeps, if it is worth while to copy them."""
        end, predicate = int(behind[-1]), self._selection.predicate
        if predicate is not None and _can_mask(predicate, rows):
            kept = mask(predicate, rows)
            if (kept.true_count or 0) * WORTH_COPYING <= rows.num_rows:
                rows = rows.filter(kept)
                behind = behind[kept.fill_null(False).to_numpy(zero_copy_only=False)]
        return Piece(name, rows, behind, end)


def _can_mask(predicate: Expression, rows: pa.RecordBatch) -> bool:
    """Are the columns of the predicate here, in types that Arrow compares as a stage does?"""
    return all(
        name in rows.schema.names and _is_own(rows[name].type) for name in columns_of(predicate)
    )


def _is_own(kind: pa.DataType) -> bool:
    """Is this the type that headrace has, but for the layout of texts?"""
    found = from_arrow(kind)
    return found is not None and (found.is_text or found.to_arrow() == kind)
