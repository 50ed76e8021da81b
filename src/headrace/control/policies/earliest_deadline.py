"""Earliest deadline first (Liu, Layland 1973): whose row is nearest to the time it is due."""

from __future__ import annotations

import numpy as np

from ..arrays import Floats
from ..features import Features
from ..policy import Policy


def priority(features: Features) -> Floats:
    """The earlier the row at the head must have come through, the higher: its clock time and the
    deadline of its query. Behind them come queries without a deadline, the oldest row first.

    >>> from headrace.control import Graph
    >>> none = float("inf")
    >>> graph = Graph.of("abc", [])
    >>> priority(Features.given(graph, head_time=[5.0, 6.0, 1.0], deadline=[3.0, 1.0, none]))
    array([[ -8.,  -5.],
           [ -7.,  -6.],
           [-inf,  -1.]])
    """
    return np.stack([-(features.head_time + features.deadline), -features.head_time], axis=1)


def earliest_deadline() -> Policy:
    """The policy.

    >>> earliest_deadline().name
    'earliest_deadline'
    """
    return Policy("earliest_deadline", priority)
