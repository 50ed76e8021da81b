"""Constants in their stored form: what a Python value written into a pipeline becomes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from .expression_types import ExpressionError
from .expressions import Literal
from .types import DataType, literal_type

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


def to_literal(value: Any, kind: DataType | None = None) -> Literal:
    """A constant of a given type, or of the type that its value has.

    >>> to_literal(dt.datetime(1970, 1, 1, 0, 0, 1))
    Literal(value=1000000, type=timestamp)
    >>> to_literal(dt.date(1970, 1, 3)), to_literal(np.float32(0.5))
    (Literal(value=2, type=date), Literal(value=0.5, type=float64))
    """
    value = _plain(value)
    if kind is None:
        kind = literal_type(value)
        if kind is None:
            raise _unknown(value)
    if value is None:
        return Literal(None, kind.required)
    if kind.is_nested:
        raise ExpressionError(f"{kind} has no constants", "read them as a column, or join a table")
    return Literal(stored(value, kind), kind.required)


def stored(value: Any, kind: DataType) -> Any:
    """A value as a block stores it; an ExpressionError where it is not of that type.

    >>> stored(dt.datetime(1970, 1, 2, tzinfo=dt.UTC), DataType("timestamp"))
    86400000000
    >>> stored(3, DataType("float64"))
    3.0
    """
    value = _plain(value)
    if value is None:
        if not kind.nullable:
            raise ExpressionError(f"None is not a value of {kind}", "use hr.optional(...)")
        return None
    if kind.name == "timestamp" and isinstance(value, dt.datetime):
        return _whole(_micros(value), kind, value)
    if kind.name == "date" and type(value) is dt.date:
        return value.toordinal() - _EPOCH.toordinal()
    if kind.name == "duration" and isinstance(value, dt.timedelta):
        return _whole(value // _MICROSECOND, kind, value)
    if kind.name == "time" and isinstance(value, dt.time) and value.tzinfo is None:
        return (dt.datetime.combine(dt.date.min, value) - dt.datetime.min) // _MICROSECOND
    if kind.is_whole and _is_int(value):
        return _whole(value, kind, value)
    if kind.is_float and (_is_int(value) or isinstance(value, float)):
        try:
            return float(value)
        except OverflowError:
            raise ExpressionError(f"{value} does not fit {kind}") from None
    if kind.name == "bool" and isinstance(value, bool):
        return value
    if kind.name == "string" and isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ExpressionError(f"{value!r} is not valid Unicode text") from None
        return str(value)
    if kind.name == "binary" and isinstance(value, bytes | bytearray):
        return bytes(value)
    if kind.arrow is not None:
        return _composite(value, kind, kind.arrow)
    raise ExpressionError(f"{value!r} is not a value of {kind}")


def _composite(value: Any, kind: DataType, arrow: pa.DataType) -> Any:
    """A decimal, or the stored items or fields; a field that is not there is null."""
    if kind.is_decimal and (_is_int(value) or isinstance(value, Decimal)):
        try:
            return pa.scalar(Decimal(value), arrow).as_py()
        except pa.ArrowInvalid:
            raise ExpressionError(f"{value} does not fit {kind.required}") from None
    if kind.item is not None and isinstance(value, list | tuple | np.ndarray):
        return [stored(item, kind.item) for item in value]
    if kind.parts and isinstance(value, Mapping):
        strange = [name for name in value if name not in kind.parts]
        if not strange:
            return {name: stored(value.get(name), part) for name, part in kind.parts.items()}
        raise ExpressionError(f"{value!r} has a field {strange[0]!r}, and not so {kind.required}")
    raise ExpressionError(f"{value!r} is not a value of {kind}")


def zero(kind: DataType) -> Any:
    """The first value of a state field that the user gave none for.

    >>> zero(DataType("string")), zero(DataType("int64")), zero(DataType("int64", True))
    ('', 0, None)
    """
    if kind.nullable:
        return None
    return {"bool": False, "string": "", "binary": b"", "float32": 0.0, "float64": 0.0}.get(
        kind.name, 0
    )


def _plain(value: Any) -> Any:
    """A numpy scalar as the Python value it stands for."""
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else value.astype("datetime64[us]").item()
    if isinstance(value, np.timedelta64):
        return None if np.isnat(value) else value.astype("timedelta64[us]").item()
    return value.item() if isinstance(value, np.generic) else value


def _micros(value: dt.datetime) -> int:
    if value.tzinfo is None:
        value = value.replace(tzinfo=dt.UTC)
    return (value - _EPOCH) // _MICROSECOND


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _whole(value: int, kind: DataType, said: Any) -> int:
    low, high = kind.integer_range
    if not low <= value <= high:
        raise ExpressionError(
            f"{said} does not fit {kind}",
            "use a float, or keep it as a string" if kind.name == "int64" else "use a wider type",
        )
    return int(value)


def _unknown(value: Any) -> ExpressionError:
    if value is None:
        return ExpressionError(
            "a bare None has no type", "use hr.lit(None, type), or .is_null() to compare"
        )
    if isinstance(value, Decimal):
        return ExpressionError(
            f"{value!r} has no column type", "a decimal is finite and has up to 38 digits"
        )
    kind = type(value)
    return ExpressionError(
        f"a {kind.__module__}.{kind.__name__} cannot be a constant of a pipeline"
        if kind.__module__ != "builtins"
        else f"a {kind.__name__} cannot be a constant of a pipeline",
        "use a number, bool, str, bytes, datetime, date or timedelta",
    )
