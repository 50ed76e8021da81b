"""Data of many kinds as Arrow columns of a schema; what does not fit is a DataError."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.expression_types import ExpressionError
from headrace.plan.literals import stored
from headrace.plan.schema import Field, Schema, schema_of_arrow
from headrace.plan.types import DataType, from_arrow, optional
from headrace.stage.blocks.validation import validated

# What Arrow says of values it cannot convert; its own errors are ValueErrors and TypeErrors.
CONVERSION_ERRORS = (pa.ArrowException, ValueError, TypeError, OverflowError)

# Values of these classes fit a column of the type as they are. (Arrow alone would take 1.5 for 1.)
_PLAIN: dict[str, frozenset[type]] = {
    "bool": frozenset([bool]),
    "string": frozenset([str]),
    "binary": frozenset([bytes, bytearray]),
    "date": frozenset([dt.date]),
    "timestamp": frozenset([dt.datetime]),
    "duration": frozenset([dt.timedelta]),
    "time": frozenset([dt.time]),
    "float32": frozenset([float, int]),
    "float64": frozenset([float, int]),
}
_WHOLE: frozenset[type] = frozenset([int])


def column_of(
    name: str, values: Sequence[Any], kind: DataType, *, first_row: int = 0, what: str = "column"
) -> pa.Array:
    """Python values as a column of a type; `first_row` is the number of the first for messages.

    >>> column_of("n", [1, None], optional(int)).to_pylist()
    [1, None]
    >>> column_of("n", [1, 1.5], DataType("int64"))
    Traceback (most recent call last):
    headrace.plan.errors.DataError: column 'n', row 1: 1.5 is not a value of int64
    """
    classes = set(map(type, values))
    if kind.nullable:
        classes.discard(type(None))
    if classes <= _PLAIN.get(kind.name, _WHOLE):
        try:
            return pa.array(values, kind.to_arrow())
        except CONVERSION_ERRORS:
            pass  # the loop below finds the value
    kept = []
    for row, value in enumerate(values):
        try:
            kept.append(stored(value, kind))
        except ExpressionError as error:
            fix = f" ({error.fix})" if error.fix else ""
            raise DataError(f"{what} {name!r}, row {first_row + row}: {error.what}{fix}") from None
    try:
        return pa.array(kept, kind.to_arrow())
    except CONVERSION_ERRORS as error:
        raise DataError(f"{what} {name!r}: {error}") from None


def is_frame(data: Any) -> bool:
    """Is this a table that Arrow can take: its own, or one with the Arrow C stream interface?"""
    kinds = ("__arrow_c_stream__", "__arrow_c_array__")
    return isinstance(data, pa.Table | pa.RecordBatch) or any(hasattr(data, k) for k in kinds)


def as_table(data: Any, schema: Schema | None = None) -> pa.Table:
    """One table from any of the forms that users have their data in.

    >>> as_table({"a": [1, 2]}).num_rows
    2
    >>> as_table([{"a": 1}, {"b": 2.5}]).to_pylist()
    [{'a': 1, 'b': None}, {'a': None, 'b': 2.5}]
    """
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if is_frame(data):  # it may come from a file that Arrow did not look into
        return validated(data if isinstance(data, pa.Table) else pa.table(data), "the table")
    if isinstance(data, Mapping):
        return _table_of_columns(data, schema)
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        rows = list(data)
        if rows and all(isinstance(row, pa.RecordBatch) for row in rows):
            return validated(pa.Table.from_batches(rows), "the table")
        if all(isinstance(row, Mapping) for row in rows):
            return _table_of_columns(_columns_of_rows(rows, schema), schema)
    raise DataError(
        f"a {type(data).__name__} is not data that can be read; use an Arrow table, a pandas or "
        "Polars frame, a dict of lists or a list of dicts; read.iterate takes what gives rows one "
        "by one"
    )


def _columns_of_rows(
    rows: Sequence[Mapping[str, Any]], schema: Schema | None
) -> dict[str, list[Any]]:
    """Rows turned into columns; a row without a column has a null there."""
    if not rows and schema is None:
        raise DataError("a list without rows has no columns; give schema=")
    names = schema.names if schema else tuple(dict.fromkeys(name for row in rows for name in row))
    return {str(name): [row.get(name) for row in rows] for name in names}


def _table_of_columns(columns: Mapping[str, Any], schema: Schema | None) -> pa.Table:
    made: dict[str, Any] = {}
    for name, values in columns.items():
        kind = schema[name] if schema is not None and name in schema else None
        made[str(name)] = _any_column(str(name), values, kind)
    lengths = {name: len(values) for name, values in made.items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
        raise DataError(f"the columns are not equally long: {said}")
    return pa.table(made)


def _any_column(name: str, values: Any, kind: DataType | None) -> Any:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    try:
        if hasattr(values, "__arrow_c_stream__"):
            return pa.chunked_array(values)
        if isinstance(values, np.ndarray) or hasattr(values, "__arrow_c_array__"):
            return pa.array(values)
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise DataError(f"column {name!r} is {values!r}, and should be a list of values")
        values = list(values)
        return pa.array(values) if kind is None else column_of(name, values, kind)
    except CONVERSION_ERRORS as error:
        raise DataError(f"column {name!r}: {error}") from None


def schema_of_table(table: pa.Table) -> tuple[Schema, dict[str, pa.DataType]]:
    """The columns headrace has types for, and the others.

    Arrow fields are nullable unless someone says otherwise, so what counts is whether there are
    nulls: a column without is not nullable.

    >>> rows = pa.table({"a": [1, 2], "b": ["x", None], "c": [[1], []]})
    >>> schema_of_table(rows)
    (Schema(a: int64, b: optional(string), c: list<int64>), {})
    """
    check_names(table.schema)
    schema, unknown = schema_of_arrow(table.schema)
    fields = [
        Field(f.name, optional(f.type) if has_nulls(table[f.name]) else f.type.required)
        for f in schema
    ]
    return Schema(tuple(fields), schema.unread), unknown


def said_of_unread(unread: Mapping[str, Any]) -> str:
    """What the text of a source adds about columns that it leaves, by their kinds.

    >>> said_of_unread({"tags": "list<string>"})
    ', unread: tags (list<string>)'
    """
    said = ", ".join(f"{name} ({kind})" for name, kind in unread.items())
    return f", unread: {said}" if said else ""


def has_nulls(column: pa.ChunkedArray | pa.Array) -> bool:
    """Is a value null, be it one of a dictionary?"""
    if column.null_count > 0 or not pa.types.is_dictionary(column.type):
        return bool(column.null_count)
    return first_null(column) >= 0


def first_null(column: pa.ChunkedArray | pa.Array) -> int:
    """The first row with a null; -1 if there is none."""
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return int(pc.index(pc.is_null(column), True).as_py())


def check_names(schema: pa.Schema) -> None:
    """A name that stands for two columns is a DataError."""
    twice = min((name for name, count in Counter(schema.names).items() if count > 1), default=None)
    if twice is not None:
        raise DataError(f"there are several columns named {twice!r}; rename them")


def null_error(field: Field, row: int, where: str = "") -> DataError:
    """What to say of a null in a column that has none by its type."""
    return DataError(
        f"{where}column {field.name!r} is null in row {row}, and the schema says {field.type}; "
        f"use optional({field.type})"
    )


def conform(table: pa.Table, schema: Schema) -> pa.Table:
    """The columns of a schema, in its types; a value that does not fit is a DataError.

    >>> conform(pa.table({"a": [1, 2], "b": [3, 4]}), Schema.of({"b": "int8"})).schema
    b: int8
    """
    check_names(table.schema)
    columns, names = [], set(table.schema.names)
    for field in schema:
        if field.name not in names:
            there = ", ".join(table.schema.names) or "none"
            raise DataError(f"there is no column {field.name!r}; there are: {there}")
        columns.append(_as_kind(field, table[field.name]))
    return pa.table(columns, names=list(schema.names))


def _as_kind(field: Field, column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not field.type.nullable and has_nulls(column):
        raise null_error(field, first_null(column))
    found = from_arrow(column.type)
    if found is not None and found.name == field.type.name:
        return column
    if not _may_fit(column.type, field.type):
        raise DataError(f"column {field.name!r} is {column.type} and not {field.type}")
    try:
        return column.cast(field.type.to_arrow())
    except CONVERSION_ERRORS as error:
        raise DataError(f"column {field.name!r} as {field.type}: {error}") from None


def _may_fit(given: pa.DataType, kind: DataType) -> bool:
    """Is a cast that checks every value meant here? (Texts are never parsed.)"""
    kinds = pa.types
    number = kinds.is_integer(given) or kinds.is_floating(given) or kinds.is_decimal(given)
    return (
        kinds.is_null(given)
        or ((kind.is_numeric or kind.is_decimal) and number)
        or (kind.is_whole and not kind.is_integer and kinds.is_integer(given))
        or (kind.name == "timestamp" and kinds.is_date(given))
        or (kind.name == "binary" and kinds.is_fixed_size_binary(given))
    )


def is_lossless(given: pa.DataType, kind: DataType) -> bool:
    """Does every value of an Arrow type fit a headrace type?

    >>> is_lossless(pa.uint32(), DataType("int64")), is_lossless(pa.int64(), DataType("int32"))
    (True, False)
    """
    found = from_arrow(given)
    if found is not None and found.name == kind.name:
        return True
    if pa.types.is_integer(given) and (kind.is_integer or kind.name == "uint64"):
        low, high = kind.integer_range
        signed = pa.types.is_signed_integer(given)
        bits = given.bit_width - signed
        return low <= -(1 << bits) * signed and (1 << bits) - 1 <= high
    return given == pa.float32() and kind.name == "float64"
