"""Highest rate (Haren §7.2, after Sharaf et al.): minimises the mean latency."""

from __future__ import annotations

from ..arrays import Floats
from ..features import Features
from ..paths import global_output_rate
from ..policy import Policy


def priority(features: Features) -> Floats:
    """The global output rate: rows that leave per second if it and all behind it ran.

    >>> from headrace.control import Graph
    >>> graph = Graph.of("ab", [(0, 1)])
    >>> priority(Features.given(graph, cost=[1.0, 2.0], selectivity=[0.5, 1.0]))
    array([0.25, 0.5 ])
    """
    return global_output_rate(features.graph, features.cost, features.selectivity)


def highest_rate() -> Policy:
    """The policy.

    >>> highest_rate().name
    'highest_rate'
    """
    return Policy("highest_rate", priority)
