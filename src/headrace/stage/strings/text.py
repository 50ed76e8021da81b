"""Text and Blob values, with all that user code may do with them.

Generated code handles a string as its two words (see `words`).  A user's function gets a *Text* or
*Blob* (compiled) or a plain `str` or `bytes` (interpreted): `text(head, tail)` and
`blob(head, tail)` make one, `words(value, heap)` takes it apart again.

This is the face of the text modules: who imports it has taught Numba everything in them.
"""

from __future__ import annotations

# Imported for what they teach Numba.
from headrace.stage.strings import (  # noqa: F401
    text_codec,
    text_fields,
    text_methods,
    text_operators,
)
from headrace.stage.strings.heap import Heap, new_heap
from headrace.stage.strings.text_types import (
    BlobType,
    TextType,
    blob,
    blob_type,
    text,
    text_type,
    words,
)
from headrace.stage.strings.words import View, views

__all__ = [
    "BlobType",
    "Heap",
    "TextType",
    "View",
    "blob",
    "blob_type",
    "new_heap",
    "text",
    "text_type",
    "views",
    "words",
]  # fmt: skip
