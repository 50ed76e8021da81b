"""Functions that Arrow computes over whole columns, between kernels: regular expressions, and times
of a format.

`rewrites/columns.py` puts an `ArrowColumns` in front of each operator whose expressions use one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from .builtins import BUILTINS
from .expressions import Builtin, Column, Expression, Literal
from .nodes import MapBatches
from .patterns import replacement, with_named_group


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
        for name, call in self.calls:
            column, *constants = call.operands
            assert isinstance(column, Column)
            values = _plain(rows[column.name])
            given = [each.value for each in constants if isinstance(each, Literal)]
            try:
                made = FUNCTIONS[call.op](values, *given)
            except _Unreadable as error:
                said = ValueError(f"{error.text!r} is not a time of the format {given[0]!r}")
                said.add_note(f"in operator {self.where}")
                raise said from None
            rows = rows.append_column(name, made)
        return rows


class _Unreadable(Exception):
    """A string that is not of the format."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def _plain(values: Any) -> Any:
    """A column of strings in the form that all of Arrow's functions take."""
    kind = values.type
    views = kind == pa.string_view() or pa.types.is_dictionary(kind)
    return values.cast(pa.string()) if views else values


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
        raise _Unreadable(values.filter(lost)[0].as_py())
    return found


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "matches": pc.match_substring_regex,
    "extract": _extract,
    "replace_regex": _replace,
    "format_time": _format,
    "parse_time": _parse,
    "try_parse_time": _try_parse,
}
