"""How an engine gets a policy: the scheduler that asks it, and its control thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .engine import MOST_UNITS, NodeEngine
from .features import NodeFeatures, look_at
from .schedulers.assigned import Assigned
from .schedulers.priority import Priority
from .steering import Steering

if TYPE_CHECKING:
    from headrace.control import Policy


def steer(
    engine: NodeEngine, record: Any, policy: Policy, assigns: bool
) -> tuple[Priority | Assigned, Steering, tuple[Any, ...]]:
    """A scheduler, the control thread that tells it the order, and what that thread calls.

    record: of the engine. assigns: each worker has a list of its own (`schedulers.assigned`).
    """

    @contextmanager
    def calling() -> Iterator[Callable[[Any], Any]]:
        with engine.hosts.engine_entered():
            yield engine.mode.of

    def features(queries: Any) -> NodeFeatures:
        return NodeFeatures(queries, engine.table.address, record.states)

    sizes = MOST_UNITS, engine.workers
    scheduler: Priority | Assigned = (
        Assigned(*sizes, record.workers, calling, lambda: engine.active)
        if assigns
        else Priority(*sizes)
    )
    called = (look_at, *scheduler.called)
    if engine.mode.is_compiled:
        for function in called:
            function.load(int)
    steering = Steering(policy, scheduler, features, calling, lambda: engine.give_up(steering))
    return scheduler, steering, called
