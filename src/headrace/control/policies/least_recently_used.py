"""Least recently used: what Streams' free list amounts to (§4.1.5)."""

from __future__ import annotations

from ..arrays import Floats
from ..features import Features
from ..policy import Policy


def priority(features: Features) -> Floats:
    """The longer ago the last run, the higher.

    >>> from headrace.control import Graph
    >>> priority(Features.given(Graph.of("ab", []), last_scheduled=[3.0, 1.0]))
    array([-3., -1.])
    """
    return -features.last_scheduled


def least_recently_used() -> Policy:
    """The policy.

    >>> least_recently_used().name
    'least_recently_used'
    """
    return Policy("least_recently_used", priority)
