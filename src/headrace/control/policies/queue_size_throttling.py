"""Queue-size throttling (Ordered §6.1): push rows from the ingress, one operator at a time."""

from __future__ import annotations

import numpy as np

from ..arrays import Booleans, Floats, floats
from ..features import Features
from ..paths import cumulative_selectivity
from ..policy import Policy


def thresholds(features: Features, capacity: float) -> Floats:
    """Ordered eq. 1: T_i = C × cs_i / the sum of cs over the operators of the query.

    >>> from headrace.control import Graph
    >>> features = Features.given(Graph.of("ab", [(0, 1)]), selectivity=[1.0, 0.5])
    >>> thresholds(features, capacity=300)
    array([200., 100.])
    """
    _, out = cumulative_selectivity(features.graph, features.selectivity)
    query = np.unique(np.array(features.graph.query), return_inverse=True)[1]
    sums = np.bincount(query, weights=out)[query]
    return np.divide(capacity * out, sums, out=np.zeros_like(out), where=sums > 0)


def priority(features: Features) -> Floats:
    """The earliest operator of the pipeline first.

    >>> from headrace.control import Graph
    >>> priority(Features.given(Graph.of("ab", [(0, 1)])))
    array([-0., -1.])
    """
    return -floats(features.graph.depth)


def queue_size_throttling(capacity: float = 10_000) -> Policy:
    """The policy; `capacity` is the C of eq. 1, rows in all queues of a query.

    >>> queue_size_throttling().name
    'queue_size_throttling'
    """

    def eligible(features: Features) -> Booleans:
        # A sink has no output queue, and nothing to be throttled by.
        sink = np.array([not behind for behind in features.graph.downstream])
        return np.asarray(sink | (features.output_queue < thresholds(features, capacity)))

    return Policy("queue_size_throttling", priority, eligible=eligible, period=1e-3)
