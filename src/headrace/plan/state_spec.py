"""The state of `process`, from what users write: a class, a mapping, or a StateSpec."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from .checks import Place
from .expression_types import ExpressionError
from .functions import StateSpec
from .literals import stored, to_literal, zero
from .schema import Field
from .types import SCALARS, DataType, optional

_MISSING = object()


def state_spec(given: Any, place: Place) -> StateSpec:
    """The fields of a state record and their first values.

    >>> from .site import Site
    >>> class Totals:
    ...     count: int
    ...     best: float = -1.0
    ...     name: str | None
    >>> state_spec(Totals, Place("process", None, Site("p.py", 1)))
    StateSpec(fields=(count: int64, best: float64, name: optional(string)), initial=(0, -1.0, None))
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
    return StateSpec(tuple(f for f, _ in fields), tuple(value for _, value in fields))


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
    if isinstance(value, type | DataType | pa.DataType) or typing.get_origin(value) is not None:
        return _field(name, value, _MISSING, place)
    try:
        made = to_literal(value)
    except ExpressionError as error:
        what = f"{value!r} is no first value of the state field {name!r}: {error.what}"
        raise place.error(what, "give a value or a type, e.g. hr.optional(int)") from None
    return Field(name, made.type), made.value


def _field(name: str, hint: Any, default: Any, place: Place) -> tuple[Field, Any]:
    kind = _hinted(hint, name, place)
    if default is _MISSING:
        return Field(name, kind), zero(kind)
    try:
        return Field(name, kind), stored(default, kind)
    except ExpressionError as error:
        raise place.error(f"the first value of the state field {name!r}: {error.what}") from None


def _hinted(hint: Any, name: str, place: Place) -> DataType:
    """A type from an annotation; `T | None` is optional(T)."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        inner = [part for part in typing.get_args(hint) if part is not type(None)]
        if len(inner) == 1:
            return optional(place.type(inner[0], name))
    return place.type(hint, name)
