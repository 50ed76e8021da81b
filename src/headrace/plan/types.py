"""The types of columns: scalars, each of which may be nullable.

>>> from headrace.plan.types import int64, optional, string
>>> optional(int64)
optional(int64)
>>> string.to_arrow()
DataType(string)
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32")
INTEGERS = SIGNED + UNSIGNED
FLOATS = ("float32", "float64")
TEXTS = ("string", "binary")
TIMES = ("date", "timestamp")
MICROSECONDS_PER_DAY = 86_400_000_000


@dataclass(frozen=True)
class DataType:
    """The type of a column.

    Timestamps are microseconds since 1970 in UTC, dates are days since 1970, durations and times of
    the day are microseconds; inside compiled functions all of them are plain integers. Whole
    numbers are computed as int64, so values of uint64 are only kept and compared, until they are
    cast.

    >>> DataType("int64").is_integer
    True
    """

    name: str
    nullable: bool = False

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
        """string or binary: values of any length."""
        return self.name in TEXTS

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
        return _TO_ARROW[self.name]


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
    raise TypeError(
        f"{given!r} is not a column type; use one of {', '.join(SCALARS)}, optional(...) of one, "
        "or the Python types bool, int, float, str, bytes, datetime.date, datetime.datetime, "
        "datetime.timedelta, datetime.time"
    )


def from_arrow(given: pa.DataType) -> DataType | None:
    """The type of an Arrow column, or None where headrace has none for it.

    >>> from_arrow(pa.timestamp("ms")), from_arrow(pa.list_(pa.int8()))
    (timestamp, None)
    """
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


def literal_type(value: Any) -> DataType | None:
    """The type of a Python value written into a pipeline, or None where it has none.

    >>> literal_type(3), literal_type("a"), literal_type(None), literal_type([])
    (int64, string, None, None)
    """
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
