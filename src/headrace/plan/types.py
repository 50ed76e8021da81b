"""The types of columns: scalars, decimals, lists and structs, each of which may be nullable.

>>> from headrace.plan.types import int64, optional, string
>>> optional(int64)
optional(int64)
>>> string.to_arrow()
DataType(string)
"""

from __future__ import annotations

import datetime as dt
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32")
INTEGERS = SIGNED + UNSIGNED
FLOATS = ("float32", "float64")
TEXTS = ("string", "binary")
TIMES = ("date", "timestamp")
MICROSECONDS_PER_DAY = 86_400_000_000
MOST_DIGITS = 38  # of a decimal of 128 bits


@dataclass(frozen=True)
class DataType:
    """The type of a column.

    Timestamps are microseconds since 1970 in UTC, dates are days since 1970, durations and times of
    the day are microseconds; inside compiled functions all of them are plain integers. Whole
    numbers are computed as int64, so values of uint64 are only kept and compared, until they are
    cast. Decimals, lists and structs (composite types) are kept as bytes; `arrow` is what they are
    for Arrow, and their names say all of it.

    >>> DataType("int64").is_integer
    True
    """

    name: str
    nullable: bool = False
    arrow: pa.DataType | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return f"optional({self.name})" if self.nullable else self.name

    @property
    def is_integer(self) -> bool:
        """One of int8 ... int64, uint8 ... uint32: every value is one of int64."""
        return self.name in INTEGERS

    @property
    def is_float(self) -> bool:
        """float32 or float64."""
        return self.name in FLOATS

    @property
    def is_numeric(self) -> bool:
        """An integer or a float."""
        return self.is_integer or self.is_float

    @property
    def is_text(self) -> bool:
        """string or binary."""
        return self.name in TEXTS

    @property
    def is_composite(self) -> bool:
        """A decimal, a list or a struct: kernels carry it as bytes, and do not look inside."""
        return self.arrow is not None

    @property
    def is_decimal(self) -> bool:
        """A decimal: its bytes have the order of its values."""
        return self.arrow is not None and pa.types.is_decimal128(self.arrow)

    @property
    def is_nested(self) -> bool:
        """A list or a struct, which has parts."""
        return self.is_composite and not self.is_decimal

    @property
    def is_view(self) -> bool:
        """Of any length: a text, or what is kept as bytes."""
        return self.is_text or self.is_composite

    @property
    def item(self) -> DataType | None:
        """The type of the items of a list, which may be null; None of other types."""
        if self.arrow is None or not pa.types.is_list(self.arrow):
            return None
        item = as_type(self.arrow.value_type)
        return optional(item) if self.arrow.value_field.nullable else item

    @property
    def parts(self) -> dict[str, DataType]:
        """The types of the fields of a struct, which may be null; none of other types."""
        if self.arrow is None or not pa.types.is_struct(self.arrow):
            return {}
        return {each.name: optional(as_type(each.type)) for each in self.arrow}

    @property
    def is_time(self) -> bool:
        """date or timestamp."""
        return self.name in TIMES

    @property
    def required(self) -> DataType:
        """The same type, never null."""
        return replace(self, nullable=False) if self.nullable else self

    @property
    def integer_range(self) -> tuple[int, int]:
        """Smallest and largest value of a type whose values are whole numbers in functions."""
        match self.name:
            case "date":
                return int32.integer_range  # Arrow's days
            case "time":
                return 0, MICROSECONDS_PER_DAY - 1
            case "timestamp" | "duration":
                return int64.integer_range
        bits = int(self.name.removeprefix("u").removeprefix("int"))
        if self.name.startswith("u"):
            return 0, (1 << bits) - 1
        return -(1 << bits - 1), (1 << bits - 1) - 1

    @property
    def is_whole(self) -> bool:
        """Are its values whole numbers inside of functions?"""
        return self.is_integer or self.is_time or self.name in ("uint64", "duration", "time")

    def to_arrow(self) -> pa.DataType:
        """The Arrow type that holds such a column."""
        return _TO_ARROW[self.name] if self.arrow is None else self.arrow


bool_ = DataType("bool")
int8, int16, int32, int64 = (DataType(name) for name in SIGNED)
uint8, uint16, uint32 = (DataType(name) for name in UNSIGNED)
uint64, duration, time = (DataType(name) for name in ("uint64", "duration", "time"))
float32, float64 = (DataType(name) for name in FLOATS)
date, timestamp = (DataType(name) for name in TIMES)
string, binary = (DataType(name) for name in TEXTS)

SCALARS = {
    t.name: t
    for t in (
        bool_,
        int8,
        int16,
        int32,
        int64,
        uint8,
        uint16,
        uint32,
        uint64,
        float32,
        float64,
        date,
        timestamp,
        duration,
        time,
        string,
        binary,
    )
}

_TO_ARROW: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "duration": pa.duration("us"),
    "time": pa.time64("us"),
    "string": pa.string(),
    "binary": pa.binary(),
}

_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)

_FROM_PYTHON = {
    bool: bool_,
    int: int64,
    float: float64,
    str: string,
    bytes: binary,
    dt.date: date,
    dt.datetime: timestamp,
    dt.timedelta: duration,
    dt.time: time,
}


def optional(of: DataType | type) -> DataType:
    """The nullable form of a type.

    >>> optional(int)
    optional(int64)
    """
    return replace(as_type(of), nullable=True)


