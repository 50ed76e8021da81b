"""Every built-in policy against a naive version on random graphs, and by hand-worked numbers."""

from itertools import pairwise
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.control import naive

from headrace.control import FEATURES, Features, Graph, Policy, PolicyError, asking, paths
from headrace.control.policies import (
    POLICIES,
    latency_optimized,
    multi_class,
    weighted_classes,
)
from headrace.control.policies.chain import paths as chain_paths
from headrace.control.policies.chain import slopes
from headrace.control.policies.current_throughput import effective_rows
from headrace.control.policies.latency_optimized import (
    Eligibility,
    Threshold,
    rows_to_process,
    weight,
)
from headrace.control.policies.queue_size_throttling import thresholds

OPERATORS = "ABCDE"
FIG_4 = Graph.of(OPERATORS, [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4)])  # Enjima fig. 4
TABLE_1 = {"cost": [0.5] * 5, "selectivity": [1, 1, 0.25, 0.3, 1]}


def same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def each(f, function):
    return [function(f, i) for i in range(len(f))]


# ---------------------------------------------------------------- equations by hand


def test_enjima_eq_1_output_selectivity():
    # E: 1. C: 0.25 × 1. D: 0.3 × 1. B: 1 × max(0.25, 0.3). A: 1 × 0.3.
    same(paths.output_selectivity(FIG_4, TABLE_1["selectivity"]), [0.3, 0.3, 0.25, 0.3, 1])


def test_enjima_eq_2_output_cost():
    # E: 0.5/1. C: 0.5/0.25 + 0.5. D: 0.5/0.3 + 0.5. B: 0.5/0.3 + C + D. A: 0.5/0.3 + B.
    e, c, d = 0.5, 2.5, 0.5 / 0.3 + 0.5
    b = 0.5 / 0.3 + c + d
    same(paths.output_cost(FIG_4, **TABLE_1), [0.5 / 0.3 + b, b, c, d, e])


def test_enjima_eq_3_weight():
    same(weight(np.array([-7.0, -1.0, -0.5, 0.0, 1.0, 3.0])), [0.9, 0.9, 0.95, 1.0, 1.1, 1.1])


@pytest.mark.parametrize(
    ("now", "rows"), [(9.0, 10), (9.95, 3), (10.0, 3), (11.0, 3)], ids=["fits", "few", "at", "past"]
)
def test_enjima_eq_4_rows_to_process(now, rows):
    f = Features.given(Graph.of("a", []), now=now, next_period=10.0, cost=[0.1])
    same(rows_to_process(f, least=3), [rows])


def test_enjima_eq_5_adapts_thresholds():
    up = Threshold(1000, largest=10_000, largest_step=1000)
    assert up.adapt(0.5) == 1500  # ∇ × ET
    assert up.adapt(0.5) == 2250
    assert Threshold(4000, 10_000, 1000).adapt(0.9) == 5000  # at most one step
    assert Threshold(9500, 10_000, 1000).adapt(0.9) == 9500  # not beyond the largest
    assert Threshold(1000, 10_000, 1000).adapt(-0.4) == 600
    assert Threshold(1000, 10_000, 1000).adapt(-1.5) == 1000  # not below zero
    assert Threshold(1000, 10_000, 1000).adapt(0.0) == 1000


def test_an_adjustment_that_did_harm_is_taken_back():
    threshold = Threshold(1000, 10_000, 1000)
    assert threshold.adapt(0.1) == 1100
    assert threshold.adapt(0.2) == 1000  # the gradient grew
    assert threshold.adapt(0.1) == 1100  # and from there on again


@pytest.mark.parametrize(
    ("pending", "idle", "room", "eligible"),
    [(4, 0, 1, True), (3, 0, 1, False), (0, 5, 1, False), (0, 5.1, 1, True), (9, 9, 0, False)],
    ids=["enough", "too few", "not idle for long", "idle for long", "back-pressured"],
)
def test_enjima_algorithm_1(pending, idle, room, eligible):
    f = Features.given(
        Graph.of("a", []), now=10, pending=[pending], last_scheduled=[10 - idle], output_room=[room]
    )
    assert Eligibility(event_threshold=4, idle_threshold=5)(f)[0] == eligible


