"""The simulator against queueing theory, its own conservation laws, and the papers' examples."""

from collections import Counter
from dataclasses import replace
from math import factorial, inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.control import naive

from headrace.control import ControlError, Elasticity, Engine, PolicyError
from headrace.control.policies import POLICIES, fcfs, latency_optimized, min_latency
from headrace.control.simulator import (
    Assigned,
    Costs,
    Dedicated,
    FreeList,
    Machine,
    Manual,
    Operator,
    PriorityQueue,
    Profile,
    Simulation,
    Steered,
    chains,
    machine_named,
    mesh,
    pipeline,
    wide,
)
from headrace.control.simulator.threads import State, Worker

IDEAL = machine_named("ideal")
XEON = machine_named("streams-xeon")


# ---------------------------------------------------------------- theory


def sojourn(arrival, service, servers):
    """Erlang C: mean time in an M/M/c system."""
    load = arrival / service
    waits = load**servers / factorial(servers) * servers / (servers - load)
    probability = waits / (sum(load**k / factorial(k) for k in range(servers)) + waits)
    return probability / (servers * service - arrival) + 1 / service


@pytest.mark.parametrize(("servers", "share"), [(1, 0.5), (1, 0.7), (2, 0.7), (4, 0.8)])
def test_queues_are_within_two_percent_of_theory(servers, share):
    service, rows = 1000.0, 400_000
    arrival = share * servers * service
    queue = Operator(
        "queue", 1 / service, service="exponential", arrivals="poisson", rate=arrival,
        parallelism=servers, capacity=10**9,
    )  # fmt: skip
    simulation = Simulation(Profile.of([queue]), IDEAL, Served(servers), seed=7)
    result = simulation.simulate(rows / arrival, warm_up=20_000 / arrival)
    assert result.latency().mean == pytest.approx(sojourn(arrival, service, servers), rel=0.02)
    assert result.busy / result.seconds == pytest.approx(share * servers, rel=0.02)


class Served(Dedicated):
    """A thread pool on one queue: woken by each arrival, first come, first served."""

    def __init__(self, servers):
        super().__init__(batch=1)
        self._servers = servers

    def threads(self):
        (unit,) = self.simulation.units
        return [Worker(number, own=unit) for number in range(self._servers)]

    def arrived(self, unit, by):
        for worker in self.simulation.workers:
            if worker.state is State.SLEEPING:
                self.simulation.wake(worker, by)
                return


# ---------------------------------------------------------------- Enjima, fig. 4


def fig_4(policy):
    """Costs of 0.5 time units, blocks of four rows, one worker."""
    pending, inputs = [4, 2, 4, 4, 2], ["", "A", "B", "B", "CD"]
    operators = [
        Operator(name, 0.5, selectivity, tuple(before), pending=rows, capacity=100, arrivals="none")
        for name, selectivity, rows, before in zip("ABCDE", [1, 1, 0.25, 0.3, 1], pending, inputs)
    ]
    # "assuming only 1 output event was produced by each of C and D": 4 × 0.3 is 1.2
    simulation = Simulation(
        Profile.of(operators), IDEAL, PriorityQueue(policy, workers=1), trace=True, window=1000.0
    )
    simulation.simulate(30.0)
    decisions, rows = [], 0
    for span in simulation.spans:
        if rows == 18:
            break
        decisions.append(span.operator)
        rows += span.rows
    assert rows == 18
    return decisions


def test_enjima_fig_4_takes_five_decisions_where_min_latency_takes_eight():
    enjima = latency_optimized(
        event_threshold=4, idle_threshold=5.0, least_rows=4, period=0.5, adaptive=False
    )
    enjima = replace(enjima, limit=lambda f: np.full(len(f), 4))  # a block
    assert fig_4(enjima) == ["D", "C", "E", "B", "A"]  # C and D as eqs. 1 and 2 rank them
    assert fig_4(replace(min_latency(), batch=4, period=0.5)) == list("EDECEBDC")


# ---------------------------------------------------------------- conservation


SCHEDULERS = {
    "manual": lambda: Manual(),
    "dedicated": lambda: Dedicated(),
    "free_list": lambda: FreeList(3),
    "priority": lambda: PriorityQueue(POLICIES["round_robin"](), 3),
    "assigned": lambda: Assigned(POLICIES["fcfs"](), 3),
    "steered": lambda: Steered(POLICIES["fcfs"](), 3),
}


