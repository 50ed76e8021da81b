"""sum: whole numbers must fit 64 bits, floats are added up in the order of rows."""

from __future__ import annotations

from dataclasses import replace

from ..types import DataType, float64, int64
from .base import Change, Code, Fields, Held, Kind, Result
from .count import Count


class Sum(Kind):
    """The sum of values; null where there is none."""

    of_numbers = True

    def type(self, of: DataType | None) -> DataType:
        """See Kind."""
        assert of is not None
        return replace(int64 if of.is_integer else float64, nullable=of.nullable)

    def fields(self, of: DataType | None) -> tuple[tuple[str, DataType], ...]:
        """See Kind."""
        assert of is not None
        total = ("total", int64 if of.is_integer else float64)
        return (total, *Count().fields(of)) if of.nullable else (total,)

    def merges_exactly(self, of: DataType | None) -> bool:
        """See Kind."""
        return of is not None and of.is_integer

    def ignores_order(self, of: DataType | None) -> bool:
        """See Kind."""
        return self.merges_exactly(of)

    def add(self, kept: Fields, given: Held | None, by: Held | None, code: Code) -> list[Change]:
        """See Kind."""
        assert given is not None
        counted = Count().add(kept, given, by, code) if "count" in kept else []
        return [_added(kept["total"], given.word), *counted]

    def merge(self, kept: Fields, other: Fields, code: Code) -> list[Change]:
        """See Kind."""
        counted = Count().merge(kept, other, code) if "count" in kept else []
        return [_added(kept["total"], other["total"].word), *counted]

    def result(self, kept: Fields, code: Code) -> Result:
        """See Kind."""
        valid = code.let(f"{kept['count'].word} > 0") if "count" in kept else None
        return Result(kept["total"].words, valid)


def _added(total: Held, word: str) -> Change:
    if total.type.is_float:
        return Change("total", (f"{total.word} + float({word})",))
    return Change("total", (f"add({total.word}, {word})",))
