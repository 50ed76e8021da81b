"""first and last: values by the event time of their rows; of equal times, by the order of rows."""

from __future__ import annotations

from ..types import DataType, int64
from .base import Change, Code, Fields, Held, Kind, Result


class End(Kind):
    """The value of the first or last row that has one; null where none has."""

    needs_time = True
    sign = ""

    def type(self, of: DataType | None) -> DataType:
        """See Kind."""
        assert of is not None
        return of

    def fields(self, of: DataType | None) -> tuple[tuple[str, DataType], ...]:
        """See Kind."""
        assert of is not None
        return ("value", of.required), ("time", int64), ("count", int64)

    def add(self, kept: Fields, given: Held | None, by: Held | None, code: Code) -> list[Change]:
        """See Kind."""
        assert given is not None and by is not None
        return self._taken(kept, given, by, "1", code)

    def merge(self, kept: Fields, other: Fields, code: Code) -> list[Change]:
        """See Kind."""
        return self._taken(kept, other["value"], other["time"], other["count"].word, code)

    def _taken(self, kept: Fields, value: Held, time: Held, count: str, code: Code) -> list[Change]:
        nearer = f"{kept['count'].word} == 0 or {time.word} {self.sign} {kept['time'].word}"
        taken = code.let(f"{count} > 0 and ({nearer})")
        return [
            Change("value", value.words, taken),
            Change("time", time.words, taken),
            Change("count", (f"{kept['count'].word} + {count}",)),
        ]

    def result(self, kept: Fields, code: Code) -> Result:
        """See Kind."""
        return Result(kept["value"].words, code.let(f"{kept['count'].word} > 0"))


class First(End):
    """The value of the first row."""

    sign = "<"


class Last(End):
    """The value of the last row."""

    sign = ">="
