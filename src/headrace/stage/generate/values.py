"""Values as code: constants, comparisons, casts, hashes, and how user functions take them."""

from __future__ import annotations

from headrace.plan.types import DataType, int64
from headrace.stage.items import item_code

from .writer import Value

DAY = 86_400_000_000  # microseconds


def zero(kind: DataType) -> tuple[str, ...]:
    """The words of a value where there is none."""
    if kind.is_view:
        return ("0", "0")
    if kind.is_float:
        return ("0.0",)
    return ("False",) if kind.name == "bool" else ("0",)


def nothing(kind: DataType) -> Value:
    """A value of a type that stands for none."""
    return Value(kind, zero(kind), "False" if kind.nullable else None)


def hash_code(keys: list[Value]) -> str:
    """Code of the hash of a key; the same on every machine, since it gives the key group."""
    if not keys:
        return "0"
    parts = [_hash_of(key) for key in keys]
    made = parts[0]
    for part in parts[1:]:
        made = f"combine({made}, {part})"
    return made


def _hash_of(key: Value) -> str:
    if key.type.is_view:
        made = f"hash_words({', '.join(key.words)})"
    elif key.type.is_float:
        made = f"hash_float({key.word})"
    elif key.type.name == "bool":
        made = f"hash_int(int({key.word}))"
    else:
        made = f"hash_int({key.word})"
    return made if key.valid is None else f"({made} if {key.valid} else NULL_HASH)"


def float_text(value: float) -> str:
    """A float constant as source, infinities and NaN included."""
    if value != value:
        return "NAN"
    if value in (float("inf"), float("-inf")):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    return f"({value!r})"


def as_float(value: Value) -> str:
    """A number as float64; the same in both modes, also for large integers."""
    return value.word if value.type.is_float else f"float({value.word})"


def compare(op: str, left: Value, right: Value) -> str:
    """Code of a comparison."""
    if left.type.is_view:
        words = ", ".join(left.words + right.words)
        if op in ("==", "!="):
            return f"{'' if op == '==' else 'not '}equal_words({words})"
        return f"compare_words({words}) {op} 0"
    if left.type.is_float or right.type.is_float:
        return f"{as_float(left)} {op} {as_float(right)}"
    return f"{left.word} {op} {right.word}"


def narrowed(word: str, kind: DataType) -> str:
    """Code that checks whether an integer fits the type it is to have; all fit int64."""
    if kind.name == "uint64":
        return f"to_unsigned({word})"
    low, high = kind.integer_range if kind.is_whole else int64.integer_range
    return word if (low, high) == int64.integer_range else f"narrow({word}, {low}, {high})"


def argument(value: Value, heap: str = "heap") -> str:
    """A value as a user function takes it; the heap is for lists, whose bytes have an address."""
    made = value.words[0]
    if value.type.name == "uint64":
        made = f"to_signed({made})"
    if value.type.item is not None:
        address = f"list_address({', '.join(value.words)}, {heap})"
        made = f"items({address}, {item_code(value.type.item)})"
    elif value.type.is_view:
        made = f"{'text' if value.type.name == 'string' else 'blob'}({', '.join(value.words)})"
    return made if value.valid is None else f"maybe({value.valid}, {made})"


def received(code: str, kind: DataType) -> str:
    """The words of what a user function gave; `code` is not None."""
    if kind.is_view:
        return f"words(present({code}), heap)"
    if kind.name == "bool":
        return f"bool(present({code}))"
    if kind.name == "float32":
        return f"to_float32(float(present({code})))"
    if kind.is_float:
        return f"float(present({code}))"
    return narrowed(f"present({code})", kind)
