"""What `run` and `start` are asked for: which plan, on which engine, with which options."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .gate import chosen_gate
from .handle import AnyJob, Execution, Job
from .options import (
    ENGINES,
    check_options,
    check_spark_orders,
    chosen_bytes,
    chosen_ordering,
    chosen_partitioning,
    chosen_policy,
    chosen_priority,
    chosen_reorder,
    chosen_scheduler,
    chosen_transport,
    chosen_workers,
    honoured,
    idle_microseconds,
    microseconds,
)
from .plan.errors import PipelineError
from .plan.nodes import Node
from .plan.planner import Plan, plan
from .plan.site import caller_site
from .stage.capacity import DEFAULT_CAPACITY
from .write import Output

if TYPE_CHECKING:
    from .spark.job import SparkJob

NODE_CAPACITY = 16_384  # rows in a block of the node engine


def planned(
    outputs: Sequence[Output],
    *,
    fuse: str = "auto",
    prune: bool = True,
    ordering: str | None = None,
    partitioning: str | None = None,
) -> Plan:
    """The plan of some outputs, checked."""
    nodes: list[Node] = []
    for output in outputs:
        if not isinstance(output, Output):
            raise PipelineError(
                f"{output!r} is not an output",
                operator="run",
                site=caller_site(),
                fix="give run what stream.write... returns, e.g. stream.write.collect()",
            )
        nodes.append(output.node)
    if not nodes:
        raise PipelineError(
            "there is nothing to run",
            operator="run",
            site=caller_site(),
            fix="hr.run(stream.write.console())",
        )
    return plan(
        nodes,
        fuse=fuse,
        prune=prune,
        ordering=chosen_ordering(ordering),
        partitioning=chosen_partitioning(partitioning),
    )


def engine_named(engine: str | None) -> str:
    """The engine that is asked for: by name, by HEADRACE_ENGINE, or Spark.

    >>> engine_named("node")
    'node'
    """
    said = f"engine={engine!r}"
    if engine is None:
        engine = os.environ.get("HEADRACE_ENGINE") or ENGINES[0]
        said = f"HEADRACE_ENGINE={engine}"
    if engine not in ENGINES:
        raise ValueError(f'{said}: use "spark", "node" or "thread"')
    return engine


class Asked:
    """What is to run, how and where, checked.

    Engines bring the compiler: they are loaded when one is used, since a process that only plans
    does without.
    """

    def __init__(
        self,
        outputs: Sequence[Output],
        *,
        engine: str | None,
        capacity: int | None,
        compiled: bool,
        seconds: float | None,
        watch: Callable[[Any], None] | None,
        fuse: str,
        prune: bool,
        ordering: str | None,
        partitioning: str | None,
        **given: Any,
    ) -> None:
        """given: the options of `options.OPTIONS`."""
        self.engine, self._compiled = engine_named(engine), compiled
        self._given = honoured(self.engine, **given)
        check_capacity(capacity)
        if "workers" in self._given:
            self._given |= chosen_workers(self._given["workers"])
            self._given["memory"] = chosen_bytes(self._given["memory"])
        if "idle" in self._given:
            self._given["idle"] = idle_microseconds(self._given["idle"])
        if "policy" in self._given:
            self._given["policy"] = chosen_policy(self._given["policy"])
            chosen = self._given["policy"]
            named = chosen_scheduler(self._given["scheduler"], chosen, given["workers"])
            self._given["scheduler"] = named
        if "gate" in self._given:
            self._given["gate"] = chosen_gate(self._given["gate"], self._given["priority"])
        if "priority" in self._given:
            self._given["priority"] = chosen_priority(self._given["priority"])
        if "reorder" in self._given:
            self._given["reorder"] = chosen_reorder(self._given["reorder"])
            self._given["transport"] = chosen_transport(self._given["transport"], capacity)
        if self._given.get("deadline") is not None:
            self._given["deadline"] = microseconds("deadline", self._given["deadline"])
        self._capacity = capacity or (NODE_CAPACITY if self.engine == "node" else DEFAULT_CAPACITY)
        check_options(self.engine, partitioning=partitioning)
        self._seconds, self._watch = seconds, watch
        self._plan = planned(
            outputs, fuse=fuse, prune=prune, ordering=ordering, partitioning=partitioning
        )

    def run(self) -> AnyJob:
        """To its end."""
        if self.engine == "spark":
            return self._on_spark().finish(self._seconds, self._watch)
        return self._job().run()

    def start(self) -> AnyJob:
        """In the background."""
        if self.engine == "spark":
            return self._on_spark().drive_in_background(self._seconds, self._watch)
        return self._job().start()

    def _job(self) -> Job:
        return Job(self._plan, self._execution(), self._seconds, self._watch)

    def _execution(self) -> Execution:
        """On this thread, or on threads of its own."""
        made = self._plan
        if self.engine == "thread":
            from .thread import ThreadRun

            return ThreadRun(made, self._capacity, self._compiled)
        from .node.loop import loop

        if self._compiled:
            loop()  # before the compiler is loaded here
        from .node.own_engine import OwnEngine

        return OwnEngine(made, self._capacity, self._compiled, **self._given)

    def _on_spark(self) -> SparkJob:
        """On Spark, where it has begun."""
        made = self._plan
        check_spark_orders(made)
        from .spark import start as start_on_spark

        return start_on_spark(made, capacity=self._capacity, compiled=self._compiled, **self._given)


def check_capacity(capacity: int | None) -> None:
    """Fewer than one row in a block is a ValueError."""
    if capacity is not None and capacity < 1:
        raise ValueError(f"capacity={capacity}: a block holds at least one row")
