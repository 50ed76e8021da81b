"""User functions as a plan knows them: what they take and give, and a stable identity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .schema import Field
from .site import Site
from .types import DataType


@dataclass(frozen=True)
class StateSpec:
    """The fields of the state record that `process` keeps for each key, and their first values.

    Values are in stored form, as in a Literal.
    """

    fields: tuple[Field, ...]
    initial: tuple[Any, ...]


@dataclass(frozen=True)
class Function:
    """A checked user function.

    `fingerprint` stands for everything its machine code depends on (code, constants, closures,
    globals, helpers), so two functions are equal exactly if they compile to the same thing.
    """

    name: str
    fingerprint: str
    parameters: tuple[str, ...]
    outputs: tuple[DataType, ...]
    is_generator: bool
    inputs: tuple[DataType, ...] = ()  # types of the arguments, in order, without the state
    state: StateSpec | None = None
    site: Site | None = field(default=None, compare=False)
    callable: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
