"""Numba's side of `bounded`: lists in a state, in compiled functions."""

from __future__ import annotations

import operator
from typing import Any

from numba import types
from numba.extending import (
    make_attribute_wrapper,
    models,
    overload,
    overload_method,
    register_jitable,
    register_model,
)

from headrace.stage.memory.arithmetic import float_bits
from headrace.stage.memory.instructions import WORD
from headrace.stage.memory.numba_internals import TypingError, cgutils, lower_builtin, signature
from headrace.stage.memory.record_types import MEANINGS, Meaning
from headrace.stage.strings.heap import Heap
from headrace.stage.strings.text_types import BlobType, TextType
from headrace.stage.strings.text_values import words
from headrace.stage.strings.words import View

from .bounded import NO_ITEM, append_number, append_words, bytes_of, clear_list, drop_first
from .item_types import ItemsIterator, ItemsType, begin_items, item_getter, item_reader, item_width
from .items import ITEMS, item_address, item_count, item_length, list_address
from .support import present

FITTING = {
    "bool": types.Boolean,
    "float64": types.Integer | types.Float,
    "string": TextType | types.UnicodeType | types.StringLiteral,
    "binary": BlobType | types.Bytes,
}


class BoundedType(types.IterableType):
    """A list of a state: where its words and the heap for changes are."""

    def __init__(self, code: int, most: int, fails: bool) -> None:
        self.items, self.most, self.fails = ItemsType(code), most, fails
        super().__init__(f"BoundedList({ITEMS[code // 2]}, {most}{' or fail' * fails})")

    @property
    def iterator_type(self) -> types.Type:
        """What a loop keeps: of the items that were there when it began."""
        return ItemsIterator(self.items)


@register_model(BoundedType)
class _BoundedModel(models.StructModel):
    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type, [("words_at", types.int64), ("heap", types.int64)])


make_attribute_wrapper(BoundedType, "words_at", "words_at")
make_attribute_wrapper(BoundedType, "heap", "heap")


class BoundedMeaning(Meaning):
    """A field that holds a list, see `bounded.BoundedKind`."""

    def value_type(self, tag):
        return BoundedType(*tag[1:])

    def load_field(self, context, b, tag, pointer, owner):
        made = cgutils.create_struct_proxy(self.value_type(tag))(context, b)
        made.words_at = b.ptrtoint(pointer, WORD)
        made.heap = b.load(b.bitcast(owner, WORD.as_pointer()))  # the first field
        return made._getvalue()


MEANINGS["list"] = BoundedMeaning()


@overload(len)
def _len(x):
    if isinstance(x, BoundedType):
        return lambda x: item_count(bytes_of(x.words_at))


@overload(operator.getitem)
def _getitem(x, k):
    if not isinstance(x, BoundedType) or not isinstance(k, types.Integer):
        return None
    get = item_getter(x.items)
    return lambda x, k: get(bytes_of(x.words_at), k)


def _snapshot(view, heap):
    """The items as they are now, which stay so whatever a function does with the list."""
    found = View(view)
    return list_address(found.head, found.tail, Heap(heap))


@lower_builtin("getiter", BoundedType)
def _begin(context, b, sig, args):
    source = cgutils.create_struct_proxy(sig.args[0])(context, b, value=args[0])
    whole = signature(types.int64, types.int64, types.int64)
    address = context.compile_internal(b, _snapshot, whole, [source.words_at, source.heap])
    return begin_items(context, b, sig.return_type, address)


@overload_method(BoundedType, "append")
def _append(x, value):
    if not isinstance(value, types.Optional):
        return _appending(x, value)
    append_value = register_jitable(_appending(x, value.type))

    def append(x, value):
        if value is None:
            raise ValueError(NO_ITEM)
        append_value(x, present(value))

    return append


def _appending(x: BoundedType, value: types.Type) -> Any:
    """The method for items that are not None."""
    item, most, fails = ITEMS[x.items.code // 2], x.most, x.fails
    if not isinstance(value, FITTING.get(item, types.Integer)):
        raise TypingError(f"a list of {item} cannot have an item of type {value}")
    width = item_width(x.items)
    if width == 0:

        def append(x, value):
            head, tail = words(value, Heap(x.heap))
            append_words(x.words_at, x.heap, head, tail, most, fails)

    elif item == "float64":

        def append(x, value):
            append_number(x.words_at, x.heap, float_bits(float(value)), width, most, fails)

    else:

        def append(x, value):
            append_number(x.words_at, x.heap, int(value), width, most, fails)

    return append


@overload_method(BoundedType, "popleft")
def _popleft(x):
    read, width = item_reader(x.items), item_width(x.items)

    def popleft(x):
        address = bytes_of(x.words_at)
        if item_count(address) == 0:
            raise IndexError("pop from an empty list")
        made = read(item_address(address, 0, width), item_length(address, 0))
        drop_first(x.words_at, x.heap)
        return made

    return popleft


@overload_method(BoundedType, "clear")
def _clear(x):
    return lambda x: clear_list(x.words_at)
