"""Pools of Spark's FAIR scheduler: whose tasks get the next core, below all that a gate decides.

A pool has a weight, which must stand in a file when Spark starts. Queries of a gate are in the pool
of their priority; a thousand times the weight is as good as going first. Whatever names no pool is
in the default one, where jobs run in the order in which they come, as Spark's own default is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .temporary import folder_of_process

POOL = "spark.scheduler.pool"  # a property of the thread that starts a query
MODE = "spark.scheduler.mode"
FAIR = "FAIR"
WEIGHTS = (1, 1_000, 1_000_000)  # of the priorities up to 0, to 1, and above


def pool_of(priority: float) -> str:
    """The name of the pool for a priority.

    >>> [pool_of(priority) for priority in (-1, 0, 0.5, 1, 7)]
    ['headrace-0', 'headrace-0', 'headrace-1', 'headrace-1', 'headrace-2']
    """
    place = 0 if priority <= 0 else 1 if priority <= 1 else 2
    return f"headrace-{place}"


def pool_settings() -> dict[str, str]:
    """What Spark has to be started with; the file is read then."""
    pools = "".join(
        f'<pool name="headrace-{place}"><schedulingMode>FAIR</schedulingMode>'
        f"<weight>{weight}</weight><minShare>0</minShare></pool>"
        for place, weight in enumerate(WEIGHTS)
    )
    path = folder_of_process("headrace-pools-") / "pools.xml"
    path.write_text(f"<allocations>{pools}</allocations>")
    return {MODE: FAIR, "spark.scheduler.allocation.file": path.as_uri()}


@contextmanager
def in_pool(context: Any, name: str) -> Iterator[None]:
    """What this thread starts meanwhile runs in a pool."""
    before = context.getLocalProperty(POOL)
    context.setLocalProperty(POOL, name)
    try:
        yield
    finally:
        context.setLocalProperty(POOL, before)
