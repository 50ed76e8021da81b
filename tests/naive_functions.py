"""What the functions of expressions give, by Python and NumPy: a part of the naive reference.

Values are in stored form: timestamps in microseconds, dates in days.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from headrace.plan.types import DataType

DAY = 86_400_000_000
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MICROSECOND = dt.timedelta(microseconds=1)


class NotRead(ValueError):
    """A string that is no value of a type."""


# ---- numbers -------------------------------------------------------------------------------


def rounded(x: Any, decimals: int) -> Any:
    if isinstance(x, int):
        return x
    if decimals < 0:
        scale = 10.0**-decimals
        return float(np.rint(x / scale)) * scale
    with np.errstate(all="ignore"):
        scaled = float(np.float64(x) * np.float64(10.0) ** decimals)
    return float(np.rint(scaled)) / 10.0**decimals if abs(scaled) < 2**52 or decimals == 0 else x


def _quiet(function: Callable[..., Any]) -> Callable[..., float]:
    def call(*numbers: float) -> float:
        with np.errstate(all="ignore"):
            return float(function(*map(np.float64, numbers)))

    return call


def power(x: Any, y: Any, whole: bool) -> Any:
    if whole:
        made = x**y
        if not -(2**63) <= made < 2**63:
            raise OverflowError("does not fit")
        return made
    return _quiet(np.power)(x, y)


NUMBERS: dict[str, Callable[..., Any]] = {
    "round": rounded,
    "floor": lambda x: x if isinstance(x, int) else float(np.floor(x)),
    "ceil": lambda x: x if isinstance(x, int) else float(np.ceil(x)),
    "sqrt": _quiet(np.sqrt),
    "exp": _quiet(np.exp),
    "log": _quiet(np.log),
    "log10": _quiet(np.log10),
    "is_nan": lambda x: isinstance(x, float) and math.isnan(x),
    "is_finite": lambda x: math.isfinite(x),
}

# ---- strings -------------------------------------------------------------------------------


def sliced(text: str, offset: int, length: int) -> str:
    start = offset + len(text) if offset < 0 else offset
    return text[max(start, 0) : max(start + length, 0)]


def part(text: str, by: str, index: int) -> str | None:
    parts = text.split(by) if by else [text]
    return parts[index] if -len(parts) <= index < len(parts) else None


def like(text: str, pattern: str) -> bool:
    made, escaped = "", False
    for character in pattern:
        if escaped:
            made, escaped = made + re.escape(character), False
        elif character == "\\":
            escaped = True
        else:
            made += {"%": ".*", "_": "."}.get(character, re.escape(character))
    made += re.escape("\\") if escaped else ""
    return re.fullmatch(made, text, re.DOTALL) is not None


def json_path(text: str, path: str) -> str | None:
    """Of names that are words."""
    found = json.loads(text)
    for step in re.findall(r"\w+", path):
        try:
            found = found[int(step) if isinstance(found, list) else step]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    if found is None or isinstance(found, str):
        return found
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


STRINGS: dict[str, Callable[..., Any]] = {
    "length": len,
    "byte_length": lambda a: len(a.encode()),
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": lambda a, b: b in a,
    "like": like,
    "find": lambda a, b: a.find(b) if b in a else None,
    "count_matches": str.count,
    "upper": str.upper,
    "lower": str.lower,
    "concat": lambda a, b: a + b,
    "slice": sliced,
    "replace": str.replace,
    "split_part": part,
    "strip": lambda a, b: a.strip(b or None),
    "strip_start": lambda a, b: a.lstrip(b or None),
    "strip_end": lambda a, b: a.rstrip(b or None),
    "strip_prefix": str.removeprefix,
    "strip_suffix": str.removesuffix,
    "pad_start": str.rjust,
    "pad_end": str.ljust,
    "zero_fill": str.zfill,
    "matches": lambda a, b: re.search(b, a) is not None,
    "json_path": json_path,
    "extract": lambda a, b, group: found[group] if (found := re.search(b, a)) else None,
    "replace_regex": lambda a, b, value, most: re.sub(b, value, a, count=max(most, 0)),
}

# ---- times ---------------------------------------------------------------------------------


def moment(micros: int, zone: str = "") -> dt.datetime:
    return (EPOCH + dt.timedelta(microseconds=micros)).astimezone(ZoneInfo(zone or "UTC"))


CYCLE = 146_097 * DAY  # 400 years, after which the calendar repeats
SHOWN = (-62_135_000_000_000_000, 253_402_000_000_000_000)  # about the years that Python has


def local(micros: int, zone: str) -> int:
    """The local time, as if it were UTC. Before the years that Python has, clocks showed what they
    did in the first of them; behind, rules go on."""
    near = max(micros, SHOWN[0])
    near -= max(0, -(-(near - SHOWN[1]) // CYCLE)) * CYCLE
    offset = moment(near, zone).utcoffset() if zone else None
    made = micros + (0 if offset is None else offset // MICROSECOND)
    if not -(2**63) <= made < 2**63:
        raise OverflowError("does not fit")
    return made


def _days(time: int, kind: DataType, zone: str) -> int:
    return time if kind.name == "date" else local(time, zone) // DAY


def _date_part(part: str, days: int) -> int:
    day = np.datetime64(days, "D")
    year, month = day.astype("M8[Y]"), day.astype("M8[M]")
    if part == "year":
        return int(year.astype(int)) + 1970
    number = int(month.astype(int)) % 12 + 1
    weekday = (days + 3) % 7 + 1
    thursday = np.datetime64(days + 4 - weekday, "D")
    return {
        "month": number,
        "quarter": (number + 2) // 3,
        "day": int((day - month.astype("M8[D]")).astype(int)) + 1,
        "ordinal_day": int((day - year.astype("M8[D]")).astype(int)) + 1,
        "weekday": weekday,
        "week": int((thursday - thursday.astype("M8[Y]").astype("M8[D]")).astype(int)) // 7 + 1,
    }[part]


CLOCK = {
    "hour": lambda t: t // 3_600_000_000 % 24,
    "minute": lambda t: t // 60_000_000 % 60,
    "second": lambda t: t // 1_000_000 % 60,
    "millisecond": lambda t: t // 1_000 % 1_000,
    "microsecond": lambda t: t % 1_000_000,
}
UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": DAY}
MONTHS = {"mo": 1, "q": 3, "y": 12}


def _floor(time: int, every: str) -> int:
    count, unit = re.fullmatch(r"(\d+)(\w+)", every).groups()
    if unit == "w":
        size = 7 * int(count) * DAY
        return (time + 3 * DAY) // size * size - 3 * DAY
    if unit in MONTHS:
        size = int(count) * MONTHS[unit]
        month = int(np.datetime64(time // DAY, "D").astype("M8[M]").astype(int)) + 1970 * 12
        first = np.datetime64(month // size * size - 1970 * 12, "M")
        return int(first.astype("M8[D]").astype(int)) * DAY
    size = int(count) * UNITS[unit]
    return time // size * size


def truncated(time: int, every: str, kind: DataType, zone: str) -> int:
    if kind.name == "date":
        return _floor(time * DAY, every) // DAY
    if not zone:
        made = _floor(time, every)
        if made < -(2**63):
            raise OverflowError("does not fit")
        return made
    wanted = _floor(local(time, zone), every)
    is_part_of_day = _floor(DAY, every) != _floor(DAY + 1, every) and every[-1] in "smh"
    own = wanted - (local(time, zone) - time)
    if is_part_of_day and local(own, zone) == wanted:
        return own
    offsets = {local(wanted + k * DAY, zone) - wanted - k * DAY for k in (-1, 0, 1)}
    shown = [wanted - offset for offset in offsets if local(wanted - offset, zone) == wanted]
    if shown:
        return min(shown)
    low, high = wanted - DAY, wanted + DAY  # clocks jump over it
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if local(middle, zone) < wanted else (low, middle)
    return high


def of_time(op: str, time: int, rest: list[Any], kind: DataType, zone: str) -> Any:
    if op == "truncate":
        return truncated(time, rest[0], kind, zone)
    if op in CLOCK:
        return CLOCK[op](local(time, zone))
    days = _days(time, kind, zone)
    return days if op == "date_of" else _date_part(op, days)


def total(span: int, unit: int) -> int:
    return abs(span) // unit * (1 if span >= 0 else -1)


# ---- casts from and to strings -------------------------------------------------------------

_SPACE = "[ \\t-\\r]*"
_TIME = r"\d{4}-\d\d-\d\d([T t]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|z|[+-]\d\d(:?\d\d)?)?)?"


def read(text: str, kind: DataType) -> Any:
    """The value of a type that a string says; NotRead if it says none."""
    try:
        return _read(text, kind)
    except NotRead:
        raise
    except ValueError as error:
        raise NotRead(text) from error


def _read(text: str, kind: DataType) -> Any:
    if kind.is_integer:
        if not re.fullmatch(f"{_SPACE}[+-]?[0-9]+{_SPACE}", text):
            raise NotRead(text)
        return int(text)
    if kind.is_float:
        if not text.isascii() or "_" in text or re.search("[\x1c-\x1f]", text):
            raise NotRead(text)
        return float(text)
    if kind.name == "bool":
        if text.lower() not in ("true", "false") or not text.isascii():
            raise NotRead(text)
        return text.lower() == "true"
    if not re.fullmatch(_TIME, text, re.ASCII) or (kind.name == "date" and len(text) != 10):
        raise NotRead(text)
    if kind.name == "date":
        return dt.date.fromisoformat(text).toordinal() - EPOCH.toordinal()
    made = dt.datetime.fromisoformat(text.upper())
    made = made.replace(tzinfo=dt.UTC) if made.tzinfo is None else made
    return (made - EPOCH) // MICROSECOND


def written(value: Any, kind: DataType) -> str:
    """A value as a string."""
    if kind.name == "bool":
        return "true" if value else "false"
    if kind.is_time:
        unit = "D" if kind.name == "date" else "us"
        found = re.fullmatch(r"(-?)(\d+)(-.*)", str(np.datetime64(value, unit)))
        year = f"{found[1]}{int(found[2]):04d}"
        said = f"+{year}{found[3]}" if len(year) > 4 and not found[1] else f"{year}{found[3]}"
        return said if unit == "D" else f"{said}Z"
    if kind.name == "float32":
        return repr(float(str(np.float32(value))))  # its digits, in the form of a float64
    return repr(value)
