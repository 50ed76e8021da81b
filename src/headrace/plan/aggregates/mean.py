"""mean: that of whole numbers is exact up to one rounding, however large their sum is."""

from __future__ import annotations

from dataclasses import replace

from ..types import DataType, float64, int64
from .base import Change, Code, Fields, Held, Kind, Result

HALF = 32  # bits: the sum of whole numbers is kept as that of their halves


class Mean(Kind):
    """The mean of values; null where there is none."""

    of_numbers = True

    def type(self, of: DataType | None) -> DataType:
        """See Kind."""
        assert of is not None
        return replace(float64, nullable=of.nullable)

    def fields(self, of: DataType | None) -> tuple[tuple[str, DataType], ...]:
        """See Kind."""
        assert of is not None
        if of.is_integer:
            return ("high", int64), ("low", int64), ("count", int64)
        return ("total", float64), ("count", int64)

    def merges_exactly(self, of: DataType | None) -> bool:
        """See Kind."""
        return of is not None and of.is_integer

    def ignores_order(self, of: DataType | None) -> bool:
        """See Kind."""
        return self.merges_exactly(of)

    def add(self, kept: Fields, given: Held | None, by: Held | None, code: Code) -> list[Change]:
        """See Kind."""
        assert given is not None
        counted = Change("count", (f"{kept['count'].word} + 1",))
        if "total" in kept:
            return [Change("total", (f"{kept['total'].word} + float({given.word})",)), counted]
        return [
            Change("high", (f"{kept['high'].word} + ({given.word} >> {HALF})",)),
            Change("low", (f"{kept['low'].word} + ({given.word} & {(1 << HALF) - 1})",)),
            counted,
        ]

    def merge(self, kept: Fields, other: Fields, code: Code) -> list[Change]:
        """See Kind."""
        return [Change(name, (f"{kept[name].word} + {other[name].word}",)) for name in kept]

    def result(self, kept: Fields, code: Code) -> Result:
        """See Kind."""
        count = kept["count"].word
        if "total" in kept:
            total = kept["total"].word
        else:  # the low half is below 2**32 then, so that the float of the sum is rounded once
            high, low = kept["high"].word, kept["low"].word
            carried = f"float({high} + ({low} >> {HALF})) * {float(1 << HALF)}"
            total = f"({carried} + float({low} & {(1 << HALF) - 1}))"
        return Result((code.let(f"{total} / max({count}, 1)"),), code.let(f"{count} > 0"))
