"""Filters for Spark: what of a predicate is handed to a DataFrame, so that its readers use it.

The filter stays where it is, behind the source, so Spark may keep too many rows but must not lose
one. Handed over is only what Spark, its optimizer and its file readers find true wherever we do:

- Numbers are compared as they are. Spark sorts NaN above all numbers, which keeps more rows of
  `x > 1` than we do. Floats equal to a constant, and comparisons with zero, are not handed over:
  dictionaries and statistics of files tell -0.0 from 0.0, which are equal.
- Texts are compared by their bytes, where their collation is Spark's default one.
- Times are instants, whatever the zone of the session; those without a zone are not handed over.
"""

from __future__ import annotations

import math
import operator
from typing import Any

from headrace.plan.expressions import Binary, Column, Expression, IsIn, IsNull, Literal, Unary
from headrace.plan.schema import Schema

from .pushdown import compares_alike, usable

_ORDER = ("<", "<=", ">", ">=")
# Ours -> Spark's type whose values are ours, and are compared as ours are.
_SAME = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float64": "double",
    "date": "date",
    "timestamp": "timestamp",
    "string": "string",  # another collation has another name
}
_COMPARED = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_PADDED = "__CHAR_VARCHAR_TYPE_STRING"  # in the metadata of texts that are compared with blanks


def handed_over(predicate: Expression | None, schema: Schema, frame: Any) -> Expression | None:
    """The part of a predicate that a DataFrame is filtered by; None where there is none."""
    theirs = {field.name: field for field in frame.schema}

    def means_the_same(op: str, name: str, constant: Literal) -> bool:
        field, kind = theirs[name], schema[name]
        if field.dataType.simpleString() != _SAME.get(kind.name):
            return False
        if _PADDED in (field.metadata or {}) or not compares_alike(constant, kind):
            return False
        if kind.is_float:
            return op in _ORDER and math.isfinite(constant.value) and constant.value != 0
        return kind.name != "bool" or op in ("==", "!=")

    return usable(predicate, schema, means_the_same)


def as_column(expression: Expression) -> Any:
    """What was handed over, as a condition of Spark's."""
    from pyspark.sql import functions as spark

    match expression:
        case Binary("&", left, right):
            return as_column(left) & as_column(right)
        case Binary("|", left, right):
            return as_column(left) | as_column(right)
        case Binary(op, Column(name), Literal() as constant):
            return _COMPARED[op](spark.col(quoted(name)), _literal(constant))
        case IsIn(Column(name), choices):
            return spark.col(quoted(name)).isin(*map(_literal, choices))
        case IsNull(Column(name)):
            return spark.col(quoted(name)).isNull()
        case Unary("~", inner):
            return ~as_column(inner)
        case Column(name):
            return spark.col(quoted(name))
    raise TypeError(f"{expression} cannot be handed to Spark")


def quoted(name: str) -> str:
    """The name of a column as Spark's parser takes it, whatever is in it.

    >>> quoted("a.b"), quoted("a`b")
    ('`a.b`', '`a``b`')
    """
    return f"`{name.replace('`', '``')}`"


def _literal(constant: Literal) -> Any:
    """A constant of the very type; times by their numbers, which no zone changes."""
    from pyspark.sql import functions as spark

    kind, value = constant.type, constant.value
    if kind.name == "timestamp":
        return spark.timestamp_micros(spark.lit(int(value)).cast("bigint"))
    if kind.name == "date":
        return spark.date_from_unix_date(spark.lit(int(value)).cast("int"))
    if kind.is_integer:
        return spark.lit(int(value)).cast("bigint")
    return spark.lit(value)
