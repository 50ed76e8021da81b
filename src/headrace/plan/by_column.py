"""Functions that Arrow computes over whole columns, between kernels: regular expressions, and times
of a format.

`rewrites/columns.py` puts an `ArrowColumns` in front of each operator whose expressions use one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

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
class ArrowColumns(MapBatches):
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
            try:
                made = FUNCTIONS[call.op](values, *given)
            except ValueError as error:  # Arrow's own errors are such
                error.add_note(f"{IN_OPERATOR} {self.where}")
                raise
            rows = rows.append_column(name, made)
        return rows
