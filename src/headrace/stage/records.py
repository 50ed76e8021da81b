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
import importlib.resources
import inspect
import operator
import platform
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.dispatcher import Dispatcher
from numba.core.imputils import lower_builtin
from numba.extending import type_callable, typeof_impl

from headrace.stage.record_types import (
    WORD,
    Address,
    Tag,
    classes,
    intrinsic,
    teach_atomic,
    teach_instruction,
    teach_place,
)

LINE = 64


# ---- the interpreted life: every access goes through `memory` ------------------------------


class Memory:
    """Plain memory.  A model checker subclasses this, puts an instance in `records.memory`, and
    yields to its scheduler before it acts."""

    def load(self, address: int, ctype: Any, order: str) -> Any:
        """order: "plain", "relaxed", "acquire" or "sc"."""
        return ctype.from_address(address).value

    def store(self, address: int, ctype: Any, value: Any, order: str) -> None:
        """order: "plain", "relaxed", "release" or "sc"."""
        ctype.from_address(address).value = value

    def update(self, address: int, ctype: Any, change: Callable[[Any], Any]) -> Any:
        """One atomic read-modify-write; gives the old value."""
        old = ctype.from_address(address).value
        ctype.from_address(address).value = change(old)
        return old

    def pause(self) -> None:
        """A thread spins and waits for a change."""


memory = Memory()


# ---- kinds of fields -----------------------------------------------------------------------


class Kind:
    """What a field or an item is: its tag (see record_types), size and alignment."""

    tag: Tag
    size: int
    align: int

    def bound_to(self, owner: type) -> Kind:
        """The kind as a field of a record class."""
        return self

    def read(self, address: int, order: str = "plain") -> Any:
        raise NotImplementedError

    def write(self, address: int, value: Any, order: str = "plain") -> None:
        raise TypeError(f"a field of kind {self.tag[0]} cannot be assigned")

    def write_field(self, record_address: int, address: int, value: Any) -> None:
        """Write a field; some kinds need the record that it belongs to."""
        self.write(address, value)

    @property
    def stride(self) -> int:
        """Bytes from one item of an array to the next."""
        return _aligned(self.size, self.align)


class Scalar(Kind):
    """One machine word or less."""

    def __init__(self, tag: Tag, ctype: Any) -> None:
        self.tag, self.ctype = tag, ctype
        self.size = self.align = ctypes.sizeof(ctype)

    def encode(self, value: Any) -> Any:
        """From the value as code sees it to the value as it is stored."""
        return value

    def decode(self, stored: Any) -> Any:
        return stored

    def read(self, address: int, order: str = "plain") -> Any:
        return self.decode(memory.load(address, self.ctype, order))

    def write(self, address: int, value: Any, order: str = "plain") -> None:
        memory.store(address, self.ctype, self.encode(value), order)


class Integer(Scalar):
    """A whole number; refuses what does not fit."""

    def __init__(self, stored: str, ctype: Any, low: int, high: int) -> None:
        super().__init__(("value", stored), ctype)
        self.low, self.high = low, high

    def encode(self, value: Any) -> int:
        value = operator.index(value)  # takes NumPy's integers, refuses floats
        if not self.low <= value <= self.high:
            raise OverflowError(f"{value} does not fit in {self.tag[1]}")
        return value


class Real(Scalar):
    """A floating-point number."""

    def encode(self, value: Any) -> float:
        return float(value)


class Flag(Scalar):
    """True or False in one byte."""

    def encode(self, value: Any) -> int:
        return int(bool(value))

    def decode(self, stored: int) -> bool:
        return stored != 0


def _integer(bits: int, signed: bool, ctype: Any) -> Integer:
    low = -(1 << (bits - 1)) if signed else 0
    return Integer(f"{'int' if signed else 'uint'}{bits}", ctype, low, low + (1 << bits) - 1)


i8 = _integer(8, True, ctypes.c_int8)
i16 = _integer(16, True, ctypes.c_int16)
i32 = _integer(32, True, ctypes.c_int32)
i64 = _integer(64, True, ctypes.c_int64)
u8 = _integer(8, False, ctypes.c_uint8)
f32 = Real(("value", "float32"), ctypes.c_float)
f64 = Real(("value", "float64"), ctypes.c_double)
flag = Flag(("value", "boolean"), ctypes.c_uint8)

