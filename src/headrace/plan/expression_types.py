"""The type of an expression against a schema, and whether evaluating it can fail."""

from __future__ import annotations

from dataclasses import replace

from .aggregates.kinds import kind_of
from .builtins import DURATION as DURATION
from .builtins import builtin_can_fail, builtin_type, way_out
from .errors import ExpressionError as ExpressionError
from .expressions import (
    ARITHMETIC,
    COMPARISONS,
    Aggregate,
    Binary,
    Builtin,
    Call,
    Cast,
    Coalesce,
    Column,
    Expression,
    Extreme,
    IsIn,
    IsNull,
    KeyHash,
    Literal,
    RowPlace,
    Unary,
    When,
)
from .schema import Schema
from .types import MICROSECONDS_PER_DAY, DataType, bool_, float64, int64, optional


def type_of(expression: Expression, schema: Schema) -> DataType:
    """The type of an expression over rows of a schema; an ExpressionError where it has none.

    >>> type_of(Binary("/", Column("a"), Literal(2, int64)), Schema.of({"a": int}))
    float64
    """
    known = schema.types.get(expression)
    if known is None:
        known = schema.types[expression] = _type_of(expression, schema)
    return known


def _type_of(expression: Expression, schema: Schema) -> DataType:
    match expression:
        case Column(name):
            if name not in schema:
                raise ExpressionError(f"no column {name!r}", schema.closest(name))
            return schema[name]
        case Literal(value, kind):
            return optional(kind) if value is None else kind
        case Binary(op, left, right):
            return _binary(expression, op, type_of(left, schema), type_of(right, schema))
        case Unary(op, operand):
            return _unary(expression, op, type_of(operand, schema))
        case Cast(operand, kind, strict):
            made = _cast(expression, type_of(operand, schema), kind)
            return made if strict else optional(made)
        case IsNull(operand):
            type_of(operand, schema)
            return bool_
        case Coalesce(operand, other):
            first, second = type_of(operand, schema), type_of(other, schema)
            return replace(_common(expression, first, second), nullable=second.nullable)
        case When():
            return _when(expression, schema)
        case IsIn(operand, choices):
            kind = type_of(operand, schema)
            for choice in choices:
                _comparable(expression, "==", kind, choice.type)
            return replace(bool_, nullable=kind.nullable)
        case Extreme(_, operands):
            return _extreme(expression, [type_of(operand, schema) for operand in operands])
        case Builtin(_, operands):
            return builtin_type(expression, [type_of(operand, schema) for operand in operands])
        case Call(function, operands, result):
            for operand in operands:
                type_of(operand, schema)
            return function.outputs[result]
        case KeyHash() | RowPlace():
            return int64
    raise ExpressionError(f"{expression!r} is not an expression")


def _binary(expression: Expression, op: str, left: DataType, right: DataType) -> DataType:
    nullable = left.nullable or right.nullable
    if op in COMPARISONS:
        _comparable(expression, op, left, right)
        return replace(bool_, nullable=nullable)
    if op in ARITHMETIC:
        return replace(_arithmetic(expression, op, left, right), nullable=nullable)
    for kind in (left, right):
        if kind.name != "bool":
            raise ExpressionError(
                f"{op} combines conditions, and an operand of {expression} is {kind}",
                "put comparisons in parentheses: (a == 1) & (b == 2)",
            )
    return replace(bool_, nullable=nullable)


