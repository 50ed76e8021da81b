"""Min. latency (Enjima §5.1.2, after Carney et al.): the operator with the lowest output cost."""

from __future__ import annotations

from ..arrays import Floats
from ..features import Features
from ..policy import Policy


def priority(features: Features) -> Floats:
    """Less C̄ (Enjima eq. 2) is first; what never gives anything is last.

    >>> from headrace.control import Graph
    >>> graph = Graph.of("ab", [(0, 1)])
    >>> priority(Features.given(graph, cost=[1.0, 1.0], selectivity=[0.5, 1.0]))
    array([-3., -1.])
    """
    return -features.output_cost


def min_latency() -> Policy:
    """The policy.

    >>> min_latency().name
    'min_latency'
    """
    return Policy("min_latency", priority)
