"""A schema: the named, typed columns of a stream, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from .types import DataType, as_type, from_arrow, optional

HIDDEN_PREFIX = "headrace:"  # of the names of columns that users do not see


@dataclass(frozen=True)
class Field:
    """One column: its name and type."""

    name: str
    type: DataType

    def __repr__(self) -> str:
        return f"{self.name}: {self.type}"


@dataclass(frozen=True)
class Schema:
    """The columns of a stream.

    >>> Schema.of({"user": str, "n": int})
    Schema(user: string, n: int64)
    """

    fields: tuple[Field, ...]
    # Columns of the source that headrace has no type for, and what they are; only errors say so.
    unread: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def of(cls, given: Schema | pa.Schema | Mapping[str, Any] | Iterable[Field]) -> Schema:
        """A schema from a mapping of names to types, an Arrow schema, or fields.

        An Arrow schema must have only columns that headrace has a type for.
        """
        if isinstance(given, Schema):
            return given
        if isinstance(given, pa.Schema):
            given, unknown = schema_of_arrow(given)
            if unknown:
                name, kind = next(iter(unknown.items()))
                raise TypeError(f"column {name!r} has the Arrow type {kind}, which headrace lacks")
            return given
        if isinstance(given, Mapping):
            return cls(tuple(Field(str(name), as_type(kind)) for name, kind in given.items()))
        return cls(tuple(given))

    def __repr__(self) -> str:
        return f"Schema({', '.join(map(repr, self.fields))})"

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> DataType:
        return self.fields[self._places[name]].type

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return Schema, (self.fields, self.unread)  # what is remembered holds in this process only

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(each.name for each in self.fields)

    def index(self, name: str) -> int:
        """The position of a column."""
        if name not in self._places:
            raise ValueError(f"there is no column {name!r}")
        return self._places[name]

    # Schemas of thousands of columns are asked for each of them, and for long expressions.

    @cached_property
    def types(self) -> dict[Any, DataType]:
        """The types of expressions over rows of this schema, as far as they were asked for."""
        return {}

    @cached_property
    def failing(self) -> dict[Any, bool]:
        """Whether expressions can raise an error, as far as it was asked for."""
        return {}

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in reversed(list(enumerate(self.names)))}

    @cached_property
    def _hash(self) -> int:
        return hash(self.fields)

    def select(self, names: Iterable[str]) -> Schema:
        """These columns only, in this order."""
        return Schema(tuple(Field(name, self[name]) for name in names))

    def closest(self, name: str) -> str:
        """Words for an error message: a similar name, or the list of what there is."""
        import difflib  # only for this message

        if name in dict(self.unread):
            return (
                f"it is {dict(self.unread)[name]} in the source, a type that headrace lacks: cast "
                "it, or make columns of its parts, before it is read"
            )

        near = difflib.get_close_matches(name, self.names, n=1)
        if near:
            return f"did you mean {near[0]!r}?"
        return f"there are: {', '.join(self.names) or 'no columns'}"

    def to_arrow(self) -> pa.Schema:
        """The Arrow schema of this schema."""
        return pa.schema(
            [pa.field(f.name, f.type.to_arrow(), f.type.nullable) for f in self.fields]
        )


def schema_of_arrow(given: pa.Schema) -> tuple[Schema, dict[str, pa.DataType]]:
    """The columns headrace has types for, and the others, which stay unread.

    >>> odd = pa.map_(pa.string(), pa.int8())
    >>> known, unread = schema_of_arrow(pa.schema({"a": pa.int8(), "b": odd}))
    >>> known, list(unread)
    (Schema(a: optional(int8)), ['b'])
    """
    fields, unknown = [], {}
    for each in given:
        kind = from_arrow(each.type)
        if kind is None:
            unknown[each.name] = each.type
        else:
            fields.append(Field(each.name, optional(kind) if each.nullable else kind))
    return Schema(tuple(fields), said_of_types(unknown)), unknown


def said_of_types(unread: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """What a schema remembers of columns that stay unread, by their types."""
    return tuple((name, str(kind)) for name, kind in unread.items())