# Kinds by name; text.py adds "text" and "blob".
KINDS: dict[str, Kind] = {
    "i8": i8, "i16": i16, "i32": i32, "i64": i64, "u8": u8, "f32": f32, "f64": f64, "flag": flag,
}  # fmt: skip


class ref(Scalar):
    """The address of a record, given as a class or, before it exists, by its name."""

    def __init__(self, target: type | str) -> None:
        self.by_name = isinstance(target, str)
        super().__init__(("ref", target if self.by_name else _key(target)), ctypes.c_int64)

    def bound_to(self, owner: type) -> Kind:
        """A name is looked up where the owner's own name would be."""
        if not self.by_name:
            return self
        bound = ref(owner)
        bound.tag = ("ref", _key(owner).rpartition(".")[0] + "." + self.tag[1])
        return bound

    def encode(self, value: Record) -> int:
        return value._address

    def decode(self, stored: int) -> Record:
        return classes[self.tag[1]](stored)


class embedded(Kind):
    """A record inside another; what a record class means as an annotation."""

    def __init__(self, target: RecordClass) -> None:
        self.target, self.tag = target, ("embedded", _key(target))
        self.size, self.align = target.size, target.align

    def read(self, address: int, order: str = "plain") -> Record:
        return self.target(address)


class optional(Kind):
    """A value of another kind, or None: the value, then one byte that says whether there is one.

    >>> Best = make_record("Best", [("score", optional(i64))])
    >>> best = Best.allocate()
    >>> best.score is None
    True
    >>> best.score = 7
    >>> best.score
    7
    """

    def __init__(self, inner: Kind | str) -> None:
        self.inner = as_kind(inner)
        if self.inner.tag[0] not in ("value", "text", "blob"):
            raise TypeError(f"optional of kind {self.inner.tag[0]}")
        self.tag = ("optional", self.inner.tag, self.inner.size)
        self.size, self.align = self.inner.size + 1, self.inner.align

    def _validity(self, address: int) -> int:
        return address + self.inner.size

    def read(self, address: int, order: str = "plain") -> Any:
        return self.inner.read(address) if flag.read(self._validity(address)) else None

    def write(self, address: int, value: Any, order: str = "plain") -> None:
        self.write_field(0, address, value)

    def write_field(self, record_address: int, address: int, value: Any) -> None:
        if value is not None:
            self.inner.write_field(record_address, address, value)
        flag.write(self._validity(address), value is not None)


class Place:
    """What a record and an array have in common: an address, and items behind it."""

    __slots__ = ("__weakref__", "_address")

    def _at(self, which: Any) -> tuple[Kind, int]:
        """(kind, address) of an item."""
        raise NotImplementedError

    def __getitem__(self, index: int) -> Any:
        kind, address = self._at(index)
        return kind.read(address)

    def __setitem__(self, index: int, value: Any) -> None:
        kind, address = self._at(index)
        kind.write(address, value)


class array(Kind, Place):
    """As an annotation, `length` items inside the record, or (length 0) any number behind it.
    With an address, the array itself."""

    def __init__(self, item: Any, length: int = 0, address: int = 0) -> None:
        self.item, self._address = as_kind(item), int(address)
        if _holds_text(self.item):
            raise TypeError("an array cannot hold text, which needs a record's heap: use views")
        self.tag = ("array", self.item.tag, self.item.stride)
        self.size, self.align = self.item.stride * length, self.item.align

    @property
    def address(self) -> int:
        return self._address

    @property
    def numba_type(self) -> Address:
        return Address("array", self.tag[2], self.tag[1])

    def bound_to(self, owner: type) -> Kind:
        bound = array(self.item.bound_to(owner))
        bound.size = self.size
        return bound

    def read(self, address: int, order: str = "plain") -> array:
        return array(self.item, address=address)

    def _at(self, which: int) -> tuple[Kind, int]:
        return self.item, self._address + which * self.tag[2]


def as_kind(kind: Any) -> Kind:
    """A kind as it is, by its name, or embedding a record class."""
    if isinstance(kind, RecordClass):
        return embedded(kind)
    kind = KINDS.get(kind, kind) if isinstance(kind, str) else kind
    if not isinstance(kind, Kind):
        raise TypeError(f"{kind!r} is not a kind of field")
    return kind


# ---- records -------------------------------------------------------------------------------


