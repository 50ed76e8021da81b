"""Rows that are shared anew: the node of `rebalance`, and the exchange that it becomes.

On a node the stage behind the exchange has one copy, in which the workers share the rows of every
operator without state, slice by slice, and put what these become in order; so it does not matter
who has read the rows, or made them. On Spark the rows go to the shards in turns, one by one; the
number of a row in its task decides, so that an attempt that is made again sends each to the same.
A single owner has nobody to share rows with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from .checks import Place
from .graph import transform
from .nodes import Exchange, Node, Received


@dataclass(frozen=True, eq=False)
class Rebalance(Node):
    """What follows shares its rows anew, on at most `width` workers or shards; None: on all."""

    width: int | None = None
    kind: ClassVar[str] = "rebalance"

    def detail(self) -> str:
        """See Node."""
        return said_width(self.width)


@dataclass(frozen=True, eq=False)
class Turns(Exchange):
    """Where rows are shared anew."""

    width: int | None = None

    def detail(self) -> str:
        """See Node."""
        return f"in turns, {said_width(self.width)}"


@dataclass(frozen=True, eq=False)
class Shared(Received):
    """Rows that are shared."""

    width: int | None = None


def rebalance(node: Node, width: Any, name: str | None = None) -> Rebalance:
    """Share the rows anew."""
    place = Place("rebalance", name)
    if width is not None and (isinstance(width, bool) or not isinstance(width, int) or width < 1):
        raise place.error(f"width={width!r} is not a number of workers", "rebalance(4)")
    return Rebalance(
        (node,),
        node.schema,
        place.name,
        site=place.site,
        key=node.key,
        time=node.time,
        width=width,
    )


def for_one_owner(roots: Sequence[Node]) -> tuple[Node, ...]:
    """The plan of an owner who shares rows with nobody."""

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        return inputs[0] if isinstance(node, Rebalance) else node.with_inputs(*inputs)

    return tuple(transform(roots, change))


def said_width(width: int | None) -> str:
    """In words.

    >>> said_width(None), said_width(2)
    ('over all', 'over at most 2')
    """
    return "over all" if width is None else f"over at most {width}"
