"""User functions as a plan knows them: what they take and give, and a stable identity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .schema import Field
from .site import Site
from .types import DataType


@dataclass(frozen=True)
class Limit:
    """The most items of a list, and whether more of them are an error."""

    most: int
    fails: bool = False

    def __str__(self) -> str:
        return f"{self.most} or fail" if self.fails else f"{self.most}"


@dataclass(frozen=True)
class Wanted:
    """The columns of an output as the user names them, and their types where they are given."""

    names: tuple[str, ...]
    declared: Sequence[DataType] | None = None

    def fields(self, kinds: Sequence[DataType]) -> tuple[Field, ...]:
        """The columns, of these types."""
        return tuple(Field(name, kind) for name, kind in zip(self.names, kinds, strict=True))


@dataclass(frozen=True)
class Output:
    """Rows that a function yields: to the stream that its operator gives, or to one beside it.

    columns: those of the operator's rows in which the values lie.
    """

    name: str  # "": the stream itself
    fields: tuple[Field, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True)
class StateSpec:
    """The fields of the state record that `process` keeps for each key, and their first values.

    Values are in stored form, as in a Literal; lists begin empty. limits: of the fields that are
    lists.
    """

    fields: tuple[Field, ...]
    initial: tuple[Any, ...]
    limits: tuple[tuple[str, Limit], ...] = ()


@dataclass(frozen=True)
class Function:
    """A checked user function.

    `fingerprint` stands for everything its machine code depends on (code, constants, closures,
    globals, helpers), so two functions are equal exactly if they compile to the same thing.
    outputs: the types of its results; none, where all that it yields goes to `asides`.
    """

    name: str
    fingerprint: str
    parameters: tuple[str, ...]
    outputs: tuple[DataType, ...]
    is_generator: bool
    inputs: tuple[DataType, ...] = ()  # types of the arguments, in order, without the state
    state: StateSpec | None = None
    asides: tuple[tuple[str, tuple[DataType, ...]], ...] = ()
    site: Site | None = field(default=None, compare=False)
    callable: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    @property
    def results(self) -> dict[str, tuple[DataType, ...]]:
        """The types of what it gives, by output; "" stands for the stream of its operator."""
        return {**({"": self.outputs} if self.outputs else {}), **dict(self.asides)}
