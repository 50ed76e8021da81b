"""Checked partitions: how the user wants keys to lie in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from .bind import FunctionChecker
from .checks import Place
from .expression_types import ExpressionError
from .expressions import Literal
from .literals import stored
from .nodes import Node
from .partition import GROUPS, FunctionPartition, Partition, RangePartition
from .types import DataType


@dataclass(frozen=True)
class ByRange:
    """What `by_range` gives."""

    bounds: Iterable[Any]

    def __repr__(self) -> str:
        return f"by_range({self.bounds!r})"


@dataclass(frozen=True)
class ByFunction:
    """What `by_function` gives."""

    function: Callable[..., Any]
    parts: int

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", repr(self.function))
        return f"by_function({name}, parts={self.parts!r})"


def partition(
    given: Any, node: Node, key: Sequence[str], place: Place, check: FunctionChecker
) -> Partition | None:
    """How the keys of a stream lie in parts, checked against their types."""
    kinds = [node.schema[name] for name in key]
    match given:
        case None:
            return None
        case ByRange():
            return _by_range(given, key, kinds, place)
        case ByFunction():
            return _by_function(given, kinds, place, check)
    raise place.error(
        f"partition={given!r} does not say how keys lie in parts",
        "hr.by_range([10, 100]), or hr.by_function(function, parts=8)",
    )


def _by_range(
    given: ByRange, key: Sequence[str], kinds: Sequence[DataType], place: Place
) -> RangePartition:
    if len(kinds) != 1:
        raise place.error(
            f"{given!r} is for one column, and the key has {len(kinds)}: {', '.join(key)}",
            "hr.by_function(function, parts=8), with a function of all of them",
        )
    (kind,) = kinds
    if kind.is_composite or kind.name == "bool":
        raise place.error(
            f"{key[0]!r} is {kind.required}, which is not divided into ranges",
            "hr.by_function(function, parts=8)",
        )
    bounds = _bounds(given, kind.required, place)
    for one, next_one in pairwise(bounds):
        if not one.value < next_one.value:
            raise place.error(
                f"{given!r}: {next_one} is not above {one}", "give the bounds in ascending order"
            )
    return RangePartition(bounds, site=place.site)


def _bounds(given: ByRange, kind: DataType, place: Place) -> tuple[Literal, ...]:
    if isinstance(given.bounds, str | bytes) or not isinstance(given.bounds, Iterable):
        raise place.error(f"{given!r}: the bounds are a list", "hr.by_range([10, 100])")
    values = list(given.bounds)
    if not 1 <= len(values) < GROUPS:
        raise place.error(
            f"{len(values)} bounds make {len(values) + 1} ranges: there are 2 to {GROUPS}",
            "hr.by_range([10, 100]) makes three",
        )
    try:
        bounds = tuple(Literal(stored(value, kind), kind) for value in values)
    except ExpressionError as error:
        raise place.error(f"{given!r}: {error.what}", error.fix) from None
    if any(bound.value != bound.value for bound in bounds):
        raise place.error(f"{given!r}: NaN bounds nothing", "leave it out: it is behind all others")
    return bounds


def _by_function(
    given: ByFunction, kinds: Sequence[DataType], place: Place, check: FunctionChecker
) -> FunctionPartition:
    parts = given.parts
    if isinstance(parts, bool) or not isinstance(parts, int) or not 1 <= parts <= GROUPS:
        raise place.error(
            f"parts={parts!r} is not a number of parts: there are 1 to {GROUPS}",
            "hr.by_function(function, parts=8)",
        )
    function = check(
        given.function, kinds, operator=place.operator, site=place.site, generator=False
    )
    made = function.outputs
    if len(made) != 1 or not made[0].is_integer or made[0].nullable:
        raise place.error(
            f"{function.name} gives {', '.join(map(str, made))}, and a part is a whole number",
            f"return a number from 0 to {parts - 1}, say int(x)",
        )
    return FunctionPartition(function, parts, site=place.site)
