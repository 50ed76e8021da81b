"""count_distinct: how many different values there are, exactly."""

from __future__ import annotations

from collections.abc import Sequence

from ..types import DataType, binary, int64
from .base import Change, Code, Fields, Held, Kind, Result, Rewriting


class CountDistinct(Kind):
    """The number of different values, which are kept. All NaN are one, and -0.0 is 0.0."""

    reduces = False

    def type(self, of: DataType | None) -> DataType:
        """See Kind."""
        return int64

    def fields(self, of: DataType | None) -> tuple[tuple[str, DataType], ...]:
        """See Kind."""
        return (("set", binary),)

    def add(
        self, kept: Fields, given: Held | None, by: Held | None, code: Code
    ) -> Sequence[Change | Rewriting]:
        """See Kind."""
        assert given is not None
        view, long_bytes = ", ".join(given.words), f"kept_bytes({given.words[0]})"
        if not given.type.is_view:
            word = f"float_word({given.word})" if given.type.is_float else f"int({given.word})"
            pair = code.let(f"word_view({word})")
            view, long_bytes = f"{pair}[0], {pair}[1]", "0"
        set_ = ", ".join(kept["set"].words)
        added = f"distinct_add({set_}, {view}, {long_bytes}"
        room = f"distinct_room({set_}, 1, {long_bytes})"
        return [Rewriting("set", room, lambda heap: f"{added}, {heap})")]

    def merge(self, kept: Fields, other: Fields, code: Code) -> Sequence[Change | Rewriting]:
        """See Kind."""
        both = ", ".join(kept["set"].words + other["set"].words)
        room = f"distinct_merge_room({both})"
        return [Rewriting("set", room, lambda heap: f"distinct_merge({both}, {heap})")]

    def result(self, kept: Fields, code: Code) -> Result:
        """See Kind."""
        return Result((code.let(f"distinct_count({', '.join(kept['set'].words)})"),))
