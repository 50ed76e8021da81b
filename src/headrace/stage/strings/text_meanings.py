"""Fields of records that hold text or bytes, in compiled code."""

from __future__ import annotations

from llvmlite import ir
from numba import types

from headrace.stage.memory.instructions import WORD
from headrace.stage.memory.numba_internals import signature
from headrace.stage.memory.record_types import MEANINGS, Meaning
from headrace.stage.strings.heap import Heap
from headrace.stage.strings.text_types import TextType, WordsType, blob_type, text_type
from headrace.stage.strings.text_values import blob, text, words


class WordsMeaning(Meaning):
    """A field of two words, see `text_fields.WordsKind`."""

    def __init__(self, own: WordsType, other: type[types.Type]) -> None:
        self.own, self.other = own, other

    def value_type(self, tag):
        return self.own

    def accepts(self, tag, given):
        given = given.type if isinstance(given, types.Optional) else given
        given = types.unliteral(given)
        return given if given == self.own or isinstance(given, self.other) else None

    def _cell(self, b, pointer):
        return b.bitcast(pointer, ir.LiteralStructType([WORD, WORD]).as_pointer())

    def load(self, context, b, tag, pointer):
        return b.load(self._cell(b, pointer))

    def store(self, context, b, tag, pointer, value, given, owner):
        if given != self.own:
            value = self._created(context, b, value, given, owner)
        b.store(value, self._cell(b, pointer))

    def _created(self, context, b, value, given, owner):
        heap = b.load(b.bitcast(owner, WORD.as_pointer()))  # the first field, checked in records
        make = text if isinstance(self.own, TextType) else blob

        def create(value, heap):
            head, tail = words(value, Heap(heap))
            return make(head, tail)

        return context.compile_internal(
            b, create, signature(self.own, given, types.int64), [value, heap]
        )


MEANINGS["text"] = WordsMeaning(text_type, types.UnicodeType)
MEANINGS["blob"] = WordsMeaning(blob_type, types.Bytes)
