"""First come, first served (Haren §7.2; Enjima §5.1.2): minimises the maximum latency."""

from __future__ import annotations

from ..arrays import Floats
from ..features import Features
from ..policy import Policy


def priority(features: Features) -> Floats:
    """The earlier the clock time l_H of the row at the head (Haren, table 1), the higher.

    >>> from headrace.control import Graph
    >>> priority(Features.given(Graph.of("ab", []), head_time=[2.0, float("inf")]))
    array([ -2., -inf])
    """
    return -features.head_time  # "the inverse of l_H": the order is the same


def fcfs() -> Policy:
    """The policy.

    >>> fcfs().name
    'fcfs'
    """
    return Policy("fcfs", priority)
