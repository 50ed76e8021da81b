"""Lengths of time as users write them."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import numpy as np

from .errors import ExpressionError
from .types import DataType, int64

DAY = 86_400_000_000  # microseconds
_UNITS = {
    "us": 1,
    "µs": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "sec": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": DAY,
}
_WRITTEN = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([a-zµ]+)\s*")
_FIX = 'write "500ms", "10s", "5 min", "1h" or "1d", or give a timedelta'


class Duration(int):
    """A number of microseconds that is known to be a length of time."""

    __slots__ = ()


def parse_duration(given: Any) -> Duration:
    """The microseconds of a duration; an ExpressionError where it is none.

    >>> parse_duration("5 min"), parse_duration("1.5s"), parse_duration(dt.timedelta(days=1))
    (300000000, 1500000, 86400000000)
    """
    if isinstance(given, dt.timedelta):
        return Duration(given // dt.timedelta(microseconds=1))
    if isinstance(given, int) and not isinstance(given, bool):
        return Duration(given)
    if not isinstance(given, str):
        raise ExpressionError(f"{given!r} is not a duration", _FIX)
    match = _WRITTEN.fullmatch(given)
    if match is None or match[2] not in _UNITS:
        raise ExpressionError(f"{given!r} is not a duration", _FIX)
    whole, _, part = match[1].partition(".")
    scaled = int(whole + part) * _UNITS[match[2]]
    micros, rest = divmod(scaled, 10 ** len(part))
    if rest:
        raise ExpressionError(f"{given!r} is not a whole number of microseconds", _FIX)
    return Duration(micros)


_MONTHS = {"mo": 1, "q": 3, "y": 12}
_EVERY_FIX = 'write "15m", "1h", "1d", "1w", "1mo", "1q" or "1y"'


def parse_every(given: str) -> tuple[str, int]:
    """What times are cut down to: a number of "microseconds", "weeks" or "months".

    >>> parse_every("15m"), parse_every("2w"), parse_every("1y")
    (('microseconds', 900000000), ('weeks', 2), ('months', 12))
    """
    match = re.fullmatch(r"\s*(\d+)\s*(w|mo|q|y)\s*", given)
    if match is not None:
        count, unit = int(match[1]), match[2]
        made = ("weeks", count) if unit == "w" else ("months", count * _MONTHS[unit])
    else:
        try:
            made = ("microseconds", int(parse_duration(given)))
        except ExpressionError:
            raise ExpressionError(f"{given!r} is no step of time", _EVERY_FIX) from None
    if made[1] <= 0 or made[1] >= 1 << 55:
        raise ExpressionError(f"{given!r} is no step of time", _EVERY_FIX)
    return made


def in_units_of(given: Any, time: DataType, what: str) -> int:
    """A length in the unit of a time column: microseconds, or a plain number for int64.

    >>> in_units_of("1s", DataType("timestamp"), "size"), in_units_of(10, int64, "size")
    (1000000, 10)
    """
    if isinstance(given, np.integer):
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int | str | dt.timedelta):
        raise ExpressionError(f"the {what} {given!r} is not a duration", _FIX)
    plain = isinstance(given, int) and not isinstance(given, Duration)
    if time.name == "timestamp":
        if plain and given != 0:
            raise ExpressionError(f"the {what} {given} has no unit", f'say which: "{given}s"')
        length = int(parse_duration(given))
    elif plain:
        length = int(given)  # type: ignore[arg-type]
    else:
        raise ExpressionError(
            f"the {what} {given!r} is a duration, and the time column is {time.required}",
            "give a plain number in the column's own unit, or make the column a timestamp with "
            "hr.from_millis(...) or hr.from_seconds(...)",
        )
    if abs(length) > int64.integer_range[1] // 4:
        raise ExpressionError(f"the {what} {given!r} is too long")
    return length


def positive_length(given: Any, time: DataType, what: str) -> int:
    """The same for a length that is longer than nothing.

    >>> positive_length("1s", DataType("timestamp"), "size")
    1000000
    """
    length = in_units_of(given, time, what)
    if length <= 0:
        raise ExpressionError(f"the {what} {given!r} is not positive", "give a longer one")
    return length
