"""Asking a policy: every answer is checked before anything is done with it."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np

from .arrays import Answer, Booleans, Floats, Integers
from .errors import PolicyError
from .features import Features
from .policy import Policy


def check(
    policy: str,
    part: str,
    ask: Callable[[], Answer],
    features: Features,
    *,
    low: float = -inf,
    high: float = inf,
    columns: bool = False,
) -> Floats:
    """What `ask` answers: a number per operator within [low, high], and nothing else.

    Anything else is a `PolicyError` that names the policy, the part and the operator.

    >>> from headrace.control import Graph
    >>> features = Features.given(Graph.of(["source", "sink"], []))
    >>> check("mine", "priority", lambda: [1.0, float("nan")], features)
    Traceback (most recent call last):
    headrace.control.errors.PolicyError: policy 'mine': priority: nan for operator 'sink'; \
it must be a number
    """
    wanted = f"{len(features)} values, one per operator"
    try:
        given: Floats = np.asarray(ask(), dtype=np.float64)
    except PolicyError:
        raise
    except Exception as error:
        raise PolicyError(policy, part, f"it raised {type(error).__name__}: {error}") from error
    if columns and given.ndim == 2:
        wanted = f"{len(features)} rows, one per operator"
    if given.ndim not in ((1, 2) if columns else (1,)) or len(given) != len(features):
        raise PolicyError(policy, part, f"an array of shape {given.shape}; it must have {wanted}")
    bad = ~((given >= low) & (given <= high))  # NaN is bad, too
    if bad.any():
        operator = int(np.argwhere(bad)[0][0])
        value, name = float(given[bad].flat[0]), features.graph.names[operator]
        limits = "a number" if value != value else f"from {low:g} to {high:g}"
        raise PolicyError(policy, part, f"{value:g} for operator {name!r}; it must be {limits}")
    return given if given.ndim == 2 or not columns else given[:, None]


def priorities(policy: Policy, features: Features) -> Floats:
    """Haren's g for all operators: a row each, to be compared lexicographically; +inf is refused.

    >>> from headrace.control import Graph
    >>> features = Features.given(Graph.of("ab", []), cost=[1, 2])
    >>> priorities(Policy("dearest", lambda f: f.cost), features).tolist()
    [[1.0], [2.0]]
    """
    largest = np.finfo(np.float64).max
    return check(
        policy.name, "priority", lambda: policy.priority(features), features,
        high=float(largest), columns=True,
    )  # fmt: skip


def ranking(rows: Floats) -> Integers:
    """Operators from the first to the last: lexicographic (Haren §6), ties by number.

    >>> ranking(np.array([[1.0, 5.0], [2.0, 0.0], [2.0, 1.0]]))
    array([2, 1, 0])
    """
    return np.lexsort(tuple(-rows[:, column] for column in reversed(range(rows.shape[1]))))


def assignment(policy: Policy, features: Features, threads: int) -> Integers:
    """Haren's f for all operators: the thread of each.

    >>> from headrace.control import Graph
    >>> features = Features.given(Graph.of("ab", []))
    >>> assignment(Policy("third", lambda f: f.cost, assign=lambda f, k: [2, 0]), features, 2)
    Traceback (most recent call last):
    headrace.control.errors.PolicyError: policy 'third': assign: 2 for operator 'a'; \
it must be from 0 to 1
    """
    found = check(
        policy.name, "assign", lambda: policy.assign(features, threads), features,
        low=0, high=threads - 1,
    )  # fmt: skip
    whole = found.astype(np.int64)
    if (whole != found).any():
        raise PolicyError(policy.name, "assign", "threads are whole numbers")
    return whole


def eligibility(policy: Policy, features: Features) -> Booleans:
    """Who may be scheduled now.

    >>> from headrace.control import Graph
    >>> eligibility(Policy("all", lambda f: f.cost), Features.given(Graph.of("ab", [])))
    array([ True,  True])
    """
    eligible = policy.eligible
    if eligible is None:
        return np.ones(len(features), dtype=np.bool_)
    return check(
        policy.name, "eligible", lambda: eligible(features), features, low=0, high=1
    ).astype(np.bool_)


def limits(policy: Policy, features: Features, batch: int) -> Integers:
    """How many rows each operator may take before somebody else is chosen; `batch`, where the
    policy has no limits.

    >>> from headrace.control import Graph
    >>> limits(Policy("ten", lambda f: f.cost), Features.given(Graph.of("ab", [])), batch=10)
    array([10, 10])
    """
    limit = policy.limit
    if limit is None:
        return np.full(len(features), batch, dtype=np.int64)
    most = 2.0**53
    found = check(policy.name, "limit", lambda: limit(features), features, low=1, high=inf)
    return np.minimum(found, most).astype(np.int64)


def adapt(policy: Policy, features: Features) -> None:
    """Let the policy look at features once per period.

    >>> from headrace.control import Graph
    >>> adapt(Policy("all", lambda f: f.cost), Features.given(Graph.of("ab", [])))
    """
    try:
        policy.adapt(features)
    except Exception as error:
        what = f"it raised {type(error).__name__}: {error}"
        raise PolicyError(policy.name, "adapt", what) from error
