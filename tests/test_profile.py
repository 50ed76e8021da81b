"""A profile of a real run is what the simulator takes, and says what would have been."""

import json

import numpy as np
import pytest

import headrace as hr
from headrace import col
from headrace.cli import main
from headrace.control import ControlError
from headrace.control.policies import make_policy
from headrace.control.simulator import PriorityQueue, Profile, Simulation, machine_named
from headrace.control.simulator.measured import LATE, MANY, Measured, profile_of

ROWS = 20_000
ENGINES = [("thread", {}), ("node", {"workers": 1}), ("node", {"workers": 2})]


def outputs(**source):
    rows = {"k": np.arange(1000) % 10, "t": np.arange(1000)}
    read = hr.read.replay(rows, **{"rows": ROWS, **source}, name="rows")
    windows = read.filter(col("k") < 5, name="few").with_watermark("t", 0)
    counted = windows.key_by("k").window(hr.tumbling(100)).agg(n=hr.count())
    return counted.write.null(), read.filter(col("k") == 0, name="none").write.null()


def reaching(profile):
    """Rows that reach each operator, for each row of the sources."""
    found = {}
    for place in profile.graph.order:
        operator = profile.operators[place]
        before = [found[name] for name in operator.inputs]
        found[operator.name] = operator.selectivity * (sum(before) if before else 1.0)
    return found


@pytest.mark.parametrize(("engine", "options"), ENGINES)
def test_a_profile_of_a_run(engine, options, tmp_path):
    job = hr.run(*outputs(), engine=engine, compiled=False, fuse="none", **options)
    profile = job.profile()
    assert Profile.from_json(profile.to_json()) == profile
    by_name = {operator.name: operator for operator in profile.operators}
    assert [o.name for o in profile.operators if not o.inputs] == ["rows"]
    assert by_name["few"].inputs == ("rows",)
    assert all(by_name[name].cost > 0 for name in ("few", "none"))
    found = reaching(profile)
    assert found["few"] == 0.5 and found["none"] == found["sink_2"] == 0.1
    assert found["sink_1"] == pytest.approx(job.metrics()["sink_1"]["rows_in"] / ROWS)
    metrics = job.metrics()
    total = sum(o.cost * metrics[o.name]["rows_in"] for o in profile.operators if o.name in metrics)
    assert total == pytest.approx(sum(each["seconds"] for each in metrics.values()))
    brought = [o for o in profile.operators if o.name.endswith(("(merge)", "(gather)"))]
    assert bool(brought) == (engine == "node")


def test_rows_that_are_waited_for_come_at_their_rate():
    few = outputs(rate=200, rows=200)
    (source, *_) = hr.run(*few, engine="thread", compiled=False).profile().operators
    assert source.arrivals == "steady" and 0 < source.rate < 250


@pytest.mark.parametrize(("engine", "options"), ENGINES)
def test_late_rows_go_their_own_way(engine, options):
    rows = hr.read.memory({"t": [1, 50, 2, 3, 60, 4, 70, 80, 90, 99]})
    windows = rows.with_watermark("t", 0).key_by("t").window(hr.tumbling(10)).agg(n=hr.count())
    late = windows.late().filter(col("t") > 0, name="late").write.null()
    job = hr.run(windows.write.null(), late, engine=engine, compiled=False, **options)
    profile = job.profile()
    (reader,) = (o for o in profile.operators if o.name == "late")
    by_name = {o.name: o for o in profile.operators}
    beside = by_name[reader.inputs[0]]
    while LATE not in beside.name:  # what brings copies together
        (before,) = beside.inputs
        beside = by_name[before]
    assert beside.name.endswith(LATE) and beside.selectivity == 0.3 and beside.cost == 0.0


def test_priorities_of_a_profile():
    job = hr.run(*outputs(), engine="node", workers=1, compiled=False, priority="high")
    assert {(o.user_priority, o.query_class) for o in job.profile().operators} == {(1.0, 1)}


def test_nothing_was_read():
    with pytest.raises(ControlError, match="nothing was read yet"):
        profile_of([Measured("rows", (), 0, 0, 0.0)])


@pytest.mark.parametrize("engine", ["thread", "node"])
def test_a_job_that_has_not_begun(engine):
    job = hr.start(outputs(rate=0.001)[0], engine=engine, compiled=False)
    try:
        with pytest.raises(ControlError, match="nothing was read yet"):
            job.profile()
    finally:
        job.cancel(60)


def simulated(profile, policy="user_priority", workers=1, seconds=0.2):
    scheduler = PriorityQueue(make_policy(policy), workers)
    return Simulation(profile, machine_named("big"), scheduler).simulate(seconds)


def measured_query(cost, priority=0.0):
    source = Measured("rows", (), 1000, 1000, 1e-4, parallelism=MANY)
    work = Measured("work", ("rows",), 1000, 1000, 1000 * cost, parallelism=MANY)
    sink = Measured("sink", ("work",), 1000, 0, 1e-4)
    return profile_of([source, work, sink], priority)


def test_more_cores_would_have_done_more():
    profile = measured_query(cost=1e-4)
    one, four = (simulated(profile, workers=workers).throughput for workers in (1, 4))
    assert 9_000 < one < 11_000  # a row takes 0.1 ms
    assert four > 2.5 * one


def test_other_priorities_would_have_served_others_first():
    both = Profile.together([measured_query(1e-4), measured_query(1e-4)])
    rates = []
    for priorities in ([0, 1], [1, 0]):
        result = simulated(both.with_priorities(priorities))
        rates.append([query.rows_out for query in result.queries])
    assert rates[0][1] > rates[0][0] and rates[1][0] > rates[1][1]
    with pytest.raises(ControlError, match="2 queries, but 1 priorities"):
        both.with_priorities([1])


def test_the_command_takes_profiles(tmp_path, capsys):
    paths = [tmp_path / "one.json", tmp_path / "other.json"]
    for path in paths:
        measured_query(1e-4).save(path)
    given = [f"--profile={path}" for path in paths]
    common = ["simulate", *given, "--policy", "user_priority", "--seconds", "0.05", "--json"]
    assert main([*common, "--workers", "1"]) == 0
    assert main([*common, "--workers", "1", "--priorities", "1,0"]) == 0
    one, other = map(json.loads, capsys.readouterr().out.splitlines())
    assert one["rows_in"] > 0 and other["rows_in"] > 0
    assert main([*common, "--priorities", "1"]) != 0
    assert "2 queries, but 1 priorities" in capsys.readouterr().err