def _arithmetic(expression: Expression, op: str, left: DataType, right: DataType) -> DataType:
    if left.is_numeric and right.is_numeric:
        whole = left.is_integer and right.is_integer and op != "/"
        return int64 if whole else float64
    pair = left.name, right.name
    if op in "+-" and left.name == "timestamp" and right.name in ("duration", "int64"):
        return left.required
    if op in "+-" and left.name == "date" and (right.is_integer or _is_whole_days(expression)):
        return left.required
    if op == "-" and pair in (("timestamp", "timestamp"), ("date", "date")):
        return int64
    if DURATION.name in pair:
        made = _of_durations(op, left, right)
        if made is not None:
            return made
    fix = "cast one side with .cast(...)"
    if pair == ("date", "duration"):
        fix = "add whole days, or cast the date to a timestamp first"
    if pair == ("string", "string") and op == "+":
        fix = "use hr.concat(a, b)"
    if op == "+" and right.is_time:
        fix = "write the time on the left: time + duration"
    composite = [kind for kind in (left, right) if kind.is_composite]
    if composite:
        fix = way_out(composite[0])
    raise ExpressionError(f"{left} {op} {right} has no meaning, in {expression}", fix)


def _is_whole_days(expression: Expression) -> bool:
    """Is the right side a constant duration of whole days?"""
    match expression:
        case Binary(_, _, Literal(int(micros), kind)) if kind.name == DURATION.name:
            return micros % MICROSECONDS_PER_DAY == 0
    return False


def _of_durations(op: str, left: DataType, right: DataType) -> DataType | None:
    """Durations among themselves and with whole numbers; None where there is no meaning.

    The difference of two timestamps is a whole number of microseconds, so it may stand for one.
    """
    spans = all(kind.name in (DURATION.name, "int64") for kind in (left, right))
    if op in "+-":
        return DURATION if spans else None
    if left.name == right.name:
        return {"/": float64, "//": int64, "%": DURATION}.get(op)
    if op == "*":
        return DURATION if left.is_integer or right.is_integer else None
    return DURATION if op == "//" and right.is_integer else None


def _extreme(expression: Expression, kinds: list[DataType]) -> DataType:
    made = kinds[0]
    for kind in kinds[1:]:
        made = _common(expression, made, kind)
    if made.is_nested:
        raise ExpressionError(f"{made} has no order, in {expression}", way_out(made))
    return replace(made, nullable=all(kind.nullable for kind in kinds))


def _comparable(expression: Expression, op: str, left: DataType, right: DataType) -> None:
    same = left.name == right.name or (left.is_numeric and right.is_numeric)
    same = same or {left.name, right.name} == {DURATION.name, "int64"}
    if not same or left.is_nested:
        nested = [kind for kind in (left, right) if kind.is_nested]
        fix = way_out(nested[0]) if nested else "cast one side with .cast(...)"
        if "timestamp" in (left.name, right.name):
            fix = "compare timestamps with datetime objects"
        if "uint64" in (left.name, right.name):
            fix = 'cast it with .cast("int64")'
        raise ExpressionError(f"{left} {op} {right} cannot be compared, in {expression}", fix)


def _unary(expression: Expression, op: str, kind: DataType) -> DataType:
    if op == "~" and kind.name == "bool":
        return kind
    if op != "~" and kind.is_numeric:
        return replace(int64 if kind.is_integer else float64, nullable=kind.nullable)
    if op != "~" and kind.name == DURATION.name:
        return kind
    raise ExpressionError(f"{op} has no meaning for {kind}, in {expression}")


def _cast(expression: Expression, kind: DataType, target: DataType) -> DataType:
    numeric = kind.is_numeric or kind.name == "bool"
    possible = (
        kind.name == target.name
        or (numeric and (target.is_numeric or target.name == "bool"))
        or {kind.name, target.name} in ({"timestamp", "int64"}, {"date", "int64"})
        or (kind.name, target.name) in (("timestamp", "date"), ("date", "timestamp"))
        or (kind.is_integer and (target.is_time or target.name == "uint64"))
        or {kind.name, target.name} in ({"duration", "int64"}, {"time", "int64"})
        or (kind.name, target.name) == ("uint64", "int64")
        or (kind.name, target.name) == ("string", "binary")
        or (kind.name == "string" and _has_text(target))
        or (target.name == "string" and _has_text(kind))
    )
    if not possible:
        raise ExpressionError(
            f"{kind} cannot be cast to {target}, in {expression}",
            way_out(kind) if kind.is_composite else "write a function with @hr.udf that says how",
        )
    if target.nullable or not kind.nullable:
        return target
    return optional(target)


