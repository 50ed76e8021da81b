"""Shared memory declared once, used by name: compiled by Numba or interpreted, from one source.

    @record
    class Port:
        head: i64 = line()          # written by the consumer; line() starts a cache line
        tail: i64 = line()          # written by the producer
        peer: ref("Port") = line()  # a stored address that reads as a record
        slots: array(i64)           # behind the record; array(i64, 8) lies inside it

A record is an address and nothing else.  `Port(address)` makes one, `port.address` takes it back,
`port.head` and `port.head = x` are plain accesses, `ports[i]` is the i-th record from there on,
`port.slots[i]` an element; a record class as annotation embeds a record.  Atomics name a field of
a record or an index of an array: `load_acquire(port, "head")`, `cas(port.slots, i, old, new)`.
Compiled, each is one LLVM instruction at a constant offset.  Interpreted, each goes through
`memory`, which a model checker replaces by its own.

Numbers read as int64 or float64 whatever they are stored as.  Interpreted, an integer that does
not fit its field raises OverflowError; compiled, its low bits are stored.
"""

from __future__ import annotations

import ctypes
import hashlib
import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from headrace.stage.memory.extensions import extension
from headrace.stage.memory.instructions import copy_bytes
from headrace.stage.memory.kinds import (
    KINDS,
    Kind,
    Tag,
    aligned,
    f32,
    f64,
    flag,
    holds_text,
    i8,
    i16,
    i32,
    i64,
    optional,
    u8,
)
from headrace.stage.memory.modes import compiled, interpreted
from headrace.stage.memory.places import (
    LINE,
    Field,
    Record,
    RecordClass,
    Shape,
    array,
    as_kind,
    classes,
    record_key,
    ref,
)

# The face of records: what code that uses them needs, wherever it is made.
__all__ = [
    "ARRAYS",
    "KINDS",
    "LINE",
    "Record",
    "RecordClass",
    "array",
    "as_kind",
    "compiled",
    "copy_bytes",
    "copy_record",
    "f32",
    "f32s",
    "f64",
    "f64s",
    "flag",
    "flags",
    "i8",
    "i8s",
    "i16",
    "i16s",
    "i32",
    "i32s",
    "i64",
    "i64s",
    "interpreted",
    "line",
    "make_record",
    "optional",
    "record",
    "ref",
    "register_place",
    "u8",
    "u8s",
]  # fmt: skip


# ---- declaring -----------------------------------------------------------------------------


def line() -> Any:
    """The default of a field that starts a cache line."""
    return LINE


def record(cls: type) -> Any:
    """Lay out the annotated fields in order, and teach Numba the class.

    >>> @record
    ... class Pair:
    ...     left: i32
    ...     right: i64
    >>> pair = Pair.allocate()
    >>> pair.left, pair.right = 3, 4
    >>> (pair.left + pair.right, Pair.size)
    (7, 16)
    """
    kinds = inspect.get_annotations(cls, eval_str=True)
    on_line = {name for name in kinds if name in vars(cls)}
    return _lay_out(cls, kinds, on_line)


def _lay_out(cls: type, kinds: dict[str, Any], on_line: set[str]) -> Any:
    fields, end, widest = {}, 0, 1
    for name, given in kinds.items():
        if name.startswith("_"):
            raise TypeError(f"the name of a field cannot start with an underscore: {name}")
        kind = as_kind(given).bound_to(cls)
        align = LINE if name in on_line else kind.align
        start = aligned(end, align)
        fields[name], end, widest = Field(start, kind), start + kind.size, max(widest, align)
    _check_heap(cls, fields)
    body = {name: getattr(cls, name) for name in ("__doc__", "__module__", "__qualname__")}
    made = RecordClass(cls.__name__, (Record,), {**body, **fields, "__slots__": ()})
    made._fields, made._size, made._align = fields, aligned(end, widest), widest
    layout = tuple((name, field.offset, field.kind.tag) for name, field in fields.items())
    made._shape = Shape(record_key(cls), made.size, ("embedded", record_key(cls)), layout)
    classes[record_key(cls)] = made
    register_place(made, made._shape)
    return made


def register_place(function: Callable, shape: Shape) -> None:
    """Numba: function(integer address) gives a place of this shape."""

    @extension
    def register_extensions() -> None:
        from headrace.stage.memory import record_access

        record_access.register_place(function, shape)


def _check_heap(cls: type, fields: dict[str, Field]) -> None:
    """Text is written into a heap, which is found through the record's first field."""
    first = next(iter(fields.items()), None)
    needs_heap = any(holds_text(field.kind) for field in fields.values())
    if needs_heap and (first is None or first[0] != "heap" or first[1].kind is not i64):
        raise TypeError(f"{cls.__name__} holds text: its first field must be `heap: i64`")


@cache
def _made(name: str, tags: tuple[tuple[str, Tag], ...], fields: _Unhashed) -> Any:
    cls = type(name, (), {"__module__": "made", "__doc__": None})
    return _lay_out(cls, dict(fields.value), set())


class _Unhashed:
    """A cached function's argument that is no part of the cache's key."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Unhashed)


def make_record(name: str, fields: Sequence[tuple[str, Any]]) -> Any:
    """As `@record` on a class with these annotations: (field name, kind or kind's name).
    The same arguments give the same class.

    >>> Total = make_record("Total", [("count", i64), ("sum", "f64")])
    >>> Total is make_record("Total", [("count", i64), ("sum", f64)])
    True
    >>> total = Total.allocate(); total.sum += 2.5; total.sum
    2.5
    """
    fields = [(field, as_kind(kind)) for field, kind in fields]
    if len(dict(fields)) != len(fields):
        raise TypeError(f"{name}: two fields have the same name")
    key = f"{name}_{hashlib.sha256(repr([(f, k.tag) for f, k in fields]).encode()).hexdigest()[:8]}"
    return _made(key, tuple((field, kind.tag) for field, kind in fields), _Unhashed(fields))


# ---- typed memory at an address ------------------------------------------------------------


def _array_of(name: str, kind: Kind) -> Callable[[int], array]:
    def items(address: int) -> array:
        return array(kind, address=address)

    items.__name__ = items.__qualname__ = f"{name}s"
    items.__doc__ = f"The {name} values from an address on: `a[i]`, `a[i] = x`, no bounds."
    register_place(items, array(kind).shape)
    return items


# By the name of the kind.
ARRAYS: dict[str, Callable[[int], array]] = {name: _array_of(name, k) for name, k in KINDS.items()}
i8s, i16s, i32s, i64s = ARRAYS["i8"], ARRAYS["i16"], ARRAYS["i32"], ARRAYS["i64"]
u8s, f32s, f64s, flags = ARRAYS["u8"], ARRAYS["f32"], ARRAYS["f64"], ARRAYS["flag"]


# ---- copying -------------------------------------------------------------------------------


def copy_record(target: Record, source: Record) -> None:
    """Plain copy of all fields between records of one class.

    >>> Door = make_record("Door", [("open", i64)])
    >>> one, other = Door.allocate(), Door.allocate()
    >>> one.open = 1
    >>> copy_record(other, one); other.open
    1
    """
    kind: Any = type(target)
    ctypes.memmove(target._address, source._address, kind.size)


@extension
def _register_copy() -> None:
    from headrace.stage.memory.record_access import register_copy

    register_copy(copy_record)
