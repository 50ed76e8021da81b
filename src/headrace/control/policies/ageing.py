"""Ageing: whoever waits rises, so that nobody starves."""

from __future__ import annotations

import numpy as np

from ..arrays import Floats
from ..features import Features


def aged(rank: Floats, features: Features, patience: float | None) -> Floats:
    """One rank more for every `patience` seconds that the head has waited; None: never.

    >>> from headrace.control import Graph
    >>> features = Features.given(Graph.of("ab", []), now=10.0, head_time=[9.5, 4.0])
    >>> aged(np.array([1.0, 0.0]), features, patience=3.0)
    array([1., 2.])
    """
    if patience is None:
        return rank
    waited = np.maximum(features.now - features.head_time, 0.0)  # no row: head_time is inf
    return rank + np.floor(waited / patience)
