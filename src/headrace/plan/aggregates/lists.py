"""collect and top_k: some values of a key in order, as a list."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ExpressionError
from ..functions import Function, Limit
from ..types import DataType, binary, items_of, list_of, optional
from .base import Change, Code, Fields, Held, Kind, Result, Rewriting

MOST_ITEMS = 1_000_000  # of a list


class Ranked(Kind):
    """A list of values in some order, which is that of a rank; the first ones are kept."""

    argument: Limit
    writes_bytes = True

    def type(self, of: DataType | None) -> DataType:
        """See Kind."""
        assert of is not None
        return list_of(of.required)

    def fields(self, of: DataType | None) -> tuple[tuple[str, DataType], ...]:
        """See Kind."""
        return (("items", binary),)

    @abstractmethod
    def rank(self, given: Held, by: Held | None) -> str:
        """Where a value belongs: first comes the lowest number."""

    def second(self, given: Held, by: Held | None) -> str:
        """Where a number belongs among those of its rank."""
        return "0"

    def order(self, of: DataType) -> str:
        """How values of one rank are ordered (`stage/sketches/ranked.py`)."""
        return "BY_ARRIVAL"

    def add(
        self, kept: Fields, given: Held | None, by: Held | None, code: Code
    ) -> Sequence[Change | Rewriting]:
        """See Kind."""
        assert given is not None
        words, of, most = ", ".join(kept["items"].words), given.type, self.argument.most
        head, tail = given.words if of.is_view else (_bits(given), self.second(given, by))
        long_bytes = f"kept_bytes({given.words[0]})" if of.is_view else "0"
        if self.keeps_nulls and given.valid is not None:
            null = ("NULL_VIEW", "0") if of.is_view else ("0", "NULL_NUMBER")
            head, tail = (
                f"({word} if {given.valid} else {other})"
                for word, other in zip((head, tail), null, strict=True)
            )
            long_bytes = f"({long_bytes} if {given.valid} else 0)"
        value = f"{code.let(head)}, {code.let(tail)}"
        rank = code.let(self.rank(given, by))
        added = f"ranked_add({words}, {rank}, {value}, {most}, {self.order(of)}, {_width(of)}"
        room = f"ranked_room({words}, 1, {long_bytes}, {most}, {int(self.argument.fails)})"
        return [Rewriting("items", room, lambda heap: f"{added}, {heap})")]

    def merge(self, kept: Fields, other: Fields, code: Code) -> Sequence[Change | Rewriting]:
        """See Kind."""
        both, most = ", ".join(kept["items"].words + other["items"].words), self.argument.most
        room = f"ranked_merge_room({both}, {most}, {int(self.argument.fails)})"
        return [Rewriting("items", room, lambda heap: f"ranked_merge({both}, {most}, {heap})")]

    def result(self, kept: Fields, code: Code) -> Result:
        """See Kind."""
        made = code.let(f"ranked_list({', '.join(kept['items'].words)}, {code.heap()})")
        return Result((f"{made}[0]", f"{made}[1]"))


class Collect(Ranked):
    """All values by event time, or as they come where there is none."""

    may_use_time = True
    reduces = False

    def merges_exactly(self, of: DataType | None) -> bool:
        """See Kind: values of one time have the order of rows."""
        return False

    def rank(self, given: Held, by: Held | None) -> str:
        """See Ranked."""
        return "0" if by is None else by.word


@dataclass(frozen=True)
class Gathering(Limit):
    """The limit of a list that has nulls, too, if there may be some."""

    nullable: bool = False


class Gather(Collect):
    """A column of the rows that have a rank, for a user's function (`build_groups`)."""

    argument: Gathering
    may_use_time = False
    keeps_nulls = True

    def type(self, of: DataType | None) -> DataType:
        """See Kind."""
        assert of is not None
        return items_of(optional(of) if self.argument.nullable else of.required)


class TopK(Ranked):
    """The largest values, or those of the rows in which something else is largest."""

    compares = True

    def bind(self, of: DataType | None, by: DataType | None, check: Callable[..., Function]) -> Any:
        """See Kind."""
        if by is not None and by.is_view:
            raise ExpressionError(
                f"top_k goes by numbers and times, and by= is {by}",
                "cast it to a number, or leave by= out where values are their own order",
            )
        return self.argument

    def rank(self, given: Held, by: Held | None) -> str:
        """See Ranked."""
        if by is not None:
            return f"~{_order_word(by)}"
        return "0" if given.type.is_view else f"~{_order_word(given)}"

    def second(self, given: Held, by: Held | None) -> str:
        """See Ranked: of equal ranks, too, the largest value comes first."""
        return "0" if by is None else f"~{_order_word(given)}"

    def order(self, of: DataType) -> str:
        """See Ranked."""
        return "BY_BYTES_DOWN" if of.is_view else "BY_WORD"


def _order_word(held: Held) -> str:
    """A whole number with the order of the value; NaN is above all."""
    if held.type.is_float:
        return f"float_order({held.word})"
    return f"int({held.word})"


def _bits(held: Held) -> str:
    """The bytes of a number as a word, the lowest first."""
    if held.type.is_float:
        return f"float_bits({held.word})"
    return f"({held.word} ^ LOWEST)" if held.type.name == "uint64" else f"int({held.word})"


def _width(of: DataType) -> str:
    """The bytes of an item in a list."""
    if of.is_view:
        return "VIEWS"
    if of.name == "float32":
        return "FLOAT32"
    return repr(1 if of.name == "bool" else of.to_arrow().bit_width // 8)
