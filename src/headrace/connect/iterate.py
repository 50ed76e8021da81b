"""Rows from any Python iterable: generators, cursors, lists."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from headrace.plan.connector import Batch
from headrace.plan.errors import DataError
from headrace.plan.expressions import Expression
from headrace.plan.located import Located, says_where
from headrace.plan.schema import Field, Schema
from headrace.plan.types import literal_type

from .arrow import column_of
from .pump import Pump

CHANNEL = "0"


class IteratorSource(Located):
    """Rows as dicts, or as tuples in the order of the schema, from a Python iterable.

    Without a schema, the first row is taken when the source is made, and must be a dict that says
    all columns. A dict may lack a column that is nullable. Keys that a given schema does not have
    are not read.

    Guarantees: not replayable. A row is taken from the iterable once; a position is the number of
    rows given, and reading goes on only where it stopped. The rows before a bad row, or before an
    exception of the iterable, are given first. Rows are taken on a thread of their own (an SQLite
    cursor needs `check_same_thread=False`): an iterable that waits inside `next` cannot be
    interrupted, and holds up nobody. A row waits at most some ms for others. An asynchronous
    iterable runs in an event loop of its own, and is cancelled where it waits when the job ends.

    >>> source = IteratorSource({"n": n} for n in range(3))
    >>> source.schema()
    Schema(n: int64)
    >>> source.open("0").poll(max_rows=1, timeout=0.1).rows.to_pylist()
    [{'n': 0}]
    """

    replayable = False

    def __init__(self, rows: Iterable[Any] | AsyncIterable[Any], *, schema: Any = None) -> None:
        if isinstance(rows, AsyncIterable):
            from .awaiting import Awaited

            rows = Awaited(rows)
        if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
            raise DataError(f"a {type(rows).__name__} is not an iterable of dicts or tuples")
        self._name = getattr(rows, "__name__", type(rows).__name__)
        self._iterator: Iterator[Any] = iter(rows)
        self._inferred = schema is None
        self._first: list[Any] = []  # the row that was looked at for the schema
        self._schema = self._infer() if schema is None else Schema.of(schema)
        self._pump = Pump(self._iterator, self._first)
        self.position = 0  # how many rows have been given
        self._failed: BaseException | None = None

    def __str__(self) -> str:
        return f"iterate {self._name}, not replayable"

    def schema(self) -> Schema:
        """The schema given, or that of the first row."""
        return self._schema

    def channels(self) -> Sequence[str]:
        """One."""
        return [CHANNEL]

    def latest(self) -> dict[str, None]:
        """Unknown: nobody knows what an iterator still has."""
        return {CHANNEL: None}

    @says_where
    def open(
        self,
        channel: str,
        start: int | None = None,
        stop: int | None = None,
        columns: Sequence[str] | None = None,
        predicate: Expression | None = None,
    ) -> IteratorReader:
        """Go on reading where the last reader stopped, which `start` must agree with."""
        if channel != CHANNEL:
            raise DataError(f"{self}: no channel {channel!r}")
        if (start or 0) != self.position:
            raise DataError(
                f"{self}: {self.position} rows have been read, and reading cannot begin at row "
                f"{start or 0}; use a new iterator, or a source that can be read again"
            )
        reader = IteratorReader(self, stop, columns)
        reader.place = self.place
        return reader

    def committed(self, channel: str, position: int) -> None:
        """Nothing to do: rows are gone once they are given."""

    def close(self) -> None:
        """Let the iterable free what it holds, now or when it comes back from a wait."""
        self._pump.close()

    def take(self, count: int, timeout: float, closed: threading.Event) -> pa.RecordBatch:
        """The next rows, `count` at most; none if there was none for `timeout` seconds."""
        if self._failed is not None:
            raise self._failed
        batch = self._convert(self._values(self._pump.take(count, timeout, closed)))
        self.position += batch.num_rows
        self._failed = self._failed or self._pump.failure
        if self._failed is not None and not batch.num_rows:
            raise self._failed
        return batch

    @property
    def has_ended(self) -> bool:
        """Have all rows been given?"""
        return self._failed is None and self._pump.has_ended

    def _infer(self) -> Schema:
        for row in self._iterator:
            self._first.append(row)
            break
        else:
            raise DataError("there is no first row to take the columns from; give schema=")
        if not isinstance(row, Mapping):
            raise DataError(
                f"the first row is a {type(row).__name__}, which has no names; "
                "give schema=, or use dicts"
            )
        fields = []
        for name, value in row.items():
            kind = literal_type(value)
            if kind is None:
                raise DataError(
                    f"column {name!r} of the first row is {value!r}, which tells no type; "
                    "give schema="
                )
            fields.append(Field(str(name), kind))
        return Schema(tuple(fields))

    def _values(self, rows: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The values of each row in the order of the schema, up to a row that has others."""
        values = []
        for number, row in enumerate(rows, self.position):
            wrong = self._misfit(row)
            if wrong:
                self._failed = DataError(f"row {number}: {wrong}")
                break
            if isinstance(row, Mapping):
                values.append(tuple(row.get(name) for name in self._schema.names))
            else:
                values.append(tuple(row))
        return values

    def _misfit(self, row: Any) -> str:
        """What is wrong with the shape of a row, in words."""
        if isinstance(row, Mapping):
            for field in self._schema:
                if field.name not in row and not field.type.nullable:
                    return f"no column {field.name!r} ({field.type}) in {row!r}"
            unknown = [name for name in row if name not in self._schema] if self._inferred else []
            if unknown:
                return f"column {unknown[0]!r} was not in the first row; give schema="
            return ""
        if not isinstance(row, tuple | list):
            return f"a {type(row).__name__}, and should be a dict or a tuple: {row!r}"
        if len(row) != len(self._schema):
            return f"{len(row)} values for {len(self._schema)} columns: {row!r}"
        return ""

    def _convert(self, values: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        """Rows as Arrow; where a value does not fit, the rows before it."""
        try:
            return self._batch(values)
        except DataError:
            good = 0
            for number, row in enumerate(values, self.position):
                try:
                    self._batch([row], number)
                except DataError as error:
                    self._failed = error
                    break
                good += 1
            return self._batch(values[:good])

    def _batch(self, values: Sequence[tuple[Any, ...]], first_row: int = 0) -> pa.RecordBatch:
        columns = list(zip(*values)) or [()] * len(self._schema)
        arrays = [
            column_of(field.name, column, field.type, first_row=first_row)
            for field, column in zip(self._schema, columns, strict=True)
        ]
        return pa.record_batch(arrays, schema=self._schema.to_arrow())


class IteratorReader(Located):
    """Reads on in the iterable of an IteratorSource."""

    def __init__(
        self, source: IteratorSource, stop: int | None, columns: Sequence[str] | None
    ) -> None:
        self._source, self._stop = source, stop
        self._columns = None if columns is None else list(columns)
        self._closed = threading.Event()

    @says_where
    def poll(self, max_rows: int, timeout: float) -> Batch:
        """The rows that came, those that follow each other closely; waits `timeout` seconds."""
        source = self._source
        if self._closed.is_set():
            return Batch(None, source.position)
        if self._stop is not None:
            max_rows = min(max_rows, self._stop - source.position)
        if max_rows <= 0:
            return Batch(None, source.position, ended=True)
        rows = source.take(max_rows, timeout, self._closed)
        ended = source.position == self._stop or source.has_ended
        if not rows.num_rows:
            return Batch(None, source.position, ended=ended and not self._closed.is_set())
        if self._columns is not None:
            rows = rows.select(self._columns)
        return Batch(rows, source.position, ended=ended)

    def close(self) -> None:
        """Give no more rows; the source keeps those that were taken and not given."""
        self._closed.set()
