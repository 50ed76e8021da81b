"""The built-in policies, one file each; `POLICIES` makes a new one by its name."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import ControlError
from ..policy import Policy
from .chain import chain
from .current_throughput import current_throughput
from .earliest_deadline import earliest_deadline
from .estimated_time import estimated_time
from .fcfs import fcfs
from .highest_rate import highest_rate
from .last_in_pipeline import last_in_pipeline
from .latency_optimized import latency_optimized
from .least_recently_used import least_recently_used
from .min_cost import min_cost
from .min_latency import min_latency
from .multi_class import multi_class
from .queue_size_throttling import queue_size_throttling
from .round_robin import round_robin
from .user_priority import user_priority
from .weighted_classes import weighted_classes

POLICIES: dict[str, Callable[[], Policy]] = {
    "round_robin": round_robin,
    "fcfs": fcfs,
    "min_latency": min_latency,
    "min_cost": min_cost,
    "highest_rate": highest_rate,
    "chain": chain,
    "latency_optimized": latency_optimized,
    "queue_size_throttling": queue_size_throttling,
    "last_in_pipeline": last_in_pipeline,
    "estimated_time": estimated_time,
    "current_throughput": current_throughput,
    "least_recently_used": least_recently_used,
    "user_priority": user_priority,
    "multi_class": multi_class,
    "weighted_classes": weighted_classes,
    "earliest_deadline": earliest_deadline,
}


def make_policy(name: str) -> Policy:
    """A new policy of this name.

    >>> make_policy("fcfs").name
    'fcfs'
    >>> make_policy("best")
    Traceback (most recent call last):
    headrace.control.errors.ControlError: no policy 'best'; there are: round_robin, fcfs, \
min_latency, min_cost, highest_rate, chain, latency_optimized, queue_size_throttling, \
last_in_pipeline, estimated_time, current_throughput, least_recently_used, user_priority, \
multi_class, weighted_classes, earliest_deadline
    """
    if name not in POLICIES:
        raise ControlError(f"no policy {name!r}; there are: {', '.join(POLICIES)}")
    return POLICIES[name]()


__all__ = [*POLICIES, "POLICIES", "make_policy"]
