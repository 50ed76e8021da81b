"""What the footers of Parquet files say of the rows inside."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.plan.errors import DataError
from headrace.plan.types import DataType, from_arrow

from .parquet_footer import ChunkStatistics, GroupStatistics, footer_statistics
from .paths import DECODING_ERRORS, FilePath, open_bytes, open_regular, whole_path
from .pushdown import Range

CODE_BYTES = 4  # a text that is not a code has its length in so many bytes in front of it
_MICROSECONDS = {
    "milliseconds": (1000, 1),
    "microseconds": (1, 1),
    "nanoseconds": (1, 1000),
    # as Arrow calls them
    "s": (1_000_000, 1),
    "ms": (1000, 1),
    "us": (1, 1),
    "ns": (1, 1000),
}


class ParquetContent:
    """One open file: its columns, its row groups and their statistics."""

    def __init__(self, path: FilePath, name: str) -> None:
        self.name, self.path, self._path = name, whole_path(path), path
        self._source = open_regular(path)
        try:
            self.file = pq.ParquetFile(self._source)
            self.schema = self.file.schema_arrow
        except DECODING_ERRORS as error:
            self._source.close()
            raise self.unreadable(error) from None
        metadata = self.file.metadata
        groups = range(metadata.num_row_groups)
        self._group_rows = [metadata.row_group(number).num_rows for number in groups]
        self._ends = list(accumulate(self._group_rows))
        self.rows = metadata.num_rows
        if min(self._group_rows, default=0) < 0 or sum(self._group_rows) != self.rows:
            self.close()
            raise self.unreadable(f"{self.rows} rows in groups of {self._group_rows}")

    def close(self) -> None:
        """Close the file."""
        self.file.close()
        self._source.close()

    def unreadable(self, error: object) -> DataError:
        """What to say of a file that is damaged, or no Parquet at all."""
        return DataError(f"{self.path} cannot be read as Parquet: {error}")

    def groups(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, int, int]]:
        """For each row group that has rows in between its number, its first row and the row behind
        it."""
        for number in range(bisect_right(self._ends, start), len(self._ends)):
            end = self._ends[number]
            first = end - self._group_rows[number]
            if stop is not None and first >= stop:
                return
            if first < end:
                yield number, first, end

    def range(self, group: int, column: str, kind: DataType) -> Range:
        """What the statistics of a row group say of a column."""
        leaf = self._leaves.get(column)
        found = from_arrow(self.schema.field(column).type)
        # Of a flat column, of the very type, in an order that is known.
        if leaf is None or kind.name == "bool" or found is None or found.name != kind.name:
            return Range()
        known = self._known(group, leaf)
        low, high = (self._value(bound, leaf, kind) for bound in (known.low, known.high))
        if low is not None and high is not None and low > high:
            return Range()  # of a damaged file
        return Range(low, high, known.nulls)

    def has_codes(self, column: str) -> bool:
        """Are the values of a column codes of a dictionary, in all row groups? What has no
        dictionary, or ran out of room for one, takes more bytes than codes do."""
        leaf = self._leaves.get(column)
        if leaf is None or self.schema.field(column).type not in (pa.string(), pa.binary()):
            return False
        taken = [self._known(group, leaf).coded_bytes for group in range(len(self._group_rows))]
        return all(
            size is not None and size <= rows * CODE_BYTES
            for size, rows in zip(taken, self._group_rows, strict=True)
        )

    def _known(self, group: int, leaf: int) -> ChunkStatistics:
        if len(self._statistics) <= group or len(self._statistics[group].chunks) <= leaf:
            return ChunkStatistics()
        return self._statistics[group].chunks[leaf]

    @cached_property
    def _statistics(self) -> list[GroupStatistics]:
        with open_bytes(self._path) as file:
            found = footer_statistics(file)
        return found if [group.rows for group in found] == self._group_rows else []

    @cached_property
    def _leaves(self) -> dict[str, int | None]:
        """The numbers of the columns that lie flat in the file, by their names."""
        leaves: dict[str, int | None] = {}
        for number in range(len(self.file.schema)):
            inside = self.file.schema.column(number).path
            # A column "a.b" and the field b of a column "a" have one path; then neither is used.
            leaves[inside] = None if inside in leaves else number
        return leaves

    def _value(self, bound: Any, leaf: int, kind: DataType) -> Any:
        """A bound in stored form; None where it is none of the type."""
        if kind.is_composite:
            return None
        if kind.name in ("timestamp", "time"):
            said = json.loads(self.file.schema.column(leaf).logical_type.to_json())
            return _microseconds(bound, said.get("timeUnit"))
        if kind.name == "duration":  # of which Parquet knows nothing
            field: Any = self.schema.field(self.file.schema.column(leaf).path)
            return _microseconds(bound, field.type.unit)
        if kind.name == "string":
            try:
                return bound.decode() if isinstance(bound, bytes) else None
            except UnicodeDecodeError:
                return None
        if kind.name == "binary":
            return bound if isinstance(bound, bytes) else None
        if kind.is_float:
            return bound if isinstance(bound, float) and not math.isnan(bound) else None
        if not isinstance(bound, int) or (bound < 0 and kind.name.startswith("uint")):
            return None  # a large unsigned number, which the file has as a negative one
        return bound


def _microseconds(bound: Any, unit: str | None) -> int | None:
    """A time as the file has it, rounded down; None where its unit is not known."""
    if not isinstance(bound, int) or unit not in _MICROSECONDS:
        return None
    factor, divisor = _MICROSECONDS[unit]
    return bound * factor // divisor
