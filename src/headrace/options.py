"""Which option each engine honours; any other that is given is an error, never left out in silence.

>>> check_options("thread", workers=2, idle=None)
Traceback (most recent call last):
headrace.options.OptionError: workers=2: engine="thread" does not know this option
  fix: it runs on the thread that calls; engine="node" has workers
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from math import isfinite
from typing import Any, NamedTuple

from .control import ControlError, Policy, as_policy
from .control.policies import POLICIES, make_policy
from .plan.durations import parse_duration
from .plan.errors import HeadraceError, PipelineError
from .plan.expression_types import ExpressionError
from .plan.nodes import NONE, ORDERINGS, PARTITIONINGS, Sink
from .plan.planner import Plan
from .plan.rewrites.orders import ALL, promised, said_order, states_out_of_order
from .plan.site import caller_site

AUTO = "auto"
_LOADING = ContextVar("does a command load a file?", default=False)
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?)b?|b)?", re.IGNORECASE)
ENGINES = ("spark", "node", "thread")
_FIX = f"a function of features, a headrace.control.Policy, or one of: {', '.join(POLICIES)}"
REORDERS = ("non-blocking", "lock")  # Ordered, figs. 4 and 2
TRANSPORTS = ("blocks", "queues")  # Enjima §3.1, and the baseline of its §4
PRIORITIES = {"normal": 0.0, "high": 1.0}
SCHEDULERS = ("near", "free_list", "dedicated", "manual", "priority", "assigned")  # node engine
POLICY_FREE = ("near", "free_list", "dedicated", "manual")  # those of them that ask no policy


class OptionError(HeadraceError, ValueError):
    """An option that an engine cannot honour, or that has no such value."""


class Option(NamedTuple):
    """The engines that honour an option, and for the others the way out."""

    engines: tuple[str, ...]
    instead: dict[str, str]


_CHECKPOINT = 'engine="spark" keeps checkpoints; here a job begins anew each time'
_SHARDS = "the owners of keys are as many as workers here; leave it out"
_BATCHES = "there are no micro-batches here; capacity= says how many rows a block has"
_TRIGGER = "rows are worked on as they come here; leave it out"
_POLICY = 'engine="node" takes policies'
_REORDER = 'no two workers share an operator here; engine="node" knows reorder='
_DEADLINE = 'a gate ranks micro-batches, which have none; engine="node" has deadline='
_TRANSPORT = 'rows travel in blocks here; engine="node" knows transport='
_NO_SPARK = 'there is no Spark here; leave it out, or use engine="spark"'

OPTIONS = {
    "workers": Option(
        ("node",),
        {
            "thread": 'it runs on the thread that calls; engine="node" has workers',
            "spark": 'master="local[4]" says how many cores are used',
        },
    ),
    "memory": Option(
        ("node",),
        {
            "thread": 'engine="node" keeps a budget',
            "spark": "Spark's own settings say it, e.g. spark.executor.memory",
        },
    ),
    "policy": Option(
        ("node",), {"thread": _POLICY, "spark": "on Spark a gate has it: gate=hr.Gate(policy=...)"}
    ),
    "priority": Option(("node", "spark"), {"thread": _POLICY}),
    "gate": Option(
        ("spark",),
        {"node": "an hr.Engine is shared here: engine.submit(...)", "thread": _NO_SPARK},
    ),
    "deadline": Option(("node",), {"thread": _POLICY, "spark": _DEADLINE}),
    "scheduler": Option(
        ("node",),
        {
            "thread": "one thread runs all operators here; leave it out",
            "spark": "Spark schedules its tasks; gate=hr.Gate(...) says whose batch is next",
        },
    ),
    "reorder": Option(("node",), {"thread": _REORDER, "spark": _REORDER}),
    "transport": Option(("node",), {"thread": _TRANSPORT, "spark": _TRANSPORT}),
    "partitioning": Option(
        ("node",), {"thread": "there is one owner of keys here", "spark": "keys have shards here"}
    ),
    "idle": Option(
        ("node", "spark"),
        {"thread": 'windows wait for all channels here; engine="node" knows idle='},
    ),
    "master": Option(("spark",), {"node": _NO_SPARK, "thread": _NO_SPARK}),
    "session": Option(("spark",), {"node": _NO_SPARK, "thread": _NO_SPARK}),
    "checkpoint": Option(("spark",), {"node": _CHECKPOINT, "thread": _CHECKPOINT}),
    "shards": Option(("spark",), {"node": _SHARDS, "thread": "there is one owner of keys here"}),
    "batch_rows": Option(("spark",), {"node": _BATCHES, "thread": _BATCHES}),
    "trigger": Option(("spark",), {"node": _TRIGGER, "thread": _TRIGGER}),
}  # all others are honoured by every engine


def check_options(engine: str, **given: Any) -> None:
    """An option that is given, not None, and that the engine does not honour is an OptionError."""
    for name, value in given.items():
        if value is not None and engine not in OPTIONS[name].engines:
            raise OptionError(
                f'{name}={value!r}: engine="{engine}" does not know this option\n'
                f"  fix: {OPTIONS[name].instead[engine]}"
            )


@contextmanager
def loading() -> Iterator[None]:
    """While a command loads a file for its outputs, nothing runs: it would run twice.

    >>> with loading():
    ...     honoured("thread")
    Traceback (most recent call last):
    headrace.plan.errors.PipelineError: run: a file that is loaded runs its outputs itself
    ...
    """
    before = _LOADING.set(True)
    try:
        yield
    finally:
        _LOADING.reset(before)


def honoured(engine: str, **given: Any) -> dict[str, Any]:
    """Those of the options that the engine honours, after all were checked.

    >>> honoured("node", workers=2, memory=None, idle=None, master=None)
    {'workers': 2, 'memory': None, 'idle': None}
    """
    if _LOADING.get():
        raise PipelineError(
            "a file that is loaded runs its outputs itself",
            operator="run",
            site=caller_site(),
            fix='put this under `if __name__ == "__main__":`, or run the file with Python itself',
        )
    check_options(engine, **given)
    return {name: value for name, value in given.items() if engine in OPTIONS[name].engines}


def chosen_workers(workers: Any) -> dict[str, Any]:
    """The value of `workers=` for the node engine: how many, and whether as many run as are worth
    it ("auto"); an OptionError where it is neither.

    >>> chosen_workers(4), chosen_workers("auto")
    ({'workers': 4, 'elastic': False}, {'workers': None, 'elastic': True})
    """
    if workers == AUTO:
        return {"workers": None, "elastic": True}
    chosen = None if workers is None else chosen_count("workers", workers, "threads")
    return {"workers": chosen, "elastic": False}


def chosen_count(name: str, given: Any, of: str) -> int:
    """The value of an option that is a number from 1 on (or "auto", which is looked for before).

    >>> chosen_count("running", "many", "batches")
    Traceback (most recent call last):
    headrace.options.OptionError: running='many': this is not a number of batches
      fix: a number, or "auto"
    """
    if not _is_whole(given):
        raise OptionError(
            f'{name}={given!r}: this is not a number of {of}\n  fix: a number, or "{AUTO}"'
        )
    if given < 1:
        raise OptionError(f"{name}={given}: there must be at least one")
    return int(given)


def chosen_bytes(memory: Any) -> int | None:
    """The value of `memory=`: a number of bytes, or a text with a unit; an OptionError otherwise.

    >>> chosen_bytes("1.5 GiB"), chosen_bytes("200MB"), chosen_bytes(4096)
    (1610612736, 200000000, 4096)
    """
    if memory is None or (_is_whole(memory) and memory > 0):
        return memory
    found = _BYTES.fullmatch(memory.strip()) if isinstance(memory, str) else None
    if found is None or not float(found[1]):
        raise OptionError(
            f"memory={memory!r}: this is not a number of bytes\n"
            '  fix: a whole number, or one with a unit, as in memory="2 GiB"'
        )
    power = "kmgt".index(found[2].lower()) + 1 if found[2] else 0
    return int(float(found[1]) * (1024 if found[3] else 1000) ** power)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def idle_microseconds(idle: Any) -> int | None:
    """The value of `idle=`; an OptionError where it is no time.

    >>> idle_microseconds("30s")
    30000000
    """
    return None if idle is None else microseconds("idle", idle)


def microseconds(name: str, given: Any) -> int:
    """The value of an option that is a duration; an OptionError where it is none.

    >>> microseconds("patience", "5 minutes ago")
    Traceback (most recent call last):
    headrace.options.OptionError: patience='5 minutes ago': this is not a duration
      fix: give one, as in patience="30s"
    """
    try:
        found = parse_duration(given)
    except ExpressionError:
        found = None
    if found is None or found < 0:
        raise OptionError(
            f'{name}={given!r}: this is not a duration\n  fix: give one, as in {name}="30s"'
        )
    return found


def chosen_ordering(ordering: Any) -> str:
    """The value of `ordering=`: one of the orders, or "" where none is asked for.

    >>> chosen_ordering("none")
    'none'
    >>> chosen_ordering("some")
    Traceback (most recent call last):
    headrace.options.OptionError: ordering='some': there is no such order
      fix: one of total, key, none
    """
    if ordering is None or ordering in ORDERINGS:
        return ordering or ""
    raise OptionError(
        f"ordering={ordering!r}: there is no such order\n  fix: one of {', '.join(ORDERINGS)}"
    )


def check_spark_orders(plan: Plan) -> None:
    """An order that was asked for, or that state needs, and that Spark does not give, is an
    OptionError."""
    for node, before in states_out_of_order(plan.optimized):
        raise OptionError(
            f"{node.written} at {node.site!r} needs the order of rows, which on Spark is lost by "
            f"rebalance at {before.site!r}\n"
            '  fix: call rebalance behind it, or use engine="node"'
        )
    given = plan.orders_on_spark()
    for sink in plan.optimized:
        if isinstance(sink, Sink) and sink.ordering and sink.ordering != NONE:
            asked, order = promised(sink), given[sink.name]
            if order is None or not order <= (asked or ALL):
                raise OptionError(
                    f'ordering="{sink.ordering}": on Spark {sink.name} sees rows '
                    f"{said_order(order)}\n"
                    '  fix: ask for less, or use engine="node"'
                )


def _one_of(choices: Sequence[str], option: str, given: Any) -> str:
    """The value of an option that has some; by default the first."""
    if given is None or given in choices:
        return given or choices[0]
    raise OptionError(
        f"{option}={given!r}: there is no such {option}\n  fix: one of {', '.join(choices)}"
    )


def chosen_reorder(reorder: Any) -> str:
    """The value of `reorder=`: how rows are put in order.

    >>> chosen_reorder(None), chosen_reorder("lock")
    ('non-blocking', 'lock')
    """
    return _one_of(REORDERS, "reorder", reorder)


def chosen_partitioning(partitioning: Any) -> str:
    """The value of `partitioning=`: how workers share the keys of an operator.

    >>> chosen_partitioning(None), chosen_partitioning("hybrid")
    ('owners', 'hybrid')
    """
    return _one_of(PARTITIONINGS, "partitioning", partitioning)


def chosen_transport(transport: Any, capacity: int | None) -> str:
    """The value of `transport=`: how rows travel between operators.

    >>> chosen_transport(None, 4096), chosen_transport("queues", None)
    ('blocks', 'queues')
    """
    chosen = _one_of(TRANSPORTS, "transport", transport)
    if chosen == "queues" and capacity is not None:
        raise OptionError(
            f"capacity={capacity}: with transport='queues' there are no blocks\n"
            "  fix: leave one of them out"
        )
    return chosen


def chosen_policy(
    policy: Any, period: float | None = None, batch: int | None = None
) -> Policy | None:
    """The value of `policy=`: a name, a function or a policy; an OptionError where it is none.

    period, batch: instead of those that the policy has.

    >>> chosen_policy("fcfs", period=0.01).period
    0.01
    >>> chosen_policy("best")
    Traceback (most recent call last):
    headrace.options.OptionError: policy='best': there is no such policy
      fix: a function of features, a headrace.control.Policy, or one of: round_robin, fcfs, \
