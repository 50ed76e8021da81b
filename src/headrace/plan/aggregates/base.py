"""What a kind of aggregate says of itself; nothing else knows the kinds by name.

For each key and pane it keeps some *fields*, which begin as zero or as `initial` says. A value is
added to them, two sets of fields are merged, and the result is computed from one. The code of
that is text, Python expressions in the words of the stage's vocabulary; what is given are the
expressions of fields and values. Nulls are passed over before `add` is asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..functions import Function
from ..types import DataType


class Held(Protocol):
    """A typed value in generated code: one word, or two of a string."""

    @property
    def type(self) -> DataType:
        """Its type."""
        ...

    @property
    def words(self) -> tuple[str, ...]:
        """The expressions that hold it."""
        ...

    @property
    def word(self) -> str:
        """The only one."""
        ...

    @property
    def valid(self) -> str | None:
        """When it is not null; None: always."""
        ...


Fields = Mapping[str, Held]


class Code(Protocol):
    """The kernel in the making."""

    def let(self, expression: str) -> str:
        """Give an expression a name."""
        ...

    def function(self, function: Function) -> str:
        """The name of a user's function."""
        ...

    def received(self, given: str, kind: DataType) -> Held:
        """What a user's function gave, as a value of a type."""
        ...

    def hash(self, given: Held) -> str:
        """The hash of a value that is not null."""
        ...

    def heap(self) -> str:
        """The name of a heap for the bytes of results."""
        ...


@dataclass(frozen=True)
class Change:
    """New words of a field; where `only_if` is false it stays as it is."""

    field: str
    words: tuple[str, ...]
    only_if: str | None = None


@dataclass(frozen=True)
class Rewriting:
    """New bytes of a binary field, written where the old ones lie when all else has gone well.

    room: how many fresh bytes that takes. words: given the heap that has them, a call that does it
    and gives the words of the field, both.
    """

    field: str
    room: str
    words: Callable[[str], str]


@dataclass(frozen=True)
class Result:
    """The words of a result; `valid` says when there is one, None: always."""

    words: tuple[str, ...]
    valid: str | None = None


class Kind(ABC):
    """A kind of aggregate; `argument` is what a user gave besides the values."""

    needs_time = False  # does it look at the event time of rows?
    may_use_time = False  # does it where there is one?
    of_numbers = False  # must its values be numbers?
    compares = False  # does it look at the order of its values?
    keeps_nulls = False  # are nulls values, too?
    writes_bytes = False  # are there results whose bytes are made with them?
    reduces = True  # is a partial result smaller than the values that entered it?

    def __init__(self, argument: Any = None) -> None:
        self.argument = argument

    def bind(self, of: DataType | None, by: DataType | None, check: Callable[..., Function]) -> Any:
        """The argument, once the types of values, and of what a user orders them by, are known;
        `check(function, inputs)` gives users' functions as a plan knows them."""
        return self.argument

    @abstractmethod
    def type(self, of: DataType | None) -> DataType:
        """The type of results over values of a type (None: over rows)."""

    @abstractmethod
    def fields(self, of: DataType | None) -> tuple[tuple[str, DataType], ...]:
        """The names and types of the fields."""

    def initial(self, of: DataType | None) -> dict[str, str]:
        """What fields begin as that do not begin as zero."""
        return {}

    def merges_exactly(self, of: DataType | None) -> bool:
        """Is the result the same, in whatever order fields are merged?"""
        return True

    def ignores_order(self, of: DataType | None) -> bool:
        """Is the result the same, in whatever order values come? Then nobody keeps their order."""
        return False

    @abstractmethod
    def add(
        self, kept: Fields, given: Held | None, by: Held | None, code: Code
    ) -> Sequence[Change | Rewriting]:
        """A value that is not null (None: a row) enters; `by` is what values are ordered by."""

    @abstractmethod
    def merge(self, kept: Fields, other: Fields, code: Code) -> Sequence[Change | Rewriting]:
        """Other fields enter; they may have seen no value."""

    @abstractmethod
    def result(self, kept: Fields, code: Code) -> Result:
        """The result."""
