"""A policy: who runs on which thread (Haren's f), and who runs first there (Haren's g)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from .arrays import Answer
from .assignment import by_query
from .features import Features

Priority = Callable[[Features], Answer]  # g: a value per operator, or a row of values; more first
Assign = Callable[[Features, int], Answer]  # f: a thread for each operator
Eligible = Callable[[Features], Answer]  # may it be scheduled now?
Limit = Callable[[Features], Answer]  # rows that it may take before somebody else is chosen
Adapt = Callable[[Features], None]  # called once per period, before anything else is asked


def no_change(features: Features) -> None:
    """Adapt nothing."""


@dataclass(frozen=True)
class Policy:
    """What a scheduler asks: plain functions over features, and Haren's parameters P, b and d.

    Only `priority` is needed. Values are compared lexicographically, more comes first, -inf last;
    equal operators share a thread's time in the order of their numbers.

    >>> def oldest_first(features):
    ...     return -features.head_time
    >>> policy = Policy("oldest_first", oldest_first)
    >>> policy.period, policy.batch  # as the scheduler has them
    (None, None)
    """

    name: str
    priority: Priority
    assign: Assign = field(default=by_query)
    eligible: Eligible | None = None  # None: everybody who can run
    limit: Limit | None = None  # None: the batch, for everybody
    adapt: Adapt = field(default=no_change)
    period: float | None = None  # P: seconds between two looks at features; None: the scheduler's
    batch: int | None = None  # b: rows of a run, at the most; None: the scheduler's
    staleness: float = inf  # d: seconds after which an operator runs for its features' sake

    def __post_init__(self) -> None:
        given = (self.period, self.batch, self.staleness)
        if not all(value is None or value > 0 for value in given):
            raise ValueError(
                f"policy {self.name!r}: period={self.period}, batch={self.batch}, "
                f"staleness={self.staleness}: each must be above zero"
            )


def as_policy(given: Policy | Priority) -> Policy:
    """A policy; a plain function is the priority of one that is named like it.

    >>> def cheapest(features):
    ...     return -features.cost
    >>> as_policy(cheapest).name
    'cheapest'
    """
    if isinstance(given, Policy):
        return given
    return Policy(getattr(given, "__name__", "unnamed"), given)