def test_thresholds_belong_to_queries():
    policy = latency_optimized(event_threshold=1000)
    f = Features.given(
        Graph.of("ab", [], query=[3, 4]), pending=[1200, 1200], last_scheduled=[0, 0],
        output_room=[1, 1], latency_gradient=[0.5, 0.0],
    )  # fmt: skip
    assert asking.eligibility(policy, f).tolist() == [True, True]
    asking.adapt(policy, f)  # query 3 goes to 1500
    assert asking.eligibility(policy, f).tolist() == [False, True]


def test_ordered_eq_1_thresholds():
    # cs: 2, 1, 1 of 4 in all; C = 100
    f = Features.given(Graph.of("abc", [(0, 1), (1, 2)]), selectivity=[2, 0.5, 1])
    same(thresholds(f, 100), [50, 25, 25])


def test_ordered_eq_2_estimated_time():
    f = Features.given(
        Graph.of("ab", []), pending=[100, 100], cost=[0.5, 0.5], workers=[3, 2], parallelism=[4, 2]
    )
    same(POLICIES["estimated_time"]().priority(f), [100 * 0.5 / 4, 0])


def test_ordered_eq_3_effective_rows():
    # a: (2 + 1 × 0.5) / (0.1 × 1); b, of which half the rows of a come: (1 + 0) / (0.1 × 0.5)
    f = Features.given(
        Graph.of("ab", [(0, 1)]), worker_time=[2, 1], workers=[1, 0], cost=[0.1, 0.1],
        selectivity=[0.5, 0.1],
    )  # fmt: skip
    same(effective_rows(f, 0.5), [25, 20])


def test_haren_highest_rate():
    # sink: 1/1. filter: 0.5 rows for 2 + 0.5 × 1 seconds.
    f = Features.given(Graph.of("ab", [(0, 1)]), cost=[2, 1], selectivity=[0.5, 1])
    same(POLICIES["highest_rate"]().priority(f), [0.2, 1])


def test_chain_groups_operators_by_the_lower_envelope():
    # 1 -> 0.9 -> 0.1 -> 0.1: the first two fall by 0.9 in 2 s together, the last by nothing
    same(slopes([1, 1, 1], [0.9, 1 / 9, 1]), [0.45, 0.45, 0])


# ---------------------------------------------------------------- against naive versions


@given(naive.features())
def test_output_cost_and_selectivity(f):
    same(f.output_selectivity, each(f, naive.output_selectivity))
    same(f.output_cost, each(f, naive.output_cost))


@given(naive.features())
def test_round_robin(f):
    order = list(range(len(f)))
    if f.last_scheduled.any():
        last = max(order, key=lambda i: (f.last_scheduled[i], -i))
        order = order[last + 1 :] + order[: last + 1]
    assert ranked("round_robin", f) == order


@given(naive.features())
def test_fcfs_and_least_recently_used(f):
    assert ranked("fcfs", f) == sorted(range(len(f)), key=lambda i: f.head_time[i])
    expected = sorted(range(len(f)), key=lambda i: f.last_scheduled[i])
    assert ranked("least_recently_used", f) == expected


@given(naive.features())
def test_min_latency(f):
    assert ranked("min_latency", f) == sorted(range(len(f)), key=lambda i: naive.output_cost(f, i))


@given(naive.features())
def test_min_cost(f):
    assert ranked("min_cost", f) == naive.post_order(f.graph)


@given(naive.features())
def test_highest_rate(f):
    rates = [naive.rows_out(f, i) / naive.seconds_for(f, i) for i in range(len(f))]
    same(POLICIES["highest_rate"]().priority(f), rates)


