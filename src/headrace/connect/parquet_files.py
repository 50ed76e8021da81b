"""What the footers of Parquet files say of the rows inside."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.plan.errors import DataError
from headrace.plan.types import DataType, from_arrow

from .parquet_pages import PlainColumn, is_plain
from .pushdown import Range

_PER_MICROSECOND = {"milliseconds": (1000, 1), "microseconds": (1, 1), "nanoseconds": (1, 1000)}


class ParquetContent:
    """One open file: its columns, its row groups and their statistics."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        try:
            self._mapped = pa.memory_map(os.fspath(path))
            self.file = pq.ParquetFile(self._mapped)
        except FileNotFoundError:
            raise DataError(f"{name} is gone; it was there before") from None
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{name} cannot be read as Parquet: {error}") from None
        self.schema = self.file.schema_arrow
        self.rows = self.file.metadata.num_rows
        self._leaves: dict[str, int | None] = {}
        for number in range(len(self.file.schema)):
            path_inside = self.file.schema.column(number).path
            # A column "a.b" and the field b of a column "a" have one path; then neither is used.
            self._leaves[path_inside] = None if path_inside in self._leaves else number

    def close(self) -> None:
        """Close the file."""
        self.file.close()
        self._mapped.close()

    def groups(self) -> Iterator[tuple[int, int, int]]:
        """For each row group its number, its first row and the row behind it."""
        start = 0
        for number in range(self.file.metadata.num_row_groups):
            end = start + self.file.metadata.row_group(number).num_rows
            yield number, start, end
            start = end

    def plain_columns(self, group: int, names: Sequence[str]) -> dict[str, PlainColumn]:
        """Those of some columns whose pages in a row group can be read without Arrow."""
        made = {}
        for name in names:
            leaf = self._leaves.get(name)
            if leaf is None:
                continue
            column, kind = self.file.schema.column(leaf), self.schema.field(name).type
            chunk = self.file.metadata.row_group(group).column(leaf)
            if not is_plain(chunk, column, kind):
                continue
            self._mapped.seek(chunk.data_page_offset)
            content = self._mapped.read_buffer(chunk.total_compressed_size)
            optional = column.max_definition_level > 0
            made[name] = PlainColumn(content, kind, optional, self.name)
        return made

    def range(self, group: int, column: str, kind: DataType) -> Range:
        """What the statistics of a row group say of a column."""
        statistics = self._statistics(group, column, kind)
        if statistics is None:
            return Range()
        nulls = statistics.null_count if statistics.has_null_count else None
        if not statistics.has_min_max:
            return Range(nulls=nulls)
        if kind.name == "timestamp":
            low = self._microseconds(column, statistics.min_raw)
            high = self._microseconds(column, statistics.max_raw)
        elif kind.name == "date":
            low, high = statistics.min_raw, statistics.max_raw
        else:
            low, high = statistics.min, statistics.max
        if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
            low = high = None
        return Range(low, high, nulls)

    def _statistics(self, group: int, column: str, kind: DataType) -> Any:
        """Statistics that can be used: of a flat column, of the very type, in a known order."""
        leaf = self._leaves.get(column)
        found = from_arrow(self.schema.field(column).type)
        if leaf is None or kind.name == "bool" or found is None or found.name != kind.name:
            return None
        return self.file.metadata.row_group(group).column(leaf).statistics

    def _microseconds(self, column: str, raw: Any) -> int | None:
        """A time as the file has it, rounded down; None where its unit is not known."""
        leaf = self._leaves[column]
        if leaf is None or not isinstance(raw, int):
            return None
        unit = json.loads(self.file.schema.column(leaf).logical_type.to_json()).get("timeUnit")
        if unit not in _PER_MICROSECOND:
            return None
        factor, divisor = _PER_MICROSECOND[unit]
        return raw * factor // divisor
