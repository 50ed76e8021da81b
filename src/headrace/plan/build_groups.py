"""Checked nodes of `co_group`: a user's function over the rows of two streams, by key and window.

Nothing of it is an operator of its own. The rows of both sides are one stream, as for a join
(`build_joins`); a window gathers each column that the function reads as a list, in the order of
event time; and the function is given these lists as a `flat_map` is given columns.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .aggregates.lists import MOST_ITEMS, Gathering
from .asides import output_columns
from .bind import FunctionChecker
from .build_functions import Output, flat_map_at
from .build_joins import On, both_sides, time_of
from .build_keyed import aggregate_at, made_window
from .checks import Place
from .expressions import Aggregate, Binary, Column, Expression, Literal, Unary, When
from .nodes import SIDE, SIDE_TIME, Filter, Node, extended
from .schema import HIDDEN_PREFIX, Field
from .types import int64
from .windows.base import Window

HOW = {"inner": (True, True), "left": (True, False), "full": (False, False)}  # sides with rows
COUNTS = f"{HIDDEN_PREFIX}left_rows", f"{HIDDEN_PREFIX}right_rows"


def co_group(
    left: Node,
    right: Node,
    on: On,
    right_on: str | Sequence[str] | None,
    make: Callable[..., Window],
    given: Mapping[str, Any],
    function: Callable[..., Any],
    output: Output,
    check: FunctionChecker,
    how: str,
    limit: int,
    name: str | None = None,
) -> Node:
    """Zero or more rows for each key and window, from all rows of both sides."""
    place = Place("co_group", name)
    if how not in HOW:
        raise place.error(f"how={how!r} is not a way to group", 'use "inner", "left" or "full"')
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_ITEMS:
        raise place.error(f"limit={limit!r} is not a number of rows up to {MOST_ITEMS:,}")
    time = time_of(left, right, place)
    window = made_window(make, left.schema[time], given, place)
    if window.flags:
        raise place.error(
            f"groups are given once, and {window} more often", "leave early= and lateness= out"
        )
    both, sides = both_sides(left, right, on, right_on, place)
    read = _parameters(function, place)
    known = [*both.key, *window.columns, *(field.name for fields in sides for field in fields)]
    for parameter in read:
        if parameter not in known:
            raise place.error(
                f"the function has a parameter {parameter!r}, but neither side has such a column",
                f"there are: {', '.join(known)}",
            )
    gathered: list[tuple[str, Aggregate]] = []
    counts: list[tuple[str, Aggregate]] = []
    for k, fields in enumerate(sides):
        of_side: Expression = Column(SIDE) if k else Unary("~", Column(SIDE))
        time_there = When((of_side,), (Column(SIDE_TIME),), None)
        counts.append((COUNTS[k], Aggregate("count", time_there)))
        gathered += [
            (
                field.name,
                Aggregate(
                    "gather",
                    Column(field.name),
                    Gathering(limit, True, field.type.nullable),
                    time_there,
                ),
            )
            for field in fields
            if field.name in read
        ]
    if not gathered:
        raise place.error(
            "the function reads no column of either side", "name its parameters as columns"
        )
    groups = aggregate_at(place, both, window, gathered, check)
    made: Node = replace(
        groups,
        name="",
        schema=extended(groups.schema, *(Field(column, int64) for column in COUNTS)),
        aggregates=(*groups.aggregates, *counts),
    )
    for wanted, column in zip(HOW[how], COUNTS, strict=True):
        if wanted:
            some = Binary(">", Column(column), Literal(0, int64))
            made = Filter(
                (made,), made.schema, "", site=place.site, key=made.key, time=made.time,
                predicate=some,
            )  # fmt: skip
    carry = (*both.key, *window.columns)
    columns = {"": output_columns(output, place)}
    return flat_map_at(place, made, function, columns, check, carry=carry)


def _parameters(function: Any, place: Place) -> tuple[str, ...]:
    if not callable(function):
        raise place.error(f"{function!r} is not a function", "give a generator function")
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        raise place.error(f"{function!r} has no Python parameters", "write a generator") from None