class Field:
    """One field of a record class; reads and writes it on a record."""

    __slots__ = ("kind", "offset")

    def __init__(self, offset: int, kind: Kind) -> None:
        self.offset, self.kind = offset, kind

    def __get__(self, instance: Record | None, owner: type) -> Any:
        return self if instance is None else self.kind.read(instance._address + self.offset)

    def __set__(self, instance: Record, value: Any) -> None:
        address = instance._address
        self.kind.write_field(address, address + self.offset, value)


class RecordClass(type):
    """The class of record classes.  Facts about a record class are properties here and not
    attributes of the class, so that a field may have any name, also `size` or `address`."""

    _fields: dict[str, Field]
    _size: int
    _align: int
    _numba_type: Address

    size = property(lambda cls: cls._size, doc="Bytes of one record.")
    align = property(lambda cls: cls._align)
    fields = property(lambda cls: cls._fields, doc="Fields by name, in order.")
    numba_type = property(lambda cls: cls._numba_type)
    layout_digest = property(
        lambda cls: cls._numba_type.digest,
        doc="Changes with the layout: part of the name of every kernel that uses the record.",
    )
    allocate = property(
        lambda cls: partial(_allocate, cls),
        doc="allocate(count=1, behind=0): zeroed records on a cache line, `behind` bytes after"
        " them; they live as long as the record that is returned.",
    )


class Record(Place, metaclass=RecordClass):
    """An address with named fields behind it."""

    __slots__ = ("_buffer",)

    def __init__(self, address: int) -> None:
        self._address = int(address)

    @property
    def address(self) -> int:
        return self._address

    def _at(self, which: Any) -> tuple[Kind, int]:
        cls = type(self)
        if isinstance(which, str):
            field = cls.fields[which]
            return field.kind, self._address + field.offset
        return embedded(cls), self._address + which * cls.size

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address:#x})"


