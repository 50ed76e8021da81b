"""Lists in users' compiled functions: `len(x)`, `x[k]` and `for y in x`, over bytes as they lie."""

from __future__ import annotations

import operator
from typing import Any

from numba import types
from numba.extending import (
    make_attribute_wrapper,
    models,
    overload,
    register_jitable,
    register_model,
    type_callable,
)

from headrace.stage.memory.instructions import WORD
from headrace.stage.memory.numba_internals import (
    RefType,
    cgutils,
    iternext_impl,
    lower_builtin,
    signature,
)
from headrace.stage.strings.text_types import blob_type, text_type

from .items import ITEMS, READERS, WIDTHS, first_item, item_address, item_count, item_length, items


class ItemsType(types.IterableType):
    """A list of items of one type, which may be null."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(f"List({ITEMS[code // 2]}{' or None' * (code % 2)})")

    @property
    def item(self) -> types.Type:
        """What a function gets for an item."""
        name = ITEMS[self.code // 2]
        special = {"bool": types.boolean, "string": text_type, "binary": blob_type}
        kind = special.get(name, types.float64 if name.startswith("float") else types.int64)
        return types.Optional(kind) if self.code % 2 else kind

    @property
    def iterator_type(self) -> types.Type:
        """What a loop keeps."""
        return ItemsIterator(self)


class ItemsIterator(types.SimpleIteratorType):
    """A place in a list, and where its item lies."""

    def __init__(self, source: ItemsType) -> None:
        self.source = source
        super().__init__(f"iterator of {source}", source.item)


@register_model(ItemsType)
class _ItemsModel(models.StructModel):
    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type, [("address", types.int64)])


@register_model(ItemsIterator)
class _IteratorModel(models.StructModel):
    def __init__(self, manager: Any, numba_type: Any) -> None:
        moving = types.EphemeralPointer(types.int64)
        members = [("address", types.int64), ("place", moving), ("at", moving)]
        super().__init__(manager, numba_type, members)


make_attribute_wrapper(ItemsType, "address", "address")


@type_callable(items)
def _type_items(context):
    def typed(address, code):
        if isinstance(code, types.IntegerLiteral):
            return signature(ItemsType(code.literal_value), types.int64, code)

    return typed


@lower_builtin(items, types.int64, types.IntegerLiteral)
def _lower_items(context, b, sig, args):
    made = cgutils.create_struct_proxy(sig.return_type)(context, b)
    made.address = args[0]
    return made._getvalue()


def item_reader(kind: ItemsType) -> Any:
    """A function that gives the item at an address, by its length."""
    read = READERS[ITEMS[kind.code // 2]]
    if kind.code % 2 == 0:
        return read

    @register_jitable
    def read_optional(address, length):
        if length < 0:
            return None
        return read(address, length)

    return read_optional


def _plain_reader(kind: ItemsType) -> Any:
    """The same as a function of Python."""
    read = item_reader(kind)
    return lambda address, length: read(address, length)


def item_width(kind: ItemsType) -> int:
    """The bytes of every item; 0 where they differ."""
    return 0 if kind.code % 2 else WIDTHS[ITEMS[kind.code // 2]]


def _first(address):
    return first_item(address)


def _count(address):
    return item_count(address)


def _length(address, place):
    return item_length(address, place)


@overload(len)
def _len(x):
    if isinstance(x, ItemsType):
        return lambda x: item_count(x.address)


@overload(operator.getitem)
def _getitem(x, k):
    if not isinstance(x, ItemsType) or not isinstance(k, types.Integer):
        return None
    get = item_getter(x)
    return lambda x, k: get(x.address, k)


def item_getter(kind: ItemsType) -> Any:
    """A function that gives an item of the list at an address."""
    read, width = item_reader(kind), item_width(kind)

    @register_jitable
    def get(address, k):
        count = item_count(address)
        place = k + count if k < 0 else k
        if place < 0 or place >= count:
            raise IndexError("list index out of range")
        return read(item_address(address, place, width), item_length(address, place))

    return get


@lower_builtin("getiter", ItemsType)
def _begin(context, b, sig, args):
    source = cgutils.create_struct_proxy(sig.args[0])(context, b, value=args[0])
    return begin_items(context, b, sig.return_type, source.address)


def begin_items(context: Any, b: Any, kind: ItemsIterator, address: Any) -> Any:
    """A loop over the items of the list at an address."""
    made = cgutils.create_struct_proxy(kind)(context, b)
    first = context.compile_internal(b, _first, signature(types.int64, types.int64), [address])
    made.address = address
    made.place = cgutils.alloca_once_value(b, WORD(0))
    made.at = cgutils.alloca_once_value(b, first)
    return made._getvalue()


@lower_builtin("iternext", ItemsIterator)
@iternext_impl(RefType.UNTRACKED)
def _next(context, b, sig, args, result):
    (kind,) = sig.args
    whole = signature(types.int64, types.int64)
    made = cgutils.create_struct_proxy(kind)(context, b, value=args[0])
    place, at = b.load(made.place), b.load(made.at)
    count = context.compile_internal(b, _count, whole, [made.address])
    goes_on = b.icmp_signed("<", place, count)
    result.set_valid(goes_on)
    with b.if_then(goes_on):
        two = signature(types.int64, types.int64, types.int64)
        length = context.compile_internal(b, _length, two, [made.address, place])
        read = signature(kind.yield_type, types.int64, types.int64)
        result.yield_(context.compile_internal(b, _plain_reader(kind.source), read, [at, length]))
        b.store(b.add(place, WORD(1)), made.place)
        there = b.select(b.icmp_signed(">", length, WORD(0)), length, WORD(0))
        b.store(b.add(at, there), made.at)
