"""Random schemas and rows: every type, nulls, NaN, -0.0, short and long strings, disorder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from tests.choices import Choices
from tests.naive import Row, batch_of

from headrace.plan.schema import Field, Schema
from headrace.plan.types import SCALARS, DataType, int64, optional, timestamp

LETTERS = "ab e\u00e9\u00df\u03a9\u65e5\U0001f600"
WORDS = [
    "", "a", "b", "ab", "ba c", "\u00e9", "stra\u00dfe", "\u65e5\u672c\u8a9e", "\U0001f600 e",
    "a\x00b", "twelve bytes", "twelve byte", "thirteen byte", "twelve bytes?", "twelve bytes!",
    "a long sentence of several words, each", "a long sentence of several words, none",
]  # fmt: skip
GARBAGE = 0x17  # a byte
BLOBS = [b"", b"\x00", b"a", b"\xff\xfe", b"\x80" * 12, b"\x80" * 13, bytes(range(40))]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.125, 2.5, 100.0, float("nan"), float("inf"), float("-inf")]


def value(choose: Choices, kind: DataType) -> Any:
    """A value of a type, in stored form; often one of a few, so that keys meet."""
    if kind.nullable and choose.chance(20):
        return None
    if kind.name == "bool":
        return choose.chance(50)
    if kind.is_float:
        return choose.pick(FLOATS) if choose.chance(60) else choose.number(-800, 800) / 8
    if kind.name == "string":
        if choose.chance(60):
            return choose.pick(WORDS)
        return "".join(choose.pick(LETTERS) for _ in range(choose.number(0, 40)))
    if kind.name == "binary":
        return choose.pick(BLOBS)
    if kind.name == "date":
        return choose.pick([0, -1, 19_000, 1, -700_000, 2_900_000])
    if kind.name in ("timestamp", "duration"):
        return choose.pick([0, -1, 1, 86_400_000_000, 1_700_000_000_123_456, -(10**15)])
    if choose.chance(80):
        return choose.number(-3 if kind.integer_range[0] else 0, 9)
    if kind == int64:
        return _large(choose)
    low, high = kind.integer_range
    return choose.pick([low, high, low + 1, 100, max(low, -100)])


def _large(choose: Choices) -> int:
    """Whole numbers that floats cannot hold, yet small enough to be added up."""
    return choose.pick([2**53 + 1, -(2**53) - 1, 2**31, -(2**31) - 1, 10**12])


def column_type(choose: Choices) -> DataType:
    """Any type, nullable or not."""
    kind = SCALARS[choose.pick(list(SCALARS))]
    return optional(kind) if choose.chance(40) else kind


def schema(choose: Choices, most: int = 5) -> Schema:
    """A time column `t`, and some others."""
    time = int64 if choose.chance(70) else timestamp
    fields = [Field("t", optional(time) if choose.chance(25) else time)]
    fields += [Field(f"c{k}", column_type(choose)) for k in range(choose.number(1, most))]
    return Schema(tuple(fields))


def rows(choose: Choices, of: Schema, most: int, disorder: int) -> list[Row]:
    """Rows whose times grow, with some disorder."""
    made: list[Row] = []
    now = choose.number(-30, 5)
    for _ in range(choose.number(0, most)):
        now += choose.pick([0, 1, 1, 2, 9])
        row = {field.name: value(choose, field.type) for field in of}
        if row["t"] is not None:
            row["t"] = now - (choose.number(0, disorder) if choose.chance(40) else 0)
        if of["t"].nullable and choose.chance(10):
            row["t"] = None
        made.append(row)
    return made


def tables(
    choose: Choices, of: Schema, *, channels: int = 1, most: int = 40, disorder: int = 12
) -> list[pa.Table]:
    """Rows for every channel of a source."""
    made = [batch_of(rows(choose, of, most, disorder), of) for _ in range(channels)]
    return [
        pa.table([_with_garbage(column) for column in batch.columns], schema=batch.schema)
        for batch in made
    ]


def _with_garbage(column: pa.Array) -> pa.Array:
    """The same column, with something under its nulls, where nobody may look."""
    if not column.null_count or column.type.num_buffers != 2 or pa.types.is_boolean(column.type):
        return column
    valid, data = column.buffers()
    values = np.frombuffer(data, np.uint8).copy().reshape(-1, column.type.bit_width // 8)
    values[: len(column)][column.is_null().to_numpy(zero_copy_only=False)] = GARBAGE
    return pa.Array.from_buffers(column.type, len(column), [valid, pa.py_buffer(values)])
