"""What lies between an operator and the sinks, and between it and the sources.

All functions take one value per operator and give one value per operator. They follow the graph
operator by operator: a pipeline of a thousand operators has a thousand levels, so arrays would
not help.
"""

from __future__ import annotations

from collections.abc import Sequence

from .arrays import LEAST_COST, Floats, floats
from .graph import Graph

Values = Sequence[float] | Floats


def output_selectivity(graph: Graph, selectivity: Values) -> Floats:
    """Enjima eq. 1: rows that leave the best sink for one row into each operator.

    >>> output_selectivity(Graph.of("ABC", [(0, 1), (0, 2)]), [0.5, 0.4, 1.0])
    array([0.5, 0.4, 1. ])
    """
    found = list(map(float, selectivity))
    for i in reversed(graph.order):
        behind = graph.downstream[i]
        if behind:
            found[i] *= max(found[k] for k in behind)  # eq. 1: s_i × max over D(i) of S̄_k
    return floats(found)


def output_cost(graph: Graph, cost: Values, selectivity: Values) -> Floats:
    """Enjima eq. 2: seconds until one row leaves the pipeline by way of each operator.

    The paper prints c_k / S̄_k in the sum over D(i), which would end after one step; it is meant
    recursively, so the sum here is of C̄_k, the cost of the rest of the way. Where nothing comes
    out (selectivity 0) it is infinite.

    >>> output_cost(Graph.of("AB", [(0, 1)]), [1.0, 1.0], [0.5, 1.0])
    array([3., 1.])
    """
    through = output_selectivity(graph, selectivity)
    found = [0.0] * len(graph)
    for i in reversed(graph.order):
        own = float(cost[i]) / through[i] if through[i] > 0 else float("inf")
        found[i] = own + sum(found[k] for k in graph.downstream[i])  # eq. 2
    return floats(found)


def global_output_rate(graph: Graph, cost: Values, selectivity: Values) -> Floats:
    """Rows that leave the sinks per second if each operator and all behind it ran (Haren §7.2).

    For one row into an operator, so many rows leave: s_i × the sum over D(i); the time is
    c_i + s_i × the sum over D(i). Their quotient is the rate.

    >>> global_output_rate(Graph.of("AB", [(0, 1)]), [1.0, 2.0], [0.5, 1.0])
    array([0.25, 0.5 ])
    """
    rows, seconds = [0.0] * len(graph), [0.0] * len(graph)
    for i in reversed(graph.order):
        behind, s = graph.downstream[i], float(selectivity[i])
        rows[i] = s * sum(rows[k] for k in behind) if behind else s
        seconds[i] = float(cost[i]) + s * sum(seconds[k] for k in behind)
    return floats([r / max(t, LEAST_COST) for r, t in zip(rows, seconds)])


def cumulative_selectivity(graph: Graph, selectivity: Values) -> tuple[Floats, Floats]:
    """Rows into and out of each operator for one row into each ingress (Ordered §6.1: cs_i).

    The first is the cumulative selectivity before the operator, the second includes its own. Where
    several operators give rows to one, they add up.

    >>> into, out = cumulative_selectivity(Graph.of("AB", [(0, 1)]), [0.5, 0.5])
    >>> into, out
    (array([1. , 0.5]), array([0.5 , 0.25]))
    """
    into, out = [0.0] * len(graph), [0.0] * len(graph)
    for i in graph.order:
        before = graph.upstream[i]
        into[i] = sum(out[k] for k in before) if before else 1.0
        out[i] = into[i] * float(selectivity[i])
    return floats(into), floats(out)
