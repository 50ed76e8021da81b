"""Haren's scheduling task (§6, algorithms 2 and 3), apart from threads and barriers.

An engine says which operators ran; the answer is who runs where, in which order, and how long.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from . import asking
from .arrays import Booleans, Integers
from .engine import Observed
from .features import Features
from .graph import Graph
from .policy import Policy, Priority, as_policy

PERIOD, BATCH = 0.1, 10  # Haren §7.2


@dataclass(frozen=True)
class Decision:
    """Operators by rank, and who is equal: `step` grows from one distinct priority to the next."""

    order: Integers  # operators, the first to run first
    step: Integers  # by operator; equal priorities have the same
    eligible: Booleans
    limits: Integers


class Scheduling:
    """Features and a policy; the policy may be swapped, and the graph may change, at any time.

    >>> from headrace.control.features import Given
    >>> graph = Graph.of("abc", [])
    >>> scheduling = Scheduling(Given(graph, {"cost": [2, 1, 2]}), graph, lambda f: f.cost)
    >>> decision = scheduling.decide(executed=[], now=0.0)
    >>> decision.order, decision.step
    (array([0, 2, 1]), array([0, 1, 0]))
    """

    def __init__(
        self,
        engine: Observed,
        graph: Graph,
        policy: Policy | Priority,
        *,
        period: float = PERIOD,
        batch: int = BATCH,
    ) -> None:
        """period, batch: where the policy does not say them."""
        self._engine, self._period, self._batch = engine, period, batch
        self.policy = as_policy(policy)
        self.features = Features(engine, graph)

    @property
    def period(self) -> float:
        """P: seconds from one look at the features to the next."""
        return self._period if self.policy.period is None else self.policy.period

    @property
    def batch(self) -> int:
        """b: rows of a run, at the most, where the policy has no limits."""
        return self._batch if self.policy.batch is None else self.policy.batch

    def update(self, graph: Graph) -> None:
        """Haren's `update`: other operators; everything is read anew."""
        now, read = self.features.now, self.features.values_read
        self.features = Features(self._engine, graph, now)
        self.features.values_read = read

    def adapt(self, executed: Iterable[int], now: float) -> None:
        """A period begins: features are refreshed, and the policy may adapt itself to them."""
        self.features.refresh(executed, now)
        self.features.next_period = now + self.period
        asking.adapt(self.policy, self.features)

    def decide(self, executed: Iterable[int], now: float) -> Decision:
        """Refresh what may have changed, then rank everybody (algorithm 2)."""
        policy, features = self.policy, self.features
        features.refresh(executed, now)
        rows = asking.priorities(policy, features)
        order = asking.ranking(rows)
        ranked = rows[order]
        differs = np.any(ranked[1:] != ranked[:-1], axis=1)
        step = np.zeros(len(order), dtype=np.int64)
        step[order[1:]] = np.cumsum(differs)
        eligible = asking.eligibility(policy, features)
        return Decision(order, step, eligible, asking.limits(policy, features, self.batch))

    def assign(self, threads: int) -> Integers:
        """The thread of each operator (algorithm 3, lines 6 to 8)."""
        return asking.assignment(self.policy, self.features, threads)
