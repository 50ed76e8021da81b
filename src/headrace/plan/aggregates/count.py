"""count: of rows, or of values that are not null."""

from __future__ import annotations

from ..types import DataType, int64
from .base import Change, Code, Fields, Held, Kind, Result


class Count(Kind):
    """The number of what was added."""

    def type(self, of: DataType | None) -> DataType:
        """See Kind."""
        return int64

    def fields(self, of: DataType | None) -> tuple[tuple[str, DataType], ...]:
        """See Kind."""
        return (("count", int64),)

    def ignores_order(self, of: DataType | None) -> bool:
        """See Kind."""
        return True

    def add(self, kept: Fields, given: Held | None, by: Held | None, code: Code) -> list[Change]:
        """See Kind."""
        return [Change("count", (f"{kept['count'].word} + 1",))]

    def merge(self, kept: Fields, other: Fields, code: Code) -> list[Change]:
        """See Kind."""
        return [Change("count", (f"{kept['count'].word} + {other['count'].word}",))]

    def result(self, kept: Fields, code: Code) -> Result:
        """See Kind."""
        return Result(kept["count"].words)