def _aligned(offset: int, align: int) -> int:
    return -(-offset // align) * align


def _allocate(cls: RecordClass, count: int = 1, behind: int = 0) -> Any:
    buffer = np.zeros(cls.size * count + behind + LINE, np.uint8)
    first = cls(_aligned(buffer.ctypes.data, LINE))
    first._buffer = buffer
    return first


def _key(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def line() -> int:
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
        start = _aligned(end, align)
        fields[name], end, widest = Field(start, kind), start + kind.size, max(widest, align)
    _check_heap(cls, fields)
    body = {name: getattr(cls, name) for name in ("__doc__", "__module__", "__qualname__")}
    made = RecordClass(cls.__name__, (Record,), {**body, **fields, "__slots__": ()})
    made._fields, made._size, made._align = fields, _aligned(end, widest), widest
    layout = tuple((name, field.offset, field.kind.tag) for name, field in fields.items())
    made._numba_type = Address(_key(cls), made.size, ("embedded", _key(cls)), layout)
    classes[_key(cls)] = made
    teach_place(made, made._numba_type)
    return made


def _check_heap(cls: type, fields: dict[str, Field]) -> None:
    """Text is written into a heap, which is found through the record's first field."""
    first = next(iter(fields.items()), None)
    holds_text = any(_holds_text(field.kind) for field in fields.values())
    if holds_text and (first[0] != "heap" or first[1].kind is not i64):
        raise TypeError(f"{cls.__name__} holds text: its first field must be `heap: i64`")


def _holds_text(kind: Kind) -> bool:
    inner = kind.inner if isinstance(kind, optional) else kind
    return inner.tag[0] in ("text", "blob")


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


@typeof_impl.register(Record)
def _typeof_record(value, context):
    return type(value).numba_type


@typeof_impl.register(array)
def _typeof_array(value, context):
    return value.numba_type


# ---- typed memory at an address ------------------------------------------------------------


def _array_of(name: str, kind: Kind) -> Callable[[int], array]:
    def items(address: int) -> array:
        return array(kind, address=address)

    items.__name__ = items.__qualname__ = f"{name}s"
    items.__doc__ = f"The {name} values from an address on: `a[i]`, `a[i] = x`, no bounds."
    teach_place(items, array(kind).numba_type)
    return items


# By the name of the kind.
ARRAYS: dict[str, Callable[[int], array]] = {name: _array_of(name, k) for name, k in KINDS.items()}
i8s, i16s, i32s, i64s = ARRAYS["i8"], ARRAYS["i16"], ARRAYS["i32"], ARRAYS["i64"]
u8s, f32s, f64s, flags = ARRAYS["u8"], ARRAYS["f32"], ARRAYS["f64"], ARRAYS["flag"]


def copy_bytes(target: int, source: int, count: int) -> None:
    """Copy memory from address to address; the two must not overlap."""
    ctypes.memmove(target, source, count)


def _emit_copy(context, b, target, source, count):
    byte = ir.IntType(8).as_pointer()
    cgutils.raw_memcpy(b, b.inttoptr(target, byte), b.inttoptr(source, byte), count, 1)


teach_instruction(copy_bytes, 3, types.none, _emit_copy)


def copy_record(target: Record, source: Record) -> None:
    """Plain copy of all fields between records of one class.

    >>> Door = make_record("Door", [("open", i64)])
    >>> one, other = Door.allocate(), Door.allocate()
    >>> one.open = 1
    >>> copy_record(other, one); other.open
    1
    """
    ctypes.memmove(target._address, source._address, type(target).size)


@type_callable(copy_record)
def _type_copy_record(context):
    def typed(target, source):
        if isinstance(target, Address) and target.layout and target == source:
            return types.none

    return typed


@lower_builtin(copy_record, Address, Address)
def _lower_copy_record(context, b, sig, args):
    cgutils.raw_memcpy(b, args[0], args[1], WORD(sig.args[0].stride), 1)
    return context.get_dummy_value()


# ---- atomics: a Python function each, and its LLVM instruction -----------------------------


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
    teach_atomic(load, 0, lambda b, p: b.load_atomic(p, llvm_order, _width(p)))
    return load


def _storer(name: str, order: str, llvm_order: str) -> Callable[[Any, Any, Any], None]:
    def store(place: Place, which: Any, value: Any) -> None:
        kind, address = place._at(which)
        kind.write(address, value, order)

    store.__name__ = store.__qualname__ = name
    store.__doc__ = f"Atomic {order} store to a record's field or an array's item."
    teach_atomic(
        store, 1, lambda b, p, value: b.store_atomic(value, p, llvm_order, _width(p)), types.none
    )
    return store


load_relaxed = _loader("load_relaxed", "relaxed", "monotonic")
load_acquire = _loader("load_acquire", "acquire", "acquire")
load_sc = _loader("load_sc", "sc", "seq_cst")
store_relaxed = _storer("store_relaxed", "relaxed", "monotonic")
store_release = _storer("store_release", "release", "release")
store_sc = _storer("store_sc", "sc", "seq_cst")


def fetch_add(place: Place, which: Any, value: Any) -> Any:
    """Add atomically; gives the old value.

    >>> counts = make_record("Counts", [("rows", i64)]).allocate()
    >>> fetch_add(counts, "rows", 5), load_acquire(counts, "rows")
    (0, 5)
    """
    kind, address = place._at(which)
    return memory.update(address, kind.ctype, lambda old: kind.encode(old + value))


def exchange(place: Place, which: Any, value: Any) -> Any:
    """Store atomically; gives the old value.

    >>> door = make_record("Door", [("open", i64)]).allocate()
    >>> exchange(door, "open", 1), door.open
    (0, 1)
    """
    kind, address = place._at(which)
    stored = kind.encode(value)
    return kind.decode(memory.update(address, kind.ctype, lambda old: stored))


def cas(place: Place, which: Any, expected: Any, new: Any) -> bool:
    """Compare and swap: did the field hold `expected`, and so now holds `new`?

    >>> door = make_record("Door", [("open", i64)]).allocate()
    >>> cas(door, "open", 0, 1), cas(door, "open", 0, 1)
    (True, False)
    """
    kind, address = place._at(which)
    expected, new = kind.encode(expected), kind.encode(new)
    return memory.update(address, kind.ctype, lambda o: new if o == expected else o) == expected


def _emit_cas(b, pointer, expected, new):
    return b.extract_value(b.cmpxchg(pointer, expected, new, "seq_cst", "acquire"), 1)


def _emit_update(instruction: str) -> Callable:
    return lambda b, pointer, value: b.atomic_rmw(instruction, pointer, value, "seq_cst")


teach_atomic(fetch_add, 1, _emit_update("add"), only_integers=True)
teach_atomic(exchange, 1, _emit_update("xchg"), only_integers=True)
teach_atomic(cas, 2, _emit_cas, types.boolean, only_integers=True)


def pause() -> None:
    """Spin-loop hint."""
    memory.pause()


@lower_builtin(pause)
def _lower_pause(context, b, sig, args):
    # An LLVM intrinsic: inline assembly aborts the process.
    if platform.machine() in ("x86_64", "AMD64"):
        b.call(intrinsic(b, "llvm.x86.sse2.pause", ir.VoidType()), [])
    else:
        hint = ir.IntType(32)
        b.call(intrinsic(b, "llvm.aarch64.hint", ir.VoidType(), hint), [hint(1)])
    return context.get_dummy_value()


type_callable(pause)(lambda context: lambda: types.none)


# ---- two lives -----------------------------------------------------------------------------


def sources_digest(*modules: ModuleType) -> str:
    """A hash of the sources of modules.

    >>> import operator, string
    >>> sources_digest(operator) != sources_digest(operator, string)
    True
    """
    total = hashlib.sha256()
    for module in modules:
        total.update(hashlib.sha256(inspect.getsource(module).encode()).digest())
    return total.hexdigest()[:16]


@cache
def digest() -> str:
    """A hash of the sources of this package, on which compiled kernels depend without Numba's
    disk cache knowing: it belongs in the name of a cache of kernels."""
    return _folder_digest(importlib.resources.files("headrace.stage"))


def _folder_digest(folder: Any) -> str:
    total = hashlib.sha256()
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".py"):
            total.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:16]


