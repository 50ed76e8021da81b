"""Text and Blob: what a user's function gets for a string in compiled code, two words."""

from __future__ import annotations

from collections.abc import Callable

from numba import types
from numba.extending import (
    box,
    lower_builtin,
    make_attribute_wrapper,
    models,
    register_model,
    type_callable,
)

from headrace.stage.memory.instructions import BYTE, BYTES, WORD, intrinsic
from headrace.stage.memory.numba_internals import Conversion, cgutils, signature
from headrace.stage.strings.text_values import blob, text
from headrace.stage.strings.words import LENGTH_MASK, PREFIX, SHORT


class WordsType(types.Hashable):
    """A value of two words in compiled code."""


class TextType(WordsType, types.IterableType):
    """A string in compiled code; `str(x)` makes a Numba str of it."""

    def __init__(self) -> None:
        super().__init__("Text")

    @property
    def iterator_type(self):
        return types.unicode_type.iterator_type

    # A cast cannot own what it makes (Numba would leak it), so Text never becomes a Numba str by
    # itself: users write str(x).  A literal's bytes lie in the code, and it does become a Text.

    def can_convert_from(self, typingctx, other):
        if isinstance(other, types.StringLiteral):
            return Conversion.safe

    def unify(self, typingctx, other):
        if isinstance(other, types.StringLiteral):
            return self


class BlobType(WordsType):
    """Bytes in compiled code."""

    def __init__(self) -> None:
        super().__init__("Blob")


text_type, blob_type = TextType(), BlobType()


@register_model(TextType)
@register_model(BlobType)
class WordsModel(models.StructModel):
    """The two words."""

    def __init__(self, manager, numba_type):
        super().__init__(manager, numba_type, [("head", types.int64), ("tail", types.int64)])


for _class in (TextType, BlobType):
    make_attribute_wrapper(_class, "head", "head")
    make_attribute_wrapper(_class, "tail", "tail")


def _register_maker(function: Callable, result: WordsType) -> None:
    @type_callable(function)
    def type_maker(context):
        def typed(head, tail):
            if isinstance(head, types.Integer) and isinstance(tail, types.Integer):
                return signature(result, types.int64, types.int64)

        return typed

    @lower_builtin(function, types.int64, types.int64)
    def lower_maker(context, b, sig, args):
        made = cgutils.create_struct_proxy(result)(context, b)
        made.head, made.tail = args
        return made._getvalue()


_register_maker(text, text_type)
_register_maker(blob, blob_type)


@box(TextType)
@box(BlobType)
def _box_words(typ, value, c):
    b = c.builder
    made = cgutils.create_struct_proxy(typ)(c.context, b, value=value)
    count = b.and_(made.head, WORD(LENGTH_MASK))
    inside = b.gep(b.bitcast(made._getpointer(), BYTES), [WORD(PREFIX)], source_etype=BYTE)
    is_short = b.icmp_unsigned("<=", count, WORD(SHORT))
    start = b.select(is_short, inside, b.inttoptr(made.tail, BYTES))
    # Numba's own string_from_string_and_size calls a function of Python 2.
    name = "PyUnicode" if isinstance(typ, TextType) else "PyBytes"
    make = intrinsic(b, f"{name}_FromStringAndSize", c.pyapi.pyobj, BYTES, WORD)
    return b.call(make, [start, count])
