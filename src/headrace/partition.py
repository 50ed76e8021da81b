"""How keys lie in parts: what `key_by(..., partition=)` takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .expr import plain
from .plan.build_partition import ByFunction, ByRange


def by_range(bounds: Iterable[Any]) -> ByRange:
    """Keys in ranges: those below the first bound are one part, those from there to below the next
    one another, and so on. Null and NaN are in the last one. At most 127 bounds, ascending.

    The rows of a part are worked on by one worker at a time, and its state lies together: in one
    shard on Spark.

    >>> from headrace.stream import example
    >>> example(age=int).key_by("age", partition=by_range([18, 65]))
    Stream(age: int64; key age)
    """
    return ByRange(bounds if isinstance(bounds, str | bytes) else _listed(bounds))


def by_function(function: Callable[..., Any], parts: int) -> ByFunction:
    """Keys in as many parts (at most 128), by a compiled function: its parameters are the columns
    of the key, in order, and it gives the number of the part, from 0 on. One that is not there is
    an error of the row.

    >>> from headrace.stream import example
    >>> def half(user):
    ...     return len(user) % 2
    >>> example(user=str).key_by("user", partition=by_function(half, parts=2))
    Stream(user: string; key user)
    """
    return ByFunction(plain(function), parts)


def _listed(bounds: Any) -> Any:
    """A list of it, once, where it is one."""
    return list(bounds) if isinstance(bounds, Iterable) else bounds
