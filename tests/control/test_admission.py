"""Who may begin a batch: never more than may run, everybody in the end, and places come back."""

from itertools import pairwise
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.control import Features, Graph, Policy
from headrace.control.admission import FEATURES, Admission, State
from headrace.control.allowance import PERIOD, Allowance, BatchRows, steps
from headrace.control.errors import PolicyWarning
from headrace.control.features import FEATURES as KNOWN
from headrace.control.policies import POLICIES, fcfs, make_policy

names = st.sampled_from(sorted(POLICIES))


def admission_of(priorities, running=1, policy=None, patience=inf):
    made = Admission(Allowance.fixed(running), policy, patience)
    return made, [made.enter(f"query {n}", float(p)) for n, p in enumerate(priorities)]


def asked(admission, now=0.0):
    """Those who may begin, when all that are idle ask."""
    for query in admission._order:
        admission.ask(query, now, pending=10, head_time=now)
    return [grant.query for grant in admission.grants(now)]


class World:
    """Queries that always have rows; whatever happens is drawn."""

    def __init__(self, draw, policy, queries, running, patience):
        self.draw, self.now = draw, 0.0
        self.admission = Admission(Allowance.fixed(running), policy, patience)
        self.running, self.limit = set(), running
        self.priority = {}
        self.waiting = {}  # since when, and how often others took its place while it was overdue
        self.patience = patience
        for _ in range(queries):
            self.enter()

    def enter(self):
        priority = self.draw(st.integers(0, 1), label="priority")
        query = self.admission.enter("query", float(priority), self.now)
        self.priority[query] = priority
        self.admission.ask(query, self.now, pending=self.draw(st.integers(1, 1000)))
        self.waiting[query] = [self.now, 0]

    def leave(self, query):
        self.admission.leave(query)
        self.running.discard(query)
        self.waiting.pop(query, None)

    def finish(self, query):
        self.admission.done(query, self.now, rows=self.draw(st.integers(0, 1000)))
        self.running.remove(query)
        self.admission.ask(query, self.now, pending=10)
        self.waiting[query] = [self.now, 0]

    def grant(self):
        for grant in self.admission.grants(self.now):
            self.waiting.pop(grant.query)  # nobody begins who does not wait
            assert grant.rows is None or grant.rows >= 1
            assert self.has_place(grant.query)
            for query, other in self.waiting.items():
                if self.now - other[0] >= self.patience and self.has_place(query):
                    other[1] += 1
            self.running.add(grant.query)
        assert len(self.running) >= min(self.limit, len(self.running) + len(self.waiting))

    def has_place(self, query):
        """Those that are less important take none from it."""
        as_important = [k for k in self.running if self.priority[k] >= self.priority[query]]
        return len(as_important) < self.limit


@given(st.data(), names, st.integers(1, 6), st.integers(1, 3), st.sampled_from([0.0, 1.0, 5.0]))
@settings(deadline=None)
def test_nobody_starves_and_no_more_run_than_may(data, policy, queries, running, patience):
    world = World(data.draw, make_policy(policy), queries, running, patience)
    most = queries
    for _ in range(data.draw(st.integers(1, 40), label="events")):
        world.grant()
        event = data.draw(st.sampled_from(["time", "finish", "finish", "finish", "enter", "leave"]))
        known = sorted({*world.running, *world.waiting})
        if event == "time":
            world.now += data.draw(st.sampled_from([0.1, 1.0, 10.0]))
        elif event == "finish" and world.running:
            world.finish(data.draw(st.sampled_from(sorted(world.running))))
        elif event == "enter" and len(known) < 8:
            world.enter()
            most = max(most, len(known) + 1)
        elif event == "leave" and known:
            world.leave(data.draw(st.sampled_from(known)))
        # of two that begin, one is the oldest: each of the others passes an overdue one only twice
        assert all(passed <= 2 * most for _, passed in world.waiting.values())


def test_without_patience_a_low_query_starves():
    """So the test above can fail."""
    admission, (low, *_) = admission_of([0, 1, 1])
    now = 0.0
    for _ in range(20):
        (granted,) = asked(admission, now)
        assert granted != low
        now += 10.0
        asked(admission, now - 5.0)
        admission.done(granted, now, rows=10)


