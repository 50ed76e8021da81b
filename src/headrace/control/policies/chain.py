"""Chain (Haren §7.2, after Babcock et al.): minimises the rows that wait.

Along a path from an ingress, a row that has cost t seconds has shrunk to the selectivity up to
there: the progress chart. Its lower envelope has segments; operators of a segment share its slope,
the rows that they get rid of per second, and the steepest comes first. Equal ones go by the clock
time of their head, the second dimension.

The original is about paths. Where a graph branches, a path goes on to the operator from which most
rows leave (as Enjima eq. 1 does), and every other branch begins a path of its own; an operator on
several paths gets its steepest slope.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ..arrays import LEAST_COST, Floats, floats
from ..features import Features
from ..paths import output_selectivity
from ..policy import Policy


def priority(features: Features) -> Floats:
    """Two dimensions: the slope of the operator's segment, and its head clock time.

    >>> from headrace.control import Graph
    >>> graph = Graph.of("ab", [(0, 1)])
    >>> priority(Features.given(graph, cost=[1, 1], selectivity=[1, 0], head_time=[5, 4]))
    array([[ 0.5, -5. ],
           [ 0.5, -4. ]])
    """
    found = [-np.inf] * len(features)
    for path in paths(features):
        steep = slopes(features.cost[path].tolist(), features.selectivity[path].tolist())
        for operator, slope in zip(path, steep):
            found[operator] = max(found[operator], slope)
    return np.stack([floats(found), -features.head_time], axis=1)


def paths(features: Features) -> list[list[int]]:
    """One path from each ingress and from each other branch, each to a sink.

    >>> from headrace.control import Graph
    >>> graph = Graph.of("abc", [(0, 1), (0, 2)])
    >>> paths(Features.given(graph, cost=[1, 1, 1], selectivity=[1, 0.5, 1]))
    [[0, 2], [1]]
    """
    graph = features.graph
    through = output_selectivity(graph, features.selectivity).tolist()
    best = [max(behind, key=lambda k: through[k], default=-1) for behind in graph.downstream]
    starts = list(graph.ingress)
    starts += [k for i in graph.order for k in graph.downstream[i] if k != best[i]]
    found = []
    for start in dict.fromkeys(starts):
        path = [start]
        while best[path[-1]] >= 0:
            path.append(best[path[-1]])
        found.append(path)
    return found


def slopes(cost: Sequence[float], selectivity: Sequence[float]) -> list[float]:
    """For operators in a row: the rows per second that their segment of the envelope gets rid of.

    >>> slopes([1.0, 1.0, 1.0], [0.9, 0.1, 1.0])  # the second pulls the first with it
    [0.455, 0.455, 0.0]
    """
    time, size = [0.0], [1.0]
    for c, s in zip(cost, selectivity):
        time.append(time[-1] + max(c, LEAST_COST))
        size.append(size[-1] * s)

    def steepness(start: int, end: int) -> float:
        return (size[start] - size[end]) / (time[end] - time[start])

    corners = [0]  # of the lower convex hull
    for point in range(1, len(size)):
        while len(corners) > 1 and steepness(*corners[-2:]) <= steepness(corners[-1], point):
            corners.pop()
        corners.append(point)
    return [steepness(start, end) for start, end in pairwise(corners) for _ in range(end - start)]


def chain() -> Policy:
    """The policy.

    >>> chain().name
    'chain'
    """
    return Policy("chain", priority)
