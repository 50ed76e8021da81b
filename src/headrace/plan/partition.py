"""How keys lie in parts (Ordered §4), where it is not their hash that says it.

A part is one key group, so the rows of a part are worked on in order, its state lies together, and
it moves as one to another owner. Which part a key belongs to is an expression over the key, a
component of its hash from there on: owners, queues, shards and snapshots look at nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .expressions import Binary, Call, Expression, KeyHash, Literal, When
from .functions import Function
from .site import Site
from .types import DataType, float64, int64

GROUPS = 128  # key groups (Ordered's partitions): the unit of ownership and of saved state


@dataclass(frozen=True)
class RangePartition:
    """Keys in ranges: those below the first bound, those from there to the next one, and so on.
    Null and NaN are behind all numbers."""

    bounds: tuple[Literal, ...]
    site: Site | None = field(default=None, compare=False)

    @property
    def parts(self) -> int:
        """How many there are."""
        return len(self.bounds) + 1

    def part(self, key: Sequence[Expression]) -> Expression:
        """The part of a key.

        >>> from .expressions import Column
        >>> bounds = tuple(Literal(n, int64) for n in (10, 100))
        >>> str(RangePartition(bounds).part([Column("n")]))
        'when((n < 100): when((n < 10): 0, else 1), else 2)'
        """
        (value,) = key
        return self._search(value, 0, len(self.bounds))

    def takes(self, kinds: Sequence[DataType]) -> bool:
        """Is it for keys of these types?"""
        return len(kinds) == 1

    def _search(self, value: Expression, low: int, high: int) -> Expression:
        """The number of a range from `low` to `high`, by halves."""
        if low == high:
            return Literal(low, int64)
        middle = (low + high) // 2
        below, above = self._search(value, low, middle), self._search(value, middle + 1, high)
        return When((Binary("<", value, self.bounds[middle]),), (below,), above)

    def __str__(self) -> str:
        return f"range({', '.join(map(str, self.bounds))})"

    @property
    def identity(self) -> str:
        """What must stay for saved state to lie where it is looked for."""
        return str(self)


@dataclass(frozen=True)
class FunctionPartition:
    """A compiled function of the key gives the part, a number from 0 on."""

    function: Function
    parts: int
    site: Site | None = field(default=None, compare=False)

    def part(self, key: Sequence[Expression]) -> Expression:
        """The part of a key. Keys that are equal are given as one value: -0.0 is 0.0."""
        plain = [
            Binary("+", value, Literal(0.0, float64)) if kind.is_float else value
            for value, kind in zip(key, self.function.inputs, strict=True)
        ]
        return Call(self.function, tuple(plain))

    def takes(self, kinds: Sequence[DataType]) -> bool:
        """Is it for keys of these types?"""
        return self.function.inputs == tuple(kinds)

    def __str__(self) -> str:
        return f"{self.function.name} in {self.parts} parts"

    @property
    def identity(self) -> str:
        """What must stay for saved state to lie where it is looked for."""
        return f"{self} ({self.function.fingerprint})"


Partition = RangePartition | FunctionPartition


def hash_of(key: Sequence[Expression], partition: Partition | None) -> KeyHash:
    """The hash of a key, whose top bits are its key group."""
    if partition is None:
        return KeyHash(tuple(key))
    return KeyHash(tuple(key), partition.part(key), partition.parts)
