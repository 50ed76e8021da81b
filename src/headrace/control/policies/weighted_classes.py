"""Weighted classes: each class of queries gets work in proportion to its weight.

Stride scheduling (Waldspurger, Weihl 1995): each class has a *pass*, which moves on by the work
that its queries have done, divided by its weight; the class whose pass is least comes first, and in
a class the oldest row. A class that had nothing to do begins again where the least of the others
is: it has saved nothing up.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..arrays import Floats
from ..features import Features
from ..policy import Policy

RATIO = 4.0  # of the weight of a class to that of the class below it, where none is given


def weighted_classes(weights: Mapping[float, float] | None = None) -> Policy:
    """The policy. weights: of each class; without, each has four times that of the one below it.

    >>> from headrace.control import Graph
    >>> graph = Graph.of("ab", [], query=[1, 2])
    >>> def asked(policy, *busy):
    ...     return policy.priority(Features.given(
    ...         graph, query_class=[1, 0], pending=[9, 9], head_time=[5, 5], busy_time=busy
    ...     ))[:, 0].tolist()
    >>> policy = weighted_classes({1: 3, 0: 1})
    >>> asked(policy, 0, 0), asked(policy, 3, 0), asked(policy, 3, 2)  # seconds of work so far
    ([-0.0, -0.0], [-1.0, -0.0], [-1.0, -2.0])
    """
    if weights is not None and not (weights and all(0 < w < np.inf for w in weights.values())):
        raise ValueError(f"weighted_classes: weights={weights!r}; each class needs one above zero")
    passes = _Passes(weights)

    def priority(features: Features) -> Floats:
        at = passes.after(features)
        first = [-at[number] for number in features.query_class.tolist()]
        return np.stack([np.array(first), -features.head_time], axis=1)

    return Policy("weighted_classes", priority)


class _Passes:
    """How far each class is."""

    def __init__(self, weights: Mapping[float, float] | None) -> None:
        self._weights = weights
        self._at: dict[float, float] = {}  # classes that had rows when this was asked last
        self._busy: dict[int, float] = {}  # seconds of work so far, by query

    def _weight(self, number: float) -> float:
        if self._weights is None:
            return float(RATIO**number)
        if number not in self._weights:
            known = ", ".join(map(str, sorted(self._weights)))
            raise ValueError(f"no weight for the class {number:g}; there are: {known}")
        return self._weights[number]

    def after(self, features: Features) -> dict[float, float]:
        """The pass of each class."""
        busy, of_class = dict.fromkeys(features.graph.query, 0.0), {}
        waiting = set(features.query_class[features.pending > 0].tolist())
        for query, number, seconds in zip(
            features.graph.query, features.query_class.tolist(), features.busy_time.tolist()
        ):
            busy[query] += seconds
            of_class[query] = number
        least = min(self._at.values(), default=0.0)
        at = {number: self._at.get(number, least) for number in of_class.values()}
        for query, seconds in busy.items():
            spent = max(0.0, seconds - self._busy.get(query, seconds))
            at[of_class[query]] += spent / self._weight(of_class[query])
        self._busy = busy
        self._at = {number: value for number, value in at.items() if number in waiting}
        return at