@given(
    st.lists(st.tuples(st.sampled_from([0.5, 1, 2]), st.sampled_from([0, 0.5, 1, 2])), min_size=1)
)
def test_chain_on_a_pipeline(operators):
    cost, selectivity = zip(*operators)
    found = slopes(cost, selectivity)
    same(found, naive.envelope(cost, selectivity))


@given(naive.features())
def test_chain_covers_every_graph(f):
    found = chain_paths(f)
    assert {operator for path in found for operator in path} == set(range(len(f)))
    for path in found:
        assert all(b in f.graph.downstream[a] for a, b in pairwise(path))
        assert not f.graph.downstream[path[-1]]
    rows = asking.priorities(POLICIES["chain"](), f)
    for i in range(len(f)):
        steepest = max(
            naive.envelope(f.cost[path], f.selectivity[path])[path.index(i)]
            for path in found
            if i in path
        )
        assert rows[i] == pytest.approx((steepest, -f.head_time[i]))


@given(naive.features())
def test_latency_optimized(f):
    policy = latency_optimized(event_threshold=3, idle_threshold=5, least_rows=2)
    weights = [1 + max(min(g, 1), -1) / 10 for g in f.latency_gradient]
    same(policy.priority(f), [w / naive.output_cost(f, i) for i, w in enumerate(weights)])
    expected = [
        bool(f.output_room[i]) and bool(10 - f.last_scheduled[i] > 5 or f.pending[i] >= 3)
        for i in range(len(f))
    ]
    assert asking.eligibility(policy, f).tolist() == expected
    assert asking.limits(policy, f, batch=1).tolist() == [max(int(2 / c), 2) for c in f.cost]


@given(naive.features())
def test_queue_size_throttling(f):
    policy = POLICIES["queue_size_throttling"]()
    out = [naive.rows_into(f, i) * f.selectivity[i] for i in range(len(f))]
    for i, limit in enumerate(thresholds(f, 10)):
        whole = sum(o for o, query in zip(out, f.graph.query) if query == f.graph.query[i])
        assert limit == pytest.approx(10 * out[i] / whole if whole else 0)
    expected = sorted(range(len(f)), key=lambda i: naive.depth(f.graph, i))
    assert asking.ranking(asking.priorities(policy, f)).tolist() == expected


@given(naive.features())
def test_last_in_pipeline(f):
    expected = sorted(range(len(f)), key=lambda i: -naive.depth(f.graph, i))
    assert ranked("last_in_pipeline", f) == expected
    assert (
        asking.eligibility(POLICIES["last_in_pipeline"](), f).tolist() == (f.pending > 0).tolist()
    )


@given(naive.features())
def test_estimated_time(f):
    same(
        POLICIES["estimated_time"]().priority(f),
        [
            p * c / (w + 1) if w < m else 0
            for p, c, w, m in zip(f.pending, f.cost, f.workers, f.parallelism)
        ],
    )


@given(naive.features())
def test_current_throughput(f):
    expected = []
    for i in range(len(f)):
        into = naive.rows_into(f, i)
        expected.append(
            (f.worker_time[i] + f.workers[i] * 0.5) / (f.cost[i] * into) if into else inf
        )
    same(effective_rows(f, 0.5), expected)


@given(naive.features())
def test_user_priority_and_multi_class(f):
    expected = sorted(range(len(f)), key=lambda i: (-f.user_priority[i], f.head_time[i]))
    assert ranked("user_priority", f) == expected

    def key(i):
        high = f.query_class[i] == 1
        rate = naive.rows_out(f, i) / naive.seconds_for(f, i)
        return -f.query_class[i], f.head_time[i] if high else -rate

    found = ranked("multi_class", f)
    for a, b in pairwise(found):
        assert key(a) <= (key(b)[0], key(b)[1] + 1e-9)


@given(naive.features())
def test_earliest_deadline(f):
    due = [head + late for head, late in zip(f.head_time, f.deadline, strict=True)]
    expected = sorted(range(len(f)), key=lambda i: (due[i], f.head_time[i]))
    assert ranked("earliest_deadline", f) == expected


