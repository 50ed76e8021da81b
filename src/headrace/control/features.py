"""What is known about operators: Haren's features (§3.1), with their kinds and selective refresh.

A policy reads columns: `features.cost` is an array with a value for each operator. What a policy
reads is noticed, and only that is asked of the engine; of it only what may have changed (§6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from .arrays import Floats, floats
from .engine import Observed
from .errors import ControlError
from .graph import Graph
from .paths import output_cost, output_selectivity


class Scope(Enum):
    """Whose runs can change a feature of an operator (Haren, definitions 3.1 to 3.3)."""

    NOBODY = "static"
    OWN = "independent"
    NEIGHBOURS = "dependent on the operators before and behind it"
    CLOCK = "dependent on everybody, and on time: windows over counters end by themselves"


@dataclass(frozen=True)
class Feature:
    """A feature and its kind; execution-intrinsic: only a run of the operator tells it (def. 3.4).

    >>> FEATURES["cost"].dependent, FEATURES["cost"].intrinsic, FEATURES["pending"].dependent
    (False, True, True)
    """

    name: str
    scope: Scope
    meaning: str
    intrinsic: bool = False

    @property
    def static(self) -> bool:
        """Does it never change while the graph stays?"""
        return self.scope is Scope.NOBODY

    @property
    def dependent(self) -> bool:
        """Can runs of other operators change it?"""
        return self.scope in (Scope.NEIGHBOURS, Scope.CLOCK)


FEATURES = {
    feature.name: feature
    for feature in (
        Feature("cost", Scope.OWN, "seconds per row taken", intrinsic=True),
        Feature("selectivity", Scope.OWN, "rows given per row taken", intrinsic=True),
        Feature("pending", Scope.NEIGHBOURS, "rows that wait in its input"),
        Feature("head_time", Scope.NEIGHBOURS, "clock time of the first row that waits, else inf"),
        Feature("arrival_time", Scope.NEIGHBOURS, "mean clock time of rows that wait, else inf"),
        Feature("rate", Scope.CLOCK, "rows per second that reach its input"),
        Feature("input_queue", Scope.NEIGHBOURS, "rows in its input, also those being worked on"),
        Feature("output_queue", Scope.NEIGHBOURS, "rows in the fullest queue behind it"),
        Feature("output_room", Scope.NEIGHBOURS, "free rows of the fullest queue behind it"),
        Feature("latency_gradient", Scope.CLOCK, "change of its query's mean latency, s per s"),
        Feature("state_size", Scope.OWN, "bytes of state", intrinsic=True),
        Feature("last_scheduled", Scope.OWN, "when its last run ended, else 0"),
        Feature("workers", Scope.OWN, "runs of it at this moment: w_i in Ordered §6.3"),
        Feature("worker_time", Scope.CLOCK, "seconds of work on it in this window: T_i in §6.4"),
        Feature("busy_time", Scope.OWN, "seconds of work on it so far"),
        Feature("parallelism", Scope.NOBODY, "runs that it may have at once: M_i in §6.3"),
        Feature("user_priority", Scope.NOBODY, "what the user gave its query; more is first"),
        Feature("query_class", Scope.NOBODY, "the class of its query; more is first"),
        Feature("deadline", Scope.NOBODY, "seconds that a row of its query may take, else inf"),
    )
}

# Computed here from the others, along the way to the sinks.
DERIVED: dict[str, Callable[[Features], Floats]] = {
    "output_selectivity": lambda f: output_selectivity(f._graph, f.selectivity),
    "output_cost": lambda f: output_cost(f._graph, f.cost, f.selectivity),
}


class Features:
    """Haren's matrix 𝔽: a column for each feature that a policy reads, a row for each operator.

    >>> graph = Graph.of(["source", "sink"], [(0, 1)])
    >>> features = Features.given(graph, cost=[1.0, 2.0], selectivity=[0.5, 1.0])
    >>> features.output_cost
    array([4., 2.])
    >>> features.costs
    Traceback (most recent call last):
    AttributeError: no feature 'costs'; there are: cost, selectivity, pending, head_time, \
