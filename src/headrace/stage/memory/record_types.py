"""The Numba type of records and arrays: one pointer, with fields and items at constant offsets.

What lies at a place is told by a *tag*, plain data that can be hashed and pickled:

    ("value", stored)            a number or flag, `stored` names the Numba type it is stored as
    ("ref", record key)          a stored address that reads as a record
    ("embedded", record key)     a record inside this one
    ("array", item tag, stride)  items, one behind the other
    ("optional", tag, offset)    a value, and one byte at `offset` behind it: is there a value?

`MEANINGS` says for the first word of a tag how such a place is typed, read and written; other
modules may add theirs (`text_fields.py` adds "text" and "blob").

Narrow numbers are widened when they are read (to int64 or float64), so that arithmetic gives the
same results as in plain Python.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import models, register_model

from headrace.stage.memory.instructions import BYTE, BYTES, WORD
from headrace.stage.memory.kinds import Tag
from headrace.stage.memory.places import Shape, classes


class Address(types.Type):
    """Of a record or an array.

    Plain data, layout included: it pickles, and a changed layout misses Numba's disk cache.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape, self.record_key = shape, shape.key
        self.stride, self.item, self.layout = shape.stride, shape.item, shape.layout
        super().__init__(f"{shape.key.rpartition('.')[2]}.{shape.digest}")

    def find(self, which: Any) -> tuple[Tag, int | None] | None:
        """(tag, offset) of a field by name, (tag, None) of an item by index, or None."""
        if isinstance(which, types.Integer):
            return self.item, None
        name = getattr(which, "literal_value", which)
        return next(((tag, at) for field, at, tag in self.layout if field == name), None)

    def type_of(self, which: Any) -> types.Type | None:
        """The Numba type of what is read there."""
        found = self.find(which)
        return meaning(found[0]).value_type(found[0]) if found else None

    def accepted(self, which: Any, given: types.Type) -> types.Type | None:
        """The Numba type to which a value must be converted to be written there."""
        found = self.find(which)
        return meaning(found[0]).accepts(found[0], given) if found else None

    def pointer(self, context, b, base, which, index=None):
        """An LLVM byte pointer to a field or an item."""
        _, offset = self.find(which)
        if offset is not None:
            return b.gep(base, [WORD(offset)], inbounds=True, source_etype=BYTE)
        item = ir.ArrayType(BYTE, self.stride)
        index = context.cast(b, index, which, types.intp)
        start = b.bitcast(base, item.as_pointer())
        return b.bitcast(b.gep(start, [index], inbounds=True, source_etype=item), BYTES)


@register_model(Address)
class AddressModel(models.PrimitiveModel):
    """A byte pointer."""

    def __init__(self, manager, numba_type):
        super().__init__(manager, numba_type, BYTES)


# ---- what tags mean ------------------------------------------------------------------------


class Meaning:
    """How a kind of place is typed, read and written in compiled code."""

    def value_type(self, tag: Tag) -> types.Type:
        raise NotImplementedError

    def accepts(self, tag: Tag, given: types.Type) -> types.Type | None:
        """None: a value of this type cannot be written."""
        return None

    def load(self, context, b, tag, pointer):
        raise NotImplementedError

    def load_field(self, context, b, tag, pointer, owner):
        """`owner` points to the record whose field this is."""
        return self.load(context, b, tag, pointer)

    def store(self, context, b, tag, pointer, value, given, owner):
        """`owner` points to the record whose field this is."""
        raise NotImplementedError


class Cell(Meaning):
    """A place of one machine word or less: what atomics work on."""

    def stored_type(self, tag: Tag) -> ir.Type:
        raise NotImplementedError

    def from_stored(self, b, tag, raw):
        return raw

    def to_stored(self, b, tag, value):
        return value

    def cell(self, b, tag, pointer):
        return b.bitcast(pointer, self.stored_type(tag).as_pointer())

    def load(self, context, b, tag, pointer):
        return self.from_stored(b, tag, b.load(self.cell(b, tag, pointer)))

    def store(self, context, b, tag, pointer, value, given, owner):
        b.store(self.to_stored(b, tag, value), self.cell(b, tag, pointer))


