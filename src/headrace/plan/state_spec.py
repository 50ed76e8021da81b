"""The state of `process`, from what users write: a class, a mapping, or a StateSpec."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from .checks import Place
from .expression_types import ExpressionError
from .functions import Limit, StateSpec
from .literals import stored, to_literal, zero
from .schema import Field
from .types import SCALARS, DataType, list_of, optional

_MISSING = object()
MOST_ITEMS = 10_000  # of a list in a state: a change copies it
ITEMS = ("bool", "int64", "float64", "string", "binary", "timestamp", "duration", "time")


@dataclass(frozen=True)
class BoundedList:
    """A list in a state, as a user declares it; see `bounded_list`."""

    item: Any
    limit: int
    on_full: str


def bounded_list(item: Any, limit: int, *, on_full: str = "fail") -> BoundedList:
    """The type of a list in the state of `process`: of so many items at most, which are never None.

    It begins empty, and has `append(x)`, `popleft()`, `clear()`, `len(xs)`, `xs[k]` and `for x in
    xs`. One item more than the limit is an error, or ("last") takes the place of the first one. A
    change copies the list once a row or more often, so a limit is 10,000 at most.

    >>> from headrace.stream import example
    >>> class Recent:
    ...     prices: bounded_list(float, 3, on_full="last")
    >>> def mean_of_last(state, price):
    ...     state.prices.append(price)
    ...     total = 0.0
    ...     for each in state.prices:
    ...         total += each
    ...     yield total / len(state.prices)
    >>> keyed = example(user=str, price=float).key_by("user")
    >>> keyed.process(mean_of_last, state=Recent, output="mean")
    Stream(user: string, mean: float64; key user)
    """
    return BoundedList(item, limit, on_full)


def state_spec(given: Any, place: Place) -> StateSpec:
    """The fields of a state record and their first values.

    >>> from .site import Site
    >>> class Totals:
    ...     count: int
    ...     best: float = -1.0
    ...     name: str | None
    >>> found = state_spec(Totals, Place("process", None, Site("p.py", 1)))
    >>> found.fields, found.initial
    ((count: int64, best: float64, name: optional(string)), (0, -1.0, None))
    """
    if isinstance(given, StateSpec):
        return given
    if isinstance(given, type):
        fields = _of_class(given, place)
    elif isinstance(given, Mapping):
        fields = [_of_entry(name, value, place) for name, value in given.items()]
    else:
        raise place.error(
            f"state={given!r} describes no state",
            "give a class with annotations, or a dict of names and types: state={'count': int}",
        )
    if not fields:
        raise place.error("the state has no field", "state={'count': int}")
    for field, _ in fields:
        place.new_name(field.name, "the name of a state field")
        if not field.name.isidentifier():
            raise place.error(f"the state field {field.name!r} is not a Python identifier")
    initial = tuple(() if isinstance(value, Limit) else value for _, value in fields)
    limits = tuple((field.name, value) for field, value in fields if isinstance(value, Limit))
    return StateSpec(tuple(field for field, _ in fields), initial, limits)


def _of_class(given: type, place: Place) -> list[tuple[Field, Any]]:
    try:
        hints = typing.get_type_hints(given)
    except Exception as error:
        raise place.error(
            f"the annotations of {given.__name__} cannot be evaluated: {error}",
            "give a dict instead: state={'count': int}",
        ) from None
    for name, value in vars(given).items():
        special = callable(value) or isinstance(value, property | classmethod | staticmethod)
        if not name.startswith("_") and name not in hints and not special:
            raise place.error(
                f"{given.__name__}.{name} has no type", f"annotate it: {name}: int = {value!r}"
            )
    return [_field(name, hint, _default(given, name), place) for name, hint in hints.items()]


def _default(given: type, name: str) -> Any:
    value = getattr(given, name, _MISSING)
    # With __slots__ (a dataclass's too) the class attribute is a descriptor, not a value.
    if isinstance(value, types.MemberDescriptorType):
        declared = getattr(given, "__dataclass_fields__", {}).get(name)
        value = getattr(declared, "default", _MISSING)
        return _MISSING if type(value).__name__ == "_MISSING_TYPE" else value
    return value


def _of_entry(name: Any, value: Any, place: Place) -> tuple[Field, Any]:
    place.new_name(name, "the name of a state field")
    if isinstance(value, str) and value in SCALARS:
        raise place.error(
            f"{value!r} for the state field {name!r} is a text, and also the name of a type",
            "give the type itself, e.g. hr.int64",
        )
    is_type = isinstance(value, type | DataType | pa.DataType | BoundedList)
    if is_type or typing.get_origin(value) is not None:
        return _field(name, value, _MISSING, place)
    try:
        made = to_literal(value)
    except ExpressionError as error:
        what = f"{value!r} is no first value of the state field {name!r}: {error.what}"
        raise place.error(what, "give a value or a type, e.g. hr.optional(int)") from None
    return Field(name, made.type), made.value


def _field(name: str, hint: Any, default: Any, place: Place) -> tuple[Field, Any]:
    """A field, and its first value, or the limit of a list."""
    if isinstance(hint, BoundedList):
        return _list(name, hint, default, place)
    kind = _hinted(hint, name, place)
    if kind.item is not None:
        raise place.error(
            f"the list {name!r} of the state has no limit",
            f'hr.bounded_list({kind.item.name}, 100), or on_full="last" to keep the last ones',
        )
    if default is _MISSING:
        return Field(name, kind), zero(kind)
    try:
        return Field(name, kind), stored(default, kind)
    except ExpressionError as error:
        raise place.error(f"the first value of the state field {name!r}: {error.what}") from None


def _list(name: str, given: BoundedList, default: Any, place: Place) -> tuple[Field, Limit]:
    item, limit = place.type(given.item, name), given.limit
    example = "hr.bounded_list(float, 100)"
    if item.name not in ITEMS or item.nullable:
        what = f"the list {name!r} of the state cannot have items of type {item}"
        raise place.error(what, f"one of {', '.join(ITEMS)}, never None")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_ITEMS:
        what = (
            f"{limit!r} is no limit of the list {name!r}: it is a number from 1 to {MOST_ITEMS:,}"
        )
        raise place.error(what, example)
    if given.on_full not in ("fail", "last"):
        what = f'on_full={given.on_full!r} is neither "fail" nor "last"'
        raise place.error(what, f'{example[:-1]}, on_full="last")')
    if default is not _MISSING:
        raise place.error(f"the list {name!r} of the state begins empty", f"{name}: {example}")
    return Field(name, list_of(item)), Limit(limit, given.on_full == "fail")


def _hinted(hint: Any, name: str, place: Place) -> DataType:
    """A type from an annotation; `T | None` is optional(T)."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        inner = [part for part in typing.get_args(hint) if part is not type(None)]
        if len(inner) == 1:
            return optional(place.type(inner[0], name))
    return place.type(hint, name)
