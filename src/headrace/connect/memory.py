"""Rows that lie in memory: Arrow tables, frames, dicts of lists, lists of dicts."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa

from headrace.plan.connector import Batch
from headrace.plan.errors import DataError
from headrace.plan.expressions import Expression
from headrace.plan.schema import Field, Schema
from headrace.plan.types import DataType, optional

from .arrow import as_table, conform, is_frame, said_of_unread, schema_of_table


class MemorySource:
    """The rows of one or several tables in memory.

    Data is an Arrow table or record batch, a frame with the Arrow C stream interface (pandas,
    Polars), a dict of lists, a list of dicts, or a list of record batches, each of which is one
    table; or a list of tables, each of which becomes a channel. Without a schema, columns for which
    headrace has no type stay unread, and a column is nullable if it has a null.

    Guarantees: replayable, as long as the process lives; a position is a number of rows.

    >>> source = MemorySource({"user": ["ann", "bob"], "n": [1, None]})
    >>> source.schema()
    Schema(user: string, n: optional(int64))
    >>> source.open("0", start=1).poll(max_rows=10, timeout=0.0).rows.to_pylist()
    [{'user': 'bob', 'n': None}]
    """

    replayable = True
    bounded = True

    def __init__(self, data: Any, *, schema: Any = None) -> None:
        given = None if schema is None else Schema.of(schema)
        tables = [as_table(part, given) for part in _parts(data)]
        self._unread: dict[str, pa.DataType] = {}
        if given is None:
            given, self._unread = _common_schema(tables)
        self._schema = given
        self._tables = [conform(table, given) for table in tables]

    def __str__(self) -> str:
        rows = sum(table.num_rows for table in self._tables)
        said = f"memory, {rows:,} rows"
        if len(self._tables) > 1:
            said += f" in {len(self._tables)} channels"
        return said + said_of_unread(self._unread)

    def schema(self) -> Schema:
        """The columns of the tables."""
        return self._schema

    def channels(self) -> Sequence[str]:
        """One for each table, named by its number."""
        return [str(number) for number in range(len(self._tables))]

    def latest(self) -> dict[str, int]:
        """The numbers of rows."""
        return {str(number): table.num_rows for number, table in enumerate(self._tables)}

    def open(
        self,
        channel: str,
        start: int | None = None,
        stop: int | None = None,
        columns: Sequence[str] | None = None,
        predicate: Expression | None = None,
    ) -> MemoryReader:
        """Read a table from row `start` to row `stop`; a predicate is left to others."""
        table = self._table(channel)
        for position in (start, stop):
            if position is not None and not 0 <= position <= table.num_rows:
                raise DataError(f"{self}: channel {channel} has no row {position}")
        if columns is not None:
            table = table.select(list(columns))
        return MemoryReader(table, start or 0, table.num_rows if stop is None else stop)

    def maximum(self, column: str, channel: str, position: int | None) -> Any:
        """The largest value of a column in the first `position` rows, in stored form."""
        kind = self._schema[column]
        values = self._table(channel)[column].slice(0, position)
        return stored_maximum(values, kind)

    def table(self) -> pa.Table:
        """All rows, one table after the other."""
        return pa.concat_tables(self._tables, promote_options="permissive")

    def committed(self, channel: str, position: int) -> None:
        """Nothing to do: the tables stay."""

    def close(self) -> None:
        """Nothing to do: the tables stay."""

    def _table(self, channel: str) -> pa.Table:
        if channel not in self.channels():
            raise DataError(f"{self}: no channel {channel!r}")
        return self._tables[int(channel)]


class MemoryReader:
    """One table, given in slices that share its memory."""

    def __init__(self, table: pa.Table, start: int, stop: int) -> None:
        self._batches = [batch for batch in table.to_batches() if batch.num_rows]
        self._starts = [0, *accumulate(batch.num_rows for batch in self._batches)]
        self._position, self._stop = start, stop
        self._closed = threading.Event()

    def poll(self, max_rows: int, timeout: float) -> Batch:
        """The next rows, at most to the end of a chunk of the table."""
        start = self._position
        if self._closed.is_set():
            return Batch(None, start)
        if start >= self._stop:
            return Batch(None, start, ended=True)
        chunk = bisect_right(self._starts, start) - 1
        end = min(start + max_rows, self._stop, self._starts[chunk + 1])
        rows = self._batches[chunk].slice(start - self._starts[chunk], end - start)
        self._position = end
        return Batch(rows, end, ended=end == self._stop)

    def close(self) -> None:
        """Give no more rows."""
        self._closed.set()


def stored_maximum(values: pa.ChunkedArray | pa.Array, kind: DataType) -> Any:
    """The largest of some values in stored form, without nulls and NaN; None if there is none.

    >>> stored_maximum(pa.array([3, None, 5], pa.timestamp("ms")), DataType("timestamp"))
    5000
    """
    import pyarrow.compute as pc

    if kind.is_float:
        values = values.filter(pc.invert(pc.is_nan(values)))
    if kind.is_text and pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if kind.name in ("duration", "time"):  # Arrow does not compare durations
        values = values.cast(kind.to_arrow()).cast(pa.int64())
    largest = pc.max(values)
    if not largest.is_valid:
        return None
    if kind.name == "timestamp" and largest.type.unit == "ns":
        return largest.value // 1000  # rounded down, as stages do; a cast would go towards 1970
    if kind.is_time:
        whole = pa.int64() if kind.name == "timestamp" else pa.int32()
        return largest.cast(kind.to_arrow()).cast(whole).as_py()
    return largest.as_py()


def _parts(data: Any) -> list[Any]:
    """The tables of a list of tables, or the one table that other data is."""
    several = isinstance(data, list | tuple) and data and all(map(is_frame, data))
    if several and not all(isinstance(part, pa.RecordBatch) for part in data):
        return list(data)
    return [data]


def _common_schema(tables: Sequence[pa.Table]) -> tuple[Schema, dict[str, pa.DataType]]:
    """One schema for all tables: the same columns, nullable where one of them has a null."""
    first, unread = schema_of_table(tables[0])
    kinds = {field.name: field.type for field in first}
    for number, table in enumerate(tables[1:], 1):
        other, _ = schema_of_table(table)
        if set(other.names) != set(kinds):
            name = sorted(set(other.names) ^ set(kinds))[0]
            has, lacks = (number, 0) if name in other else (0, number)
            raise DataError(f"table {has} has a column {name!r}, which table {lacks} lacks")
        for field in other:
            if field.type.name != kinds[field.name].name:
                raise DataError(
                    f"column {field.name!r} is {kinds[field.name].required} in table 0 "
                    f"and {field.type.required} in table {number}"
                )
            if field.type.nullable:
                kinds[field.name] = optional(field.type)
    return Schema(tuple(Field(name, kind) for name, kind in kinds.items()), first.unread), unread
