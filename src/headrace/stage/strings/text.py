"""Text and Blob values, with all that user code may do with them.

Generated code handles a string as its two words (see `words`).  A user's function gets a *Text* or
*Blob* (compiled) or a plain `str` or `bytes` (interpreted): `text(head, tail)` and
`blob(head, tail)` make one, `words(value, heap)` takes it apart again.

This is the face of the text modules: who imports it has Numba taught everything in them.
"""

from __future__ import annotations

from headrace.stage.memory.extensions import extension
from headrace.stage.strings import text_fields  # noqa: F401, for the kinds of fields that it adds
from headrace.stage.strings.heap import Heap, new_heap
from headrace.stage.strings.text_values import blob, text, words
from headrace.stage.strings.words import View, views

__all__ = [
    "Heap",
    "View",
    "blob",
    "new_heap",
    "text",
    "views",
    "words",
]  # fmt: skip


@extension
def _register() -> None:
    from headrace.stage.strings import (  # noqa: F401
        text_codec,
        text_formats,
        text_meanings,
        text_methods,
        text_numbers,
        text_operators,
    )
