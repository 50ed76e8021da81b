"""Places: records and arrays, which are an address with named fields or items behind it.

Interpreted, a field is a descriptor of the record's class; compiled, see `record_types`.
"""

from __future__ import annotations

import ctypes
import hashlib
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from headrace.stage.memory.extensions import register_extensions
from headrace.stage.memory.kinds import Kind, Scalar, Tag, aligned, holds_text, kind_named

LINE = 64  # bytes of a cache line
classes: dict[str, Any] = {}  # record key -> record class


@dataclass(frozen=True)
class Shape:
    """What compiled code knows of a record or an array: plain data, from which Numba's type of it
    is made when Numba is needed."""

    key: str  # of the record class
    stride: int
    item: Tag
    layout: tuple = ()  # (name, offset, tag) of each field

    @property
    def digest(self) -> str:
        """Changes with the layout."""
        return _digest(self)

    @property
    def numba_type(self) -> Any:
        """The `Address` of this shape."""
        return _address(self)


@cache
def _digest(shape: Shape) -> str:
    data = repr((shape.key, shape.stride, shape.item, shape.layout))
    return hashlib.sha256(data.encode()).hexdigest()[:12]


@cache
def _address(shape: Shape) -> Any:
    register_extensions()
    from headrace.stage.memory.record_types import Address

    return Address(shape)


class Place:
    """What a record and an array have in common: an address, and items behind it."""

    __slots__ = ("__weakref__", "_address")

    def _at(self, which: Any) -> tuple[Any, int]:
        """(kind, address) of an item."""
        raise NotImplementedError

    def __getitem__(self, index: int) -> Any:
        kind, address = self._at(index)
        return kind.read(address)

    def __setitem__(self, index: int, value: Any) -> None:
        kind, address = self._at(index)
        kind.write(address, value)


# ---- records -------------------------------------------------------------------------------


class Field:
    """One field of a record class; reads and writes it on a record."""

    __slots__ = ("kind", "offset")

    def __init__(self, offset: int, kind: Kind) -> None:
        self.offset, self.kind = offset, kind

    def __get__(self, instance: Record | None, owner: type) -> Any:
        if instance is None:
            return self
        address = instance._address
        return self.kind.read_field(address, address + self.offset)

    def __set__(self, instance: Record, value: Any) -> None:
        address = instance._address
        self.kind.write_field(address, address + self.offset, value)


class RecordClass(type):
    """The class of record classes.  Facts about a record class are properties here and not
    attributes of the class, so that a field may have any name, also `size` or `address`."""

    _fields: dict[str, Field]
    _size: int
    _align: int
    _shape: Shape

    size = property(lambda cls: cls._size, doc="Bytes of one record.")
    align = property(lambda cls: cls._align)
    fields = property(lambda cls: cls._fields, doc="Fields by name, in order.")
    shape = property(lambda cls: cls._shape)
    numba_type = property(lambda cls: cls._shape.numba_type)
    layout_digest = property(
        lambda cls: cls._shape.digest,
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

    def _at(self, which: Any) -> tuple[Any, int]:
        cls: Any = type(self)
        if isinstance(which, str):
            field = cls.fields[which]
            return field.kind, self._address + field.offset
        return embedded(cls), self._address + which * cls.size

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address:#x})"


def _allocate(cls: RecordClass, count: int = 1, behind: int = 0) -> Any:
    buffer = np.zeros(cls.size * count + behind + LINE, np.uint8)
    first = cls(aligned(buffer.ctypes.data, LINE))
    first._buffer = buffer
    return first


def record_key(cls: type) -> str:
    """The name under which a record class is found."""
    return f"{cls.__module__}.{cls.__qualname__}"


# ---- places inside records -----------------------------------------------------------------


class embedded(Kind):
    """A record inside another; what a record class means as an annotation."""

    def __init__(self, target: RecordClass) -> None:
        self.target, self.tag = target, ("embedded", record_key(target))
        self.size, self.align = target.size, target.align

    def read(self, address: int, order: str = "plain") -> Record:
        return self.target(address)


class ref(Scalar):
    """The address of a record, given as a class or, before it exists, by its name."""

    def __init__(self, target: type | str) -> None:
        self.by_name = isinstance(target, str)
        key = target if isinstance(target, str) else record_key(target)
        super().__init__(("ref", key), ctypes.c_int64)

    def bound_to(self, owner: type) -> Kind:
        """A name is looked up where the owner's own name would be."""
        if not self.by_name:
            return self
        bound = ref(owner)
        bound.tag = ("ref", record_key(owner).rpartition(".")[0] + "." + self.tag[1])
        return bound

    def encode(self, value: Record) -> int:
        return value._address

    def decode(self, stored: int) -> Record:
        return classes[self.tag[1]](stored)


class array(Kind, Place):
    """As an annotation, `length` items inside the record, or (length 0) any number behind it.
    With an address, the array itself."""

    def __init__(self, item: Any, length: int = 0, address: int = 0) -> None:
        self.item, self._address = as_kind(item), int(address)
        if holds_text(self.item):
            raise TypeError("an array cannot hold text, which needs a record's heap: use views")
        self.tag = ("array", self.item.tag, self.item.stride)
        self.size, self.align = self.item.stride * length, self.item.align

    @property
    def address(self) -> int:
        return self._address

    @property
    def shape(self) -> Shape:
        return Shape("array", self.tag[2], self.tag[1])

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
    return embedded(kind) if isinstance(kind, RecordClass) else kind_named(kind)