@given(
    st.lists(st.sampled_from([1.0, 2.0, 5.0]), min_size=1, max_size=4),
    st.lists(st.floats(0.001, 0.01), min_size=1, max_size=5),
)
def test_classes_that_always_have_rows_get_work_by_their_weights(weights, costs):
    """Whoever is ranked first works for a moment: after long, shares are those of the weights."""
    graph = Graph.of([str(k) for k in range(len(weights))], [], query=range(len(weights)))
    policy, busy = weighted_classes(dict(enumerate(weights))), [0.0] * len(weights)
    for moment in range(300):
        f = Features.given(
            graph, query_class=range(len(weights)), pending=[1] * len(weights),
            head_time=[0] * len(weights), busy_time=busy,
        )  # fmt: skip
        busy[asking.ranking(policy.priority(f))[0]] += costs[moment % len(costs)]
    passes = [done / weight for done, weight in zip(busy, weights, strict=True)]
    assert max(passes) - min(passes) <= 2 * max(costs) / min(weights)


def test_a_class_that_was_idle_has_saved_nothing_up():
    graph, policy = Graph.of("ab", [], query=[7, 8]), weighted_classes({0: 1, 1: 1})

    def first(pending, busy):
        f = Features.given(
            graph, query_class=[0, 1], pending=pending, head_time=[0, 0], busy_time=busy
        )
        return int(asking.ranking(policy.priority(f))[0])

    for second in range(5):
        first([1, 0], [float(second), 0.0])  # the second has nothing to do
    assert first([1, 1], [5.0, 0.0]) == 1  # and is first when it has,
    assert first([1, 1], [5.0, 1.5]) == 0  # but for no longer than others are


def test_queries_that_come_later_have_no_debt():
    policy = weighted_classes({0: 1, 1: 1})
    alone = Features.given(
        Graph.of("a", [], query=[7]), query_class=[0], pending=[1], head_time=[0], busy_time=[100]
    )
    policy.priority(alone)
    both = Features.given(
        Graph.of("ab", [], query=[7, 8]), query_class=[0, 1], pending=[1, 1], head_time=[0, 0],
        busy_time=[100.0, 50.0],
    )  # fmt: skip
    assert policy.priority(both)[:, 0].tolist() == [0.0, 0.0]


def test_what_weights_must_be():
    for weights in ({}, {0: 0}, {0: -1}, {0: inf}):
        with pytest.raises(ValueError, match="weighted_classes: weights="):
            weighted_classes(weights)
    f = Features.given(
        Graph.of("a", []), query_class=[2], pending=[1], head_time=[0], busy_time=[0]
    )
    with pytest.raises(PolicyError, match="no weight for the class 2; there are: 1"):
        asking.priorities(weighted_classes({1: 1}), f)


@given(naive.features(), st.sampled_from(sorted(POLICIES)))
def test_every_policy_answers_on_every_graph(f, name):
    policy = POLICIES[name]()
    asking.adapt(policy, f)
    assert sorted(asking.ranking(asking.priorities(policy, f))) == list(range(len(f)))
    asking.eligibility(policy, f)
    assert (asking.limits(policy, f, batch=1) >= 1).all()
    assert set(asking.assignment(policy, f, 3)) <= {0, 1, 2}


@pytest.mark.parametrize("name", sorted(POLICIES))
@pytest.mark.parametrize("selectivity", [0.0, 1.0])
def test_every_policy_answers_about_operators_that_cost_nothing(name, selectivity):
    graph = Graph.of("ab", [(0, 1)])
    zeros = {feature: [0.0, 0.0] for feature in FEATURES}
    given = {**zeros, "selectivity": [selectivity] * 2, "parallelism": [1, 1]}
    test_every_policy_answers_on_every_graph.hypothesis.inner_test(
        Features.given(graph, now=1.0, next_period=2.0, **given), name
    )