@pytest.mark.parametrize("end", ["done", "withdraw", "leave"])
def test_a_place_is_given_back(end):
    admission, (one, other) = admission_of([1, 0])
    assert asked(admission) == [one]
    assert admission.grants(1.0) == []
    if end == "done":
        admission.done(one, 2.0, rows=5)
    elif end == "withdraw":
        admission.withdraw(one, 2.0)
    else:
        admission.leave(one)
    assert [grant.query for grant in admission.grants(2.0)] == [other]
    assert admission.state(other) is State.RUNNING


def test_what_comes_too_late_changes_nothing():
    admission, (one,) = admission_of([0])
    admission.leave(one)
    admission.leave(one)
    admission.done(one, 1.0, rows=5)
    admission.withdraw(one, 1.0)
    assert admission.state(one) is State.IDLE and admission.grants(2.0) == []


def test_one_of_two_that_begin_is_the_oldest_when_it_has_waited_for_long():
    policy = Policy("later first", lambda features: np.arange(len(features)))
    admission, (low, high, higher) = admission_of([0, 0, 0], policy=policy, patience=5.0)
    assert asked(admission, 0.0) == [higher]
    began = []
    for now in (6.0, 12.0, 18.0, 24.0):
        admission.done(began[-1] if began else higher, now, rows=1)
        began += asked(admission, now)
    assert began == [low, higher, high, higher]


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_policy_ranks_queries_unchanged(name):
    admission, queries = admission_of([0, 1, 0], policy=make_policy(name))
    seen, now = set(), 0.0
    for _ in range(30):
        for granted in asked(admission, now):
            seen.add(granted)
            now += 0.5
            admission.done(granted, now, rows=100, rows_out=10, state_size=8.0)
    assert admission.error is None and seen <= set(queries) and seen


def test_every_feature_is_there():
    assert set(FEATURES) == set(KNOWN)
    admission, (one, _) = admission_of([3, 0])
    admission.ask(one, 1.0, pending=100, head_time=0.5)
    admission.grants(1.0)
    admission.done(one, 3.0, rows=40, rows_out=10, state_size=64)
    admission.ask(one, 4.0, pending=90, head_time=2.0)
    features = Features(admission, Graph.of("ab", []), now=5.0)
    told = {name: getattr(features, name)[0] for name in KNOWN}
    assert told["cost"] == 2.0 / 40 and told["selectivity"] == 0.25 and told["state_size"] == 64
    assert told["pending"] == 90 and told["head_time"] == 2.0 and told["last_scheduled"] == 3.0
    assert told["user_priority"] == told["query_class"] == 3.0
    assert told["rate"] > 0  # 60 were left, 90 wait: 30 have come
    assert told["worker_time"] == 2.0 and told["workers"] == 0
    assert told.pop("deadline") == inf
    assert np.isfinite(list(told.values())).all()


def test_less_important_queries_hold_nobody_up():
    admission, (low, _, high, higher) = admission_of([0, 0, 1, 1])
    admission.ask(low, 0.0)
    assert [grant.query for grant in admission.grants(0.0)] == [low]
    assert asked(admission, 1.0) == [high]  # beside it; equals wait for each other
    admission.done(low, 2.0, rows=1)
    assert admission.grants(2.0) == []
    admission.done(high, 3.0, rows=1)
    assert [grant.query for grant in admission.grants(3.0)] == [higher]


def test_equals_take_turns_whatever_their_batches_are():
    admission, queries = admission_of([0, 0, 0])
    began, now = [], 0.0
    for _ in range(30):
        (query,) = asked(admission, now)
        began.append(query)
        now += 10.0 if query == queries[0] else 0.1
        admission.done(query, now, rows=1)
    assert [began.count(query) for query in queries] == [10, 10, 10]


@pytest.mark.parametrize(
    "answer", [lambda f: [nan] * len(f), lambda f: [1.0], lambda f: 1 / 0, lambda f: [inf] * len(f)]
)
def test_a_policy_that_answers_nonsense_is_given_up(answer):
    admission, (_, high) = admission_of([0, 1], policy=Policy("mine", answer))
    with pytest.warns(PolicyWarning, match="policy 'mine': priority: .*\n.*higher priority"):
        assert asked(admission) == [high]
    assert admission.error is not None and admission.policy.name == "in_turns"
    admission.use(fcfs())
    assert admission.error is None


