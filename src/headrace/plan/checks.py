"""Checks that every operator shares: names of operators and columns."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .errors import PipelineError, UnreadColumnsWarning
from .schema import HIDDEN_PREFIX, Field, Schema
from .site import Site, caller_site, user_stack_level
from .types import DataType, as_type


class Place:
    """The operator that is being built: its name and the user's line, for every error.

    >>> print(Place("filter", "views", Site("p.py", 3, "s.filter(1)")).error("no", "yes"))
    filter 'views': no
      at p.py:3: s.filter(1)
      fix: yes
    """

    def __init__(self, kind: str, name: str | None, site: Site | None = None) -> None:
        self.site = caller_site() if site is None else site
        self.operator, self.name = kind, ""
        if name is not None:
            if not isinstance(name, str) or not name:
                raise self.error(
                    f"name={name!r} is not the name of an operator",
                    "name= names the operator, with a string; to make a column called 'name', "
                    f"give a mapping: .{kind}({{'name': ...}})",
                )
            self.operator, self.name = f"{kind} {name!r}", name
        self.site = replace(self.site, operator=self.operator)

    def error(self, what: str, fix: str = "") -> PipelineError:
        """What is wrong here, and how to fix it."""
        return PipelineError(what, operator=self.operator, site=self.site, fix=fix)

    def by_name(
        self, given: Mapping[str, Any] | None, more: Mapping[str, Any], example: str
    ) -> dict[str, Any]:
        """What is made here by the names that the user gives, in a mapping or one by one.

        >>> Place("agg", None, Site("p.py", 3, "")).by_name({"a": 1}, {"b": 2}, "")
        {'a': 1, 'b': 2}
        """
        if given is not None and not isinstance(given, Mapping):
            raise self.error(f"{given!r} has no name", f"give it one: {self.operator}({example})")
        return {**(given or {}), **more}

    def new_name(self, name: Any, what: str = "a column's name") -> str:
        """A name that the user gives to a column."""
        if not isinstance(name, str) or not name:
            raise self.error(f"{name!r} is not {what}", "names are strings that are not empty")
        if name.startswith(HIDDEN_PREFIX):
            raise self.error(
                f"{name!r} is a reserved name",
                f"names that start with {HIDDEN_PREFIX} are those of hidden columns",
            )
        return name

    def schema(self, fields: Iterable[Field], duplicate_fix: str = "rename one of them") -> Schema:
        """A schema of new columns: good names, none twice, at least one."""
        unread = fields.unread if isinstance(fields, Schema) else ()
        fields = tuple(fields)
        seen: set[str] = set()
        for field in fields:
            if self.new_name(field.name) in seen:
                raise self.error(f"two columns are named {field.name!r}", duplicate_fix)
            seen.add(field.name)
        if not fields:
            raise self.error("no column is left", "keep at least one column")
        return Schema(fields, unread)

    def read_schema(self, schema: Schema) -> Schema:
        """The schema of a source; columns that stay unread are named in a warning."""
        if schema.unread:
            said = ", ".join(f"{name!r} ({kind})" for name, kind in schema.unread)
            warnings.warn(
                f"{self.operator}: {said} will not be read: headrace has no such types. Cast what "
                "is needed before it is read; with schema=, only what it names is read",
                UnreadColumnsWarning,
                stacklevel=user_stack_level(),
            )
        return self.schema(schema)

    def existing(self, name: Any, schema: Schema, what: str = "column") -> str:
        """The name of a column that is there."""
        if not isinstance(name, str):
            raise self.error(f"{name!r} is not the name of a {what}", "give its name as a string")
        if name not in schema:
            raise self.error(f"no {what} {name!r}", schema.closest(name))
        return name

    def type(self, given: Any, of: str) -> DataType:
        """A type that the user gives."""
        try:
            return as_type(given)
        except TypeError as error:
            raise self.error(f"the type of {of!r}: {error}") from None

    def names(self, given: Any, what: str) -> tuple[str, ...]:
        """One string, or some of them."""
        if isinstance(given, str):
            return (given,)
        if isinstance(given, Sequence) and all(isinstance(name, str) for name in given):
            return tuple(given)
        raise self.error(f"{what}={given!r} is not a list of names", f'{what}=["a", "b"]')
