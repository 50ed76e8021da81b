"""Rows as messages of Kafka: JSON, raw bytes, or a function of the user's, a batch at a time."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.plan.errors import DataError
from headrace.plan.schema import Field, Schema

from .avro import Avro
from .iso import is_iso, texts_of_times

Encoder = Callable[[pa.RecordBatch], Sequence[bytes]]

_NEEDS_ESCAPES = r'[\x00-\x1f"\\]'
_SPECIAL_FLOATS = {"nan": '"NaN"', "-nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


def json_texts(rows: pa.RecordBatch, schema: Schema) -> list[bytes]:
    """One JSON object for each row: times as ISO 8601, durations as microseconds, bytes as base64,
    NaN as a text, decimals as numbers.

    >>> rows = pa.record_batch({"user": ["ann", None], "n": [1, 2]})
    >>> json_texts(rows, Schema.of(rows.schema))
    [b'{"user":"ann","n":1}', b'{"user":null,"n":2}']
    """
    if not len(schema):
        return [b"{}"] * rows.num_rows
    return _list(_objects(schema, [rows.column(name) for name in schema.names]).cast(pa.binary()))


def _objects(fields: Iterable[Field], columns: Iterable[pa.Array]) -> pa.Array:
    """One JSON object for each row of some columns."""
    pieces: list[Any] = []
    for field, column in zip(fields, columns, strict=True):
        start = "," if pieces else "{"
        pieces.append(f"{start}{json.dumps(field.name, ensure_ascii=False)}:")
        pieces.append(json_column(field, column).fill_null("null"))
    return _joined(*pieces, "}")


def json_column(field: Field, column: Any) -> pa.Array:
    """The values of a column in JSON; nulls stay null.

    >>> from headrace.plan.types import as_type
    >>> lists = pa.array([["a", None], None, []])
    >>> json_column(Field("tags", as_type(list[str])), lists).to_pylist()
    ['["a",null]', None, '[]']
    """
    kind = field.type
    if kind.is_nested:
        column = column.cast(kind.to_arrow())
        made = _lists(field, column) if kind.item else _structs(field, column)
        return pc.if_else(column.is_valid(), made, pa.scalar(None, pa.string()))
    if is_iso(kind):
        return _quoted(texts_of_times(field, column))
    if kind.name == "duration":
        column = column.cast(pa.int64())
    if kind.name == "string":
        texts = column.cast(pa.string())
        if not pc.any(pc.match_substring_regex(texts, _NEEDS_ESCAPES)).as_py():
            return _quoted(texts)
        written = [None if t is None else json.dumps(t, ensure_ascii=False) for t in _list(texts)]
        return pa.array(written, pa.string())
    if kind.name == "binary":
        return _quoted(texts_of_bytes(column))
    texts = column.cast(pa.string())
    if kind.is_float and not pc.all(pc.is_finite(column)).as_py():
        return pa.array([_SPECIAL_FLOATS.get(t, t) for t in _list(texts)], pa.string())
    return texts


def _lists(field: Field, column: Any) -> pa.Array:
    items = Field(field.name, field.type.item or field.type)
    texts = json_column(items, column.flatten()).fill_null("null")
    ends = pc.cumulative_sum(column.value_lengths().fill_null(0))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends.cast(pa.int32())])
    return _joined("[", pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ","), "]")


def _structs(field: Field, column: Any) -> pa.Array:
    parts = [Field(name, kind) for name, kind in field.type.parts.items()]
    return _objects(parts, column.flatten())


def texts_of_bytes(column: Any) -> pa.Array:
    """Binary values in base64.

    >>> texts_of_bytes(pa.array([b"x", None])).to_pylist()
    ['eA==', None]
    """
    values = column.cast(pa.binary()).to_pylist()
    coded = [None if value is None else base64.b64encode(value).decode() for value in values]
    return pa.array(coded, pa.string())


def _quoted(texts: pa.Array) -> pa.Array:
    return _joined('"', texts, '"')


def _joined(*pieces: Any) -> pa.Array:
    no_separator = ""
    return pc.binary_join_element_wise(*pieces, no_separator)


def _list(column: pa.Array) -> list[Any]:
    return list(column.to_pylist())


def keys_of(rows: pa.RecordBatch, key: Field) -> list[bytes | None]:
    """The column of keys as bytes; numbers and times as they are written in JSON."""
    column = rows.column(key.name)
    if is_iso(key.type):
        column = texts_of_times(key, column)
    elif key.type.name == "duration":
        column = column.cast(pa.int64()).cast(pa.string())
    elif key.type.is_nested:
        column = json_column(key, column)
    elif not key.type.is_text:
        column = column.cast(pa.string())
    return list(column.cast(pa.binary()).to_pylist())


def raw_values(rows: pa.RecordBatch) -> list[bytes | None]:
    """The column `value` as it is."""
    return list(rows.column("value").cast(pa.binary()).to_pylist())


def check_format(format: str | Encoder | Avro) -> None:
    """A DataError where a format is none."""
    if format not in ("json", "raw") and not isinstance(format, Avro) and not callable(format):
        raise DataError(
            f'format={format!r}: must be "json", "raw", hr.Avro(registry) or a function of a '
            "record batch that gives a list of bytes"
        )


def check_columns(schema: Schema, format: str | Encoder | Avro, key: str | None) -> None:
    """A DataError where a format or a key cannot be made of the columns."""
    if key is not None and key not in schema:
        raise DataError(f"there is no column {key!r} for key=; {schema.closest(key)}")
    if format == "raw" and ("value" not in schema or not schema["value"].is_text):
        raise DataError(f'format="raw" needs a column value of binary or string, not {schema}')
