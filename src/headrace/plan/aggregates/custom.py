"""Users' own aggregates: a state of a few numbers, and compiled functions that change it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..errors import ExpressionError
from ..functions import Function
from ..types import DataType, bool_, float64, int64
from .base import Change, Code, Fields, Held, Kind, Result

TYPES: dict[type, DataType] = {bool: bool_, int: int64, float: float64}


@dataclass(frozen=True)
class Custom:
    """What a user gave; the functions are checked when the values are known."""

    name: str
    initial: tuple[bool | int | float, ...]
    add: Callable[..., Any] | Function
    merge: Callable[..., Any] | Function
    result: Callable[..., Any] | Function

    def __str__(self) -> str:
        return self.name

    @property
    def types(self) -> tuple[DataType, ...]:
        """Those of the state."""
        return tuple(TYPES[type(value)] for value in self.initial)


class UserDefined(Kind):
    """An aggregate by functions of a user."""

    argument: Custom

    def bind(
        self, of: DataType | None, by: DataType | None, check: Callable[..., Function]
    ) -> Custom:
        """See Kind."""
        assert of is not None
        if of.is_view:
            raise ExpressionError(
                f"the functions of an own aggregate take numbers and times, and values are {of}",
                "give it a number, e.g. the length or the hash of the string",
            )
        given, state = self.argument, self.argument.types
        return replace(
            given,
            add=check(given.add, (*state, of.required), declared=state),
            merge=check(given.merge, (*state, *state), declared=state),
            result=check(given.result, state),
        )

    def type(self, of: DataType | None) -> DataType:
        """See Kind."""
        assert of is not None and isinstance(self.argument.result, Function)
        (made,) = self.argument.result.outputs
        return made

    def fields(self, of: DataType | None) -> tuple[tuple[str, DataType], ...]:
        """See Kind."""
        return tuple((f"state{k}", kind) for k, kind in enumerate(self.argument.types))

    def initial(self, of: DataType | None) -> dict[str, str]:
        """See Kind."""
        return {f"state{k}": f"({value!r})" for k, value in enumerate(self.argument.initial)}

    def merges_exactly(self, of: DataType | None) -> bool:
        """See Kind."""
        return not any(kind.is_float for kind in self.argument.types)

    def add(self, kept: Fields, given: Held | None, by: Held | None, code: Code) -> list[Change]:
        """See Kind."""
        assert given is not None
        return self._changes(self.argument.add, kept, (given.word,), code)

    def merge(self, kept: Fields, other: Fields, code: Code) -> list[Change]:
        """See Kind."""
        words = tuple(field.word for field in other.values())
        return self._changes(self.argument.merge, kept, words, code)

    def _changes(
        self, function: Any, kept: Fields, given: tuple[str, ...], code: Code
    ) -> list[Change]:
        made = self._called(function, kept, given, code)
        parts = [f"only({made})"] if len(kept) == 1 else [f"{made}[{k}]" for k in range(len(kept))]
        return [
            Change(name, code.received(part, field.type).words)
            for part, (name, field) in zip(parts, kept.items(), strict=True)
        ]

    @staticmethod
    def _called(function: Any, kept: Fields, given: tuple[str, ...], code: Code) -> str:
        words = ", ".join([*(field.word for field in kept.values()), *given])
        return code.let(f"{code.function(function)}({words})")

    def result(self, kept: Fields, code: Code) -> Result:
        """See Kind."""
        made = self._called(self.argument.result, kept, (), code)
        received = code.received(f"only({made})", self.type(int64))
        return Result(received.words, received.valid)
