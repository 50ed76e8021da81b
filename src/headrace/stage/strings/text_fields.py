"""Fields of records that hold text or bytes, interpreted; compiled, see `text_meanings`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.stage.memory.kinds import KINDS, Kind, i64
from headrace.stage.strings.heap import Heap
from headrace.stage.strings.text_values import blob, text, words
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


KINDS["text"], KINDS["blob"] = WordsKind("text", text), WordsKind("blob", blob)
