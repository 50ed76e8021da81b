"""Who is scheduled, and who gives rows to whom: the topology that policies see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from .errors import ControlError


@dataclass(frozen=True)
class Graph:
    """Operators of one or several queries and the edges between them; a policy gets it with F.

    An operator is its number. Copies of one operator are one entry that may have several runs at
    once (Ordered §6). Edges go downstream.

    >>> graph = Graph.of(["source", "filter", "sink"], [(0, 1), (1, 2)])
    >>> graph.downstream[1], graph.upstream[1], graph.depth
    ((2,), (0,), (0, 1, 2))
    >>> Graph.of(["a", "b"], [(0, 1), (1, 0)]).order
    Traceback (most recent call last):
    headrace.control.errors.ControlError: the operators 'a', 'b' are on a cycle or behind one
    """

    names: tuple[str, ...]
    edges: tuple[tuple[int, int], ...]
    query: tuple[int, ...]

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        edges: Iterable[tuple[int, int]],
        query: Sequence[int] | None = None,
    ) -> Graph:
        """A graph; without `query`, all operators belong to query 0."""
        given = tuple(query) if query is not None else (0,) * len(names)
        graph = cls(tuple(names), tuple((int(a), int(b)) for a, b in edges), given)
        graph._check()
        return graph

    def _check(self) -> None:
        if len(self.query) != len(self.names):
            raise ControlError(f"{len(self.names)} operators, but {len(self.query)} query numbers")
        for edge in self.edges:
            if not all(0 <= end < len(self.names) for end in edge):
                raise ControlError(f"edge {edge}: there are operators 0 to {len(self.names) - 1}")

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def downstream(self) -> tuple[tuple[int, ...], ...]:
        """D(i): the operators immediately behind each."""
        return self._ends(0, 1)

    @cached_property
    def upstream(self) -> tuple[tuple[int, ...], ...]:
        """The operators immediately before each."""
        return self._ends(1, 0)

    def _ends(self, at: int, other: int) -> tuple[tuple[int, ...], ...]:
        found: list[list[int]] = [[] for _ in self.names]
        for edge in self.edges:
            found[edge[at]].append(edge[other])
        return tuple(map(tuple, found))

    @cached_property
    def order(self) -> tuple[int, ...]:
        """All operators, each behind everything upstream of it."""
        missing = [len(before) for before in self.upstream]
        found = [number for number, count in enumerate(missing) if count == 0]
        for operator in found:  # grows while it is read
            for behind in self.downstream[operator]:
                missing[behind] -= 1
                if missing[behind] == 0:
                    found.append(behind)
        if len(found) < len(self):
            left = ", ".join(repr(self.names[n]) for n, count in enumerate(missing) if count)
            raise ControlError(f"the operators {left} are on a cycle or behind one")
        return tuple(found)

    @cached_property
    def depth(self) -> tuple[int, ...]:
        """How many operators are before each on the longest way from an ingress."""
        found = [0] * len(self)
        for operator in self.order:
            for behind in self.downstream[operator]:
                found[behind] = max(found[behind], found[operator] + 1)
        return tuple(found)

    @cached_property
    def ingress(self) -> tuple[int, ...]:
        """The operators that nothing of ours gives rows to."""
        return tuple(number for number, before in enumerate(self.upstream) if not before)
