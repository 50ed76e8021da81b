"""Last in pipeline (Ordered §6.2): pull rows out, the latest operator that has some first."""

from __future__ import annotations

from ..arrays import Booleans, Floats, floats
from ..features import Features
from ..policy import Policy


def priority(features: Features) -> Floats:
    """The latest operator of the pipeline first.

    >>> from headrace.control import Graph
    >>> priority(Features.given(Graph.of("ab", [(0, 1)])))
    array([0., 1.])
    """
    return floats(features.graph.depth)


def eligible(features: Features) -> Booleans:
    """Those with a worklist of at least one row: the paper's threshold.

    >>> from headrace.control import Graph
    >>> eligible(Features.given(Graph.of("ab", [(0, 1)]), pending=[3, 0]))
    array([ True, False])
    """
    return features.pending >= 1


def last_in_pipeline() -> Policy:
    """The policy.

    >>> last_in_pipeline().name
    'last_in_pipeline'
    """
    return Policy("last_in_pipeline", priority, eligible=eligible, period=1e-3)
