"""Explicit atomics and memory orders: a Python function each, and its LLVM instruction.

They name a field of a record or an index of an array: `load_acquire(port, "head")`,
`cas(port.slots, i, old, new)`.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from headrace.stage.memory import access as memory
from headrace.stage.memory.extensions import extension
from headrace.stage.memory.instructions import intrinsic, register_instruction
from headrace.stage.memory.places import Place


def _register_atomic(
    function: Callable,
    arity: int,
    emit: Callable,
    result: str | None = None,
    only_integers: bool = False,
) -> None:
    """Numba: function(record, "field", *values) or function(array, index, *values).

    `emit(b, pointer, *raw values)` makes the instruction and gives the raw result; `result` is the
    name of its type, where it is not that of the field.
    """

    @extension
    def register_extensions() -> None:
        from headrace.stage.memory.atomic_types import register_numba

        register_numba(function, arity, emit, result, only_integers)


# ---- loads and stores ----------------------------------------------------------------------


def _width(pointer) -> int:
    """Bytes of what an LLVM pointer points to."""
    pointee = pointer.type.pointee
    floats = {ir.FloatType: 4, ir.DoubleType: 8}
    return floats.get(type(pointee), getattr(pointee, "width", 64) // 8)


def _loader(name: str, order: str, llvm_order: str) -> Callable[[Any, Any], Any]:
    def load(place: Place, which: Any) -> Any:
        kind, address = place._at(which)
        return kind.read(address, order)

    load.__name__ = load.__qualname__ = name
    load.__doc__ = f"Atomic {order} load of a record's field or an array's item."
    _register_atomic(load, 0, lambda b, p: b.load_atomic(p, llvm_order, _width(p)))
    return load


def _storer(name: str, order: str, llvm_order: str) -> Callable[[Any, Any, Any], None]:
    def store(place: Place, which: Any, value: Any) -> None:
        kind, address = place._at(which)
        kind.write(address, value, order)

    store.__name__ = store.__qualname__ = name
    store.__doc__ = f"Atomic {order} store to a record's field or an array's item."
    _register_atomic(
        store, 1, lambda b, p, value: b.store_atomic(value, p, llvm_order, _width(p)), "none"
    )
    return store


load_relaxed = _loader("load_relaxed", "relaxed", "monotonic")
load_acquire = _loader("load_acquire", "acquire", "acquire")
load_sc = _loader("load_sc", "sc", "seq_cst")
store_relaxed = _storer("store_relaxed", "relaxed", "monotonic")
store_release = _storer("store_release", "release", "release")
store_sc = _storer("store_sc", "sc", "seq_cst")


# ---- updates -------------------------------------------------------------------------------


def fetch_add(place: Place, which: Any, value: Any) -> Any:
    """Add atomically; gives the old value.

    >>> from headrace.stage.memory.records import i64, make_record
    >>> counts = make_record("Counts", [("rows", i64)]).allocate()
    >>> fetch_add(counts, "rows", 5), load_acquire(counts, "rows")
    (0, 5)
    """
    kind, address = place._at(which)
    return memory.current.update(address, kind.ctype, lambda old: kind.encode(old + value))


def exchange(place: Place, which: Any, value: Any) -> Any:
    """Store atomically; gives the old value.

    >>> from headrace.stage.memory.records import i64, make_record
    >>> door = make_record("Door", [("open", i64)]).allocate()
    >>> exchange(door, "open", 1), door.open
    (0, 1)
    """
    kind, address = place._at(which)
    stored = kind.encode(value)
    return kind.decode(memory.current.update(address, kind.ctype, lambda old: stored))


def cas(place: Place, which: Any, expected: Any, new: Any) -> bool:
    """Compare and swap: did the field hold `expected`, and so now holds `new`?

    >>> from headrace.stage.memory.records import i64, make_record
    >>> door = make_record("Door", [("open", i64)]).allocate()
    >>> cas(door, "open", 0, 1), cas(door, "open", 0, 1)
    (True, False)
    """
    kind, address = place._at(which)
    expected, new = kind.encode(expected), kind.encode(new)
    old = memory.current.update(address, kind.ctype, lambda o: new if o == expected else o)
    return old == expected


def _emit_cas(b, pointer, expected, new):
    return b.extract_value(b.cmpxchg(pointer, expected, new, "seq_cst", "acquire"), 1)


def _emit_update(instruction: str) -> Callable:
    return lambda b, pointer, value: b.atomic_rmw(instruction, pointer, value, "seq_cst")


_register_atomic(fetch_add, 1, _emit_update("add"), only_integers=True)
_register_atomic(exchange, 1, _emit_update("xchg"), only_integers=True)
_register_atomic(cas, 2, _emit_cas, "boolean", only_integers=True)


def pause() -> None:
    """Spin-loop hint."""
    memory.current.pause()


def _emit_pause(context, b):
    # An LLVM intrinsic: inline assembly aborts the process.
    if platform.machine() in ("x86_64", "AMD64"):
        b.call(intrinsic(b, "llvm.x86.sse2.pause", ir.VoidType()), [])
    else:
        hint = ir.IntType(32)
        b.call(intrinsic(b, "llvm.aarch64.hint", ir.VoidType(), hint), [hint(1)])


register_instruction(pause, 0, "none", _emit_pause)