def test_who_is_not_eligible_comes_last_not_never():
    last = np.arange(2) == 1
    policy = Policy("picky", lambda f: last, eligible=lambda f: ~last)
    admission, (one, other) = admission_of([0, 0], policy=policy)
    assert asked(admission) == [one]
    admission.done(one, 1.0, rows=1)
    assert [grant.query for grant in admission.grants(1.0)] == [other]


def test_the_table_says_who_waits_and_why():
    admission, _ = admission_of([0, 1, 1], patience=5.0)
    asked(admission)
    lines = admission.standings(2.0)
    assert [line.query for line in lines] == ["query 1", "query 2", "query 0"]
    assert [line.state for line in lines] == ["runs", "waits", "waits"]
    assert lines[2].why == "2 of 2 by in_turns; 1 may run: query 1"
    assert "longer than 5 s" in admission.standings(7.0)[2].why
    assert [line.query for line in admission_of([])[0].standings(0.0)] == []

    admission, (one,) = admission_of([0])
    for rows, why in ((4, "between two batches"), (6, "no rows")):
        admission.ask(one, 0.0, pending=10 if rows == 4 else 6)
        admission.grants(0.0)
        admission.done(one, 1.0, rows=rows)
        assert [line.why for line in admission.standings(2.0)] == [why]


# ---- how many, and how large -------------------------------------------------------------------


def batches(allowance, rate, periods):
    """Let batches run, at a rate that depends on the step; the steps."""
    now, seen = 0.0, []
    allowance.look(now, True)
    for _ in range(periods):
        seen.append((allowance.running, allowance.seconds))
        allowance.read(int(PERIOD * rate(*seen[-1])))
        now += PERIOD
        allowance.look(now, True)
    return seen


@pytest.mark.parametrize("first", [1, 2, 4])
def test_the_allowance_climbs_as_far_as_it_is_worth_it(first):
    def rate(running, seconds):
        return 1e6 * min(running, 2) * seconds / (seconds + 0.3)

    found = batches(Allowance(4, first), rate, 200)[-20:]
    assert len(set(found)) == 1
    running, seconds = found[0]
    assert running <= 3 and rate(running, seconds) >= 0.7 * rate(4, 2.0)


def test_queries_that_always_wait_get_as_many_places_as_are_worth_it():
    """Batches on two cores that share them, with costs of their own: nobody tells it how many."""
    admission = Admission(Allowance(8, 1), patience=inf)
    queries = [admission.enter(f"query {n}") for n in range(12)]
    ends, now, levels = {}, 0.0, []
    for query in queries:
        admission.ask(query, now, pending=1e9)
    while now < 2000.0:
        for grant in admission.grants(now):
            rows = grant.rows or 1000
            cores = min(1.0, 2 / max(1, len(ends)))
            ends[grant.query] = now + 0.3 + rows * 1e-5 / cores, rows
        query = min(ends, key=ends.get)
        now, rows = ends.pop(query)
        admission.done(query, now, rows)
        admission.ask(query, now, pending=1e9)
        levels.append(admission.allowance.running)
    assert levels[0] == 1 and set(levels[-200:]) <= {2, 3, 4}


def test_a_quiet_period_says_nothing():
    allowance = Allowance(4, 2)
    before = allowance.running, allowance.seconds
    for now in np.arange(0, 40 * PERIOD, PERIOD / 2):
        allowance.look(now, busy=now % PERIOD != 0)
        allowance.read(10)
    assert (allowance.running, allowance.seconds) == before


@given(st.integers(1, 40))
def test_steps_never_shrink(most):
    made = steps(most)
    assert made[-1].running == most and made[0].running == 1
    assert all(a.running <= b.running and a.seconds <= b.seconds for a, b in pairwise(made))


@given(st.floats(0.01, 1.0), st.floats(1e-8, 1e-3), st.integers(1, 10_000))
def test_batches_grow_to_the_time_they_may_take(fixed, cost, first):
    size, rows = BatchRows(), first
    for _ in range(40):
        size.took(rows, fixed + cost * rows)
        rows = size.most(seconds=0.5)
    work = cost * rows
    assert work <= 0.51 + cost
    assert fixed + work >= 0.49 - cost


def test_a_batch_of_few_rows_says_nothing_about_many():
    size = BatchRows()
    for rows in (1000, 4000):
        size.took(rows, 0.2 + rows * 1e-4)
    before = size.most(0.5)
    size.took(3, 0.2 + 3e-4)
    assert size.most(0.5) == before
