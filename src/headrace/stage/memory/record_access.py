"""What compiled code does with a record or an array: `record.field`, `array[i]`, making one of an
address, and passing it to and from Python.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from numba import types
from numba.extending import NativeValue, box, infer_getattr, type_callable, typeof_impl, unbox

from headrace.stage.memory.instructions import BYTES, WORD
from headrace.stage.memory.numba_internals import (
    AttributeTemplate,
    BaseContext,
    TypingError,
    cgutils,
    lower_builtin,
    lower_getattr_generic,
    lower_setattr_generic,
    signature,
)
from headrace.stage.memory.places import Record, Shape, array, classes
from headrace.stage.memory.record_types import Address, meaning

WORD_BYTES = WORD.width // 8
COPIED_BY_WORDS = 64  # bytes of a record, at most

# ---- fields --------------------------------------------------------------------------------


@infer_getattr
class Attributes(AttributeTemplate):
    """The types of `record.field` and `record.address`."""

    key = Address

    def generic_resolve(self, typ, name):
        found = typ.type_of(name)
        return types.intp if found is None and name == "address" else found


@lower_getattr_generic(Address)
def _getattr(context, b, typ, base, name):
    found = typ.find(name)
    if found is None:
        return b.ptrtoint(base, WORD)
    pointer = typ.pointer(context, b, base, name)
    return meaning(found[0]).load_field(context, b, found[0], pointer, owner=base)


@lower_setattr_generic(Address)
def _setattr(context, b, sig, args, name):
    typ, given = sig.args
    tag, _ = typ.find(name)
    pointer = typ.pointer(context, b, args[0], name)
    meaning(tag).store(context, b, tag, pointer, args[1], given, owner=args[0])


def _show_assigned_types() -> None:
    """Numba types `x.field = value` by the field's type alone and converts the value to it, which
    would silently cut 1.5 to 1 and cannot turn a str into bytes of a heap.  A record decides by
    the type of the value."""
    if hasattr(BaseContext, "headrace_resolve_setattr"):  # the module was loaded again
        original = BaseContext.headrace_resolve_setattr
    else:
        original = BaseContext.headrace_resolve_setattr = BaseContext.resolve_setattr

    def resolve_setattr(self, target, attr, value):
        if not isinstance(target, Address):
            return original(self, target, attr, value)
        accepted = target.accepted(attr, value)
        if accepted is None:
            known = target.type_of(attr)
            raise TypingError(
                f"cannot assign {value} to the field {attr!r} of {target.record_key}"
                + (f", which holds {known}" if known else ": there is no such field")
            )
        return signature(types.void, target, accepted)

    BaseContext.resolve_setattr = resolve_setattr


_show_assigned_types()


# ---- items ---------------------------------------------------------------------------------


def _register_items() -> None:
    """Numba: place[index] and place[index] = value."""

    @type_callable(operator.getitem)
    def type_getitem(context):
        def typed(base, index):
            if isinstance(base, Address) and isinstance(index, types.Integer):
                return signature(base.type_of(index), base, index)

        return typed

    @type_callable(operator.setitem)
    def type_setitem(context):
        def typed(base, index, value):
            if isinstance(base, Address) and isinstance(index, types.Integer):
                accepted = base.accepted(index, value)
                return accepted and signature(types.none, base, index, accepted)

        return typed

    @lower_builtin(operator.getitem, Address, types.Integer)
    def lower_getitem(context, b, sig, args):
        typ, index = sig.args
        pointer = typ.pointer(context, b, args[0], index, args[1])
        return meaning(typ.item).load(context, b, typ.item, pointer)

    @lower_builtin(operator.setitem, Address, types.Integer, types.Any)
    def lower_setitem(context, b, sig, args):
        typ, index, given = sig.args
        pointer = typ.pointer(context, b, args[0], index, args[1])
        meaning(typ.item).store(context, b, typ.item, pointer, args[2], given, owner=args[0])
        return context.get_dummy_value()


_register_items()


# ---- from an address, from and to Python ---------------------------------------------------


def register_place(function: Callable, shape: Shape) -> None:
    """Numba: function(integer address) gives a place of this shape."""
    typ = shape.numba_type

    @type_callable(function)
    def type_place(context):
        return lambda address: typ if isinstance(address, types.Integer) else None

    @lower_builtin(function, types.Integer)
    def lower_place(context, b, sig, args):
        return b.inttoptr(context.cast(b, args[0], sig.args[0], types.intp), BYTES)


@typeof_impl.register(Record)
def _typeof_record(value, context):
    return type(value).numba_type


@typeof_impl.register(array)
def _typeof_array(value, context):
    return value.shape.numba_type


@unbox(Address)
def _unbox(typ, obj, c):
    address = c.pyapi.object_getattr_string(obj, "_address")
    native = c.unbox(types.intp, address)
    c.pyapi.decref(address)
    return NativeValue(c.builder.inttoptr(native.value, BYTES), is_error=native.is_error)


def _boxed(key: str, address: int):
    return classes[key](address)


@box(Address)
def _box(typ, value, c):
    make = c.pyapi.unserialize(c.pyapi.serialize_object(_boxed))
    key = c.pyapi.unserialize(c.pyapi.serialize_object(typ.record_key))
    address = c.box(types.intp, c.builder.ptrtoint(value, WORD))
    made = c.pyapi.call_function_objargs(make, [key, address])
    for used in (make, key, address):
        c.pyapi.decref(used)
    return made


# ---- copying -------------------------------------------------------------------------------


def register_copy(function: Callable) -> None:
    """Numba: function(target, source) copies a record."""

    @type_callable(function)
    def type_copy(context):
        def typed(target, source):
            if isinstance(target, Address) and target.layout and target == source:
                return types.none

        return typed

    @lower_builtin(function, Address, Address)
    def lower_copy(context, b, sig, args):
        size = sig.args[0].stride
        if size % WORD_BYTES or size > COPIED_BY_WORDS:
            cgutils.raw_memcpy(b, args[0], args[1], WORD(size), 1)
            return context.get_dummy_value()
        target, source = (b.bitcast(address, WORD.as_pointer()) for address in args)
        for at in range(size // WORD_BYTES):
            # Unordered, so that LLVM does not make one wide load of several: a load waits for the
            # stores before it where it is wider than they are, and fields were just written.
            place, to = (b.gep(each, [WORD(at)], source_etype=WORD) for each in (source, target))
            b.store(b.load_atomic(place, "unordered", WORD_BYTES), to)
        return context.get_dummy_value()
