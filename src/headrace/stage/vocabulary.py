"""Every name that generated kernels use, in both lives."""

# ruff: noqa: F401 - what is imported here is exported by NAMES

from __future__ import annotations

from functools import cache
from math import inf as INFINITY
from math import nan as NAN
from typing import Any

from numba.core.dispatcher import Dispatcher

from .arithmetic import (
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
from .hashing import combine, hash_float, hash_int, hash_words
from .heap import Heap
from .layout import BlockRecord
from .letter_case import lower_words, upper_words
from .records import (
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
from .store import (
    NO_WINDOW,
    NUMBER_SHIFT,
    TAG,
    Store,
    add_number,
    changed_bytes,
    entry_address,
    entry_at,
    is_full,
    keep_changed,
    kept_bytes,
    lacks_bytes,
    note_change,
    prefetch_entry,
    prefetch_slot,
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
    Panes,
    Task,
    find_pane,
    window_start,
)
from .text import blob, text, words
from .words import (
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

NULL_HASH = 0x51ED270B27B4A3C5  # of a key that is null

NAMES = (
    "HIGHEST LOWEST absolute add float_floor_divide float_less float_order float_remainder "
    "float_to_int floor_divide multiply narrow negate remainder subtract to_float32 true_divide "
    "BlockRecord compiled copy_record f32s f64s flags i8s i16s i32s i64s make_record "
    "NO_WINDOW NUMBER_SHIFT TAG Store add_number changed_bytes entry_address entry_at is_full "
    "keep_changed kept_bytes lacks_bytes note_change prefetch_entry prefetch_slot "
    "frame_bytes maybe only present resume suspend "
    "BEFORE_COMMIT CONSUMED IN_ROW NEED_MEMORY NOT_SELECTED OUTPUT_FULL RUNNING Panes Task "
    "find_pane window_start Heap blob char_length combine compare_words concat_words "
    "contains_words ends_with_words equal_words hash_float hash_int hash_words keep_words "
    "lower_words order_prefix starts_with_words text upper_words views words "
    "NULL_HASH NAN INFINITY"
).split()

__all__ = [*NAMES, "interpreted_names"]


@cache
def interpreted_names() -> dict[str, Any]:
    """The same names with every compiled function interpreted."""
    made = {name: globals()[name] for name in NAMES}
    twins = {n: interpreted(v) for n, v in made.items() if isinstance(v, Dispatcher)}
    return {**made, **twins, "compiled": lambda function: function}