class Value(Cell):
    """Numbers and flags."""

    def value_type(self, tag):
        stored = getattr(types, tag[1])
        if isinstance(stored, types.Integer):
            return types.int64
        return types.float64 if isinstance(stored, types.Float) else types.boolean

    def accepts(self, tag, given):
        target = self.value_type(tag)
        given = given.type if isinstance(given, types.Optional) else given
        allowed = (types.Integer, types.Boolean)
        if target == types.float64:
            allowed += (types.Float,)
        return target if isinstance(given, allowed) else None

    def stored_type(self, tag):
        stored = getattr(types, tag[1])
        if isinstance(stored, types.Float):
            return ir.FloatType() if stored.bitwidth == 32 else ir.DoubleType()
        return ir.IntType(getattr(stored, "bitwidth", 8))  # a flag is one byte

    def from_stored(self, b, tag, raw):
        stored = getattr(types, tag[1])
        if isinstance(stored, types.Float):
            return b.fpext(raw, ir.DoubleType()) if stored.bitwidth == 32 else raw
        if isinstance(stored, types.Boolean):
            return b.icmp_unsigned("!=", raw, raw.type(0))
        if stored.bitwidth == 64:
            return raw
        return b.sext(raw, WORD) if stored.signed else b.zext(raw, WORD)

    def to_stored(self, b, tag, value):
        target = self.stored_type(tag)
        if value.type == target:
            return value
        if isinstance(target, ir.FloatType):
            return b.fptrunc(value, target)
        return b.trunc(value, target) if value.type.width > target.width else b.zext(value, target)


class Ref(Cell):
    """A stored address that reads as a record."""

    def value_type(self, tag):
        return classes[tag[1]].numba_type

    def accepts(self, tag, given):
        return given if given == self.value_type(tag) else None

    def stored_type(self, tag):
        return BYTES


class Inside(Meaning):
    """A record or array that lies at the place itself: reading it gives its address."""

    def load(self, context, b, tag, pointer):
        return pointer


class Embedded(Inside):
    """A record inside a record."""

    def value_type(self, tag):
        return classes[tag[1]].numba_type


class Array(Inside):
    """Items, one behind the other."""

    def value_type(self, tag):
        return Address(Shape("array", tag[2], tag[1]))


class OptionalValue(Meaning):
    """A value of another kind and one byte that says whether there is one."""

    def value_type(self, tag):
        return types.Optional(meaning(tag[1]).value_type(tag[1]))

    def accepts(self, tag, given):
        if given == types.none:
            return types.none
        inner = given.type if isinstance(given, types.Optional) else given
        accepted = meaning(tag[1]).accepts(tag[1], inner)
        if accepted and isinstance(given, types.Optional):
            return types.Optional(accepted)
        return accepted

    def _validity(self, b, tag, pointer):
        return b.gep(pointer, [WORD(tag[2])], inbounds=True, source_etype=BYTE)

    def load(self, context, b, tag, pointer):
        result = context.make_helper(b, self.value_type(tag))
        valid = b.load(self._validity(b, tag, pointer))
        result.valid = b.icmp_unsigned("!=", valid, BYTE(0))
        result.data = meaning(tag[1]).load(context, b, tag[1], pointer)
        return result._getvalue()

    def store(self, context, b, tag, pointer, value, given, owner):
        validity = self._validity(b, tag, pointer)
        if given == types.none:
            b.store(BYTE(0), validity)
            return
        inner = meaning(tag[1])
        if not isinstance(given, types.Optional):
            b.store(BYTE(1), validity)
            inner.store(context, b, tag[1], pointer, value, given, owner)
            return
        source = context.make_helper(b, given, value)
        b.store(b.zext(source.valid, BYTE), validity)
        with b.if_then(source.valid):
            inner.store(context, b, tag[1], pointer, source.data, given.type, owner)


MEANINGS: dict[str, Meaning] = {
    "value": Value(),
    "ref": Ref(),
    "embedded": Embedded(),
    "array": Array(),
    "optional": OptionalValue(),
}


def meaning(tag: Tag) -> Meaning:
    return MEANINGS[tag[0]]
