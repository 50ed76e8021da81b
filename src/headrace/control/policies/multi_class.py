"""Multi-class (Haren §7.4): classes of queries, one before the other, each with its own policy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .. import asking
from ..arrays import Floats
from ..features import Features
from ..policy import Policy
from .ageing import aged
from .fcfs import fcfs
from .highest_rate import highest_rate


def multi_class(
    classes: Mapping[int, Policy] | None = None, patience: float | None = None
) -> Policy:
    """Higher classes first; within a class its own policy. With `patience`, who waits rises.

    Without `classes`, Haren's own: 1 (HIGH) by first come, first served, 0 (LOW) by highest rate.

    >>> from headrace.control import Graph
    >>> features = Features.given(
    ...     Graph.of("ab", []), query_class=[0, 1], head_time=[3, 4], cost=[1, 1],
    ...     selectivity=[1, 1],
    ... )
    >>> multi_class().priority(features)
    array([[ 0.,  1.],
           [ 1., -4.]])
    """
    chosen = dict(classes) if classes is not None else {1: fcfs(), 0: highest_rate()}
    if not chosen:
        raise ValueError("multi_class: no class was given a policy")

    def priority(features: Features) -> Floats:
        unknown = set(features.query_class.tolist()) - set(chosen)
        if unknown:
            known = ", ".join(map(str, sorted(chosen)))
            raise ValueError(f"no policy for the class {unknown.pop():g}; there are: {known}")
        inner = {name: asking.priorities(policy, features) for name, policy in chosen.items()}
        widest = max(rows.shape[1] for rows in inner.values())
        found = np.zeros((len(features), 1 + widest))
        found[:, 0] = aged(features.query_class, features, patience)  # objective 1
        for name, rows in inner.items():  # objectives 2 and 3
            members = features.query_class == name
            found[members, 1 : 1 + rows.shape[1]] = rows[members]
        return found

    first = chosen[max(chosen)]
    return Policy("multi_class", priority, period=first.period, batch=first.batch)
