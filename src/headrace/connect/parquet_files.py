"""What the footers of Parquet files say of the rows inside."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pyarrow.parquet as pq

from headrace.plan.errors import DataError
from headrace.plan.types import DataType, from_arrow

from .parquet_footer import GroupStatistics, footer_statistics
from .paths import DECODING_ERRORS, FilePath, open_bytes, open_regular, whole_path
from .pushdown import Range

_PER_MICROSECOND = {"milliseconds": (1000, 1), "microseconds": (1, 1), "nanoseconds": (1, 1000)}


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

    def groups(self) -> Iterator[tuple[int, int, int]]:
        """For each row group its number, its first row and the row behind it."""
        start = 0
        for number, rows in enumerate(self._group_rows):
            yield number, start, start + rows
            start += rows

    def range(self, group: int, column: str, kind: DataType) -> Range:
        """What the statistics of a row group say of a column."""
        leaf = self._leaves.get(column)
        found = from_arrow(self.schema.field(column).type)
        # Of a flat column, of the very type, in an order that is known.
        if leaf is None or kind.name == "bool" or found is None or found.name != kind.name:
            return Range()
        if len(self._statistics) <= group or len(self._statistics[group].chunks) <= leaf:
            return Range()
        known = self._statistics[group].chunks[leaf]
        low, high = (self._value(bound, leaf, kind) for bound in (known.low, known.high))
        return Range(low, high, known.nulls)

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
        if kind.name == "timestamp":
            return self._microseconds(bound, leaf)
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

    def _microseconds(self, bound: Any, leaf: int) -> int | None:
        """A time as the file has it, rounded down; None where its unit is not known."""
        if not isinstance(bound, int):
            return None
        unit = json.loads(self.file.schema.column(leaf).logical_type.to_json()).get("timeUnit")
        if unit not in _PER_MICROSECOND:
            return None
        factor, divisor = _PER_MICROSECOND[unit]
        return bound * factor // divisor
