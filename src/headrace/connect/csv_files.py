"""Rows from CSV files, by Arrow's reader."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.schema import Field, Schema
from headrace.plan.types import from_arrow, optional, string

from .arrow import check_names
from .csv_decode import Columns
from .csv_records import Chunk, Dialect, chunks
from .files import Selection
from .lines import TextSource
from .paths import FilePath, whole_path
from .text_format import TextFormat, open_text

AHEAD = 2  # chunks that are parsed before they are asked for


class CsvSource(TextSource):
    """The rows of a CSV file, of the files of a folder, or of those that a glob names.

    In a folder, the files whose names end in .csv or .tsv are read, in the order of their names.
    The first record of every file names its columns; with `header=False` they are those of the
    schema, in its order. Columns that a schema does not name stay unread. Without a schema, types
    are guessed from the first rows of the first file, every column may be null, and what does not
    fit later is an error.

    Values may be quoted (`quote`, doubled inside of a value) and have newlines then. The words of
    `nulls`, not quoted, are null; where a column of texts may not be null, they are texts. Numbers
    and bools are what Arrow reads as such, times texts in ISO 8601 (UTC, if they have no zone),
    durations whole numbers of microseconds, binary values texts in base64. Lines without anything
    are passed over where a file has several columns. Files are in UTF-8.

    A record with too few or too many values, or whose value for a column does not fit the type, is
    an error that names file, line and column; with `on_error="skip"` it is left out and counted in
    `skipped`. Where quotes leave open where a record ends, that is an error in any case: what is
    left out would not be known. Columns that a pipeline does not use are not looked at.

    Guarantees: replayable, as long as the files stay as they are; a position is a file and a number
    of records in it, `{"file": "part-0.csv", "row": 4096}`, empty lines included and the header
    not.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> _ = Path(folder.name, "a.csv").write_text('n,text\\n1,"a, b"\\nx,\\n3,\\n')
    >>> source = CsvSource(folder.name, schema={"n": int, "text": str})
    >>> source.table()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    headrace.plan.errors.DataError: .../a.csv, line 3: column 'n': 'x' is not a value of int64
    >>> source = CsvSource(folder.name, schema={"n": int, "text": str}, on_error="skip")
    >>> source.table().to_pylist(), source.skipped
    ([{'n': 1, 'text': 'a, b'}, {'n': 3, 'text': ''}], 1)
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str], *, schema: Any = None, **options: Any) -> None:
        super().__init__(path, csv_format(schema, **options), schema=schema)


