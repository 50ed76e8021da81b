"""Rows from Parquet files: only the columns and row groups that are wanted, in bounded memory."""

from __future__ import annotations

import os
from typing import Any

from .files import FileSource, Place, check_columns
from .memory import stored_maximum
from .parquet_files import ParquetContent
from .parquet_format import ParquetFormat


class ParquetSource(FileSource):
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
    >>> pyarrow.parquet.write_table(pyarrow.table({"n": [1, 2, 3]}), f"{folder.name}/a.parquet")
    >>> source = ParquetSource(folder.name)
    >>> source.schema()
    Schema(n: optional(int64))
    >>> batch = source.open("files", start={"file": "a.parquet", "row": 1}).poll(1, 0.0)
    >>> batch.rows.to_pylist(), batch.position
    ([{'n': 2}], {'file': 'a.parquet', 'row': 2})
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str], *, schema: Any = None) -> None:
        super().__init__(path, ParquetFormat(), schema=schema)

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
