"""Errors of connectors while a pipeline runs: they say which operator it was, and its line."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from .checks import Place
from .errors import DataError

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Located:
    """A source, a reader or a sink that may know the operator it stands for."""

    place: Place | None = None


Connector = TypeVar("Connector", bound=Located)


def stands_at(connector: Any, place: Place) -> None:
    """Tell a connector, if it wants to know, where in a pipeline it stands."""
    if getattr(connector, "place", place) is None:
        connector.place = place


def says_where(
    method: Callable[Concatenate[Connector, Given], Result],
) -> Callable[Concatenate[Connector, Given], Result]:
    """A method of a connector; a DataError that it raises names the operator and the user's line.

    >>> class Reader(Located):
    ...     @says_where
    ...     def poll(self):
    ...         raise DataError("a.json, line 2: not JSON")
    >>> from .site import Site
    >>> reader = Reader()
    >>> stands_at(reader, Place("read.json", "views", Site("p.py", 3, "hr.read.json(folder)")))
    >>> reader.poll()
    Traceback (most recent call last):
    headrace.plan.errors.DataError: read.json 'views': a.json, line 2: not JSON
      at p.py:3: hr.read.json(folder)
    """

    @wraps(method)
    def call(self: Connector, /, *given: Given.args, **named: Given.kwargs) -> Result:
        try:
            return method(self, *given, **named)
        except DataError as error:
            if self.place is None or error.is_located:
                raise
            what, hint, fix = str(error).partition("\n  fix: ")
            where = f"{self.place.operator}: {what}\n  at {self.place.site!r}"
            located = type(error)(f"{where}{hint}{fix}")
            located.is_located = True
            raise located from None

    return call
