"""Lists and structs of a stream, taken apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .beside import Beside
from .plan import build_nested

if TYPE_CHECKING:
    from .stream import Stream


class Unfolded(Beside):
    """More rows, or more columns, of what is in one."""

    __slots__ = ()

    def explode(self, column: str, *, name: str | None = None) -> Stream:
        """A row for each item of a list, which takes the place of the list.

        A list that is empty or null gives one row with a null, as in Polars; `filter` it where it
        is not wanted. Key and event time go along.

        >>> from headrace.stream import example
        >>> example(user=str, tags=list[str]).explode("tags")
        Stream(user: string, tags: optional(string))
        """
        return self._made(build_nested.explode(self._node, column, name))

    def unnest(self, *columns: str, name: str | None = None) -> Stream:
        """The fields of structs as columns, in the place of the structs.

        >>> from headrace.stream import example
        >>> example(user=str, at={"lat": float, "lon": float}).unnest("at")
        Stream(user: string, lat: optional(float64), lon: optional(float64))
        """
        return self._made(build_nested.unnest(self._node, columns, name))