def as_type(given: Any) -> DataType:
    """A type from a headrace type, a Python type, an Arrow type or a name.

    >>> as_type(float), as_type("int32"), as_type(pa.large_string())
    (float64, int32, string)
    >>> as_type(list[int]), as_type({"lat": float, "lon": float}), as_type(pa.decimal128(10, 2))
    (list<int64>, struct<lat: float64, lon: float64>, decimal(10, 2))
    """
    if isinstance(given, DataType):
        return given
    if isinstance(given, type) and given in _FROM_PYTHON:
        return _FROM_PYTHON[given]
    if isinstance(given, str) and given in SCALARS:
        return SCALARS[given]
    if isinstance(given, pa.DataType):
        found = from_arrow(given)
        if found is not None:
            return found
    if typing.get_origin(given) is list:
        (item,) = typing.get_args(given)
        return list_of(as_type(item))
    if isinstance(given, Mapping) and given:
        return _struct_of({str(name): as_type(kind) for name, kind in given.items()})
    raise TypeError(
        f"{given!r} is not a column type; use one of {', '.join(SCALARS)}, optional(...) of one, "
        "the Python types bool, int, float, str, bytes, datetime.date, datetime.datetime, "
        "datetime.timedelta, datetime.time, list[...] or a dict of one, or an Arrow type"
    )


def from_arrow(given: pa.DataType) -> DataType | None:
    """The type of an Arrow column, or None where headrace has none for it.

    >>> from_arrow(pa.timestamp("ms")), from_arrow(pa.list_(pa.int8()))
    (timestamp, list<int8>)
    >>> from_arrow(pa.map_(pa.string(), pa.int8())) is None
    True
    """
    if pa.types.is_nested(given):
        return _nested_from_arrow(given)
    if pa.types.is_decimal(given) and given.precision <= MOST_DIGITS:
        return DataType(
            f"decimal({given.precision}, {given.scale})",
            arrow=pa.decimal128(given.precision, given.scale),
        )
    if pa.types.is_dictionary(given):
        inner = from_arrow(given.value_type)
        return inner if inner is not None and inner.is_text else None
    if pa.types.is_timestamp(given):
        return timestamp
    if pa.types.is_date(given):
        return date
    if pa.types.is_duration(given):
        return duration
    if pa.types.is_time(given):
        return time
    if pa.types.is_string(given) or pa.types.is_large_string(given) or given == pa.string_view():
        return string
    if pa.types.is_binary(given) or pa.types.is_large_binary(given) or given == pa.binary_view():
        return binary
    if pa.types.is_boolean(given):
        return bool_
    return SCALARS.get({"float": "float32", "double": "float64"}.get(str(given), str(given)))


def _nested_from_arrow(given: Any) -> DataType | None:
    if pa.types.is_struct(given):
        parts = {each.name: _part_from_arrow(each.type) for each in given}
        known = {name: kind for name, kind in parts.items() if kind is not None}
        return _struct_of(known) if known and len(known) == given.num_fields else None
    if any(is_list(given) for is_list in _LISTS):
        item = _part_from_arrow(given.value_type)
        return None if item is None else list_of(item)
    return None


def _part_from_arrow(given: pa.DataType) -> DataType | None:
    """Arrow casts no dictionaries inside of others."""
    return None if pa.types.is_dictionary(given) else from_arrow(given)


def list_of(item: DataType) -> DataType:
    """Lists of a type. Items may be null, in every list.

    >>> list_of(int64)
    list<int64>
    """
    return DataType(f"list<{item.name}>", arrow=pa.list_(item.to_arrow()))


def items_of(item: DataType) -> DataType:
    """Lists for users' functions, of items that are null only if their type says so.

    >>> items_of(int64), items_of(int64).item
    (list<int64 not null>, int64)
    """
    if item.nullable:
        return list_of(item)
    field = pa.field("item", item.to_arrow(), nullable=False)
    return DataType(f"list<{item.name} not null>", arrow=pa.list_(field))


def _struct_of(parts: Mapping[str, DataType]) -> DataType:
    said = [f"{n if n.isidentifier() else repr(n)}: {kind.name}" for n, kind in parts.items()]
    kinds = [(name, kind.to_arrow()) for name, kind in parts.items()]
    return DataType(f"struct<{', '.join(said)}>", arrow=pa.struct(kinds))


def literal_type(value: Any) -> DataType | None:
    """The type of a Python value written into a pipeline, or None where it has none.

    >>> literal_type(3), literal_type("a"), literal_type(None), literal_type([])
    (int64, string, None, None)
    >>> literal_type(Decimal("1.50"))
    decimal(3, 2)
    """
    if isinstance(value, Decimal) and value.is_finite():
        try:
            return from_arrow(pa.scalar(value).type)
        except pa.ArrowInvalid:  # too many digits
            return None
    for python, found in (
        (bool, bool_),
        (int, int64),
        (float, float64),
        (str, string),
        ((bytes, bytearray), binary),
        (dt.datetime, timestamp),
        (dt.date, date),
        (dt.timedelta, duration),
        (dt.time, time),
    ):
        if isinstance(value, python):  # bool before int, datetime before date
            return found
    if hasattr(value, "item") and getattr(value, "shape", None) == ():  # a numpy scalar
        return literal_type(value.item())
    return None
