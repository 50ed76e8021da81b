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
from .pushdown import may_match


class ParquetFormat:
    """Parquet files; one without a valid footer is still being written."""

    kind = "parquet"
    endings: tuple[str, ...] = (".parquet",)

    def open(self, path: Path, name: str) -> ParquetRows:
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

    def _decode(self, selection: Selection, group: int) -> Iterator[pa.RecordBatch]:
        names = list(selection.columns.names)
        try:
            plain = self.plain_columns(group, names)
            others = [name for name in names if name not in plain]
            for rest in self.file.iter_batches(
                files.DECODED_ROWS, [group], others, use_threads=False
            ):
                columns = [
                    plain[name].take(rest.num_rows) if name in plain else rest.column(name)
                    for name in names
                ]
                yield pa.record_batch(columns, names=names) if plain else rest
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{self.name} cannot be read as Parquet: {error}") from None

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