arrival_time, rate, input_queue, output_queue, output_room, latency_gradient, state_size, \
last_scheduled, workers, worker_time, busy_time, parallelism, user_priority, \
query_class, deadline, output_selectivity, output_cost
    """

    def __init__(self, engine: Observed, graph: Graph, now: float = 0.0) -> None:
        self._graph: Graph = graph
        self.graph_read = False  # a policy has looked at the topology
        self.now: float = now
        self.next_period = now  # t_s of Enjima eq. 4: when the scheduler looks again
        self.values_read = 0  # of the engine; what refreshing costs is proportional to it
        self._engine = engine
        self._columns: dict[str, Floats] = {}
        self._derived: dict[str, Floats] = {}

    @classmethod
    def given(
        cls, graph: Graph, now: float = 0.0, next_period: float | None = None, **columns: Any
    ) -> Features:
        """Features with these values, for tests and for trying a policy out."""
        features = cls(Given(graph, columns), graph, now)
        features.next_period = now if next_period is None else next_period
        return features

    def __len__(self) -> int:
        return len(self._graph)

    @property
    def graph(self) -> Graph:
        """The topology."""
        self.graph_read = True
        return self._graph

    def __getattr__(self, name: str) -> Floats:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in DERIVED:
            if name not in self._derived:
                self._derived[name] = _fixed(DERIVED[name](self))
            return self._derived[name]
        if name not in FEATURES:
            known = ", ".join([*FEATURES, *DERIVED])
            raise AttributeError(f"no feature {name!r}; there are: {known}")
        if name not in self._columns:  # read for the first time: from now on it is kept fresh
            self._columns[name] = floats(self._read([name], range(len(self)))[:, 0])
        return _fixed(self._columns[name])

    @property
    def used(self) -> frozenset[str]:
        """The features of the engine that were read so far: Haren's F."""
        return frozenset(self._columns)

    @property
    def derived(self) -> frozenset[str]:
        """The features that were computed from them."""
        return frozenset(self._derived)

    @property
    def intrinsic(self) -> bool:
        """Is one of them told by runs only, so that nobody may go without for long?"""
        return any(FEATURES[name].intrinsic for name in self._columns)

    def refresh(self, executed: Iterable[int], now: float) -> None:
        """Read again what may have changed since operators have run (Haren, algs. 2 and 3).

        >>> graph = Graph.of(["a", "b", "c", "d"], [(0, 1), (1, 2), (2, 3)])
        >>> features = Features.given(graph, cost=[1] * 4, pending=[1] * 4)
        >>> _ = features.cost, features.pending
        >>> before = features.values_read
        >>> features.refresh([3], now=1.0)
        >>> features.values_read - before  # the cost of d, what waits before a, c and d
        4
        """
        self.now = now
        ran = sorted(set(executed))
        changed: tuple[tuple[Scope, Sequence[int]], ...] = (
            (Scope.OWN, ran),  # alg. 2, line 2
            (Scope.NEIGHBOURS, self._changed_neighbours(ran)),  # alg. 2, lines 3 to 5
            (Scope.CLOCK, range(len(self))),
        )
        for scope, operators in changed:
            names = [name for name in self._columns if FEATURES[name].scope is scope]
            if names and len(operators):
                values = self._read(names, operators)
                for place, name in enumerate(names):
                    self._columns[name][operators] = values[:, place]
        if ran:
            self._derived.clear()

    def _changed_neighbours(self, ran: Sequence[int]) -> list[int]:
        """Haren's 𝕌: who ran, who is beside them, and ingresses, which rows reach from outside."""
        changed = set(ran) | set(self._graph.ingress)
        for operator in ran:
            changed.update(self._graph.upstream[operator], self._graph.downstream[operator])
        return sorted(changed)

    def _read(self, names: Sequence[str], operators: Sequence[int]) -> Floats:
        self.values_read += len(names) * len(operators)
        values = self._engine.features(names, operators)
        if values.shape != (len(operators), len(names)):
            raise ControlError(f"the engine gave {values.shape} values for features {names}")
        return values


def _fixed(column: Floats) -> Floats:
    """A view that a policy cannot write to."""
    view = column.view()
    view.flags.writeable = False
    return view


class Given:
    """An engine of constants, which runs nothing.

    >>> Given(Graph.of(["a"], []), {"cost": [1.0]}).can_run(0)
    False
    """

    def __init__(self, graph: Graph, columns: Mapping[str, Any]) -> None:
        self._columns = {name: floats(values) for name, values in columns.items()}
        for name, column in self._columns.items():
            if column.shape != (len(graph),):
                raise ControlError(
                    f"feature {name!r}: {column.size} values, {len(graph)} operators"
                )

    def can_run(self, operator: int) -> bool:
        """Nothing runs here."""
        return False

    def run(self, operator: int, batch: int) -> int:
        """Nothing runs here."""
        return 0

    def features(self, names: Sequence[str], operators: Sequence[int]) -> Floats:
        """The values that were given."""
        missing = [name for name in names if name not in self._columns]
        if missing:
            raise ControlError(f"no values were given for the feature {missing[0]!r}")
        chosen = list(operators)
        return np.stack([self._columns[name][chosen] for name in names], axis=1)
