"""Messages of Kafka as rows: JSON, raw bytes, or a function of the user's, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from headrace.plan.errors import DataError, Unreachable
from headrace.plan.schema import Field, Schema
from headrace.plan.types import DataType, binary, int32, int64, optional, timestamp

from . import json_decode
from .arrow import CONVERSION_ERRORS, as_table, conform
from .iso import is_iso, times_of_texts

Values = Sequence[Any]  # the bytes of messages; None for a message without a value
Decoder = Callable[[list[Any]], pa.RecordBatch]

RAW = Schema(
    (
        Field("key", optional(binary)),
        Field("value", optional(binary)),
        Field("timestamp", optional(timestamp)),
        Field("partition", int32),
        Field("offset", int64),
    )
)
_BISECTED = 32  # so many messages with a bad one among them are looked at one by one
_SPACE = b" \t\r\n"  # what JSON takes for white space


class Messages:
    """What is wanted of some messages of a partition; the messages themselves are let go at once.

    Python's collector looks at every message that lives, which costs more than to take it apart.
    """

    def __init__(self, partition: int, wanted: Iterable[str] = ()) -> None:
        self.partition = partition
        self.values: list[Any] = []  # bytes; None for a message without a value
        self.size = 0  # bytes of all values
        self.offsets: list[int] = []
        self.keys: list[Any] | None = [] if "key" in wanted else None
        self.stamps: list[int | None] | None = [] if "timestamp" in wanted else None
        has_headers = any(each.startswith("header:") for each in wanted)
        self.headers: list[Any] | None = [] if has_headers else None

    def __len__(self) -> int:
        return len(self.values)

    def add(self, messages: Sequence[Any]) -> None:
        """Take messages apart."""
        if not messages:
            return
        kind = type(messages[0])
        self.values += map(kind.value, messages)
        self.size += sum(map(len, filter(None, self.values[-len(messages) :])))
        self.offsets += map(kind.offset, messages)
        if self.keys is not None:
            self.keys += map(kind.key, messages)
        if self.stamps is not None:  # in ms; of kind 0 where there is none
            stamps = map(kind.timestamp, messages)
            self.stamps += [stamp * 1000 if known else None for known, stamp in stamps]
        if self.headers is not None:
            self.headers += map(kind.headers, messages)

    def header(self, name: str) -> list[Any]:
        """The value of a header for each message, the last one of that name; None: it has none."""
        return [dict(found or ()).get(name) for found in self.headers or ()]


class Format(Protocol):
    """How messages become rows."""

    wanted: Sequence[str]  # what it needs besides values and offsets: key, timestamp, header:name

    def decode(self, messages: Messages) -> tuple[pa.RecordBatch | None, list[Bad]]:
        """The rows of the good messages, one for each (None: of none), and the bad ones."""
        ...


Bad = tuple[int, str]  # the number of a message among the others, and what is wrong with it


class Raw:
    """Key, value, timestamp, partition and offset of each message, as they are."""

    def __init__(self, columns: Schema) -> None:
        self._columns = columns
        self.wanted: Sequence[str] = columns.names

    def decode(self, messages: Messages) -> tuple[pa.RecordBatch | None, list[Bad]]:
        """One row for each message; none is bad."""
        if not len(self._columns):
            return _without_columns(len(messages)), []
        found: dict[str, Any] = {
            "key": messages.keys,
            "value": messages.values,
            "timestamp": messages.stamps,
            "partition": [messages.partition] * len(messages),
            "offset": messages.offsets,
        }
        schema = self._columns.to_arrow()
        arrays = [pa.array(found[field.name], field.type) for field in schema]
        return pa.record_batch(arrays, schema=schema), []


class Json:
    """One JSON object per message; only the wanted columns are made."""

    wanted: Sequence[str] = ()

    def __init__(self, columns: Schema) -> None:
        self._columns = columns
        odd = [f for f in columns if f.type.name == "binary" or f.type.is_composite]
        self._plain = len(columns) > 0 and not odd
        parsed_as = pa.schema([(f.name, _parsed_as(f.type)) for f in columns])
        self._options = pj.ParseOptions(
            explicit_schema=parsed_as, unexpected_field_behavior="ignore"
        )

    def decode(self, messages: Messages) -> tuple[pa.RecordBatch | None, list[Bad]]:
        """All messages at once; where that fails, halves, until the bad ones are found."""
        rows = self._at_once(messages.values)
        if rows is not None:
            return rows, []
        # They may have white space around them, which costs nothing more than time.
        values = [None if value is None else value.strip(_SPACE) for value in messages.values]
        parts: list[pa.RecordBatch] = []
        bad: list[Bad] = []
        for first, part, wrong in self._pieces(values, 0):
            if part.num_rows:
                parts.append(part)
            bad += [(first + number, said) for number, said in wrong]
        return _joined(parts), bad

    def _pieces(
        self, values: Values, first: int
    ) -> Iterator[tuple[int, pa.RecordBatch, list[tuple[int, str]]]]:
        """The number of the first message of a piece, its rows, and what is wrong in it."""
        rows = self._at_once(values)
        if rows is not None:
            yield first, rows, []
        elif len(values) > _BISECTED:
            half = len(values) // 2
            yield from self._pieces(values[:half], first)
            yield from self._pieces(values[half:], first + half)
        else:
            absent = [(i, "no value (a tombstone)") for i, v in enumerate(values) if v is None]
            there = [i for i, value in enumerate(values) if value is not None]
            rows, _, wrong = json_decode.decode_each([values[i] for i in there], self._columns)
            yield first, rows, sorted(absent + [(there[i], said) for i, said in wrong])

    def _at_once(self, values: Values) -> pa.RecordBatch | None:
        """All rows, as `json_decode.decode` gives them; None where a message needs a closer look.

        That values have braces around them spares the search for what Arrow takes too easily.
        """
        joined = joined_objects(values)
        if joined is None:
            return None
        if not self._plain or _has_odd_numbers(joined):
            return json_decode.decode(values, self._columns)
        whole = pj.ReadOptions(use_threads=False, block_size=len(joined) + 1)
        try:
            if not joined.isascii():
                joined.decode()  # Arrow does not look
            source: Any = pa.BufferReader(joined)
            table = pj.read_json(source, read_options=whole, parse_options=self._options)
            if table.num_rows != len(values):
                return None
            (batch,) = table.combine_chunks().to_batches()
            arrays = [_converted(batch[field.name], field.type) for field in self._columns]
        except CONVERSION_ERRORS:
            return None
        if any(not f.type.nullable and a.null_count for f, a in zip(self._columns, arrays)):
            return None
        return pa.record_batch(arrays, names=list(self._columns.names))


def _parsed_as(kind: DataType) -> pa.DataType:
    if is_iso(kind):
        return pa.string()
    if kind.name == "duration":
        return pa.int64()
    return pa.float64() if kind.is_float else kind.to_arrow()


def _converted(column: pa.Array, kind: DataType) -> pa.Array:
    if is_iso(kind):
        return times_of_texts(column, kind)
    return column.cast(kind.to_arrow(), safe=kind.name != "float32")


class Custom:
    """A function of the user's: the bytes of a whole batch to a record batch."""

    wanted: Sequence[str] = ()

    def __init__(self, function: Decoder, schema: Schema, columns: Schema) -> None:
        self._function, self._schema, self._columns = function, schema, columns
        self._name = getattr(function, "__name__", type(function).__name__)

    def decode(self, messages: Messages) -> tuple[pa.RecordBatch | None, list[Bad]]:
        """All messages at once; where that fails, halves, until the bad ones are found."""
        return self._decode(messages.values, 0)

    def _decode(self, values: list[Any], first: int) -> tuple[pa.RecordBatch | None, list[Bad]]:
        try:
            return self._rows(values), []
        except Unreachable:  # says nothing of a message
            raise
        except Exception as error:  # whatever the function raises is about a message
            if len(values) == 1:
                return None, [(first, f"{self._name}: {type(error).__name__}: {error}")]
        half = len(values) // 2
        one, bad = self._decode(values[:half], first)
        other, more_bad = self._decode(values[half:], first + half)
        return _joined([part for part in (one, other) if part is not None]), bad + more_bad

    def _rows(self, values: list[Any]) -> pa.RecordBatch:
        rows = self._function(values)
        if not isinstance(rows, pa.RecordBatch | pa.Table):
            raise DataError(f"gave a {type(rows).__name__} and not a record batch")
        if rows.num_rows != len(values):
            raise DataError(f"gave {rows.num_rows} rows for {len(values)} messages")
        table = conform(as_table(rows), self._schema).select(list(self._columns.names))
        if not len(self._columns):
            return _without_columns(len(values))
        return table.combine_chunks().to_batches()[0]


