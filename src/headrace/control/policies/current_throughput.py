"""Current throughput (Ordered §6.4): the operator that is furthest behind in this window."""

from __future__ import annotations

import numpy as np

from ..arrays import LEAST_COST, Floats
from ..features import Features
from ..paths import cumulative_selectivity
from ..policy import Policy


def effective_rows(features: Features, time_slice: float) -> Floats:
    """Ordered eq. 3: n_i = (T_i + w_i × s) / (c_i × cs), rows in units of rows of the ingress.

    The paper divides by cs_i, which includes the operator's own selectivity; rows *processed* are
    those before it, so cs is that of the operators before. What no row reaches is never behind.

    >>> from headrace.control import Graph
    >>> effective_rows(Features.given(
    ...     Graph.of("ab", [(0, 1)]), worker_time=[1, 1], workers=[0, 1], cost=[0.1, 0.1],
    ...     selectivity=[0.5, 1],
    ... ), time_slice=0.5)
    array([10., 30.])
    """
    into, _ = cumulative_selectivity(features.graph, features.selectivity)
    work = features.worker_time + features.workers * time_slice
    with np.errstate(divide="ignore", invalid="ignore"):
        found = work / (features.cost * into)
    return np.where(into > 0, np.nan_to_num(found, nan=0.0), np.inf)


def current_throughput(time_slice: float = 1e-3) -> Policy:
    """The policy; `time_slice` is the s of eq. 3, for which a worker is allotted.

    >>> current_throughput().name
    'current_throughput'
    """
    return Policy(
        "current_throughput",
        lambda features: -effective_rows(features, time_slice),
        # §6: as many rows as fit into the slice
        limit=lambda features: np.maximum(time_slice / np.maximum(features.cost, LEAST_COST), 1),
        period=1e-3,
    )
