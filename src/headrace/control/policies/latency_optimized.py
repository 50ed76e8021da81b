"""Enjima's latency-optimised policy (§3.2.1): eqs. 1 to 5 and algorithm 1.

Operators that bring a row out soonest come first, weighted by how their query's latency changes;
only those with enough rows, or idle for long enough, are eligible at all; and a run lasts until the
scheduler looks again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..arrays import LEAST_COST, Booleans, Floats, floats
from ..features import Features
from ..policy import Policy


def weight(latency_gradient: Floats) -> Floats:
    """Enjima eq. 3: 0.9 to 1.1, more for a query whose latency grows.

    >>> weight(floats([-5.0, 0.0, 0.5, 5.0]))
    array([0.9 , 1.  , 1.05, 1.1 ])
    """
    return np.asarray(np.clip(latency_gradient, -1.0, 1.0) / 10.0 + 1.0)


def priority(features: Features) -> Floats:
    """P(O_i) = W(Q_j) / C̄_i, with eqs. 1 to 3.

    >>> from headrace.control import Graph
    >>> graph = Graph.of("ab", [(0, 1)])
    >>> priority(
    ...     Features.given(graph, cost=[1, 1], selectivity=[0.5, 1], latency_gradient=[1, 1])
    ... ).round(3)
    array([0.367, 1.1  ])
    """
    return weight(features.latency_gradient) / np.maximum(features.output_cost, LEAST_COST)


def rows_to_process(features: Features, least: int) -> Floats:
    """Enjima eq. 4, N_proc: the rows that fit until the scheduler looks again, at least N_min.

    The paper prints c_i / (t_s - t); the number of rows that fit is (t_s - t) / c_i.

    >>> from headrace.control import Graph
    >>> features = Features.given(Graph.of("ab", []), now=1.0, next_period=2.0, cost=[0.1, 0.6])
    >>> rows_to_process(features, least=4)
    array([10.,  4.])
    """
    left = features.next_period - features.now
    if left <= 0:
        return np.full(len(features), float(least))
    with np.errstate(divide="ignore"):  # what costs nothing fits without end
        return np.maximum(np.floor(np.round(left / features.cost, 6)), least)


@dataclass
class Threshold:
    """One of the two thresholds of a query, moved by eq. 5 and taken back if that did harm.

    >>> rows = Threshold(1000, largest=10_000, largest_step=1000)
    >>> rows.adapt(0.5), rows.adapt(0.4), rows.adapt(0.6)  # up, up, and back
    (1500.0, 2100.0, 1500.0)
    """

    value: float
    largest: float
    largest_step: float
    _before: float = field(init=False, repr=False)
    _gradient: float = field(default=0.0, init=False, repr=False)

    def __post_init__(self) -> None:
        self._before = self.value

    def adapt(self, gradient: float) -> float:
        """Move it by the gradient of the query's mean latency."""
        if self.value != self._before and gradient > self._gradient:
            self.value = self._before  # "the thresholds are reverted to their previous values"
        else:
            self._before = self.value
            step = min(gradient * self.value, self.largest_step)  # eq. 5
            if 0 < self.value + step < self.largest:
                self.value += step
        self._gradient = gradient
        return self.value


class Eligibility:
    """Enjima algorithm 1, with the thresholds ET and IT of each query.

    >>> from headrace.control import Graph
    >>> eligibility = Eligibility(event_threshold=4, idle_threshold=5.0)
    >>> features = Features.given(
    ...     Graph.of("abcd", []), now=6.0, pending=[4, 1, 1, 9], last_scheduled=[6, 6, 0, 6],
    ...     output_room=[9, 9, 9, 0],
    ... )
    >>> eligibility(features)  # enough rows; too few; idle for long; nowhere to put them
    array([ True, False,  True, False])
    """

    def __init__(
        self,
        event_threshold: float,
        idle_threshold: float,
        most_events: float = 10_000,
        most_idle: float = 0.1,
        event_step: float = 1000,
        idle_step: float = 0.01,
    ) -> None:
        self._events = event_threshold, most_events, event_step
        self._idle = idle_threshold, most_idle, idle_step
        self.thresholds: dict[int, tuple[Threshold, Threshold]] = {}  # by query: ET and IT

    def of(self, query: int) -> tuple[Threshold, Threshold]:
        """ET and IT of a query."""
        if query not in self.thresholds:
            self.thresholds[query] = Threshold(*self._events), Threshold(*self._idle)
        return self.thresholds[query]

    def adapt(self, features: Features) -> None:
        """Once per period: move all thresholds by the latency gradient of their query."""
        gradient = dict(zip(features.graph.query, features.latency_gradient.tolist()))
        for query, change in gradient.items():
            for threshold in self.of(query):
                threshold.adapt(change)

    def __call__(self, features: Features) -> Booleans:
        """Algorithm 1 for all operators."""
        thresholds = [self.of(query) for query in features.graph.query]
        events = floats([et.value for et, _ in thresholds])
        idle = floats([it.value for _, it in thresholds])
        idle_time = features.now - features.last_scheduled
        # Line 9 prints `nPending > eventThreshold`; the example (4 pending, threshold 4) means >=.
        wanted = (idle_time > idle) | (features.pending >= events)
        return np.asarray(wanted & (features.output_room > 0))  # lines 3 and 4


def latency_optimized(
    event_threshold: float = 1000,
    idle_threshold: float = 1e-3,
    least_rows: int = 1,
    period: float = 1e-3,
    adaptive: bool = True,
) -> Policy:
    """The policy, with the values of Enjima §5.2; a new one each time, since thresholds move.

    >>> latency_optimized().period
    0.001
    """
    eligibility = Eligibility(event_threshold, idle_threshold)
    policy = Policy(
        "latency_optimized",
        priority,
        eligible=eligibility,
        limit=lambda features: rows_to_process(features, least_rows),
        period=period,
    )
    if not adaptive:
        return policy
    return replace(policy, adapt=eligibility.adapt)