@cache
def _stamp(filename: str) -> str:
    """What a function of a file depends on besides the file: this package, and its own if it
    belongs to headrace."""
    folder = Path(filename).resolve().parent
    ours = Path(__file__).resolve().parents[1] in folder.parents
    return digest() + (_folder_digest(folder) if ours else "")


def compiled(function: Callable) -> Any:
    """`njit(nogil=True, cache=True)`, whose disk cache also misses when code of this package has
    changed: Numba itself sees only changes of the function's own file."""
    filename = function.__code__.co_filename
    if not Path(filename).exists():  # typed at a prompt: nothing to cache by
        return njit(nogil=True)(function)
    made = njit(nogil=True, cache=True)(function)
    file = made._cache._cache_file
    file._source_stamp = (file._source_stamp, _stamp(filename))
    return made


def interpreted(function: Callable, **swap: Any) -> Callable:
    """The same code with every compiled function that it calls interpreted too.

    swap: name=value puts another function or value in place of a global, to plant a bug.

    >>> @compiled
    ... def double(x):
    ...     return 2 * x
    >>> @compiled
    ... def twice(x):
    ...     return double(double(x))
    >>> twice(5), interpreted(twice)(5), interpreted(twice, double=lambda x: x)(5)
    (20, 20, 5)
    """
    return _Interpreter(swap).twin(function)


class _Interpreter:
    """Makes interpreted twins, each function once, so that recursion ends."""

    def __init__(self, swap: dict[str, Any]) -> None:
        self.swap, self.twins = swap, {}

    def twin(self, function: Any) -> Callable:
        function = self.swap.get(function.__name__, function)
        function = getattr(function, "py_func", function)
        if not isinstance(function, FunctionType):
            return function
        if function not in self.twins:
            self._make(function)
        return self.twins[function]

    def _make(self, function: FunctionType) -> None:
        world = {"__builtins__": __builtins__, "__name__": function.__module__}
        cells = tuple(CellType() for _ in function.__closure__ or ())
        made = FunctionType(
            function.__code__, world, function.__name__, function.__defaults__, cells or None
        )
        made.__kwdefaults__, made.__doc__ = function.__kwdefaults__, function.__doc__
        self.twins[function] = made
        for name in _names(function.__code__):
            if name in self.swap or name in function.__globals__:
                world[name] = self._value(self.swap.get(name, function.__globals__.get(name)))
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            try:
                cell.cell_contents = self._value(original.cell_contents)
            except ValueError:  # not assigned yet
                continue

    def _value(self, value: Any) -> Any:
        return self.twin(value) if isinstance(value, Dispatcher) else value


def _names(code: CodeType) -> set[str]:
    """The global names that a function and the functions inside it use."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*map(_names, inner))
