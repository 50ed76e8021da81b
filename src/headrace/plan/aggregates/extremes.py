"""min and max: strings by their bytes, floats with NaN above all numbers."""

from __future__ import annotations

from ..types import DataType, int64
from .base import Change, Code, Fields, Held, Kind, Result
from .count import Count


class Extreme(Kind):
    """The smallest or largest value; null where there is none."""

    compares = True
    sign = ""

    def type(self, of: DataType | None) -> DataType:
        """See Kind."""
        assert of is not None
        return of

    def fields(self, of: DataType | None) -> tuple[tuple[str, DataType], ...]:
        """See Kind."""
        assert of is not None
        value = ("value", of.required)
        return (value, *Count().fields(of)) if of.nullable or of.is_view else (value,)

    def initial(self, of: DataType | None) -> dict[str, str]:
        """See Kind."""
        assert of is not None
        return {} if of.is_view else {"value": self._neutral(of)}

    def _neutral(self, of: DataType) -> str:
        """What it starts from, so that no flag is needed where values are never null."""
        least = self.sign == ">"
        if of.is_float:
            return "(-INFINITY)" if least else "NAN"
        if of.name == "bool":
            return repr(not least)
        stored = int64 if of.name == "uint64" or not of.is_whole else of
        return f"({stored.integer_range[0 if least else 1]})"

    def ignores_order(self, of: DataType | None) -> bool:
        """See Kind."""
        return of is not None and not of.is_float

    def add(self, kept: Fields, given: Held | None, by: Held | None, code: Code) -> list[Change]:
        """See Kind."""
        assert given is not None
        counted = Count().add(kept, given, by, code) if "count" in kept else []
        return [self._better(kept, given, None, code), *counted]

    def merge(self, kept: Fields, other: Fields, code: Code) -> list[Change]:
        """See Kind."""
        counted = Count().merge(kept, other, code) if "count" in kept else []
        return [self._better(kept, other["value"], other.get("count"), code), *counted]

    def _better(self, kept: Fields, given: Held, count: Held | None, code: Code) -> Change:
        value = kept["value"]
        if value.type.is_view:
            better = f"compare_words({', '.join(given.words + value.words)}) {self.sign} 0"
        elif value.type.is_float:
            pair = (given.word, value.word)
            better = f"float_less({', '.join(pair if self.sign == '<' else pair[::-1])})"
        else:
            better = f"{given.word} {self.sign} {value.word}"
        if "count" in kept:
            better = f"{kept['count'].word} == 0 or {better}"
        if count is not None:
            better = f"{count.word} > 0 and ({better})"
        return Change("value", given.words, code.let(better))

    def result(self, kept: Fields, code: Code) -> Result:
        """See Kind."""
        valid = code.let(f"{kept['count'].word} > 0") if "count" in kept else None
        return Result(kept["value"].words, valid)


class Min(Extreme):
    """The smallest."""

    sign = "<"


class Max(Extreme):
    """The largest."""

    sign = ">"
