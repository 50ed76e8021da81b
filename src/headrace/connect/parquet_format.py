"""The Parquet format: row groups that a predicate rules out are not decoded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.expressions import columns_of

from . import files
from .files import Selection, row_numbers
from .parquet_files import ParquetContent
from .paths import DECODING_ERRORS, FilePath
from .pushdown import may_match

FIRST_ROWS = 64  # of a row group: they tell how long its texts are
MOST_TEXTS = 8192  # rows with texts that are decoded at once, however short the first ones are


_cores = 1  # that a reader decodes columns on


def decode_on(cores: int) -> None:
    """Let the readers of this process decode columns on so many cores.

    Engines have as many readers as cores, each on one; a process of which there is one for several
    cores (a task of Spark with spark.task.cpus) uses them all.
    """
    global _cores
    if cores != _cores:
        _cores = cores
        pa.set_cpu_count(cores)


class ParquetFormat:
    """Parquet files; one without a valid footer is still being written."""

    kind = "parquet"
    endings: tuple[str, ...] = (".parquet",)

    def open(self, path: FilePath, name: str) -> ParquetRows:
        """Open a file."""
        return ParquetRows(path, name)

    def unfinished(self, path: Path) -> str:
        """Parquet files end with a footer."""
        try:
            ParquetContent(path, path.name).close()
        except DataError:
            return "a valid footer"
        return ""


class ParquetRows(ParquetContent):
    """The rows of a Parquet file."""

    def count(self) -> int:
        """How many rows the footer says there are."""
        return int(self.rows)

    def batches(
        self, selection: Selection, start: int, stop: int | None
    ) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        """The rows of the groups that have some in between, and that may match."""
        for group, first, end in self.groups():
            outside = end <= start or (stop is not None and first >= stop)
            if outside or not self._may_match(selection, group):
                continue
            for batch in self._decode(selection, group):
                yield batch, row_numbers(first, batch.num_rows)
                first += batch.num_rows
                if stop is not None and first >= stop:
                    break
            else:
                if first != end:
                    raise self.unreadable(f"row group {group} lacks {end - first} rows")

    def _decode(self, selection: Selection, group: int) -> Iterator[pa.RecordBatch]:
        """The rows of a group, in pieces whose rows and bytes are bounded."""
        names = list(selection.columns.names)
        kinds = {name: self.schema.field(name).type for name in names}
        try:
            rows = files.rows_at_once(kinds.values())
            if rows is None:
                texts = [name for name in names if files.rows_at_once([kinds[name]]) is None]
                rows = self._text_rows(group, texts)
            yield from files.joined(self._read(group, names, rows))
        except DECODING_ERRORS as error:
            raise self.unreadable(error) from None

    def _text_rows(self, group: int, texts: list[str]) -> int:
        """How many rows to decode at once where texts may be of any length, by the first ones.

        A file of some kB can have rows of GBs: values that repeat are stored once.
        """
        few = self._group_rows[group] <= FIRST_ROWS
        first = None if few else next(self._read(group, texts, FIRST_ROWS), None)
        if first is None:
            return FIRST_ROWS
        bytes_per_row = max(1, first.nbytes // max(1, first.num_rows))
        return max(1, min(MOST_TEXTS, files.DECODED_BYTES // bytes_per_row))

    def _read(self, group: int, names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        # Arrow makes room for all rows that it is asked for, be there few or many of them.
        rows = max(1, min(rows, self._group_rows[group]))
        return self.file.iter_batches(rows, [group], names, use_threads=_cores > 1)

    def _may_match(self, selection: Selection, group: int) -> bool:
        """May a row group have rows that the predicate keeps?"""
        if selection.predicate is None:
            return True
        ranges = {
            name: self.range(group, name, selection.schema[name])
            for name in columns_of(selection.predicate)
            if name in self.schema.names
        }
        return may_match(selection.predicate, ranges)
