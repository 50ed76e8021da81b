"""A source of the rows of files, whatever their format."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.expressions import Expression
from headrace.plan.located import Located, says_where
from headrace.plan.schema import Schema

from .arrow import said_of_unread
from .files import (
    CHANNEL,
    DECODED_ROWS,
    FileReader,
    Format,
    Place,
    Selection,
    check_channel,
    schema_of_files,
)
from .paths import FilePath, find_files, readable_path, whole_path, without_credentials


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
        time: str | None = None,
    ) -> FileReader:
        """Read the files from `start` to `stop`."""
        check_channel(self, channel)
        base, names = self._between(start, stop)
        selection = Selection.of(self._schema, columns, predicate, time)
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
        schema = self._schema.to_arrow()
        tables = [schema.empty_table()]
        ended = False
        while not ended:
            batch = reader.poll(DECODED_ROWS, 0.0)
            ended = batch.ended
            if batch.rows is not None:
                tables.append(pa.Table.from_batches([batch.rows]).cast(schema))
        return pa.concat_tables(tables)

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
