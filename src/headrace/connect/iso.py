"""Times as texts of ISO 8601, for formats that have no type for them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.plan.errors import DataError, ExpressionError
from headrace.plan.literals import stored
from headrace.plan.schema import Field
from headrace.plan.types import DataType

# What a text can say, and Python's own types can hold.
_LIMITS = {
    "date": (dt.date.min, dt.date.max),
    "timestamp": tuple(
        moment.replace(tzinfo=dt.UTC) for moment in (dt.datetime.min, dt.datetime.max)
    ),
}


def is_iso(kind: DataType) -> bool:
    """Are values of this type texts of ISO 8601 in formats that have no type for them?"""
    return kind.is_time or kind.name == "time"


def texts_of_times(field: Field, column: Any) -> Any:
    """Dates as `2024-01-31`, times as `12:00:00.000000`, timestamps as both with a T and a Z.

    >>> moments = pa.array([0, None], pa.timestamp("us", "UTC"))
    >>> texts_of_times(Field("at", DataType("timestamp")), moments).to_pylist()
    ['1970-01-01T00:00:00.000000Z', None]
    """
    column = column.cast(field.type.to_arrow())
    if not _has_text(column, field.type):
        raise DataError(
            f"column {field.name!r}: a {field.type.required} is not in the years 1 to 9999, and "
            "has no text; write it as int64"
        )
    if field.type.name != "timestamp":
        return column.cast(pa.string())
    return pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ", locale="C")


def _has_text(column: Any, kind: DataType) -> bool:
    """Are all times in the years 1 to 9999?"""
    if kind.name == "time":
        return True
    found: Any = pc.min_max(column.cast(pa.int32() if kind.name == "date" else pa.int64())).as_py()
    first, last = (stored(limit, kind) for limit in _LIMITS[kind.name])
    return found["min"] is None or (first <= found["min"] and found["max"] <= last)


def times_of_texts(column: Any, kind: DataType) -> Any:
    """Times from texts that all have a zone or all have none (then UTC); else an ArrowInvalid.

    >>> times_of_texts(pa.array(["1970-01-01 00:00:01"]), DataType("timestamp"))[0].value
    1000000
    """
    if kind.name == "time":  # Arrow reads times of the day with a day only
        moments: Any = pc.binary_join_element_wise("1970-01-01T", column, "")
        return moments.cast(pa.timestamp("us")).cast(kind.to_arrow())
    try:
        made = column.cast(kind.to_arrow())
    except pa.ArrowInvalid:
        if kind.name != "timestamp":
            raise
        made = pc.assume_timezone(column.cast(pa.timestamp("us")), "UTC")
    if not _has_text(made, kind):
        raise pa.ArrowInvalid("a time in the year 0")
    return made


def time_of_text(text: str, kind: DataType) -> int:
    """The stored form of one text; a ValueError where it is none.

    >>> time_of_text("1970-01-01T02:00:00+02:00", DataType("timestamp"))
    0
    """
    made: Any = {"date": dt.date, "time": dt.time}.get(kind.name, dt.datetime)
    try:
        return int(stored(made.fromisoformat(text), kind))
    except ExpressionError as error:  # a time of the day with a zone
        raise ValueError(str(error)) from None
