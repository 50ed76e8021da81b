"""What is computed over whole columns: by Arrow regular expressions, times of a format, and what is
in decimals, structs and lists; by Python's reader what is in JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .json_paths import json_at
from .patterns import replacement, with_named_group


def _extract(values: Any, pattern: str, group: int) -> Any:
    found = pc.extract_regex(values, with_named_group(pattern, group))
    return pc.struct_field(found, "found")


def _replace(values: Any, pattern: str, value: str, most: int) -> Any:
    limit = None if most < 0 else most
    if limit == 0:
        return values
    return pc.replace_substring_regex(values, pattern, replacement(value), max_replacements=limit)


def _format(values: Any, format: str) -> Any:
    """Whole seconds, so that %S is what it is in Python."""
    moments = values.cast(pa.timestamp("us", "UTC"))
    seconds = pc.floor_temporal(moments, unit="second").cast(pa.timestamp("s", "UTC"))
    return pc.strftime(seconds, format=format, locale="C")


def _try_parse(values: Any, format: str) -> Any:
    found = pc.strptime(values, format=format, unit="us", error_is_null=True)
    return found.cast(pa.timestamp("us", "UTC"))


def _parse(values: Any, format: str) -> Any:
    found = _try_parse(values, format)
    lost: Any = pc.and_(pc.is_null(found), pc.is_valid(values))
    if found.null_count != values.null_count:
        text = values.filter(lost)[0].as_py()
        raise ValueError(f"{text!r} is not a time of the format {format!r}")
    return found


def _json_path(values: Any, path: str) -> Any:
    found = [None if text is None else json_at(text, path) for text in values.to_pylist()]
    return pa.array(found, pa.string())


def _try_json_path(values: Any, path: str) -> Any:
    return pa.array([_json_or_none(text, path) for text in values.to_pylist()], pa.string())


def _json_or_none(text: str | None, path: str) -> str | None:
    try:
        return None if text is None else json_at(text, path)
    except ValueError:
        return None


def _list_length(values: Any) -> Any:
    return pc.list_value_length(values).cast(pa.int64())


def _list_get(values: Any, index: int, or_null: bool) -> Any:
    """The item at an index, from the end where it is negative."""
    lengths = np.asarray(pc.list_value_length(values).fill_null(0), np.int64)
    there = (-lengths <= index) & (index < lengths)
    if not or_null and not there[np.asarray(values.is_valid())].all():
        short = int(lengths[~there & np.asarray(values.is_valid())][0])
        raise ValueError(f"there is no item {index} in a list of {short}")
    starts = np.asarray(values.offsets, np.int64)[:-1]
    places = starts + index + (lengths if index < 0 else 0)
    return values.values.take(pa.array(places, mask=~there))


def _cast(values: Any, kind: Any) -> Any:
    """Decimals are cut to whole numbers as floats are, and to fewer digits only if they are 0."""
    cut = pa.types.is_integer(kind)
    return values.cast(options=pc.CastOptions(target_type=kind, allow_decimal_truncate=cut))


def _try_cast(values: Any, kind: Any) -> Any:
    """The same, with null for values that do not fit: they are found one by one."""
    try:
        return _cast(values, kind)
    except pa.ArrowInvalid:
        if len(values) == 1:
            return pa.nulls(1, kind)
    half = len(values) // 2
    parts = [_try_cast(values.slice(0, half), kind), _try_cast(values.slice(half), kind)]
    return pa.concat_arrays(parts)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "matches": pc.match_substring_regex,
    "extract": _extract,
    "replace_regex": _replace,
    "format_time": _format,
    "parse_time": _parse,
    "try_parse_time": _try_parse,
    "json_path": _json_path,
    "try_json_path": _try_json_path,
    "field": pc.struct_field,
    "list_length": _list_length,
    "list_get": _list_get,
    "cast": _cast,
    "try_cast": _try_cast,
}