def ranked(name, f):
    return asking.ranking(asking.priorities(POLICIES[name](), f)).tolist()


# ---------------------------------------------------------------- classes and ageing


def test_a_class_without_a_policy_is_an_error():
    f = Features.given(Graph.of("a", []), query_class=[2])
    with pytest.raises(PolicyError, match=r"'multi_class': priority: .*no policy for the class 2"):
        asking.priorities(multi_class(), f)


def test_patience_lets_the_low_class_pass():
    f = Features.given(
        Graph.of("ab", []), now=10.0, query_class=[1, 0], head_time=[9.9, 1.0],
        cost=[1, 1], selectivity=[1, 1],
    )  # fmt: skip
    assert asking.ranking(asking.priorities(multi_class(), f)).tolist() == [0, 1]
    assert asking.ranking(asking.priorities(multi_class(patience=4), f)).tolist() == [1, 0]


# ---------------------------------------------------------------- nonsense


def boom(f):
    raise ZeroDivisionError("of mine")


@pytest.mark.parametrize(
    ("priority", "message"),
    [
        (lambda f: [1, float("nan")], "nan for operator 'b'"),
        (lambda f: [1, inf], "inf for operator 'b'"),
        (lambda f: [1], r"shape \(1,\)"),
        (lambda f: 7, r"shape \(\)"),
        (lambda f: "first", "it raised ValueError"),
        (lambda f: None, r"shape \(\)|nan|TypeError"),
        (lambda f: [[[1]], [[2]]], r"shape \(2, 1, 1\)"),
        (boom, "it raised ZeroDivisionError: of mine"),
        (lambda f: f.speed, "no feature 'speed'"),
    ],
)
def test_a_priority_that_is_nonsense(priority, message):
    f = Features.given(Graph.of("ab", []))
    with pytest.raises(PolicyError, match=f"policy 'mine': priority: .*({message})"):
        asking.priorities(Policy("mine", priority), f)


@pytest.mark.parametrize("answer", [[0, 2], [-1, 0], [0.5, 0], [0, float("nan")], [0]])
def test_an_assignment_that_is_nonsense(answer):
    policy = Policy("mine", lambda f: f.cost, assign=lambda f, threads: answer)
    with pytest.raises(PolicyError, match="policy 'mine': assign: "):
        asking.assignment(policy, Features.given(Graph.of("ab", [])), 2)


@pytest.mark.parametrize("answer", [[0, 1], [-5, 1], [float("nan"), 1], [1]])
def test_a_limit_that_is_nonsense(answer):
    policy = Policy("mine", lambda f: f.cost, limit=lambda f: answer)
    with pytest.raises(PolicyError, match="policy 'mine': limit: "):
        asking.limits(policy, Features.given(Graph.of("ab", [])), batch=1)


def test_eligibility_and_adaptation_that_are_nonsense():
    f = Features.given(Graph.of("ab", []))
    with pytest.raises(PolicyError, match="policy 'mine': eligible: 2 for operator 'b'"):
        asking.eligibility(Policy("mine", boom, eligible=lambda f: [0, 2]), f)
    with pytest.raises(PolicyError, match="policy 'mine': adapt: it raised ZeroDivisionError"):
        asking.adapt(Policy("mine", boom, adapt=boom), f)


def test_features_cannot_be_written_by_a_policy():
    f = Features.given(Graph.of("ab", []), cost=[1, 2])

    def greedy(f):
        f.cost[0] = 9
        return f.cost

    with pytest.raises(PolicyError, match="read-only"):
        asking.priorities(Policy("greedy", greedy), f)


@pytest.mark.parametrize("wrong", [{"period": 0}, {"batch": 0}, {"staleness": -1}])
def test_parameters_are_checked(wrong):
    with pytest.raises(ValueError, match=r"policy 'mine'.*must be above zero"):
        Policy("mine", boom, **wrong)
