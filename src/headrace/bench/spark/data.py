"""Rows for the cases, as Parquet files that both sides read in the same order."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.workloads import ysb

GROUP_ROWS = 1 << 20
START = 1_700_000_000_000_000  # where event time begins, in microseconds: a multiple of 200 s
MILLISECOND = 1000  # microseconds
FIRST_CHANGE = 1_700_000_000  # files get times of change in their order: Spark goes by them


class Files:
    """Writes Parquet files into a folder, to be read in this order by both sides."""

    def __init__(self, folder: Path, dictionaries: bool = True) -> None:
        self.folder, self._dictionaries = folder, dictionaries
        self.count = 0

    def add(self, rows: pa.Table) -> None:
        """One more file. Columns whose values repeat get a dictionary, if any do."""
        path = self.folder / f"part-{self.count:05}.parquet"
        dictionary: Any = [n for n in rows.schema.names if self._dictionaries and _repeats(rows[n])]
        pq.write_table(rows, path, row_group_size=GROUP_ROWS, use_dictionary=dictionary)
        changed = FIRST_CHANGE + self.count
        os.utime(path, (changed, changed))
        self.count += 1


def _repeats(column: pa.ChunkedArray) -> bool:
    """Are there few different values, by the look of some of them?"""
    some = column.slice(0, 10_000)
    return len(some.unique()) * 2 < max(len(some), 2)


def times(first: int, count: int, step: int) -> pa.Array:
    """Timestamps, `step` microseconds apart, in whole milliseconds: so clocks of events tell them.

    >>> [at.as_py().microsecond for at in times(0, 3, 600)]
    [0, 0, 1000]
    """
    exact = first + np.arange(count, dtype=np.int64) * step
    return pa.array(exact // MILLISECOND * MILLISECOND, pa.timestamp("us", "UTC"))


def with_columns(rows: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    """The rows with some columns put in the place of others."""
    for name, values in columns.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, values)
    return rows


def ysb_rows(rows: int, seed: int = 1) -> tuple[pa.Table, pa.Table]:
    """Events of the Yahoo benchmark with a timestamp as event time, and the table of campaigns."""
    made = ysb.make(rows, seed=seed)
    return with_columns(made.events, {"event_time": times(0, rows, 1)}), made.campaigns