min_latency, min_cost, highest_rate, chain, latency_optimized, queue_size_throttling, \
last_in_pipeline, estimated_time, current_throughput, least_recently_used, user_priority, \
multi_class, weighted_classes, earliest_deadline
    """
    if policy is None:
        return None
    try:
        found = make_policy(policy) if isinstance(policy, str) else as_policy(policy)
    except ControlError:
        raise OptionError(f"policy={policy!r}: there is no such policy\n  fix: {_FIX}") from None
    if not callable(found.priority):
        raise OptionError(f"policy={policy!r}: this is not a policy\n  fix: {_FIX}")
    try:
        return replace(
            found,
            period=found.period if period is None else period,
            batch=found.batch if batch is None else batch,
        )
    except (TypeError, ValueError) as error:
        raise OptionError(str(error)) from None


def chosen_scheduler(scheduler: Any, policy: Policy | None, workers: Any = None) -> str | None:
    """The value of `scheduler=`: one of the node engine's, None: by default `near`, and with a
    policy `priority`; an OptionError where it is none, or does not go together with the others.

    >>> chosen_scheduler("free_list", None)
    'free_list'
    >>> chosen_scheduler("free_list", chosen_policy("fcfs"))
    Traceback (most recent call last):
    headrace.options.OptionError: scheduler='free_list': it asks no policy, and 'fcfs' was given
      fix: leave one of them out, or take scheduler="priority" or "assigned"
    >>> chosen_scheduler("priority", None)
    Traceback (most recent call last):
    headrace.options.OptionError: scheduler='priority': it asks a policy, and none was given
      fix: name one, as in policy="fcfs"
    """
    if scheduler is None:
        return None
    _one_of(SCHEDULERS, "scheduler", scheduler)
    if scheduler in POLICY_FREE and policy is not None:
        raise OptionError(
            f"scheduler={scheduler!r}: it asks no policy, and {policy.name!r} was given\n"
            '  fix: leave one of them out, or take scheduler="priority" or "assigned"'
        )
    if scheduler not in POLICY_FREE and policy is None:
        raise OptionError(
            f"scheduler={scheduler!r}: it asks a policy, and none was given\n"
            '  fix: name one, as in policy="fcfs"'
        )
    if scheduler == "manual" and workers not in (None, 1):
        raise OptionError(
            f"workers={workers!r}: with scheduler='manual' one thread runs all operators\n"
            "  fix: leave one of them out"
        )
    if scheduler == "dedicated" and workers == AUTO:
        raise OptionError(
            "workers='auto': with scheduler='dedicated' every operator has a thread of its own\n"
            "  fix: name a number, of which there are as many copies of operators"
        )
    return str(scheduler)


def chosen_priority(priority: Any) -> float | None:
    """The value of `priority=`: "normal", "high" or a number; an OptionError where it is none.

    >>> chosen_priority("high"), chosen_priority(3)
    (1.0, 3.0)
    """
    if priority is None:
        return None
    if isinstance(priority, str) and priority in PRIORITIES:
        return PRIORITIES[priority]
    if isinstance(priority, int | float) and not isinstance(priority, bool) and isfinite(priority):
        return float(priority)
    names = " or ".join(f'"{name}"' for name in PRIORITIES)
    raise OptionError(
        f"priority={priority!r}: this is no priority\n  fix: {names}, or a number; more is first"
    )
