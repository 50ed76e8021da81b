"""What users said: queries of higher priority first, the oldest rows first among equals."""

from __future__ import annotations

import numpy as np

from ..arrays import Floats
from ..features import Features
from ..policy import Policy
from .ageing import aged


def user_priority(patience: float | None = None) -> Policy:
    """The policy; with `patience`, who waited so many seconds rises by one.

    >>> from headrace.control import Graph
    >>> features = Features.given(Graph.of("ab", []), user_priority=[1, 2], head_time=[5, 6])
    >>> user_priority().priority(features)
    array([[ 1., -5.],
           [ 2., -6.]])
    """

    def priority(features: Features) -> Floats:
        rank = aged(features.user_priority, features, patience)
        return np.stack([rank, -features.head_time], axis=1)

    return Policy("user_priority", priority)
