"""What of a predicate a file reader can use: statistics that rule rows out, and Arrow masks.

Both may keep too many rows, since the filter behind decides, but never lose one. Only what cannot
fail is used: a row left out here would not raise the error that it raises in the filter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.plan.expression_types import can_fail
from headrace.plan.expressions import (
    COMPARISONS,
    Binary,
    Column,
    Expression,
    IsIn,
    IsNull,
    Literal,
    Unary,
)
from headrace.plan.schema import Schema
from headrace.plan.types import DataType

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_ARROW = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


@dataclass(frozen=True)
class Range:
    """What is known of the values of a column in some rows, in stored form; None: unknown.

    The bounds say nothing of nulls and NaN.
    """

    low: Any = None
    high: Any = None
    nulls: int | None = None


# Does a comparison of a column, by its name, with a constant mean the same elsewhere?
Alike = Callable[[str, str, Literal], bool]


def usable(
    predicate: Expression | None, schema: Schema, alike: Alike | None = None
) -> Expression | None:
    """The part of a predicate that rows may be left out by; None where there is none.

    alike: says of a comparison (or of one of the choices of `is_in`) whether it can be used;
    without it, whether Arrow and Python compare as a stage does.

    >>> from headrace.plan.types import int64
    >>> less = Binary("<", Column("a"), Literal(3, int64))
    >>> other = Binary("==", Column("a"), Column("b"))
    >>> schema = Schema.of({"a": int, "b": int})
    >>> str(usable(Binary("&", other, less), schema))
    '(a < 3)'
    >>> usable(Binary("|", other, less), schema) is None
    True
    """
    if predicate is None or can_fail(predicate, schema):
        return None
    return _translatable(predicate, alike or _in_arrow(schema))


def _in_arrow(schema: Schema) -> Alike:
    return lambda op, name, constant: compares_alike(constant, schema[name])


def _translatable(expression: Expression, alike: Alike) -> Expression | None:
    """The expression, or something that is true wherever it is true."""
    match expression:
        case Binary("&", left, right):
            one, other = _translatable(left, alike), _translatable(right, alike)
            return Binary("&", one, other) if one and other else one or other
        case Binary("|", left, right):
            one, other = _translatable(left, alike), _translatable(right, alike)
            return Binary("|", one, other) if one and other else None
        case Binary(op, Literal() as constant, Column() as column) if op in COMPARISONS:
            return _translatable(Binary(_MIRRORED[op], column, constant), alike)
        case Binary(op, Column(name), Literal() as constant) if op in COMPARISONS:
            return expression if alike(op, name, constant) else None
        case IsIn(Column(name), choices) if choices:
            return expression if all(alike("==", name, each) for each in choices) else None
        case IsNull(Column()) | Unary("~", IsNull(Column())) | Column():
            return expression
    return None


def compares_alike(constant: Literal, kind: DataType) -> bool:
    """Does the constant compare with a column in Arrow and in Python just as it does in a stage?

    Null and NaN do not, nor do integers and floats of sizes at which floats skip integers.
    """
    value = constant.value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return False
    if kind.is_float and constant.type.is_integer:
        return abs(value) <= 1 << 53
    return kind.name == constant.type.name or (kind.is_integer and constant.type.is_integer)


def may_match(expression: Expression, ranges: Mapping[str, Range]) -> bool:
    """May a usable expression be true for one of the rows that the ranges describe?

    >>> from headrace.plan.types import int64
    >>> less = Binary("<", Column("a"), Literal(3, int64))
    >>> may_match(less, {"a": Range(0, 5)}), may_match(less, {"a": Range(3, 5)})
    (True, False)
    """
    match expression:
        case Binary("&", left, right):
            return may_match(left, ranges) and may_match(right, ranges)
        case Binary("|", left, right):
            return may_match(left, ranges) or may_match(right, ranges)
        case Binary(op, Column(name), Literal(value, _)):
            return _may_compare(op, ranges.get(name, Range()), value)
        case IsIn(Column(name), choices):
            known = ranges.get(name, Range())
            return any(_may_compare("==", known, choice.value) for choice in choices)
        case IsNull(Column(name)):
            return ranges.get(name, Range()).nulls != 0
    return True


def _may_compare(op: str, known: Range, value: Any) -> bool:
    low, high = known.low, known.high
    if low is None or high is None:
        return True
    match op:
        case "==":
            return bool(low <= value <= high)
        case "<":
            return bool(low < value)
        case "<=":
            return bool(low <= value)
        case ">":
            return bool(high > value)
        case ">=":
            return bool(high >= value)
    return True  # != is true for NaN, of which bounds say nothing


def mask(expression: Expression, rows: pa.RecordBatch) -> Any:
    """For each row, whether a usable expression is true (null or false: it is not).

    Times in the rows are of the Arrow types that headrace has for them.

    >>> from headrace.plan.types import int64
    >>> less = Binary("<", Column("a"), Literal(3, int64))
    >>> rows = pa.record_batch({"a": [1, 5, None]})
    >>> mask(less, rows).to_pylist()
    [True, False, None]
    """
    match expression:
        case Binary("&", left, right):
            return pc.and_kleene(mask(left, rows), mask(right, rows))
        case Binary("|", left, right):
            return pc.or_kleene(mask(left, rows), mask(right, rows))
        case Binary(op, Column(name), Literal() as constant):
            return _ARROW[op](_values(rows[name]), _scalar(constant))
        case IsIn(Column(name), choices):
            values = _values(rows[name])
            found = pc.equal(values, _scalar(choices[0]))
            for choice in choices[1:]:
                found = pc.or_(found, pc.equal(values, _scalar(choice)))
            return found
        case IsNull(Column(name)):
            return pc.is_null(_values(rows[name]))
        case Unary("~", inner):
            return pc.invert(mask(inner, rows))
        case Column(name):
            return _values(rows[name])
    raise TypeError(f"{expression} is not usable")


def _values(column: pa.Array) -> pa.Array:
    """A column as Arrow compares it, which has no kernels for views."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type)
    if kind in (pa.string_view(), pa.binary_view()):
        return column.cast(pa.string() if kind == pa.string_view() else pa.binary())
    return column


def _scalar(constant: Literal) -> pa.Scalar:
    return stored([constant.value], constant.type)[0]


def stored(values: Sequence[Any], kind: DataType) -> pa.Array:
    """A column of values in stored form.

    >>> stored([3], DataType("date")).to_pylist()
    [datetime.date(1970, 1, 4)]
    """
    if kind.is_whole and not kind.is_integer:
        whole = {"date": pa.int32(), "uint64": pa.uint64()}.get(kind.name, pa.int64())
        return pa.array(values, whole).cast(kind.to_arrow())
    return pa.array(values, kind.to_arrow())
