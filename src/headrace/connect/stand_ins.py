"""Rows that stand for those that a file reader leaves out, where they tell the time.

A watermark is the largest time so far, also of rows that a filter drops. Of rows that statistics
rule out it needs the largest time alone, and the statistics have that, too. So the reader gives
two rows in place of them: one with the least and one with the largest time, so that times out of
range are found as before. What the predicate asks for is in them as the statistics say, so the
filter drops them like all others, and nobody need know of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from headrace.plan.schema import Schema

from .pushdown import Range, stored


def stand_ins(
    columns: Schema, time: str, ranges: Mapping[str, Range], rows: int
) -> pa.RecordBatch | None:
    """At most two rows for some whose columns lie in these ranges, so that a predicate that rules
    those out does not keep them, and their times move a watermark as far; None: nobody knows.

    ranges: of the columns that the predicate asks for, and of the time.

    >>> columns = Schema.of({"at": int, "n": int, "user": str})
    >>> stand_ins(columns, "at", {"at": Range(3, 9), "n": Range(1, 5)}, 1000).to_pylist()
    [{'at': 3, 'n': 1, 'user': ''}, {'at': 9, 'n': 1, 'user': ''}]
    >>> stand_ins(columns, "at", {"n": Range(1, 5)}, 1000)
    """
    known = ranges.get(time, Range())
    if known.nulls == rows:
        return _rows(columns, 0, {}, {})  # no time, so nothing moves
    if known.low is None or known.high is None:
        return None
    times = [known.low] if known.low == known.high else [known.low, known.high]
    if len(times) > rows:
        return None
    return _rows(columns, len(times), ranges, {time: times})


def _rows(
    columns: Schema, count: int, ranges: Mapping[str, Range], given: Mapping[str, list[Any]]
) -> pa.RecordBatch | None:
    made: list[pa.Array] = []
    for field in columns:
        if field.name in given:
            made.append(stored(given[field.name], field.type))
            continue
        known = ranges.get(field.name, Range())
        if known.low is not None:
            made.append(stored([known.low] * count, field.type))
        elif field.type.nullable and known.nulls != 0:
            made.append(pa.array([None] * count, field.type.to_arrow()))
        elif field.type.is_nested:
            return None  # they have no plain value
        else:
            plain = {"bool": False, "string": "", "binary": b""}
            value = pa.scalar(plain.get(field.type.name, 0), field.type.to_arrow()).as_py()
            made.append(pa.array([value] * count, field.type.to_arrow()))
    return pa.record_batch(made, names=list(columns.names))
