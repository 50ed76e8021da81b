"""How the columns of a block are stored, and the records by which compiled code finds them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.plan.schema import Field, Schema
from headrace.plan.types import DataType
from headrace.stage.memory.records import KINDS, LINE, array, i64, line, record
from headrace.stage.strings.heap import Heap
from headrace.stage.strings.words import View

KIND_OF_TYPE = {
    "bool": "flag",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "i16",
    "uint16": "i32",
    "uint32": "i64",
    "uint64": "i64",
    "float32": "f32",
    "float64": "f64",
    "date": "i32",
    "timestamp": "i64",
    "duration": "i64",
    "time": "i64",
    "string": "view",
    "binary": "view",
}
WIDTHS = {name: kind.size for name, kind in KINDS.items()} | {"view": View.size}
ROW_TEXT = 16  # bytes of a block's heap for each string of a row; when they are used up, it is full
_VIEW = [("head", np.int64), ("tail", np.int64)]
NUMPY = {
    name: np.dtype(made)  # type: ignore[call-overload]
    for name, made in {
        "flag": np.bool_, "u8": np.uint8, "i8": np.int8, "i16": np.int16, "i32": np.int32,
        "i64": np.int64, "f32": np.float32, "f64": np.float64, "view": _VIEW,
    }.items()
}  # fmt: skip


@record
class ColumnRef:
    """Where a column of a block lies."""

    data: i64  # in the block's own memory, or in a batch that lends its values
    valid: i64  # 0 exactly where the column is not nullable
    room: i64  # the block's own memory for it


@record
class BlockRecord:
    """The start of a block. Times are microseconds."""

    rows: i64 = line()
    capacity: i64
    watermark: i64  # of the channel, after the last row
    without_watermark: i64  # rows whose hidden watermark is known to be "none yet"
    heap: (
        i64  # the Heap with the bytes of its long strings; 0: they lie elsewhere, or there are none
    )
    columns: array(ColumnRef) = line()


@record
class LayoutRecord:
    """What compiled code needs to know of a layout to move rows."""

    count: i64  # of columns
    widths: array(i64)


@dataclass(frozen=True)
class ColumnLayout:
    """How a column is stored: `kind` is a kind of `records`, or "view" where it is of any length.

    >>> from headrace.plan.types import optional, string, timestamp
    >>> ColumnLayout.of("name", optional(string)).kind, ColumnLayout.of("at", timestamp).width
    ('view', 8)
    """

    name: str
    type: DataType
    kind: str

    @classmethod
    def of(cls, name: str, type: DataType) -> ColumnLayout:
        """The layout of a column of this type."""
        return cls(name, type, "view" if type.is_view else KIND_OF_TYPE[type.name])

    @property
    def width(self) -> int:
        """Bytes of one value."""
        return WIDTHS[self.kind]


@dataclass(frozen=True)
class Layout:
    """How the columns of a block are stored.

    >>> from headrace.plan.types import optional
    >>> layout = Layout.of(Schema.of({"user": int, "name": optional(str)}))
    >>> [column.kind for column in layout.columns], layout.schema
    (['i64', 'view'], Schema(user: int64, name: optional(string)))
    """

    columns: tuple[ColumnLayout, ...]

    @staticmethod
    def of(schema: Schema) -> Layout:
        """The layout of rows of a schema; the same schema gives the same object."""
        return _layout_of(schema)

    @cached_property
    def schema(self) -> Schema:
        """The names and types of the columns."""
        return Schema(tuple(Field(column.name, column.type) for column in self.columns))

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The same for Arrow."""
        return self.schema.to_arrow()

    def begins_with(self, other: Layout) -> bool:
        """Are the first columns those of another layout?"""
        return self.columns[: len(other.columns)] == other.columns

    @cached_property
    def has_views(self) -> bool:
        """Is there a column of texts, which needs heaps?"""
        return any(column.kind == "view" for column in self.columns)

    @cached_property
    def record(self) -> Any:
        """The layout for compiled code, a LayoutRecord."""
        made = LayoutRecord.allocate(behind=len(self.columns) * KINDS["i64"].size)
        made.count = len(self.columns)
        for i, column in enumerate(self.columns):
            made.widths[i] = column.width
        return made

    @cached_property
    def _templates(self) -> dict[tuple[int, bool], Template]:
        return {}

    def template(self, capacity: int, *, borrows: bool = False) -> Template:
        """Where things lie in a block of some capacity.

        borrows: the bytes of its strings belong to others, so it has no heap for them.
        """
        found = self._templates.get((capacity, borrows))
        if found is None:
            found = self._templates[capacity, borrows] = Template(self, capacity, borrows)
        return found

    def __reduce__(self) -> Any:
        return Layout, (self.columns,)  # what is cached holds addresses of this process


@lru_cache(maxsize=1024)
def _layout_of(schema: Schema) -> Layout:
    return Layout(tuple(ColumnLayout.of(field.name, field.type) for field in schema))


class Template:
    """The start of an empty block at address 0, to be copied and moved to where a block is."""

    def __init__(self, layout: Layout, capacity: int, borrows: bool = False) -> None:
        if capacity < 1:
            raise ValueError(f"a block holds at least one row, not {capacity}")
        columns, self.capacity = layout.columns, capacity
        self.record = BlockRecord.allocate(behind=len(columns) * ColumnRef.size)
        self.record.capacity = capacity
        self.offsets: list[tuple[int, int]] = []  # of data and validity (0: none)
        end = BlockRecord.size + len(columns) * ColumnRef.size
        for i, column in enumerate(columns):
            data, end = _room(end, column.width * capacity)
            valid, end = _room(end, capacity) if column.type.nullable else (0, end)
            self.record.columns[i].data, self.record.columns[i].valid = data, valid
            self.offsets.append((data, valid))
        texts = 0 if borrows else sum(column.kind == "view" for column in columns)
        self.text = texts * capacity * ROW_TEXT  # bytes of the heap
        if texts:
            self.record.heap, end = _room(end, Heap.size + self.text)
        self.extent = -(-end // LINE) * LINE  # from the start of the block to behind its end
        self.size = self.extent + LINE  # the start of a buffer may lie anywhere in a line
        self.address = self.record.address


def _room(end: int, size: int) -> tuple[int, int]:
    """(start, end) of the next part: on a line, with a line behind for writers that overshoot."""
    start = -(-end // LINE) * LINE
    return start, start + size + LINE
