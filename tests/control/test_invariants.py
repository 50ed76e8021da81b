"""Haren's invariants, in the simulator: assignment, delayed operators, swaps, queries that come."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.control import ControlError, Policy
from headrace.control.assignment import at_random
from headrace.control.policies import POLICIES, chain, fcfs, highest_rate, multi_class
from headrace.control.simulator import (
    Assigned,
    Dedicated,
    FreeList,
    Manual,
    Operator,
    PriorityQueue,
    Profile,
    Simulation,
    Steered,
    chains,
    machine_named,
)

ODROID = machine_named("haren-odroid")


def assigned(policy, workers=4):
    return Assigned(replace(policy, assign=at_random(1)), workers)


@pytest.mark.parametrize("policy", [fcfs, highest_rate, chain, multi_class])
@given(seed=st.integers(0, 100))
@settings(max_examples=5)
def test_every_operator_is_assigned_to_exactly_one_thread_and_runs_there(policy, seed):
    scheduler = assigned(policy())
    simulation = Simulation(chains(5, 4, seed=seed, high=2), ODROID, scheduler, trace=True)
    simulation.simulate(0.35)
    assert set(scheduler.assigned) == set(simulation.units)
    listed = [unit for state in scheduler._state.values() for unit in state.operators]
    assert len(listed) == len(set(listed)) == len(simulation.units)
    # between two scheduling tasks, an operator runs on one thread only
    borders = [0.0, *(end for end, _ in scheduler.tasks), 1.0]
    for start, end in pairwise(borders):
        where = {}
        for span in simulation.spans:
            if start <= span.start < end:
                assert where.setdefault(span.operator, span.thread) == span.thread


def test_no_operator_runs_during_a_scheduling_task():
    scheduler = assigned(fcfs())
    simulation = Simulation(chains(5, 4), ODROID, scheduler, trace=True)
    simulation.simulate(1.0)
    assert len(scheduler.tasks) >= 9
    for end, _ in scheduler.tasks:
        assert not any(span.start < end - 1e-12 < span.end for span in simulation.spans)


def starving(period=0.01, staleness=np.inf):
    """Prefers the busy query for ever; reads costs, which only runs tell."""
    return Policy(
        "starving",
        lambda features: np.where(np.array(features.graph.query) == 0, 1.0, features.cost * 0),
        period=period,
        staleness=staleness,
    )


BUSY = Profile.of(
    [
        Operator("busy", 1e-4, query=0),
        Operator("calm", 1e-4, query=1, arrivals="steady", rate=1000, capacity=10**6),
    ]
)


def largest_gap(scheduler, operator, seconds=1.0):
    simulation = Simulation(BUSY, ODROID, scheduler, trace=True)
    simulation.simulate(seconds)
    ends = [0.0, *(span.end for span in simulation.spans if span.operator == operator), seconds]
    return max(after - before for before, after in pairwise(ends))


def test_delayed_operators_run_within_d():
    period, staleness = 0.01, 0.05
    assert largest_gap(Assigned(starving(period), 1), "calm") == 1.0  # it starves
    gap = largest_gap(Assigned(starving(period, staleness), 1), "calm")
    # looked at once per period, and a run and a scheduling task may be under way
    assert staleness < gap <= staleness + period + 0.005


def test_staleness_does_not_matter_without_features_that_runs_tell():
    policy = Policy(
        "static", lambda features: -np.array(features.graph.query), period=0.01, staleness=0.05
    )
    assert largest_gap(Assigned(policy, 1), "calm") == 1.0


def test_equal_operators_share_a_thread():
    profile = Profile.of(Operator(name, 1e-4, query=n) for n, name in enumerate("abc"))
    policy = Policy("equal", lambda features: np.zeros(len(features)))
    scheduler = Assigned(policy, 1)
    result = Simulation(profile, ODROID, scheduler).simulate(1.0)
    rows = [query.rows_out for query in result.queries]
    # after a scheduling task, a thread begins at the head of its list
    assert max(rows) - min(rows) <= scheduler.scheduling.batch * len(scheduler.tasks)
    assert min(rows) > 3000


@pytest.mark.parametrize("scheduler", [Assigned, PriorityQueue])
def test_a_swapped_policy_takes_effect_within_a_period(scheduler):
    def only(number):
        return Policy(
            f"only {number}",
            lambda features: np.array(features.graph.query) == number,
            eligible=lambda features: np.array(features.graph.query) == number,
            period=0.02,
        )

    profile = Profile.of(Operator(name, 1e-4, query=n) for n, name in enumerate("ab"))
    used = scheduler(only(0), 2)
    simulation = Simulation(profile, ODROID, used, trace=True)
    simulation.at(0.1, lambda simulation: used.swap(only(1)))
    simulation.simulate(0.3)
    late = [span.start for span in simulation.spans if span.operator == "a" and span.start > 0.1]
    assert max(late, default=0.1) <= 0.1 + 0.02 + 0.002
    began = min(span.start for span in simulation.spans if span.operator == "b")
    assert 0.1 <= began <= 0.1 + 0.02 + 0.002


MODELS = {
    "manual": Manual,
    "dedicated": Dedicated,
    "free_list": lambda: FreeList(2),
    "priority": lambda: PriorityQueue(POLICIES["latency_optimized"](), 2),
    "assigned": lambda: assigned(fcfs(), 2),
    "steered": lambda: Steered(fcfs(), 2),
}


@pytest.mark.parametrize("model", MODELS)
def test_queries_that_come_and_go_are_picked_up(model):
    def query(number, rate=1000.0):
        return Profile.of(
            [
                Operator(f"in{number}", 1e-5, query=number, arrivals="steady", rate=rate),
                Operator(f"out{number}", 1e-5, inputs=(f"in{number}",), query=number),
            ]
        )

    simulation = Simulation(query(0), ODROID, MODELS[model](), trace=True)
    simulation.at(0.2, lambda simulation: simulation.add(query(1)))
    simulation.at(0.5, lambda simulation: simulation.remove(0))
    simulation.at(0.6, lambda simulation: simulation.add(query(2)))
    result = simulation.simulate(1.0)
    rows = {query.query: query.rows_out for query in result.queries}
    assert rows[0] == pytest.approx(500, abs=110)
    assert rows[1] == pytest.approx(800, abs=110)
    assert rows[2] == pytest.approx(400, abs=110)
    last = max(span.end for span in simulation.spans if span.query == 0)
    assert last <= 0.5 + 0.11


def test_a_name_is_given_once_and_only_a_query_that_runs_can_go():
    simulation = Simulation(BUSY, ODROID, Manual())
    with pytest.raises(ControlError, match="there is an operator 'busy' already"):
        simulation.add(BUSY)
    with pytest.raises(ControlError, match="there is no query 9"):
        simulation.remove(9)


def test_high_queries_keep_their_latency_under_overload():
    """Haren §7.4, scenario 2, shortened: HIGH queries in bursts, LOW ones overload the node."""
    profile = chains(
        8, 6, base_cost=300e-6, rate=1500, high=2, high_rate=2000, burst=(0.25, 0.75), seed=4
    )
    policy = replace(multi_class(), assign=at_random(1))
    haren = Simulation(profile, ODROID, Assigned(policy, 4)).simulate(3.0)
    system = Simulation(profile, ODROID, Dedicated()).simulate(3.0)
    assert haren.latency(0).largest > 0.5  # overloaded
    assert system.latency(1).largest > 3 * haren.latency(1).largest
    assert haren.scheduling / (4 * haren.seconds) < 0.02
