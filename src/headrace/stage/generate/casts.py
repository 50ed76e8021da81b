"""Casts as code: of values that fit, and of those that may not.

A cast that is strict raises for a value that does not fit; one that is not gives null. Strings are
read by functions that say what became of the string, and only then what it says.
"""

from __future__ import annotations

from headrace.plan.types import DataType, int64

from .values import DAY, narrowed
from .writer import Value, Writer

INT64 = int64.integer_range


def cast_code(operand: Value, kind: DataType) -> str:
    """Code of a strict cast between types that are not strings."""
    source, word = operand.type, operand.word
    if kind.name == "bool":
        return f"{word} != 0"
    if source.name == "bool":
        word = f"int({word})"
    if kind.is_float:
        made = f"float({word})"
        return f"to_float32({made})" if kind.name == "float32" else made
    if source.is_float:
        word = f"float_to_int({word})"
    if source.name == "uint64":
        return f"to_signed({word})"
    if (source.name, kind.name) == ("timestamp", "date"):
        return f"{word} // {DAY}"
    if (source.name, kind.name) == ("date", "timestamp"):
        return f"multiply({word}, {DAY})"
    return narrowed(word, kind)


def fits_code(operand: Value, kind: DataType) -> str:
    """Code of "the value fits": then the strict cast does not raise."""
    source, word = operand.type, operand.word
    if kind.name == "bool" or kind.is_float or source.name == "bool":
        return "True"
    if (source.name, kind.name) == ("timestamp", "date"):
        return "True"
    if source.name == "uint64":
        return f"{word} < 0"  # as it is stored, see `to_signed`
    low, high = _range(kind)
    if (source.name, kind.name) == ("date", "timestamp"):
        low, high = -(-low // DAY), high // DAY
    if source.is_float:
        whole = f"float_fits({word})"
        return whole if (low, high) == INT64 else f"{whole} and {low} <= int({word}) <= {high}"
    return "True" if (low, high) == INT64 else f"{low} <= {word} <= {high}"


def _range(kind: DataType) -> tuple[int, int]:
    if kind.name == "uint64":
        return 0, INT64[1]  # of what can be cast to it
    return kind.integer_range if kind.is_whole else INT64


def write_text(operand: Value) -> tuple[str, bool]:
    """(code of the words of a value as a string, whether it needs the heap)."""
    name, word = operand.type.name, operand.word
    if name == "bool":
        return f"write_bool({word})", False
    function = {"date": "write_date", "timestamp": "write_timestamp"}.get(name, "write_int")
    if operand.type.is_float:
        function = "write_float32" if name == "float32" else "write_float"
    return f"{function}({word}, heap)", True


def read_text(writer: Writer, operand: Value, kind: DataType, *, strict: bool) -> tuple[str, str]:
    """(fits, value) of a string read as another type; strict raises for one that does not fit."""
    function = f"read_{_family(kind)}"
    status, value = writer.fresh("k"), writer.fresh()
    writer.line(f"{status}, {value} = {function}({', '.join(operand.words)})")
    if strict:
        writer.line(f"check_{_family(kind)}({status})")
        made = f"to_float32({value})" if kind.name == "float32" else narrowed(value, kind)
        return "True", made
    low, high = _range(kind)
    fits = f"{status} == READ"
    if kind.is_integer and (low, high) != INT64:
        fits += f" and {low} <= {value} <= {high}"
    return fits, f"to_float32({value})" if kind.name == "float32" else value


def _family(kind: DataType) -> str:
    if kind.is_integer:
        return "int"
    return "float" if kind.is_float else kind.name
