"""The functions of `plan.builtins` as code: which function of the vocabulary computes each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.plan.builtins import BUILTINS
from headrace.plan.durations import parse_every
from headrace.plan.expressions import Builtin, Literal
from headrace.plan.types import DataType, binary

from ..civil import DAY, HOUR, MINUTE, MONDAY, SECOND
from ..zones import zone_table
from .values import as_float
from .writer import Value


@dataclass(frozen=True)
class Made:
    """Code of a call; `nullable`: its first word says whether there is a value."""

    code: str
    nullable: bool = False


FLOATS = {
    "sqrt": "float_sqrt",
    "exp": "float_exp",
    "log": "float_log",
    "log10": "float_log10",
    "is_finite": "is_finite",
}
WHOLE_FLOATS = {"floor": "float_floor", "ceil": "float_ceil"}
TEXTS = {  # of the words of their operands
    "length": "char_length",
    "starts_with": "starts_with_words",
    "ends_with": "ends_with_words",
    "contains": "contains_words",
    "like": "like_words",
    "find": "find_char",
    "count_matches": "count_words",
    "slice": "slice_chars",
    "split_part": "split_part",
    "strip": "strip_words",
    "strip_start": "strip_start_words",
    "strip_end": "strip_end_words",
    "strip_prefix": "strip_prefix_words",
    "strip_suffix": "strip_suffix_words",
}
NEW_TEXTS = {  # and of a heap
    "upper": "upper_words",
    "lower": "lower_words",
    "concat": "concat_words",
    "replace": "replace_words",
    "pad_start": "pad_start_words",
    "pad_end": "pad_end_words",
    "zero_fill": "zero_fill_words",
}
DAYS = ("year", "quarter", "month", "day", "weekday", "ordinal_day", "week")
CLOCK = {
    "hour": f"// {HOUR} % 24",
    "minute": f"// {MINUTE} % 60",
    "second": f"// {SECOND} % 60",
    "millisecond": f"% {SECOND} // 1000",
    "microsecond": f"% {SECOND}",
}


def makes_text(call: Builtin) -> bool:
    """Does it write strings to the heap?"""
    return call.op in NEW_TEXTS


def call_code(
    call: Builtin,
    operands: Sequence[Value],
    kind: DataType,
    constant: Callable[[Literal], tuple[str, str]],
) -> Made:
    """Code of a call that gives a type; `constant` gives the words of a constant."""
    op, nullable = call.op, BUILTINS[call.op].may_be_null
    words = ", ".join(word for operand in operands for word in operand.words)
    if op in TEXTS:
        return Made(f"{TEXTS[op]}({words})", nullable)
    if op in NEW_TEXTS:
        return Made(f"{NEW_TEXTS[op]}({words}, heap)")
    if op == "byte_length":
        return Made(f"byte_length({operands[0].words[0]})")
    if operands[0].type.is_time:
        return Made(_of_time(call, operands[0], constant))
    if op == "total":
        return Made(f"whole_units({words})")
    return Made(_of_number(op, operands, kind))


def _of_number(op: str, operands: Sequence[Value], kind: DataType) -> str:
    first = as_float(operands[0])
    if op in FLOATS:
        return f"{FLOATS[op]}({first})"
    if op == "is_nan":
        return f"{first} != {first}"
    if op == "power":
        if kind.is_integer:
            return f"whole_power({operands[0].word}, {operands[1].word})"
        return f"float_power({first}, {as_float(operands[1])})"
    if kind.is_integer:  # a whole number is rounded already
        return operands[0].word
    if op == "round":
        return f"round_float({first}, {operands[1].word})"
    return f"{WHOLE_FLOATS[op]}({first})"


# ---- times ---------------------------------------------------------------------------------


def _of_time(call: Builtin, time: Value, constant: Callable[[Literal], tuple[str, str]]) -> str:
    word = time.word
    zone = ", ".join(constant(Literal(zone_table(call.zone), binary))) if call.zone else ""
    local = f"local_time({word}, {zone})" if zone else word
    if call.op == "truncate":
        return _truncated(call, time, local, zone)
    if call.op in CLOCK:
        return f"{local} {CLOCK[call.op]}"
    days = word if time.type.name == "date" else f"({local} // {DAY})"
    return days if call.op == "date_of" else f"{call.op}_of({days})"


def _truncated(call: Builtin, time: Value, local: str, zone: str) -> str:
    every = call.operands[1]
    assert isinstance(every, Literal)
    unit, count = parse_every(every.value)
    is_date = time.type.name == "date"
    if unit == "months":
        function = "truncate_months" if is_date else "truncate_time_to_months"
        made = f"{function}({local}, {count})"
    else:
        size, origin = (7 * count * DAY, MONDAY * DAY) if unit == "weeks" else (count, 0)
        per = DAY if is_date else 1
        made = f"truncate_time({local}, {size // per}, {origin // per})"
    if not zone or is_date:
        return made
    if unit == "microseconds" and count % DAY:
        return f"same_clock({made}, {time.word}, {zone})"
    return f"first_instant({made}, {zone})"
