"""Haren's kinds of features, and that only what may have changed is read again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.control import naive

from headrace.control import FEATURES, ControlError, Features, Graph, Scope
from headrace.control.assignment import at_random, load_balanced, pinned
from headrace.control.features import DERIVED, Given

LINE = Graph.of("abcde", [(0, 1), (1, 2), (2, 3), (3, 4)])


class Counting(Given):
    """Remembers what was asked."""

    def __init__(self, graph, columns):
        super().__init__(graph, columns)
        self.asked = []

    def features(self, names, operators):
        self.asked += [(name, operator) for name in names for operator in operators]
        return super().features(names, operators)

    def set(self, name, operator, value):
        self._columns[name][operator] = value


def counting(graph=LINE, **columns):
    engine = Counting(graph, {**{name: np.ones(len(graph)) for name in FEATURES}, **columns})
    return engine, Features(engine, graph)


def test_only_what_a_policy_reads_is_asked_for():
    engine, features = counting()
    _ = features.cost
    features.refresh([2], now=1.0)
    assert {name for name, _ in engine.asked} == {"cost"}
    assert features.used == {"cost"} and features.intrinsic


def test_independent_features_are_read_of_who_ran():
    engine, features = counting()
    _ = features.cost
    engine.asked.clear()
    features.refresh([2, 4], now=1.0)
    assert engine.asked == [("cost", 2), ("cost", 4)]


def test_dependent_features_are_read_of_neighbours_and_ingresses():
    engine, features = counting()
    _ = features.pending
    engine.asked.clear()
    features.refresh([3], now=1.0)
    assert engine.asked == [("pending", 0), ("pending", 2), ("pending", 3), ("pending", 4)]


def test_static_features_are_read_once():
    engine, features = counting()
    _ = features.user_priority, features.parallelism
    engine.asked.clear()
    features.refresh(range(5), now=1.0)
    assert engine.asked == []
    assert not features.intrinsic


def test_windows_end_by_themselves():
    engine, features = counting()
    _ = features.rate
    engine.asked.clear()
    features.refresh([], now=1.0)
    assert engine.asked == [("rate", operator) for operator in range(5)]


def test_what_is_derived_follows():
    engine, features = counting(selectivity=[1, 1, 1, 1, 1], cost=[1, 1, 1, 1, 1])
    assert features.output_cost[0] == 5
    engine.set("cost", 4, 2.0)
    assert features.output_cost[0] == 5  # nobody ran
    features.refresh([4], now=1.0)
    assert features.output_cost[0] == 6


@given(naive.graphs(), st.data())
def test_selective_refresh_sees_everything_that_runs_can_change(graph, data):
    """A run changes its own features and what waits at its neighbours: all of it is seen."""
    engine, features = counting(graph)
    for name in FEATURES:
        getattr(features, name)
    for step in range(3):
        ran = data.draw(st.lists(st.integers(0, len(graph) - 1), unique=True))
        for operator in ran:
            for name, feature in FEATURES.items():
                if feature.static:
                    continue
                touched = [operator]
                if feature.scope is Scope.NEIGHBOURS:
                    touched += [*graph.upstream[operator], *graph.downstream[operator]]
                for other in touched:
                    engine.set(name, other, data.draw(st.integers(1, 9)))
        features.refresh(ran, now=float(step))
        for name in FEATURES:
            fresh = engine.features([name], range(len(graph)))[:, 0]
            np.testing.assert_array_equal(getattr(features, name), fresh)


def test_the_papers_kinds():
    """Haren, table 1."""
    cost, selectivity, head = (FEATURES[n] for n in ("cost", "selectivity", "head_time"))
    assert not cost.static and not cost.dependent and cost.intrinsic
    assert not selectivity.static and not selectivity.dependent and selectivity.intrinsic
    assert not head.static and head.dependent and not head.intrinsic


def test_every_feature_of_the_catalogue_can_be_read():
    _, features = counting()
    for name in [*FEATURES, *DERIVED]:
        assert len(getattr(features, name)) == 5


def test_mistakes_are_told():
    with pytest.raises(ControlError, match="2 values, 5 operators"):
        Features.given(LINE, cost=[1, 2])
    with pytest.raises(ControlError, match="no values were given for the feature 'cost'"):
        _ = Features.given(LINE).cost
    with pytest.raises(ControlError, match=r"edge \(0, 5\)"):
        Graph.of("abcde", [(0, 5)])
    with pytest.raises(ControlError, match="1 operators, but 2 query numbers"):
        Graph.of("a", [], query=[0, 1])


# ---------------------------------------------------------------- f: who runs where


@given(naive.features(), st.integers(1, 4))
def test_load_balanced_is_within_the_largest_operator_of_the_best(f, threads):
    where = load_balanced(f, threads)
    load = f.cost * f.rate
    loads = np.bincount(where, weights=load, minlength=threads)
    assert loads.max() <= load.sum() / threads + load.max() + 1e-9


def test_random_assignment_uses_all_threads_and_its_seed():
    f = Features.given(Graph.of([str(n) for n in range(100)], []))
    assign = at_random(seed=3)
    first, second = assign(f, 4), assign(f, 4)
    assert set(first) == {0, 1, 2, 3} and (first != second).any()
    assert (at_random(seed=3)(f, 4) == first).all()


def test_pinned_operators_stay():
    f = Features.given(LINE)
    assert pinned({"c": 2, "e": 1})(f, 3).tolist() == [0, 0, 2, 0, 1]
