"""Kinds of fields: how a value lies in memory, and how interpreted code reads and writes it.

Numbers read as int or float whatever they are stored as; an integer that does not fit its field is
refused.  Kinds of records and arrays are in `places`, those of text in `text_fields`.
"""

from __future__ import annotations

import ctypes
import operator
from typing import Any

from headrace.stage.memory import access as memory

Tag = tuple  # plain data that says what a field is, see record_types


def aligned(offset: int, align: int) -> int:
    """The next multiple of `align`.

    >>> aligned(9, 8)
    16
    """
    return -(-offset // align) * align


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

    def read_field(self, record_address: int, address: int) -> Any:
        """Read a field; some kinds need the record that it belongs to."""
        return self.read(address)

    def write(self, address: int, value: Any, order: str = "plain") -> None:
        raise TypeError(f"a field of kind {self.tag[0]} cannot be assigned")

    def write_field(self, record_address: int, address: int, value: Any) -> None:
        """Write a field; some kinds need the record that it belongs to."""
        self.write(address, value)

    @property
    def stride(self) -> int:
        """Bytes from one item of an array to the next."""
        return aligned(self.size, self.align)


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
        return self.decode(memory.current.load(address, self.ctype, order))

    def write(self, address: int, value: Any, order: str = "plain") -> None:
        memory.current.store(address, self.ctype, self.encode(value), order)


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

# Kinds by name; text_fields.py adds "text" and "blob".
KINDS: dict[str, Kind] = {
    "i8": i8, "i16": i16, "i32": i32, "i64": i64, "u8": u8, "f32": f32, "f64": f64, "flag": flag,
}  # fmt: skip


def kind_named(kind: Any) -> Kind:
    """A kind as it is, or by its name.

    >>> kind_named("i64") is i64
    True
    """
    kind = KINDS.get(kind, kind) if isinstance(kind, str) else kind
    if not isinstance(kind, Kind):
        raise TypeError(f"{kind!r} is not a kind of field")
    return kind


class optional(Kind):
    """A value of another kind, or None: the value, then one byte that says whether there is one.

    >>> from headrace.stage.memory.records import make_record
    >>> Best = make_record("Best", [("score", optional(i64))])
    >>> best = Best.allocate()
    >>> best.score is None
    True
    >>> best.score = 7
    >>> best.score
    7
    """

    def __init__(self, inner: Kind | str) -> None:
        self.inner = kind_named(inner)
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


def holds_text(kind: Kind) -> bool:
    """Is it text, bytes or a list, which need a heap?"""
    inner = kind.inner if isinstance(kind, optional) else kind
    return inner.tag[0] in ("text", "blob", "list")