@st.composite
def profiles(draw):
    """Random graphs with random selectivities; sources bring a few rows and then no more."""
    graph = draw(naive.graphs(most=6))
    return Profile.of(
        Operator(
            name,
            draw(st.sampled_from([0.0, 1e-6, 1e-5])),
            draw(st.sampled_from([0.0, 0.3, 1.0, 2.0])),
            tuple(graph.names[before] for before in graph.upstream[number]),
            query=graph.query[number],
            capacity=draw(st.sampled_from([4, 64])),
            split=bool(graph.downstream[number]) and draw(st.booleans()),
            pending=draw(st.integers(0, 30)) if not graph.upstream[number] else 0,
            parallelism=draw(st.integers(1, 2)),
            hosted=draw(st.booleans()),
            arrivals="none",
        )
        for number, name in enumerate(graph.names)
    )


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@given(profile=profiles())
@settings(max_examples=25)
def test_no_row_is_lost(scheduler, profile):
    """When all is quiet, everything was processed and every operator gave what it should."""
    machine = Machine("small", cores=3)
    simulation = Simulation(profile, machine, SCHEDULERS[scheduler](), trace=True)
    simulation.simulate(0.1)
    rows = {operator.name: operator.pending for operator in profile.operators}
    for number in profile.graph.order:
        unit, operator = simulation.units[number], profile.operators[number]
        assert unit.rows_in == rows[operator.name]
        assert unit.rows_out == int(rows[operator.name] * operator.selectivity + 1e-9)
        assert unit.pending == unit.held == unit.reserved == unit.running == 0
        readers = [profile.operators[k].name for k in profile.graph.downstream[number]]
        for place, name in enumerate(readers):
            if operator.split:
                rows[name] += len(range(place, unit.rows_out, len(readers)))
            else:
                rows[name] += unit.rows_out


@pytest.mark.parametrize("scheduler", [name for name in SCHEDULERS if name != "manual"])
@given(profile=profiles())
@settings(max_examples=25)
def test_an_operator_has_no_more_runs_than_it_may(scheduler, profile):
    machine = Machine("small", cores=3)
    simulation = Simulation(profile, machine, SCHEDULERS[scheduler](), trace=True)
    simulation.simulate(0.05)
    allowed = {operator.name: operator.parallelism for operator in profile.operators}
    moments = [(span.start, 1, span) for span in simulation.spans if span.end > span.start]
    moments += [(span.end, 0, span) for span in simulation.spans if span.end > span.start]
    running = Counter()
    threads = set()
    for _, begins, span in sorted(moments, key=lambda each: each[:2]):
        running[span.operator] += 1 if begins else -1
        assert running[span.operator] <= allowed[span.operator]
        assert begins == (span.thread not in threads)  # a thread does one thing at a time
        threads.symmetric_difference_update([span.thread])


def test_queues_never_overflow():
    simulation = Simulation(mesh(4, 5, 1e-6, capacity=64), XEON, FreeList(8))
    for _ in range(50):
        simulation.simulate(1e-4)
        for unit in simulation.units:
            if len(unit.before) == 1:
                assert unit.pending + unit.reserved <= 64
            elif unit.before:  # several writers: and what their runs bring
                assert unit.pending <= 64 + 64 * len(unit.before)


# ---------------------------------------------------------------- determinism


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_one_seed_the_same_bytes(scheduler):
    def run(seed):
        profile = chains(4, 3, rate=20_000.0, seed=seed)
        simulation = Simulation(profile, XEON, SCHEDULERS[scheduler](), seed=seed, trace=True)
        return repr(simulation.simulate(0.05))

    assert run(1) == run(1)
    assert run(1) != run(2)


# ---------------------------------------------------------------- it is an engine


def test_it_is_an_engine():
    simulation: Engine = Simulation(pipeline(3, 1e-6), IDEAL, Manual())
    assert simulation.can_run(0)
    assert simulation.features(["cost", "pending"], [1, 2]).tolist() == [[1e-6, 512], [1e-6, 512]]
    with pytest.raises(ControlError, match="only a thread whose turn it is"):
        simulation.run(0, 1)


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("scheduler", [PriorityQueue, Assigned, Steered])
def test_every_policy_runs_unchanged_and_keeps_up(policy, scheduler):
    profile = chains(4, 4, rate=500.0, base_cost=50e-6)
    simulation = Simulation(profile, machine_named("enjima"), scheduler(POLICIES[policy](), 4))
    result = simulation.simulate(1.0, warm_up=0.5)
    assert result.rows_in == pytest.approx(2000, abs=60)
    assert result.latency().rows > 0


def test_nonsense_of_a_policy_ends_in_an_error_that_names_it():
    for scheduler in (PriorityQueue, Assigned):
        with pytest.raises(PolicyError, match="policy 'broken': priority: it raised"):
            Simulation(pipeline(3, 1e-6), IDEAL, scheduler(broken, 2)).simulate(0.01)


def broken(features):
    raise RuntimeError("oops")


