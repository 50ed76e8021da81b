"""Round robin (Enjima §5.1.2): each operator in turn, a block of rows at a time."""

from __future__ import annotations

import numpy as np

from ..arrays import Floats
from ..features import Features
from ..policy import Policy


def priority(features: Features) -> Floats:
    """The operator behind the one that ran last is first, then the one behind that, around.

    >>> from headrace.control import Graph
    >>> priority(Features.given(Graph.of("abc", []), last_scheduled=[0.1, 0.3, 0.2]))
    array([-1., -2., -0.])
    """
    count = len(features)
    last = int(np.argmax(features.last_scheduled)) if features.last_scheduled.any() else count - 1
    return -np.asarray((np.arange(count) - last - 1) % count, dtype=np.float64)


def round_robin() -> Policy:
    """The policy.

    >>> round_robin().name
    'round_robin'
    """
    return Policy("round_robin", priority)
