"""Min. cost (Enjima §5.1.2, after Carney et al.): post-order from the sinks.

A row runs from an ingress towards the sink with as few changes between branches as there can be:
all of one branch before the next.
"""

from __future__ import annotations

from functools import lru_cache

from ..arrays import Floats, floats
from ..features import Features
from ..graph import Graph
from ..policy import Policy


def priority(features: Features) -> Floats:
    """The earlier in the post-order with the sinks as roots, the higher.

    >>> from headrace.control import Graph
    >>> priority(Features.given(Graph.of("abs", [(0, 2), (1, 2)])))
    array([-0., -1., -2.])
    """
    return floats(_ranks(features.graph))


@lru_cache(maxsize=8)
def _ranks(graph: Graph) -> tuple[float, ...]:
    rank: dict[int, float] = {}
    sinks = [number for number in range(len(graph)) if not graph.downstream[number]]
    waiting = [(sink, False) for sink in reversed(sinks)]
    while waiting:
        operator, inputs_done = waiting.pop()
        if operator in rank:
            continue
        if inputs_done:
            rank[operator] = -float(len(rank))
            continue
        waiting.append((operator, True))
        waiting += [(before, False) for before in reversed(graph.upstream[operator])]
    return tuple(rank[number] for number in range(len(graph)))


def min_cost() -> Policy:
    """The policy.

    >>> min_cost().name
    'min_cost'
    """
    return Policy("min_cost", priority)
