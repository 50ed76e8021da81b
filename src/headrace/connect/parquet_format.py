"""The Parquet format: row groups that a predicate rules out are not decoded."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.plan.errors import DataError
from headrace.plan.expressions import columns_of

from . import files
from .files import Numbers, Selection, row_numbers
from .parquet_files import ParquetContent
from .paths import DECODING_ERRORS, FilePath
from .pushdown import may_match
from .stand_ins import stand_ins

FIRST_ROWS = 64  # of a row group: they tell how long its texts are
MOST_TEXTS = 8192  # rows with texts that are decoded at once, however short the first ones are


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
    """The rows of a Parquet file.

    Texts that the file has as codes of a dictionary stay codes: to write each of them out takes
    longer than all else, and many are filtered out or aggregated before anybody asks for it.
    """

    def __init__(self, path: FilePath, name: str) -> None:
        super().__init__(path, name)
        self._readings = threading.local()

    def count(self) -> int:
        """How many rows the footer says there are."""
        return int(self.rows)

    def batches(
        self, selection: Selection, start: int, stop: int | None
    ) -> Iterator[tuple[pa.RecordBatch, Numbers]]:
        """The rows of the groups that have some in between, and that may match."""
        for group, first, end in self.groups(start, stop):
            whole = start <= first and (stop is None or end <= stop)
            instead = self._instead(selection, group, whole)
            if instead is not None:
                if instead.num_rows:
                    yield instead, row_numbers(end - instead.num_rows, instead.num_rows)
                continue
            for batch in self._decode(selection, group):
                yield batch, row_numbers(first, batch.num_rows)
                first += batch.num_rows
                if stop is not None and first >= stop:
                    break
            else:
                if first != end:
                    raise self.unreadable(f"row group {group} lacks {end - first} rows")

    def parts(self, start: int, stop: int | None) -> list[tuple[int, int]]:
        """Row groups, small ones together."""
        made: list[tuple[int, int]] = []
        for _, first, end in self.groups(start, stop):
            first, end = max(first, start), end if stop is None else min(end, stop)
            if made and end - made[-1][0] <= files.DECODED_ROWS:
                made[-1] = made[-1][0], end
            else:
                made.append((first, end))
        return made

    def _decode(self, selection: Selection, group: int) -> Iterator[pa.RecordBatch]:
        """The rows of a group, in pieces whose rows and bytes are bounded."""
        names = list(selection.columns.names)
        try:
            reading = self._reading(names)
            kinds = {name: reading.schema_arrow.field(name).type for name in names}
            rows = files.rows_at_once(kinds.values())
            if rows is None:
                texts = [name for name in names if files.rows_at_once([kinds[name]]) is None]
                rows = self._text_rows(group, texts)
            yield from files.joined(self._read(group, names, rows))
        except DECODING_ERRORS as error:
            raise self.unreadable(error) from None

    def _reading(self, names: list[str]) -> pq.ParquetFile:
        """The file for one thread: what Arrow is told of a reading, it keeps in the reader."""
        found: pq.ParquetFile | None = getattr(self._readings, "of", None)
        if found is None:
            coded = [name for name in names if self.has_codes(name)]
            metadata = self.file.metadata
            found = pq.ParquetFile(self._source, metadata=metadata, read_dictionary=coded)
            self._readings.of = found
        return found

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
        return self._reading(names).iter_batches(rows, [group], names, use_threads=False)

    def _instead(self, selection: Selection, group: int, whole: bool) -> pa.RecordBatch | None:
        """The rows to give in place of a group that the predicate rules out; None: it is read."""
        predicate, time = selection.predicate, selection.time
        if predicate is None:
            return None
        ranges = {
            name: self.range(group, name, selection.schema[name])
            for name in columns_of(predicate)
            if name in self.schema.names
        }
        if may_match(predicate, ranges):
            return None
        if time is None:
            return files.NO_ROWS
        if not whole:
            return None
        ranges[time] = self.range(group, time, selection.schema[time])
        return stand_ins(selection.columns, time, ranges, self._group_rows[group])