def _has_text(kind: DataType) -> bool:
    """Can its values be written as strings and read again?"""
    return kind.is_numeric or kind.is_time or kind.name == "bool"


def _when(expression: When, schema: Schema) -> DataType:
    for condition in expression.conditions:
        if type_of(condition, schema).name != "bool":
            raise ExpressionError(f"when({condition}) needs a condition")
    result = type_of(expression.values[0], schema)
    for value in expression.values[1:]:
        result = _common(expression, result, type_of(value, schema))
    if expression.otherwise is None:
        return optional(result)
    return _common(expression, result, type_of(expression.otherwise, schema))


def _common(expression: Expression, left: DataType, right: DataType) -> DataType:
    """One type for two alternatives."""
    nullable = left.nullable or right.nullable
    if left.name == right.name:
        return replace(left, nullable=nullable)
    if left.is_numeric and right.is_numeric:
        whole = left.is_integer and right.is_integer
        return replace(int64 if whole else float64, nullable=nullable)
    raise ExpressionError(
        f"the alternatives of {expression} are {left} and {right}", "cast them to one type"
    )


def aggregate_type(aggregate: Aggregate, schema: Schema) -> DataType:
    """The type of an aggregate over rows of a schema.

    >>> aggregate_type(Aggregate("mean", Column("a")), Schema.of({"a": int}))
    float64
    """
    operand = None if aggregate.operand is None else type_of(aggregate.operand, schema)
    kind = kind_of(aggregate)
    if kind.of_numbers and operand is not None and not operand.is_numeric:
        raise ExpressionError(
            f"{aggregate} needs numbers, and {aggregate.operand} is {operand}",
            way_out(operand) if operand.is_composite else "use count, min or max, or cast it",
        )
    if kind.compares and aggregate.by is None and operand is not None and operand.is_nested:
        raise ExpressionError(f"{aggregate}: {operand} has no order", way_out(operand))
    made = kind.type(operand)
    by = aggregate.by if kind.needs_time else None
    timeless = by is not None and type_of(by, schema).nullable
    return replace(made, nullable=True) if timeless else made


def can_fail(expression: Expression, schema: Schema) -> bool:
    """Can evaluating the expression raise an error for some row?

    >>> schema = Schema.of({"a": int})
    >>> can_fail(Column("a"), schema), can_fail(Unary("-", Column("a")), schema)
    (False, True)
    """
    known = schema.failing.get(expression)
    if known is None:
        known = schema.failing[expression] = _can_fail(expression, schema)
    return known


def _can_fail(expression: Expression, schema: Schema) -> bool:
    if any(can_fail(part, schema) for part in expression.parts()):
        return True
    kind = type_of(expression, schema)
    match expression:
        case Binary(op, _, _):
            return op in ("/", "//", "%") or (op in ARITHMETIC and not kind.is_float)
        case Unary(op, _):
            return op != "~" and not kind.is_float
        case Cast(operand, target, strict):
            return strict and not _always_fits(type_of(operand, schema), target)
        case Builtin():
            return builtin_can_fail(expression, kind)
        case Call():
            return True
    return False


def _always_fits(kind: DataType, target: DataType) -> bool:
    if kind.nullable and not target.nullable and target.name == kind.name:
        return True  # nulls stay null: the cast gives the nullable type
    if kind.name == target.name or target.name == "string":
        return True
    if kind.name == "string":
        return target.name == "binary"
    if target.is_float or target.name == "bool":
        return True
    if kind.is_integer and target.is_integer:
        low, high = target.integer_range
        return low <= kind.integer_range[0] and kind.integer_range[1] <= high
    return kind.name == "bool" or (kind.name, target.name) in (
        ("int64", "timestamp"),
        ("timestamp", "int64"),
        ("date", "int64"),
        ("timestamp", "date"),
        ("duration", "int64"),
        ("int64", "duration"),
        ("time", "int64"),
    )
