"""Every name that generated kernels use, in both lives."""

from __future__ import annotations

from functools import cache
from math import inf as INFINITY
from math import nan as NAN
from typing import Any

from .ahead import Ahead, look_ahead
from .blocks.layout import BlockRecord
from .marks import copies_marks, may_mark
from .memory.arithmetic import (
    HIGHEST,
    LOWEST,
    absolute,
    add,
    float_floor_divide,
    float_less,
    float_order,
    float_remainder,
    float_to_int,
    floor_divide,
    multiply,
    narrow,
    negate,
    remainder,
    subtract,
    to_float32,
    true_divide,
)
from .memory.lives import is_compiled
from .memory.records import (
    compiled,
    copy_record,
    f32s,
    f64s,
    flags,
    i8s,
    i16s,
    i32s,
    i64s,
    interpreted,
    make_record,
)
from .panes import Panes, find_pane
from .room import begin_compaction, end_compaction, make_room, wants_compaction
from .store import (
    NO_WINDOW,
    NUMBER_SHIFT,
    TAG,
    Store,
    add_number,
    changed_bytes,
    entry_address,
    entry_at,
    first_slot,
    is_full,
    keep_changed,
    kept_bytes,
    key_group,
    lacks_bytes,
    note_change,
    number_in,
    prefetch_entry,
    prefetch_slot,
)
from .strings.hashing import combine, hash_float, hash_int, hash_words
from .strings.heap import Heap, empty_heap, has_overflown
from .strings.letter_case import lower_words, upper_words
from .strings.text import blob, text, words
from .strings.words import (
    char_length,
    compare_words,
    concat_words,
    contains_words,
    ends_with_words,
    equal_words,
    keep_words,
    order_prefix,
    starts_with_words,
    views,
)
from .support import frame_bytes, maybe, only, present, resume, suspend
from .task import (
    BEFORE_COMMIT,
    CONSUMED,
    IN_ROW,
    NEED_MEMORY,
    NOT_SELECTED,
    OUTPUT_FULL,
    RUNNING,
    Task,
    window_start,
)

NULL_HASH = 0x51ED270B27B4A3C5  # of a key that is null

__all__ = [
    "BEFORE_COMMIT",
    "CONSUMED",
    "HIGHEST",
    "INFINITY",
    "IN_ROW",
    "LOWEST",
    "NAN",
    "NEED_MEMORY",
    "NOT_SELECTED",
    "NO_WINDOW",
    "NULL_HASH",
    "NUMBER_SHIFT",
    "OUTPUT_FULL",
    "RUNNING",
    "TAG",
    "Ahead",
    "BlockRecord",
    "Heap",
    "Panes",
    "Store",
    "Task",
    "absolute",
    "add",
    "add_number",
    "begin_compaction",
    "blob",
    "changed_bytes",
    "char_length",
    "combine",
    "compare_words",
    "compiled",
    "concat_words",
    "contains_words",
    "copies_marks",
    "copy_record",
    "empty_heap",
    "end_compaction",
    "ends_with_words",
    "entry_address",
    "entry_at",
    "equal_words",
    "f32s",
    "f64s",
    "find_pane",
    "first_slot",
    "flags",
    "float_floor_divide",
    "float_less",
    "float_order",
    "float_remainder",
    "float_to_int",
    "floor_divide",
    "frame_bytes",
    "has_overflown",
    "hash_float",
    "hash_int",
    "hash_words",
    "i8s",
    "i16s",
    "i32s",
    "i64s",
    "is_full",
    "keep_changed",
    "keep_words",
    "kept_bytes",
    "key_group",
    "lacks_bytes",
    "look_ahead",
    "lower_words",
    "make_record",
    "make_room",
    "may_mark",
    "maybe",
    "multiply",
    "narrow",
    "negate",
    "note_change",
    "number_in",
    "only",
    "order_prefix",
    "prefetch_entry",
    "prefetch_slot",
    "present",
    "remainder",
    "resume",
    "starts_with_words",
    "subtract",
    "suspend",
    "text",
    "to_float32",
    "true_divide",
    "upper_words",
    "views",
    "wants_compaction",
    "window_start",
    "words",
]


@cache
def interpreted_names() -> dict[str, Any]:
    """The same names with every compiled function interpreted."""
    made = {name: globals()[name] for name in __all__}
    twins = {n: interpreted(v) for n, v in made.items() if is_compiled(v)}
    return {**made, **twins, "compiled": lambda function: function}
