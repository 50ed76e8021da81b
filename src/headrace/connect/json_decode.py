"""Lines of JSON as columns: fast where nothing is wrong, else line by line with the reason.

Both ways give the same values for the same lines. The fast one is Arrow's parser; whatever it does
not take (or takes too easily) goes the other way, line by line. A line is good if one of the ways
takes it alone: what becomes of it does not depend on the lines around it.
"""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from headrace.plan.expression_types import ExpressionError
from headrace.plan.literals import stored
from headrace.plan.schema import Field, Schema
from headrace.plan.types import DataType, string

from .arrow import CONVERSION_ERRORS, has_nulls
from .iso import is_iso, time_of_text, times_of_texts

SHOWN = 60  # characters of a wrong value in messages

_SPECIAL_FLOATS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NULL_BEHIND_OBJECT = re.compile(rb"\}\s*null")
_ODD_NUMBER = re.compile(rb"Inf(?!inity)|-NaN")

_NO_COLUMN = Schema((Field("", string),))  # stands for no column, to have the rows counted


def decode(lines: Sequence[bytes], columns: Schema) -> pa.RecordBatch | None:
    """The columns of some lines, one row each; None where a line needs a closer look.

    >>> decode([b'{"n": 1, "x": 2}', b'{"n": null}'], Schema.of({"n": "int8"})) is None
    True
    >>> decode([b'{"n": 1, "x": 2}', b'{"n": 3}'], Schema.of({"n": "int8"})).to_pylist()
    [{'n': 1}, {'n': 3}]
    """
    chunk = b"\n".join(lines)
    if any(field.type.is_composite for field in columns) or _is_taken_too_easily(chunk):
        return None
    wanted = columns if len(columns) else _NO_COLUMN
    kinds = pa.schema({field.name: parsed_as(field.type) for field in wanted})
    options = pj.ParseOptions(explicit_schema=kinds, unexpected_field_behavior="ignore")
    whole = pj.ReadOptions(use_threads=False, block_size=len(chunk) + 1)
    try:
        chunk.decode()  # Arrow does not look
        table = pj.read_json(io.BytesIO(chunk), read_options=whole, parse_options=options)
        if table.num_rows != len(lines):
            return None
        (batch,) = table.combine_chunks().to_batches()
        if not len(columns):
            return batch.select([])
        arrays = [converted(batch[field.name], field.type) for field in columns]
    except CONVERSION_ERRORS:
        return None
    if any(not field.type.nullable and has_nulls(a) for field, a in zip(columns, arrays)):
        return None
    return pa.record_batch(arrays, names=list(columns.names))


def _is_taken_too_easily(chunk: bytes) -> bool:
    """May there be something that is not JSON, and that Arrow takes, or dies of?

    It dies of a null that is the first of its lines, and takes others for rows of nulls
    (github.com/apache/arrow/issues/47409); it passes over a byte order mark; and it knows numbers
    that JSON lacks. (Plain searches come first: they are much faster than patterns.)
    """
    if chunk.startswith(_BYTE_ORDER_MARK) or chunk.lstrip().startswith(b"null"):
        return True
    if b"null" in chunk and _NULL_BEHIND_OBJECT.search(chunk):
        return True
    return (b"Inf" in chunk or b"-NaN" in chunk) and bool(_ODD_NUMBER.search(chunk))


def decode_each(
    lines: Sequence[bytes], columns: Schema
) -> tuple[pa.RecordBatch, list[int], list[tuple[int, str]]]:
    """The rows of the lines that are right, which lines these are, and what is wrong with others.

    >>> rows, good, wrong = decode_each([b'{"n": 1}', b'{"n": "x"}', b'{'], Schema.of({"n": int}))
    >>> rows.to_pylist(), good, wrong[0]
    ([{'n': 1}], [0], (1, "column 'n': 'x' is not a value of int64"))
    """
    values: list[list[Any]] = []
    good: list[int] = []
    wrong: list[tuple[int, str]] = []
    for number, line in enumerate(lines):
        try:
            values.append(_row(line, columns))
        except (ValueError, RecursionError) as error:
            alone = decode([line], columns)
            if alone is None:
                wrong.append((number, _reason(error)))
                continue
            values.append([_stored(column[0]) for column in alone.columns])
        good.append(number)
    arrays = [
        pa.array([row[i] for row in values], field.type.to_arrow())
        for i, field in enumerate(columns)
    ]
    if not arrays:
        return pa.record_batch({"": pa.nulls(len(good))}).select([]), good, wrong
    return pa.record_batch(arrays, names=list(columns.names)), good, wrong


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "not JSON that can be read: it is nested too deeply"
    return str(error)