def test_measured_features_follow_the_profile():
    profile = Profile.of(
        [
            Operator("source", 1e-6, arrivals="steady", rate=10_000),
            Operator("filter", 2e-6, 0.25, ("source",)),
            Operator("sink", 1e-6, inputs=("filter",)),
        ]
    )
    policy = replace(fcfs(), period=1e-3)
    simulation = Simulation(profile, IDEAL, PriorityQueue(policy, 2))
    simulation.simulate(0.5)
    cost, selectivity, rate = simulation.features(["cost", "selectivity", "rate"], [0, 1, 2]).T
    assert cost == pytest.approx([1e-6, 2e-6, 1e-6])
    assert selectivity == pytest.approx([1, 0.25, 1], abs=0.01)
    assert rate == pytest.approx([10_000, 10_000, 2500], rel=0.05)


# ---------------------------------------------------------------- machines and costs


def test_smt_siblings_share_a_core():
    def rate(workers, smt):
        machine = Machine("m", cores=1, smt=smt, smt_gain=1.3, costs=Costs.none())
        profile = Profile.of(
            Operator(name, 1e-5, query=n) for n, name in enumerate("abcdef"[:workers])
        )
        return Simulation(profile, machine, Dedicated()).simulate(0.1).throughput

    assert rate(2, smt=2) / rate(1, smt=2) == pytest.approx(1.3, rel=0.05)


def test_rows_from_another_socket_cost_more():
    def rate(machine):
        return Simulation(pipeline(2, 0.0), machine, Dedicated()).simulate(0.01).throughput

    near = Machine("near", sockets=1, cores=2)
    far = Machine("far", sockets=2, cores=1)
    assert rate(near) > 1.5 * rate(far)


def test_threads_without_a_processor_take_turns():
    profile = Profile.of(Operator(name, 1e-5, query=n) for n, name in enumerate("abcd"))
    result = Simulation(profile, Machine("one"), Dedicated()).simulate(1.0)
    assert result.switches > 50
    for query in result.queries:
        assert query.rows_out == pytest.approx(result.rows_out / 4, rel=0.05)


@pytest.mark.parametrize("levels", [(1, 2, 4, 8, 16)])
def test_elasticity_finds_the_level_in_the_simulator(levels):
    """Rows cost 10 µs and the source 2.5 µs: more than four threads are of no use."""
    profile = Profile.of(
        [
            Operator("source", 2.5e-6, split=True),
            *(Operator(f"w{n}", 1e-5, inputs=("source",)) for n in range(32)),
        ]
    )
    machine = Machine("wide", cores=32, costs=Costs.none())
    elasticity = Elasticity(16, levels=levels)
    simulation = Simulation(
        profile, machine, FreeList(16), elasticity=elasticity, elastic_period=0.02
    )
    simulation.simulate(2.0)
    assert elasticity.level in (4, 8)


# ---------------------------------------------------------------- profiles


@given(profiles())
def test_profiles_survive_json(profile):
    assert Profile.from_json(profile.to_json()) == profile


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "a profile is JSON"),
        ("[]", '"format": 1'),
        ('{"format": 2}', '"format": 1'),
        ('{"format": 1}', 'a list "operators"'),
        ('{"format": 1, "operators": []}', "at least one operator"),
        ('{"format": 1, "operators": [7]}', "an operator is a JSON object"),
        ('{"format": 1, "operators": [{"name": "a"}]}', "the field 'cost' is missing"),
        ('{"format": 1, "operators": [{"name": "a", "cost": "1"}]}', "not of the type float"),
        ('{"format": 1, "operators": [{"name": "a", "cost": -1}]}', "cost=-1"),
        ('{"format": 1, "operators": [{"name": "a", "cost": NaN}]}', "cost=nan"),
        (
            '{"format": 1, "operators": [{"name": "a", "cost": 1, "inputs": ["b"]}]}',
            "no operator 'b' to read from",
        ),
        (
            '{"format": 1, "operators": [{"name": "a", "cost": 1}, {"name": "a", "cost": 1}]}',
            "two operators are named 'a'",
        ),
        (
            '{"format": 1, "operators": [{"name": "a", "cost": 1, "inputs": ["a"]}]}',
            "on a cycle",
        ),
        (
            '{"format": 1, "operators": [{"name": "a", "cost": 1, "arrivals": "steady"}]}',
            "need a rate above zero",
        ),
    ],
)
def test_a_profile_that_is_none(text, message):
    with pytest.raises(ControlError, match=message):
        Profile.from_json(text)


def test_graphs_have_the_papers_sizes():
    assert len(pipeline(1000, 1e-9).operators) == 1000
    assert len(wide(1000, 1e-9).operators) == 1002
    assert len(mesh(10, 100, 1e-9).operators) == 1002
    assert inf not in [operator.cost for operator in chains(13).operators]