class CsvFormat(TextFormat):
    """CSV files; `CsvSource` says what the options mean.

    >>> CsvFormat(delimiter=";").kind
    'csv'
    """

    kind = "csv"
    endings: tuple[str, ...] = (".csv", ".tsv")

    def __init__(
        self,
        *,
        delimiter: str = ",",
        quote: str = '"',
        header: bool = True,
        nulls: str | Sequence[str] = "",
        on_error: str = "fail",
        names: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(on_error)
        self.dialect, self.header = Dialect(delimiter, quote), header
        self.nulls = (nulls,) if isinstance(nulls, str) else tuple(nulls)
        self.names = names  # of the columns, where files do not name them
        self.is_guessed = False

    def open(self, path: FilePath, name: str) -> CsvContent:
        """Open a file."""
        return CsvContent(path, name, self)

    def unfinished(self, path: Path) -> str:
        """A file that is whole has its header and ends with a newline."""
        is_empty = self.header and not path.stat().st_size
        return "a header" if is_empty else super().unfinished(path)


def csv_format(schema: Any = None, *, header: bool = True, **options: Any) -> CsvFormat:
    """The format of files with the columns of a schema, which names them if no header does."""
    names = None if header or schema is None else Schema.of(schema).names
    return CsvFormat(header=header, names=names, **options)


class CsvContent:
    """One open file."""

    schema = None  # names only: types are the schema's

    def __init__(self, path: FilePath, name: str, form: CsvFormat) -> None:
        self.name, self.path, self._format = name, whole_path(path), form
        self._count: int | None = None
        self._file = open_text(path)
        try:
            self._columns = Columns(self._names(), form.dialect, form.nulls)
        except BaseException:
            self._file.close()
            raise

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns; none in a file without anything."""
        return self._columns.names

    def count(self) -> int:
        """How many records there are."""
        if self._count is None:
            self._count = sum(map(len, self._chunks()))
        return self._count

    def guess(self) -> pa.Schema:
        """The columns of the file, in the types that its first records seem to have."""
        self._format.is_guessed = True
        sample = next(self._chunks(), None)
        names = self.names
        if not names:
            raise DataError(f"{self.path} has nothing that names columns; give schema=")
        kinds: dict[str, pa.DataType] = {}
        if sample is not None:
            texts = Schema(tuple(Field(name, optional(string)) for name in names))
            whole = [places for _, places in self._columns.decode(sample, texts, self._refuse)]
            self._format.skipped = 0  # they will be counted when they are read
            kept = np.zeros(len(sample), np.bool_)
            kept[np.concatenate(whole) if whole else []] = True
            if kept.any():
                kinds = {field.name: field.type for field in self._columns.guess(sample.only(kept))}
        known = {name: from_arrow(kind) for name, kind in kinds.items()}
        return pa.schema({name: (known.get(name) or string).to_arrow() for name in names})

    def misfit(self, schema: Schema) -> str:
        """Why rows of a schema do not belong into this file; "" where they may.

        The values of the first record must have its types, but may be null.
        """
        if self.names and self.names != schema.names:
            return f"its columns are {', '.join(self.names)}, and not {', '.join(schema.names)}"
        chunk = next(self._chunks(), None)
        wanted = Schema(tuple(Field(field.name, optional(field.type)) for field in schema))
        if chunk is None or self._columns.parse(chunk.record(0), 1, wanted) is not None:
            return ""
        return self._columns.reason(chunk.record(0), wanted)

    def batches(
        self, selection: Selection, start: int, stop: int | None
    ) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        """The rows of the records from `start` to `stop`; others are not decoded."""
        columns = selection.columns
        self._check_columns(columns)
        for chunk, found in self._ahead(self._parts(start, stop), columns):
            all_right = found.result()
            if all_right is not None:
                rows, places = all_right
                yield rows, chunk.first + places + 1
                continue
            for rows, places in self._columns.decode(chunk, columns, self._refuse):
                yield rows, chunk.first + places + 1

    def _parts(self, start: int, stop: int | None) -> Iterator[Chunk]:
        """The records from `start` to `stop`, some at a time."""
        count = 0
        for chunk in self._chunks():
            if stop is not None and chunk.first >= stop:
                return
            end = len(chunk) if stop is None else min(stop - chunk.first, len(chunk))
            yield chunk.part(min(max(0, start - chunk.first), end), end)
            count = chunk.first + len(chunk)
        self._count = count

    def _ahead(
        self, chunks: Iterator[Chunk], columns: Schema
    ) -> Iterator[tuple[Chunk, Future[tuple[pa.RecordBatch, np.ndarray] | None]]]:
        """Each chunk with its rows; those behind are parsed meanwhile, without the GIL."""
        waiting: deque[Any] = deque()
        with ThreadPoolExecutor(AHEAD, "csv") as threads:
            for chunk in chunks:
                parsed = threads.submit(self._columns.decode_all, chunk, columns)
                waiting.append((chunk, parsed))
                if len(waiting) > AHEAD:
                    yield waiting.popleft()
            yield from waiting

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _names(self) -> tuple[str, ...]:
        """The names of the columns: those of the header, those given, or f0, f1, ..."""
        if self._format.names is not None:
            return self._format.names
        first = next(chunks(self._file, self._format.dialect, self.path), None)
        if first is None:
            return ()
        found = self._format.dialect.split(first.record(0))
        if found is None:
            raise DataError(f"{self.path}, line 1: not a record that can be read")
        if not self._format.header:
            return tuple(f"f{number}" for number in range(len(found)))
        check_names(pa.schema([pa.field(name, pa.string()) for name in found]))
        return tuple(found)

    def _chunks(self) -> Iterator[Chunk]:
        """The records behind the header, some at a time."""
        for chunk in chunks(self._file, self._format.dialect, self.path):
            if not self._format.header:
                yield chunk
            elif chunk.first:
                yield replace(chunk, first=chunk.first - 1)
            elif len(chunk) > 1:
                rest = chunk.part(1, len(chunk))
                yield replace(rest, first=0)

    def _check_columns(self, wanted: Schema) -> None:
        if not self.names:
            return  # a file without anything in it has no rows
        for field in wanted:
            if field.name not in self.names:
                raise DataError(f"{self.path} has no column {field.name!r} ({field.type})")

    def _refuse(self, line: int, what: str) -> None:
        if self._format.is_guessed:
            what += "; types were guessed from the first rows: schema= says them"
        self._format.refuse(self.path, [(line, what)])
