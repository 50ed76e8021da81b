"""What is in structs and lists: `col("s").struct` and `col("l").list`, named as in Polars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .mathematics import builtin
from .values import Expr, mistake


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Structs:
    """The functions of a struct; they run over whole columns, which `explain()` shows."""

    of: Expr

    def __repr__(self) -> str:
        return f"{self.of!r}.struct"

    def field(self, name: str) -> Expr:
        """One of the fields; null where the struct is.

        >>> from headrace.expr import col
        >>> col("position").struct.field("lat")
        Expr(field(position, 'lat'))
        """
        if not isinstance(name, str):
            raise mistake(f"{name!r} is not the name of a field", 'field("lat")')
        return builtin("field", self.of, name)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Lists:
    """The functions of a list; they run over whole columns, which `explain()` shows."""

    of: Expr

    def __repr__(self) -> str:
        return f"{self.of!r}.list"

    def len(self) -> Expr:
        """The number of items, nulls included.

        >>> from headrace.expr import col
        >>> col("tags").list.len()
        Expr(list_length(tags))
        """
        return builtin("list_length", self.of)

    def get(self, index: Any, *, null_on_oob: bool = False) -> Expr:
        """The item at a place, from 0, from the end if negative.

        null_on_oob: a list that is too short gives null; otherwise it is an error.

        >>> from headrace.expr import col
        >>> col("tags").list.get(-1, null_on_oob=True)
        Expr(list_get(tags, -1, True))
        """
        if isinstance(index, bool) or not isinstance(index, int):
            raise mistake(f"{index!r} is not the place of an item", "get(0)")
        return builtin("list_get", self.of, index, bool(null_on_oob))
