"""Estimated time (Ordered §6.3): who needs longest for what waits, if one more worker came."""

from __future__ import annotations

import numpy as np

from ..arrays import Floats
from ..features import Features
from ..policy import Policy


def priority(features: Features) -> Floats:
    """Ordered eq. 2: I_i × c_i / (w_i + 1) where w_i < M_i, else 0.

    >>> from headrace.control import Graph
    >>> priority(Features.given(
    ...     Graph.of("ab", []), pending=[10, 10], cost=[2, 2], workers=[1, 1], parallelism=[4, 1]
    ... ))
    array([10.,  0.])
    """
    time = features.pending * features.cost / (features.workers + 1)
    return np.where(features.workers < features.parallelism, time, 0.0)


def estimated_time() -> Policy:
    """The policy.

    >>> estimated_time().name
    'estimated_time'
    """
    return Policy("estimated_time", priority)
