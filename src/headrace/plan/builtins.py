"""The functions that expressions are made of besides operators: what each takes, gives, and risks.

A stage writes code for each of them under the same name (`stage/generate/builtins.py`); those that
are marked `by_column` are computed over whole columns by Arrow (`rewrites/columns.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .durations import parse_every
from .errors import ExpressionError
from .expressions import Builtin, Literal
from .types import (
    MICROSECONDS_PER_DAY,
    DataType,
    bool_,
    date,
    duration,
    float64,
    int64,
    optional,
    string,
    timestamp,
)

DURATION = duration

Result = DataType | Callable[[Builtin, Sequence[DataType]], DataType]


@dataclass(frozen=True)
class Parameter:
    """What an operand must be."""

    said: str
    accepts: Callable[[DataType], bool]


NUMBER = Parameter("numbers", lambda kind: kind.is_numeric)
WHOLE = Parameter("whole numbers", lambda kind: kind.is_integer)
TEXT = Parameter("strings", lambda kind: kind.name == "string")
TIME = Parameter("dates and timestamps", lambda kind: kind.is_time)
MOMENT = Parameter("timestamps", lambda kind: kind.name == "timestamp")
SPAN = Parameter("durations", lambda kind: kind.name in ("duration", "int64"))
STRUCT = Parameter("structs", lambda kind: bool(kind.parts))
LIST = Parameter("lists", lambda kind: kind.item is not None)
FLAG = Parameter("conditions", lambda kind: kind.name == "bool")
EXACT = Parameter(
    "decimals, numbers and strings",
    lambda kind: kind.is_decimal or kind.is_numeric or kind.name == "string",
)


@dataclass(frozen=True)
class Signature:
    """A function: what it takes and gives.

    fails: some values are an error. may_be_null: it gives null for some values that are not.
    by_column: Arrow computes it over whole columns.
    """

    takes: tuple[Parameter, ...]
    gives: Result
    fails: bool = False
    may_be_null: bool = False
    by_column: bool = False


def _same_number(call: Builtin, kinds: Sequence[DataType]) -> DataType:
    return int64 if kinds[0].is_integer else float64


def _power(call: Builtin, kinds: Sequence[DataType]) -> DataType:
    """Whole numbers stay whole if the exponent is a constant that is not negative."""
    match call.operands[1]:
        case Literal(int(exponent), _) if exponent >= 0 and kinds[0].is_integer:
            return int64
    return float64


def _truncated(call: Builtin, kinds: Sequence[DataType]) -> DataType:
    """A date stays a date, which has no parts of a day."""
    every = call.operands[1]
    assert isinstance(every, Literal)
    unit, count = parse_every(every.value)
    if kinds[0].name == "date" and unit == "microseconds" and count % MICROSECONDS_PER_DAY:
        raise ExpressionError(
            f"{call} cuts a date down to a part of a day", "cast it to a timestamp first"
        )
    return kinds[0].required


def _part(call: Builtin, kinds: Sequence[DataType]) -> DataType:
    """The field of a struct that a constant names."""
    name, parts = call.operands[1], kinds[0].parts
    assert isinstance(name, Literal)
    if name.value not in parts:
        raise ExpressionError(
            f"{call.operands[0]} has no field {name.value!r}", f"it has: {', '.join(parts)}"
        )
    return parts[name.value]


def _item(call: Builtin, kinds: Sequence[DataType]) -> DataType:
    assert kinds[0].item is not None
    return kinds[0].item


def _cast_to(call: Builtin, kinds: Sequence[DataType]) -> DataType:
    """What a cast from or to decimals gives."""
    assert call.type is not None
    if not EXACT.accepts(call.type):
        raise ExpressionError(
            f"{kinds[0]} cannot be cast to {call.type}, in {call}",
            "decimals are cast to and from numbers and strings",
        )
    return call.type


BUILTINS: dict[str, Signature] = {
    # numbers
    "round": Signature((NUMBER, WHOLE), _same_number),
    "floor": Signature((NUMBER,), _same_number),
    "ceil": Signature((NUMBER,), _same_number),
    "sqrt": Signature((NUMBER,), float64),
    "exp": Signature((NUMBER,), float64),
    "log": Signature((NUMBER,), float64),
    "log10": Signature((NUMBER,), float64),
    "power": Signature((NUMBER, NUMBER), _power),
    "is_nan": Signature((NUMBER,), bool_),
    "is_finite": Signature((NUMBER,), bool_),
    # strings
    "length": Signature((TEXT,), int64),
    "byte_length": Signature((TEXT,), int64),
    "starts_with": Signature((TEXT, TEXT), bool_),
    "ends_with": Signature((TEXT, TEXT), bool_),
    "contains": Signature((TEXT, TEXT), bool_),
    "like": Signature((TEXT, TEXT), bool_),
    "find": Signature((TEXT, TEXT), int64, may_be_null=True),
    "count_matches": Signature((TEXT, TEXT), int64),
    "upper": Signature((TEXT,), string),
    "lower": Signature((TEXT,), string),
    "concat": Signature((TEXT, TEXT), string),
    "slice": Signature((TEXT, WHOLE, WHOLE), string),
    "replace": Signature((TEXT, TEXT, TEXT, WHOLE), string),
    "split_part": Signature((TEXT, TEXT, WHOLE), string, may_be_null=True),
    "strip": Signature((TEXT, TEXT), string),
    "strip_start": Signature((TEXT, TEXT), string),
    "strip_end": Signature((TEXT, TEXT), string),
    "strip_prefix": Signature((TEXT, TEXT), string),
    "strip_suffix": Signature((TEXT, TEXT), string),
    "pad_start": Signature((TEXT, WHOLE, TEXT), string, fails=True),
    "pad_end": Signature((TEXT, WHOLE, TEXT), string, fails=True),
    "zero_fill": Signature((TEXT, WHOLE), string, fails=True),
    "matches": Signature((TEXT, TEXT), bool_, by_column=True),
    "extract": Signature((TEXT, TEXT, WHOLE), string, may_be_null=True, by_column=True),
    "replace_regex": Signature((TEXT, TEXT, TEXT, WHOLE), string, by_column=True),
    "json_path": Signature((TEXT, TEXT), string, fails=True, may_be_null=True, by_column=True),
    "try_json_path": Signature((TEXT, TEXT), string, may_be_null=True, by_column=True),
    # decimals, structs and lists
    "cast": Signature((EXACT,), _cast_to, fails=True, by_column=True),
    "try_cast": Signature((EXACT,), _cast_to, may_be_null=True, by_column=True),
    "field": Signature((STRUCT, TEXT), _part, may_be_null=True, by_column=True),
    "list_length": Signature((LIST,), int64, by_column=True),
    "list_get": Signature((LIST, WHOLE, FLAG), _item, fails=True, may_be_null=True, by_column=True),
    # times
    **{
        part: Signature((TIME,), int64)
        for part in ("year", "quarter", "month", "day", "weekday", "ordinal_day", "week")
    },
    **{
        part: Signature((MOMENT,), int64)
        for part in ("hour", "minute", "second", "millisecond", "microsecond")
    },
    "date_of": Signature((TIME,), date),
    "truncate": Signature((TIME, TEXT), _truncated, fails=True),
    "total": Signature((SPAN, WHOLE), int64),
    "format_time": Signature((TIME, TEXT), string, by_column=True),
    "parse_time": Signature((TEXT, TEXT), timestamp, fails=True, by_column=True),
    "try_parse_time": Signature((TEXT, TEXT), timestamp, may_be_null=True, by_column=True),
}


def builtin_type(call: Builtin, kinds: Sequence[DataType]) -> DataType:
    """The type of a call, given those of its operands; an ExpressionError where it has none.

    >>> from .expressions import Column
    >>> builtin_type(Builtin("floor", (Column("a"),)), [DataType("int8")])
    int64
    """
    signature = BUILTINS[call.op]
    for parameter, kind in zip(signature.takes, kinds, strict=True):
        if not parameter.accepts(kind):
            raise ExpressionError(
                f"{call.op}() works on {parameter.said}, and an operand of {call} is {kind}",
                _fix(parameter, kind),
            )
    made = (
        signature.gives if isinstance(signature.gives, DataType) else signature.gives(call, kinds)
    )
    nullable = signature.may_be_null or any(kind.nullable for kind in kinds)
    return optional(made) if nullable else replace(made, nullable=False)


def builtin_can_fail(call: Builtin, kind: DataType) -> bool:
    """Can a call that gives this type raise an error?"""
    match call:
        case Builtin("power"):
            return kind.is_integer
        case Builtin("list_get", (_, _, Literal(or_null, _))):
            return not or_null
    return BUILTINS[call.op].fails or bool(call.zone)  # local times may lie beyond int64


def way_out(kind: DataType) -> str:
    """What to do where values of a composite type cannot be computed with."""
    if kind.is_decimal:
        return "cast it: .cast(float), .cast(int) or .cast(str)"
    if kind.item is not None:
        return "take an item, .list.get(0), or a row for each with stream.explode(...)"
    return f"take a field: .struct.field({next(iter(kind.parts))!r})"


def _fix(parameter: Parameter, kind: DataType) -> str:
    if kind.is_composite and parameter not in (STRUCT, LIST):
        return way_out(kind)
    if parameter is TEXT:
        return "cast it with .cast(hr.string) where that is meant"
    if parameter in (TIME, MOMENT) and kind.name == "string":
        return "read the times first: .str.to_datetime(), or .cast(hr.timestamp)"
    if parameter in (TIME, MOMENT) and kind.is_integer:
        return "say what the numbers count: hr.from_millis(...) or hr.from_seconds(...)"
    if kind.name == "string":
        return "cast it with .cast(float) or .cast(int)"
    return "use another column, or cast it with .cast(...)"
