"""What Arrow computes over whole columns: regular expressions, and times of a format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "matches": pc.match_substring_regex,
    "extract": _extract,
    "replace_regex": _replace,
    "format_time": _format,
    "parse_time": _parse,
    "try_parse_time": _try_parse,
}
