"""approx_count_distinct: how many different values there are, nearly, by HyperLogLog."""

from __future__ import annotations

from collections.abc import Sequence

from ..types import DataType, binary, int64
from .base import Change, Code, Fields, Held, Kind, Result, Rewriting


class ApproximateCountDistinct(Kind):
    """About the number of different values; `argument`: 2 to the power of it bytes are kept."""

    def type(self, of: DataType | None) -> DataType:
        """See Kind."""
        return int64

    def fields(self, of: DataType | None) -> tuple[tuple[str, DataType], ...]:
        """See Kind."""
        return (("sketch", binary),)

    def add(
        self, kept: Fields, given: Held | None, by: Held | None, code: Code
    ) -> Sequence[Change | Rewriting]:
        """See Kind."""
        assert given is not None
        head, tail = kept["sketch"].words
        added = f"loglog_add({head}, {tail}, {code.hash(given)}, {self.argument}"
        room = f"loglog_room({head}, {self.argument})"
        return [Rewriting("sketch", room, lambda heap: f"{added}, {heap})")]

    def merge(self, kept: Fields, other: Fields, code: Code) -> Sequence[Change | Rewriting]:
        """See Kind."""
        one, two = kept["sketch"].words, other["sketch"].words
        both = ", ".join(one + two)
        room = f"loglog_merge_room({one[0]}, {two[0]})"
        return [Rewriting("sketch", room, lambda heap: f"loglog_merge({both}, {heap})")]

    def result(self, kept: Fields, code: Code) -> Result:
        """See Kind."""
        words = ", ".join(kept["sketch"].words)
        return Result((code.let(f"loglog_count({words}, {self.argument})"),))
