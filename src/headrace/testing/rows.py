"""Rows as plain dicts, and a comparison that says what differs."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from headrace.stream import Stream
from headrace.write import Collected

_MOST_SHOWN = 10

Row = dict[str, Any]


def rows_of(given: Any) -> list[Row]:
    """The rows of a stream (which is run), of an output that was collected, or of Arrow data.

    >>> rows_of(pa.table({"n": [1, None]}))
    [{'n': 1}, {'n': None}]
    """
    if isinstance(given, Stream):
        from headrace.job import run

        output = given.write.collect()
        run(output)
        return rows_of(output)
    if isinstance(given, Collected):
        given = given.result()
    if isinstance(given, pa.Table | pa.RecordBatch):
        return list(given.to_pylist())
    if isinstance(given, Mapping):
        return rows_of(pa.table(given))
    return [row for part in given for row in ([dict(part)] if _is_row(part) else rows_of(part))]


def _is_row(part: Any) -> bool:
    return isinstance(part, Mapping)


def assert_same_rows(found: Any, expected: Any, *, ordered: bool = False) -> None:
    """Fail, with a list of what differs, unless both have the same rows, each as often.

    Both can be whatever `rows_of` takes. NaN is equal to NaN, null to null only, a number to no
    bool, and a datetime without a time zone is in UTC.

    >>> assert_same_rows([{"n": 1}, {"n": float("nan")}], [{"n": float("nan")}, {"n": 1}])
    >>> assert_same_rows([{"n": 1}, {"n": 2}], [{"n": 2}, {"n": 3}])
    Traceback (most recent call last):
    AssertionError: 2 rows found, 2 expected
    missing 1:
      {'n': 3}
    not expected 1:
      {'n': 1}
    """
    left, right = rows_of(found), rows_of(expected)
    if ordered:
        differs = _first_difference(left, right)
    else:
        differs = _multiset_difference(left, right)
    if differs:
        raise AssertionError(
            "\n".join([f"{len(left)} rows found, {len(right)} expected", *differs])
        )


def _multiset_difference(left: list[Row], right: list[Row]) -> list[str]:
    shown = {_key(row): row for row in [*right, *left]}
    counts, wanted = Counter(map(_key, left)), Counter(map(_key, right))
    return [
        *_listed("missing", [shown[key] for key in (wanted - counts).elements()]),
        *_listed("not expected", [shown[key] for key in (counts - wanted).elements()]),
    ]


def _first_difference(left: list[Row], right: list[Row]) -> list[str]:
    for number, (one, other) in enumerate(zip(left, right)):
        if _key(one) != _key(other):
            columns = [c for c in {**other, **one} if _value(one, c) != _value(other, c)]
            return [
                f"row {number} differs in {', '.join(columns)}:",
                f"  found    {one!r}",
                f"  expected {other!r}",
            ]
    common = min(len(left), len(right))
    return [
        *_listed("missing at the end", right[common:]),
        *_listed("not expected at the end", left[common:]),
    ]


def _listed(what: str, rows: list[Row]) -> list[str]:
    if not rows:
        return []
    more = [f"  ... and {len(rows) - _MOST_SHOWN} more"] if len(rows) > _MOST_SHOWN else []
    return [f"{what} {len(rows)}:", *(f"  {row!r}" for row in rows[:_MOST_SHOWN]), *more]


def _key(row: Row) -> frozenset[tuple[str, Any]]:
    return frozenset((name, _value(row, name)) for name in row)


def _value(row: Row, name: str) -> Any:
    """A value in a form that compares as the docstring above says."""
    value = row.get(name, "no such column") if name in row else ("no such column",)
    if isinstance(value, float) and math.isnan(value):
        return ("nan",)
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=dt.UTC)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | tuple):
        return repr(value)
    return value
