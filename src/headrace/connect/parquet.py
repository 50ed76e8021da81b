"""Rows from Parquet files: only the columns and row groups that are wanted, in bounded memory."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.plan.connector import Batch
from headrace.plan.errors import DataError
from headrace.plan.expressions import Expression, columns_of
from headrace.plan.schema import Schema, schema_of_arrow
from headrace.plan.types import DataType, from_arrow

from .arrow import check_names, first_null, has_nulls, is_lossless, null_error
from .memory import stored_maximum
from .parquet_files import ParquetContent, find_files, local_path
from .pushdown import mask, may_match, usable

CHANNEL = "files"
DECODED_ROWS = 32_768  # how many rows are decoded at a time, which bounds the memory of a reader

Place = dict[str, Any]  # a position: {"file": its name, "row": how many of its rows lie before}


class ParquetSource:
    """The rows of a Parquet file, of the files of a folder, or of those that a glob names.

    Files are read in the order of their names, those that are there when reading starts. Without a
    schema, it is that of the first file, less the columns that headrace has no type for. Other
    files must have the columns too, in types of which every value fits.

    Guarantees: replayable, as long as the files stay as they are; a position is a file and a row
    in it, `{"file": "part-0.parquet", "row": 4096}`. Row groups that a predicate rules out by their
    statistics are not read.

    >>> import tempfile
    >>> import pyarrow.parquet
    >>> folder = tempfile.TemporaryDirectory()
    >>> pyarrow.parquet.write_table(pa.table({"n": [1, 2, 3]}), f"{folder.name}/a.parquet")
    >>> source = ParquetSource(folder.name)
    >>> source.schema()
    Schema(n: optional(int64))
    >>> batch = source.open("files", start={"file": "a.parquet", "row": 1}).poll(1, 0.0)
    >>> batch.rows.to_pylist(), batch.position
    ([{'n': 2}], {'file': 'a.parquet', 'row': 2})
    >>> folder.cleanup()
    """

    replayable = True

    def __init__(self, path: str | os.PathLike[str], *, schema: Any = None) -> None:
        self._path = local_path(path)
        self._unread: dict[str, pa.DataType] = {}
        if schema is not None:
            self._schema = Schema.of(schema)
            find_files(self._path)  # a wrong path is found now
        else:
            self._schema = self._first_schema()

    def __str__(self) -> str:
        said = f"parquet {self._path}"
        if self._unread:
            said += f", unread: {', '.join(f'{n} ({kind})' for n, kind in self._unread.items())}"
        return said

    def schema(self) -> Schema:
        """The schema given, or that of the first file."""
        return self._schema

    def channels(self) -> Sequence[str]:
        """One: the files follow each other."""
        return [CHANNEL]

    def latest(self) -> dict[str, Place | None]:
        """The end of the last file; None where there is no file."""
        base, names = find_files(self._path)
        if not names:
            return {CHANNEL: None}
        content = ParquetContent(base / names[-1], names[-1])
        content.close()
        return {CHANNEL: {"file": names[-1], "row": content.rows}}

    def open(
        self,
        channel: str,
        start: Place | None = None,
        stop: Place | None = None,
        columns: Sequence[str] | None = None,
        predicate: Expression | None = None,
    ) -> ParquetReader:
        """Read the files from `start` to `stop`; row groups that cannot match are left out."""
        if channel != CHANNEL:
            raise DataError(f"{self}: no channel {channel!r}")
        base, names = self._between(start, stop)
        wanted = self._schema if columns is None else self._schema.select(columns)
        keep = usable(predicate, self._schema)
        kinds = {field.name: field.type for field in self._schema}
        return ParquetReader(base, names, wanted, start, stop, keep, kinds)

    def maximum(self, column: str, channel: str, position: Place | None) -> Any:
        """The largest value of a column before a position (None: in all files), in stored form.

        Row groups that lie before the position as a whole tell it by their statistics, if they
        have them; others are read, this column only.
        """
        kind = self._schema[column]
        base, names = self._between(None, position)
        found = []
        for name in names:
            content = ParquetContent(base / name, name)
            check_columns(content, self._schema.select([column]))
            last = name == names[-1] and position is not None
            limit = position["row"] if position is not None and last else content.rows
            for group, first, end in content.groups():
                # Bounds of texts may be shortened, so that they are no values of the column.
                known = None if kind.is_text else content.range(group, column, kind).high
                if end <= limit and known is not None:
                    found.append(known)
                elif first < limit:
                    values = content.file.read_row_group(group, [column])[column]
                    found.append(stored_maximum(values.slice(0, limit - first), kind))
            content.close()
        return max((value for value in found if value is not None), default=None)

    def table(self) -> pa.Table:
        """All rows."""
        reader = self.open(CHANNEL)
        batches = []
        ended = False
        while not ended:
            batch = reader.poll(DECODED_ROWS, 0.0)
            ended = batch.ended
            if batch.rows is not None:
                batches.append(batch.rows)
        if not batches:
            return self._schema.to_arrow().empty_table()
        tables = [pa.Table.from_batches([batch]) for batch in batches]
        return pa.concat_tables(tables, promote_options="permissive")

    def committed(self, channel: str, position: Place) -> None:
        """Nothing to do: the files belong to someone else."""

    def close(self) -> None:
        """Nothing to do: readers hold the files."""

    def _first_schema(self) -> Schema:
        base, names = find_files(self._path)
        if not names:
            raise DataError(f"there are no Parquet files in {self._path}; give schema=")
        content = ParquetContent(base / names[0], names[0])
        content.close()
        check_names(content.schema)
        schema, self._unread = schema_of_arrow(content.schema)
        return schema

    def _between(self, start: Place | None, stop: Place | None) -> tuple[Path, list[str]]:
        """The files that have rows between two positions."""
        base, names = find_files(self._path)
        for position in (start, stop):
            if position is not None and position["file"] not in names:
                raise DataError(f"{self}: {position['file']} is gone, and was read up to before")
        first = "" if start is None else start["file"]
        kept = [n for n in names if n >= first and (stop is None or n <= stop["file"])]
        return base, kept


def check_columns(content: ParquetContent, schema: Schema) -> None:
    """A file that lacks a column, or has one of another type, is a DataError."""
    check_names(content.schema)
    for field in schema:
        if field.name not in content.schema.names:
            raise DataError(f"{content.name} has no column {field.name!r} ({field.type})")
        kind = content.schema.field(field.name).type
        if not is_lossless(kind, field.type):
            raise DataError(
                f"{content.name}: column {field.name!r} is {kind}, and should be {field.type}"
            )


@dataclass
class Piece:
    """Some rows of a file, and for each of them (and for all) the number of the row behind."""

    file: str
    rows: pa.RecordBatch | None
    behind: np.ndarray
    end: int


class ParquetReader:
    """Reads files one after the other, a piece of a row group at a time."""

    def __init__(
        self,
        base: Path,
        names: Sequence[str],
        schema: Schema,
        start: Place | None,
        stop: Place | None,
        predicate: Expression | None,
        kinds: Mapping[str, DataType],
    ) -> None:
        self._kinds = kinds  # of all columns, those of the predicate included
        self._base, self._names, self._schema = base, names, schema
        self._start, self._stop, self._predicate = start, stop, predicate
        self._position = start
        self._pieces = self._read()
        self._piece: Piece | None = None  # the one that is being given
        self._given = 0  # how many of its rows have been given
        self._closed = threading.Event()

    def poll(self, max_rows: int, timeout: float) -> Batch:
        """The next rows, at most to the end of a piece; looks for them `timeout` seconds long."""
        deadline = time.monotonic() + timeout
        while not self._closed.is_set():
            if self._piece is not None and self._piece.rows is not None:
                return self._give(self._piece, self._piece.rows, max_rows)
            if self._piece is not None and time.monotonic() > deadline:
                self._piece = None
                return Batch(None, self._position)
            self._piece = next(self._pieces, None)
            if self._piece is None:
                return Batch(None, self._position, ended=True)
            self._given = 0
            if self._piece.rows is None:
                self._position = {"file": self._piece.file, "row": self._piece.end}
        self._pieces.close()
        return Batch(None, self._position)

    def close(self) -> None:
        """Give no more rows; the file is closed by the thread that reads, or with the reader."""
        self._closed.set()

    def _give(self, piece: Piece, rows: pa.RecordBatch, max_rows: int) -> Batch:
        start = self._given
        self._given = min(start + max_rows, rows.num_rows)
        if self._given == rows.num_rows:
            self._position, self._piece = {"file": piece.file, "row": piece.end}, None
        else:
            self._position = {"file": piece.file, "row": int(piece.behind[self._given - 1])}
        return Batch(rows.slice(start, self._given - start), self._position)

    def _read(self) -> Generator[Piece, None, None]:
        for name in self._names:
            content = ParquetContent(self._base / name, name)
            try:
                yield from self._read_file(content)
            finally:
                content.close()

    def _read_file(self, content: ParquetContent) -> Iterator[Piece]:
        name = content.name
        check_columns(content, self._schema)
        start = self._start["row"] if self._start and self._start["file"] == name else 0
        stop = self._stop["row"] if self._stop and self._stop["file"] == name else content.rows
        for row in (start, stop):
            if not 0 <= row <= content.rows:
                raise DataError(f"{name} has {content.rows} rows, not {row}; it has changed")
        for group, first, end in content.groups():
            if end <= start or first >= stop or not self._may_match(content, group):
                continue
            for batch in self._decode(content, group):
                before, first = first, first + batch.num_rows
                low, high = max(start, before), min(stop, first)
                if low < high:
                    rows = self._checked(name, batch.slice(low - before, high - low), low)
                    yield self._matching(name, rows, low)
                if first >= stop:
                    break
        yield Piece(name, None, np.empty(0, np.int64), stop)  # what was left out counts as read

    def _decode(self, content: ParquetContent, group: int) -> Iterator[pa.RecordBatch]:
        names = list(self._schema.names)
        try:
            yield from content.file.iter_batches(DECODED_ROWS, [group], names, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{content.name} cannot be read as Parquet: {error}") from None

    def _may_match(self, content: ParquetContent, group: int) -> bool:
        """May a row group have rows that the predicate keeps?"""
        if self._predicate is None:
            return True
        ranges = {
            name: content.range(group, name, self._kinds[name])
            for name in columns_of(self._predicate)
            if name in content.schema.names
        }
        return may_match(self._predicate, ranges)

    def _checked(self, name: str, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        """The columns of the schema, in its order and types."""
        columns = []
        for field in self._schema:
            column = batch.column(field.name)
            if not field.type.nullable and has_nulls(column):
                raise null_error(field, first_row + first_null(column), f"{name}: ")
            kind = from_arrow(column.type)
            wider = kind is None or kind.name != field.type.name
            columns.append(column.cast(field.type.to_arrow()) if wider else column)
        if not columns:
            return batch.select([])
        return pa.record_batch(columns, names=list(self._schema.names))

    def _matching(self, name: str, rows: pa.RecordBatch, first_row: int) -> Piece:
        """The rows that the predicate keeps, if it is worth while to copy them."""
        end = first_row + rows.num_rows
        behind = np.arange(first_row + 1, end + 1)
        if self._predicate is not None and self._can_mask(rows):
            kept = mask(self._predicate, rows)
            if (kept.true_count or 0) * 2 <= rows.num_rows:
                rows = rows.filter(kept)
                behind = behind[kept.fill_null(False).to_numpy(zero_copy_only=False)]
        return Piece(name, rows if rows.num_rows else None, behind, end)

    def _can_mask(self, rows: pa.RecordBatch) -> bool:
        """Are the columns of the predicate here, in types that Arrow compares as a stage does?"""
        names = columns_of(self._predicate) if self._predicate is not None else ()
        return all(name in rows.schema.names and _is_own(rows[name].type) for name in names)


def _is_own(kind: pa.DataType) -> bool:
    """Is this the type that headrace has, but for the layout of texts?"""
    found = from_arrow(kind)
    return found is not None and (found.is_text or found.to_arrow() == kind)
