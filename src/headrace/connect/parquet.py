"""Rows from Parquet files: only the columns and row groups that are wanted, in bounded memory."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from headrace.plan.located import says_where
from headrace.plan.types import DataType

from .file_source import FileSource
from .files import Place, check_columns
from .memory import stored_maximum
from .parquet_files import ParquetContent
from .parquet_format import ParquetFormat
from .paths import DECODING_ERRORS, FilePath

Bound = tuple[int, int, int, Any]  # number, first row, row behind, largest value of a column


class ParquetSource(FileSource):
    """The rows of a Parquet file, of the files of a folder, or of those that a glob names.

    Files are read in the order of their names, those that are there when reading starts. Without a
    schema, it is that of the first file, less the columns that headrace has no type for. Other
    files must have the columns too, in types of which every value fits.

    Guarantees: replayable, as long as the files stay as they are; a position is a file and a row
    in it, `{"file": "part-0.parquet", "row": 4096}`. Row groups that a predicate rules out by their
    statistics are not read; where a column of theirs tells the time, the statistics say how far
    they move the watermark.

    >>> import tempfile
    >>> import pyarrow.parquet
    >>> folder = tempfile.TemporaryDirectory()
    >>> pyarrow.parquet.write_table(pyarrow.table({"n": [1, 2, 3]}), f"{folder.name}/a.parquet")
    >>> source = ParquetSource(folder.name)
    >>> source.schema()
    Schema(n: optional(int64))
    >>> batch = source.open("files", start={"file": "a.parquet", "row": 1}).poll(1, 0.0)
    >>> batch.rows.to_pylist(), batch.position
    ([{'n': 2}], {'file': 'a.parquet', 'row': 2})
    >>> folder.cleanup()
    """

    keeps_times = True

    def __init__(self, path: str | os.PathLike[str], *, schema: Any = None) -> None:
        super().__init__(path, ParquetFormat(), schema=schema)
        self._kept: dict[tuple[str, str], tuple[tuple[int, int], list[Bound]]] = {}

    @says_where
    def maximum(self, column: str, channel: str, position: Place | None) -> Any:
        """The largest value of a column before a position (None: in all files), in stored form.

        Row groups that lie before the position as a whole tell it by their statistics, if they
        have them; others are read, this column only.
        """
        kind = self._schema[column]
        base, names = self._between(None, position)
        found = []
        for name in names:
            last = name == names[-1] and position is not None
            limit = position["row"] if position is not None and last else None
            for group, first, end, known in self._bounds(base, name, column):
                if known is not None and (limit is None or end <= limit):
                    found.append(known)
                elif limit is None or first < limit:
                    rows = end - first if limit is None else limit - first
                    found.append(_read_maximum(base / name, name, group, column, rows, kind))
        return max((value for value in found if value is not None), default=None)

    def _bounds(self, base: FilePath, name: str, column: str) -> list[Bound]:
        """The row groups of a file and the largest value of a column in each, if it is known.

        They are kept as long as the file stays as it is: a planner asks again for every batch.
        """
        path, kind = base / name, self._schema[column]
        with suppress(FileNotFoundError):  # what is opened below says it better
            stat = path.stat()
            state = (stat.st_size, stat.st_mtime_ns)
            kept = self._kept.get((name, column))
            if kept is not None and kept[0] == state:
                return kept[1]
        content = ParquetContent(path, name)
        check_columns(content, self._schema.select([column]))
        made: list[Bound] = []
        for group, first, end in content.groups():
            # Bounds of texts may be shortened, so that they are no values of the column.
            known = None if kind.is_text else content.range(group, column, kind).high
            made.append((group, first, end, known))
        content.close()
        self._kept[name, column] = state, made
        return made


def _read_maximum(
    path: FilePath, name: str, group: int, column: str, rows: int, kind: DataType
) -> Any:
    """The largest value in the first rows of a row group, which are read for it."""
    content = ParquetContent(path, name)
    try:
        values = content.file.read_row_group(group, [column])[column]
    except DECODING_ERRORS as error:
        raise content.unreadable(error) from None
    finally:
        content.close()
    return stored_maximum(values.slice(0, rows), kind)
