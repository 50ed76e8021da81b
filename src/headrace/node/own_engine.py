"""A query that has an engine to itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.plan.planner import Plan

from . import engine

if TYPE_CHECKING:
    from headrace.control import Policy


class OwnEngine:
    """One query on an engine of its own, which ends with it."""

    def __init__(
        self,
        plan: Plan,
        capacity: int,
        compiled: bool = True,
        *,
        workers: int | None = None,
        memory: int | None = None,
        idle: int | None = None,
        policy: Policy | None = None,
        priority: float | None = None,
        reorder: str = "non-blocking",
        elastic: bool = False,
        scheduler: str | None = None,
        transport: str = "blocks",
        deadline: int | None = None,
    ) -> None:
        self._engine = engine.NodeEngine(
            workers, compiled, policy=policy, elastic=elastic, scheduler=scheduler
        )
        self._query = self._engine.query(
            plan, capacity, memory, idle, priority, reorder, transport, deadline
        )
        self.sources, self.sinks = self._query.sources, self._query.sinks
        self.metrics, self.latency = self._query.metrics, self._query.latency
        self.sample, self.owners = self._query.sample, self._query.owners
        self.scheduling, self.priority = self._query.scheduling, self._query.priority
        self.measured = self._query.measured

    def run(self, turn: Callable[[], bool]) -> bool:
        """See Query."""
        with self._engine:
            return self._query.run(turn)
