"""Graphs of the papers, as profiles: Streams' experiments (§5) and Haren's chains (§7.1)."""

from __future__ import annotations

import random

from .profile import Operator, Profile

PREFILL = 0.5  # queues start half full: a steady state takes a pipeline of 1,000 seconds to reach


def pipeline(
    operators: int, cost: float, *, capacity: int = 1024, filled: float = PREFILL
) -> Profile:
    """Streams §5.1: a source and operators in a row.

    >>> [operator.name for operator in pipeline(3, 1e-6).operators]
    ['source', 'op1', 'op2']
    """
    return mesh(1, operators - 1, cost, capacity=capacity, filled=filled, sink=False)


def wide(operators: int, cost: float, *, capacity: int = 1024) -> Profile:
    """Streams §5.2: a source deals rows out to operators side by side, all before one sink.

    >>> len(wide(1000, 1e-6).operators)
    1002
    """
    return mesh(operators, 1, cost, capacity=capacity, filled=0.0)


def mesh(
    width: int,
    depth: int,
    cost: float,
    *,
    capacity: int = 1024,
    filled: float = PREFILL,
    sink: bool = True,
) -> Profile:
    """Streams §5.3: a source, `width` chains of `depth` operators, one sink.

    >>> len(mesh(10, 100, 1e-6).operators)
    1002
    """
    rows = int(capacity * filled)
    found = [Operator("source", 0.0, capacity=capacity, split=width > 1)]
    ends = []
    for lane in range(width):
        before = "source"
        for step in range(1, depth + 1):
            name = f"op{step}" if width == 1 else f"op{lane + 1}.{step}"
            found.append(Operator(name, cost, inputs=(before,), capacity=capacity, pending=rows))
            before = name
        ends.append(before)
    if sink:
        found.append(Operator("sink", 0.0, inputs=tuple(ends), capacity=capacity))
    return Profile.of(found)


def chains(
    queries: int,
    length: int = 12,
    *,
    base_cost: float = 10e-6,
    rate: float = 1000.0,
    seed: int = 0,
    high: int = 0,
    high_rate: float = 500.0,
    burst: tuple[float, float] = (0.0, 0.0),
    capacity: int = 1 << 20,
) -> Profile:
    """Haren §7.1: queries that are chains, with costs and selectivities of their own.

    A query's selectivity is drawn from [0.01, 1], its cost is `base_cost` × 2^z with z from 0 to 4;
    operators have their share ± 10 %. The first `high` queries are of class 1 and get rows at
    `high_rate`, in bursts of (on, off) seconds.

    >>> profile = chains(2, 3, high=1)
    >>> [operator.query_class for operator in profile.operators]
    [1, 1, 1, 0, 0, 0]
    """
    draw = random.Random(seed)
    found = []
    for query in range(queries):
        selectivity = draw.uniform(0.01, 1) ** (1 / length)
        cost = base_cost * 2 ** draw.randint(0, 4)
        urgent = query < high
        before: tuple[str, ...] = ()
        for step in range(length):
            name = f"q{query}.{step}"
            found.append(
                Operator(
                    name,
                    cost * draw.uniform(0.9, 1.1) / length,
                    selectivity=selectivity * draw.uniform(0.9, 1.1) if step < length - 1 else 1.0,
                    inputs=before,
                    query=query,
                    capacity=capacity,
                    query_class=int(urgent),
                    user_priority=float(urgent),
                    arrivals="endless" if before else "steady",
                    rate=0.0 if before else (high_rate if urgent else rate),
                    on=burst[0] if urgent and not before else 0.0,
                    off=burst[1] if urgent and not before else 0.0,
                )
            )
            before = (name,)
    return Profile.of(found)