def _stored(value: Any) -> Any:
    return value.value if pa.types.is_temporal(value.type) else value.as_py()


def parsed_as(kind: DataType) -> pa.DataType:
    """The type in which Arrow is to parse texts that stand for values of a type."""
    if is_iso(kind) or kind.name == "binary" or kind.is_nested:
        return pa.string()
    if kind.name == "duration":
        return pa.int64()
    return pa.float64() if kind.is_float else kind.to_arrow()


def converted(column: pa.Array, kind: DataType) -> pa.Array:
    """A column as it was parsed in its own type."""
    if is_iso(kind):
        return times_of_texts(column, kind)
    if kind.name == "binary":
        texts = column.to_pylist()
        return pa.array([None if text is None else _bytes(text) for text in texts], pa.binary())
    if kind.is_nested:
        texts = column.to_pylist()
        values = [None if text is None else of_json(_parsed(text), kind) for text in texts]
        return pa.array(values, kind.to_arrow())
    return pc.cast(column, kind.to_arrow(), safe=not kind.is_float)


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _row(line: bytes, columns: Schema) -> list[Any]:
    """The values of a line in stored form; a ValueError says what is wrong with it."""
    try:
        found = _parsed(line.decode())
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{_shortened(found)} is not an object with a value for each column")
    return [_value(found, field) for field in columns]


class _Whole(int):
    """A whole number that is not only its value."""


_MINUS_ZERO = _Whole(0)


def _whole(text: str) -> int:
    return _MINUS_ZERO if text == "-0" else int(text)


class _Real(float):
    """A float, and the digits that it was read from."""

    def __new__(cls, text: str) -> _Real:
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str


def _parsed(text: str) -> Any:
    """What a text in JSON says, exactly."""
    return json.loads(text, parse_int=_whole, parse_float=_Real)


def _value(found: dict[str, Any], field: Field) -> Any:
    value, kind = found.get(field.name), field.type
    if value is None:
        if kind.nullable:
            return None
        said = "null" if field.name in found else "missing"
        raise ValueError(
            f"column {field.name!r} is {said}, and the schema says {kind}; use optional({kind})"
        )
    try:
        return of_json(value, kind)
    except (ValueError, ExpressionError) as error:
        what = f"{_shortened(value)} is not a value of {kind.required}"
        said = cut(str(error)) if isinstance(value, int) else what  # a number may be too large
        raise ValueError(f"column {field.name!r}: {said}") from None


def of_json(value: Any, kind: DataType) -> Any:
    """A value in stored form from what JSON has for it; a ValueError or an ExpressionError where it
    is not of that type. Decimals are numbers or texts; fields that a struct lacks are left out.

    >>> from headrace.plan.types import as_type
    >>> of_json({"at": "1970-01-01T00:00:00Z", "more": 1}, as_type({"at": "timestamp", "n": int}))
    {'at': 0, 'n': None}
    """
    if kind.is_float and value is _MINUS_ZERO:
        return -0.0
    if kind.is_float and isinstance(value, str) and value in _SPECIAL_FLOATS:
        return _SPECIAL_FLOATS[value]
    if value is not None and (is_iso(kind) or kind.name == "binary"):
        return _of_text(value, kind)
    if kind.is_decimal and isinstance(value, _Real | str):
        return stored(_decimal(value.text if isinstance(value, _Real) else value), kind)
    if kind.item is not None and isinstance(value, list):
        return [of_json(item, kind.item) for item in value]
    if kind.parts and isinstance(value, dict):
        return {name: of_json(value.get(name), part) for name, part in kind.parts.items()}
    return stored(value, kind)


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a number") from None


def _of_text(value: Any, kind: DataType) -> Any:
    """A value of a type that JSON has not, from the text that stands for it."""
    form = "as base64" if kind.name == "binary" else "in ISO 8601"
    if not isinstance(value, str):
        raise ExpressionError(f"{_shortened(value)} is not a text with a {kind.required} {form}")
    return _bytes(value) if kind.name == "binary" else time_of_text(value, kind)


def _shortened(value: Any) -> str:
    return cut(repr(value))


def cut(said: str) -> str:
    """The beginning of a text, for messages."""
    return said if len(said) <= SHOWN else f"{said[:SHOWN]}..."
