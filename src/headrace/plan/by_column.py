"""What Arrow does to whole columns, between kernels: regular expressions, times of a format, and
what is in decimals, structs and lists.

`rewrites/columns.py` puts an `ArrowColumns` in front of each operator whose expressions use such a
function; `explode` is an `Explode`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from .builtins import BUILTINS
from .errors import IN_OPERATOR
from .expressions import Builtin, Column, Expression, Literal
from .nodes import MapBatches


def is_by_column(expression: Expression) -> bool:
    """Does Arrow compute it, over whole columns?"""
    return isinstance(expression, Builtin) and BUILTINS[expression.op].by_column


def uses_columns(expression: Expression) -> bool:
    """Is there such a function anywhere in it?"""
    return is_by_column(expression) or any(map(uses_columns, expression.parts()))


@dataclass(frozen=True, eq=False)
class Columnwise(MapBatches):
    """What rows become keeps their order, and all columns but those that are said to change."""

    @property
    def changed(self) -> frozenset[str]:
        """The columns whose values change."""
        return frozenset()


@dataclass(frozen=True, eq=False)
class Explode(Columnwise):
    """A row for each item of a list."""

    column: str = ""
    kind: ClassVar[str] = "explode"

    @property
    def changed(self) -> frozenset[str]:
        """The list, which becomes an item."""
        return frozenset([self.column])

    def detail(self) -> str:
        """See Node."""
        return f"{self.column} (whole columns, by Arrow)"


@dataclass(frozen=True)
class Items:
    """What an Explode does with a batch.

    >>> rows = pa.record_batch({"n": [1, 2, 3], "tags": [["a", "b"], [], None]})
    >>> Items("tags")(rows).to_pydict()
    {'n': [1, 1, 2, 3], 'tags': ['a', 'b', None, None]}
    """

    column: str

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """A row for each item; one with a null for a list that is empty or null."""
        lists: Any = rows[self.column]
        counts = np.asarray(lists.value_lengths().fill_null(0), np.int64)
        copies = np.maximum(counts, 1)
        row = np.repeat(np.arange(len(lists)), copies)
        first = np.cumsum(copies) - copies
        place = np.arange(len(row)) - first[row]  # of an item in its list
        starts = np.asarray(lists.offsets, np.int64)[:-1]
        items = lists.values.take(pa.array(starts[row] + place, mask=counts[row] == 0))
        made = rows.take(row)
        return made.set_column(made.schema.get_field_index(self.column), self.column, items)


@dataclass(frozen=True, eq=False)
class ArrowColumns(Columnwise):
    """The rows with more columns, computed by Arrow."""

    columns: tuple[tuple[str, Builtin], ...] = ()
    kind: ClassVar[str] = "columns"

    def detail(self) -> str:
        """See Node."""
        made = ", ".join(f"{name}={call}" for name, call in self.columns)
        return f"{made} (whole columns, by Arrow)"


@dataclass(frozen=True)
class Computation:
    """What an ArrowColumns does with a batch: calls of functions on columns and constants.

    >>> from .types import int64, string
    >>> word = Builtin("extract", (Column("s"), Literal("[a-z]+", string), Literal(0, int64)))
    >>> rows = pa.record_batch({"s": ["12 ab", None, "3"]})
    >>> Computation((("word", word),), "here")(rows)["word"].to_pylist()
    ['ab', None, None]
    """

    calls: tuple[tuple[str, Builtin], ...]
    where: str  # operator and line, for errors

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with one more column for each call."""
        from .column_functions import FUNCTIONS  # Arrow's functions take long to load

        for name, call in self.calls:
            column, *constants = call.operands
            assert isinstance(column, Column)
            values = rows[column.name]
            given = [each.value for each in constants if isinstance(each, Literal)]
            given += [call.type.to_arrow()] if call.type else []
            try:
                made = FUNCTIONS[call.op](values, *given)
            except ValueError as error:  # Arrow's own errors are such
                error.add_note(f"{IN_OPERATOR} {self.where}")
                raise
            rows = rows.append_column(name, made)
        return rows
