"""Fields of records that hold text or bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.typing.templates import signature

from headrace.stage.memory.instructions import WORD
from headrace.stage.memory.kinds import KINDS, Kind, i64
from headrace.stage.memory.record_types import MEANINGS, Meaning
from headrace.stage.strings.heap import Heap
from headrace.stage.strings.text_types import (
    TextType,
    WordsType,
    blob,
    blob_type,
    text,
    text_type,
    words,
)
from headrace.stage.strings.words import View


class WordsKind(Kind):
    """A field of two words.

    Bytes that a write creates go to the record's heap; a Text or Blob is stored as the view it is,
    and who keeps the record longer than the block copies its bytes (`keep_words`)."""

    size, align = View.size, View.align

    def __init__(self, name: str, make: Callable[[int, int], Any]) -> None:
        self.tag, self.make = (name,), make

    def read(self, address: int, order: str = "plain") -> Any:
        view = View(address)
        return self.make(view.head, view.tail)

    def write_field(self, record_address: int, address: int, value: Any) -> None:
        view = View(address)
        view.head, view.tail = words(value, Heap(i64.read(record_address)))


class WordsMeaning(Meaning):
    """The same, compiled."""

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


KINDS["text"], KINDS["blob"] = WordsKind("text", text), WordsKind("blob", blob)
MEANINGS["text"] = WordsMeaning(text_type, types.UnicodeType)
MEANINGS["blob"] = WordsMeaning(blob_type, types.Bytes)
