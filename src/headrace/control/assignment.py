"""Which thread runs an operator: Haren's f (§4.1). Each function gives a thread per operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from .arrays import Answer, Integers
from .features import Features


def by_query(features: Features, threads: int) -> Integers:
    """Round robin by query: all operators of a query on one thread, the next query on the next.

    >>> from headrace.control import Graph
    >>> graph = Graph.of("abcd", [], query=[7, 7, 8, 9])
    >>> by_query(Features.given(graph), threads=2)
    array([0, 0, 1, 0])
    """
    turn = {
        query: place % threads for place, query in enumerate(dict.fromkeys(features.graph.query))
    }
    return np.array([turn[query] for query in features.graph.query], dtype=np.int64)


def at_random(seed: int = 0) -> Callable[[Features, int], Integers]:
    """Any thread, anew every time, as in Haren's evaluation (§7.2).

    >>> from headrace.control import Graph
    >>> features = Features.given(Graph.of("abcd", []))
    >>> bool((at_random(1)(features, 3) == at_random(1)(features, 3)).all())
    True
    """
    generator = np.random.default_rng(seed)

    def random(features: Features, threads: int) -> Integers:
        return generator.integers(0, threads, len(features))

    return random


def load_balanced(features: Features, threads: int) -> Integers:
    """The same load for all threads: the operator with the most of it goes where there is least.

    Load is cost × rate, the seconds of work that reach an operator in a second.

    >>> from headrace.control import Graph
    >>> features = Features.given(Graph.of("abc", []), cost=[3.0, 2.0, 1.0], rate=[1, 1, 1])
    >>> load_balanced(features, threads=2)
    array([0, 1, 1])
    """
    load = features.cost * features.rate
    taken, found = [0.0] * threads, np.zeros(len(features), dtype=np.int64)
    for operator in np.argsort(-load, kind="stable"):
        thread = taken.index(min(taken))
        found[operator] = thread
        taken[thread] += float(load[operator])
    return found


def pinned(
    threads_of: Mapping[str, int], others: Callable[[Features, int], Answer] = by_query
) -> Callable[[Features, int], Answer]:
    """Operators with these names on these threads, all others as `others` says.

    >>> from headrace.control import Graph
    >>> features = Features.given(Graph.of(["a", "b"], []))
    >>> pinned({"b": 1})(features, 2)
    array([0, 1])
    """

    def pin(features: Features, threads: int) -> Answer:
        found = np.array(others(features, threads))
        for operator, name in enumerate(features.graph.names):
            if name in threads_of:
                found[operator] = threads_of[name]
        return found

    return pin