def joined_objects(values: Values) -> bytes | None:
    """The values in lines, if every one begins and ends with a brace; else None.

    If that is JSON with as many objects as there are values, then each value is one object: between
    `}` and `{` there can only be the end of one and the start of the next.

    >>> joined_objects([b'{"a": 1}', b"{}"]), joined_objects([b'{"a": 1}{"a"', b": 2}"])
    (b'{"a": 1}\\n{}', None)
    """
    try:
        joined = b"\n".join(values)
    except TypeError:  # one is None
        return None
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    if not len(values) or not lengths.all():
        return None
    ends = np.cumsum(lengths + 1) - 1
    characters = np.frombuffer(joined, np.uint8)
    opened = characters[ends - lengths] == ord("{")
    return joined if (opened & (characters[ends - 1] == ord("}"))).all() else None


def _has_odd_numbers(joined: bytes) -> bool:
    """May there be numbers that Arrow takes and JSON lacks? (One letter is found faster.)"""
    return (b"I" in joined and b"Inf" in joined) or (b"N" in joined and b"-NaN" in joined)


def _joined(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    if not parts[0].num_columns:
        return _without_columns(sum(part.num_rows for part in parts))
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


def _without_columns(rows: int) -> pa.RecordBatch:
    return pa.record_batch({"": pa.nulls(rows)}).select([])
