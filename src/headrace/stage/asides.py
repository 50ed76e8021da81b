"""Rows of a user's function that are for an aside: another stream beside that of its operator."""

from __future__ import annotations

from typing import Any

from .memory.extensions import extension


class Aside:
    """What a function yields to the aside of a name."""

    __slots__ = ("name", "values")

    def __init__(self, name: str, values: tuple[Any, ...]) -> None:
        self.name, self.values = name, values

    def __repr__(self) -> str:
        return f"aside({', '.join(map(repr, (self.name, *self.values)))})"


def aside(name: str, *values: Any) -> Any:
    """In a function of `process` or `flat_map`: a row for `stream.aside(name)`, to be yielded.

    >>> from headrace.stream import example
    >>> def watch(state, price):
    ...     state.visits += 1
    ...     if price > 100:
    ...         yield aside("alerts", price, "too dear")
    ...     yield state.visits
    >>> made = example(user=str, price=int).key_by("user").process(
    ...     watch, state={"visits": int}, output="visits", asides={"alerts": ["price", "why"]}
    ... )
    >>> made.aside("alerts")
    Stream(user: string, price: int64, why: string; key user)
    """
    return Aside(name, values)


def is_for(result: Any, name: str) -> bool:
    """Is what a function yields for the aside of a name, or, without one, for none?

    >>> is_for(aside("alerts", 3), "alerts"), is_for(aside("alerts", 3), ""), is_for((3, 4), "")
    (True, False, True)
    """
    return (result.name if isinstance(result, Aside) else "") == name


def value_for(result: Any, name: str, place: int) -> Any:
    """A value of what is yielded for an output.

    >>> value_for(aside("alerts", 3), "alerts", 0), value_for((3, 4), "", 1), value_for(3, "", 0)
    (3, 4, 3)
    """
    if isinstance(result, Aside):
        return result.values[place]
    return result[place] if isinstance(result, tuple) else result


@extension
def _register() -> None:
    from . import aside_types  # noqa: F401
