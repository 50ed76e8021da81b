"""variance and stddev, by Welford's algorithm; parts are merged by that of Chan and others."""

from __future__ import annotations

from dataclasses import replace

from ..types import DataType, float64, int64
from .base import Change, Code, Fields, Held, Kind, Result


class Variance(Kind):
    """The variance of values; `argument`: from how many of them nothing follows (ddof)."""

    of_numbers = True

    def type(self, of: DataType | None) -> DataType:
        """See Kind."""
        return replace(float64, nullable=True)

    def fields(self, of: DataType | None) -> tuple[tuple[str, DataType], ...]:
        """See Kind."""
        return ("count", int64), ("mean", float64), ("squares", float64)

    def merges_exactly(self, of: DataType | None) -> bool:
        """See Kind."""
        return False

    def add(self, kept: Fields, given: Held | None, by: Held | None, code: Code) -> list[Change]:
        """See Kind."""
        assert given is not None
        value, count = code.let(f"float({given.word})"), code.let(f"{kept['count'].word} + 1")
        away = code.let(f"{value} - {kept['mean'].word}")
        mean = code.let(f"{kept['mean'].word} + {away} / {count}")
        squares = f"{kept['squares'].word} + {away} * ({value} - {mean})"
        return [Change("count", (count,)), Change("mean", (mean,)), Change("squares", (squares,))]

    def merge(self, kept: Fields, other: Fields, code: Code) -> list[Change]:
        """See Kind."""
        one, two = kept["count"].word, other["count"].word
        count = code.let(f"{one} + {two}")
        away = code.let(f"{other['mean'].word} - {kept['mean'].word}")
        share = code.let(f"{two} / max({count}, 1)")
        mean = f"{other['mean'].word} if {one} == 0 else {kept['mean'].word} + {away} * {share}"
        both = f"{kept['squares'].word} + {other['squares'].word}"
        squares = f"{both} + {away} * {away} * {one} * {share}"
        return [Change("count", (count,)), Change("mean", (mean,)), Change("squares", (squares,))]

    def result(self, kept: Fields, code: Code) -> Result:
        """See Kind."""
        free = code.let(f"{kept['count'].word} - {self.argument}")
        return Result(
            (code.let(f"{kept['squares'].word} / max({free}, 1)"),), code.let(f"{free} > 0")
        )


class Deviation(Variance):
    """The standard deviation: the root of the variance."""

    def result(self, kept: Fields, code: Code) -> Result:
        """See Kind."""
        variance = super().result(kept, code)
        return Result((code.let(f"float_sqrt({variance.words[0]})"),), variance.valid)
