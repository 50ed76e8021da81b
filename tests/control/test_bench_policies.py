"""`headrace bench policies` and `headrace simulate`."""

import json

import pytest

from headrace.bench import policies
from headrace.bench.node import agreement
from headrace.bench.node import classes as node_classes
from headrace.bench.node import policies as node_policies
from headrace.bench.node import steps as node_steps
from headrace.bench.report import Bench
from headrace.cli import main
from headrace.control.policies import POLICIES
from headrace.control.simulator import Operator, Profile
from headrace.workloads import ysb


@pytest.mark.parametrize("case", policies.CASES, ids=lambda case: f"{case.name} {case.flops}")
def test_the_papers_orderings_hold(case):
    """Streams figs. 9 and 10, with fewer levels of dynamic than the figure tries."""
    rates = policies.rates(case, "streams-xeon", levels=case.levels[:1])
    for first, second in case.orderings:
        assert rates[first] > rates[second], rates


def test_the_figure_counts_orderings(monkeypatch):
    monkeypatch.setattr(policies, "CASES", policies.CASES[:1])
    wrong = {"manual": 1.0, "dynamic": 3.0, "dedicated": 2.0}
    monkeypatch.setattr(policies, "rates", lambda case, machine: wrong)
    found = policies.simulated(Bench())["simulated"]
    assert found.value == 0.5 and found.details["cases"][0]["held"] == [False, True]
    assert not found.said(policies.FIGURES["simulated"])["reached"]


@pytest.mark.compiled
@pytest.mark.parametrize("figure", ["cost", "mixed"])
def test_a_figure_of_the_node_engine(capsys, monkeypatch, figure):
    """In the smallest size, with few policies: every result is right, and all is reported."""
    few = {name: POLICIES[name] for name in ("latency_optimized", "multi_class")}
    monkeypatch.setattr(node_policies, "POLICIES", few)
    assert main(["bench", "policies", "--quick", "--only", figure, "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    said = json.loads(line)
    assert said["figure"] == figure and said["correct"] and said["ratio"] > 0
    by_policy = said["by_policy"] if figure == "cost" else said["mean_ms"]
    assert set(few) <= set(by_policy)


@pytest.mark.compiled
def test_the_ablation(capsys):
    """All four sides are right; the smallest size says nothing about how fast."""
    assert main(["bench", "policies", "--quick", "--only", "ablation", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["correct"] and set(said["to_each"]) == {"TM", "SQ", "TQ"}


@pytest.mark.compiled
def test_queries_of_two_classes(capsys, monkeypatch):
    """In the smallest size: all rows come, and both sides and the overhead are reported."""
    for name, few in {"HIGH": 1, "LOW": 1, "OPERATORS": 2, "SETTLE_SECONDS": 0.2}.items():
        monkeypatch.setattr(node_classes, name, few)
    assert main(["bench", "policies", "--quick", "--only", "multi_class", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["correct"] and set(said["high_ms"]) == {"dedicated", "multi_class"}
    assert 0 < said["overhead"] < 1


@pytest.mark.compiled
def test_steps(capsys, monkeypatch):
    """In the smallest size: all rows come, and each change is reported."""
    monkeypatch.setattr(node_steps, "QUERIES", 2)
    assert main(["bench", "policies", "--quick", "--only", "steps", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["correct"] and said["unit"] == "s"
    assert {kind: len(found) for kind, found in said["seconds_behind"].items()} == {
        "rate": 3,
        "selectivity": 3,
    }


@pytest.mark.compiled
def test_the_simulator_beside_the_engine(capsys, monkeypatch):
    """In the smallest size: all results are right, and both sides are reported; how well they agree
    is for an idle machine to say."""
    monkeypatch.setattr(agreement, "WORKLOADS", {"chains": agreement.WORKLOADS["chains"]})
    monkeypatch.setattr(agreement, "SIMULATED_SECONDS", 0.1)
    few = dict(list(agreement.POLICIES.items())[:2])
    monkeypatch.setattr(agreement, "POLICIES", few)
    assert main(["bench", "policies", "--quick", "--only", "agreement", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    found = said["workloads"]["chains"]
    assert said["correct"] and set(found["engine_rows_per_s"]) == set(few)
    for rates in found["simulated_rows_per_s"].values():
        assert len(rates) == 3 and sum(rates) > 0


def test_a_simulated_workload_goes_by_its_profile():
    """Two workers, one query that is urgent: its rate is that of its costs, the other one waits."""
    queries = [
        Profile.of(
            [
                Operator("rows", 0.0, parallelism=9),
                Operator("work", cost, inputs=("rows",), parallelism=9, user_priority=urgent),
                Operator("sink", 0.0, inputs=("work",), hosted=True),
            ],
            measured=True,
        )
        for cost, urgent in ((1e-5, 1.0), (2e-5, 0.0))
    ]
    both = Profile.together(queries).with_priorities([1, 0])
    rates = agreement.simulate(both, "user_priority")
    assert rates[0] == pytest.approx(200_000, rel=0.03) and rates[1] < 1_000
    turns = agreement.simulate(both, agreement.MEASURED)
    assert turns[0] * 1e-5 + turns[1] * 2e-5 == pytest.approx(2.0, rel=0.03)
    assert min(turns) > 20_000


def test_results_of_mixed_queries_are_checked():
    data = ysb.make(1000)
    mixed = node_policies.Mixed(data, [None] * 8)
    assert mixed.are_right([0] * 8)
    extra = data.events.to_batches()[0]  # rows that nobody read
    mixed.outputs[5].node.connector.write(extra, "batch", "attempt")
    assert not mixed.are_right([0] * 8)


# ---------------------------------------------------------------- simulate

SHORT = ["simulate", "--seconds", "0.05", "--queries", "3", "--operators", "9", "--high", "1"]


def printed(capsys, *arguments):
    assert main([*SHORT, *arguments]) == 0
    return capsys.readouterr().out


def test_a_table_with_classes(capsys):
    out = printed(capsys, "--policy", "fcfs", "--policy", "chain", "--workers", "2")
    assert "fcfs" in out and "chain" in out and "class 1" in out


def test_one_seed_the_same_bytes(capsys):
    first = printed(capsys, "--policy", "all", "--json")
    assert first == printed(capsys, "--policy", "all", "--json")
    lines = [json.loads(line) for line in first.splitlines()]
    assert len(lines) == len(POLICIES) and all(line["rows_in"] > 0 for line in lines)


SCHEDULERS = ["priority", "assigned", "steered", "free_list", "dedicated", "manual"]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("graph", ["chains", "pipeline", "wide", "mesh"])
def test_every_scheduler_runs_every_graph(capsys, scheduler, graph):
    (line,) = printed(
        capsys, "--scheduler", scheduler, "--graph", graph, "--json", "--operators", "20",
        "--cost", "1",
    ).splitlines()  # fmt: skip
    found = json.loads(line)
    assert found["scheduler"] == scheduler and found["rows_out"] > 0


def test_a_profile_from_a_file(capsys, tmp_path):
    file = tmp_path / "profile.json"
    operators = [
        Operator("a", 1e-6, arrivals="steady", rate=1000.0),
        Operator("b", 1e-6, inputs=("a",)),
    ]
    file.write_text(Profile.of(operators).to_json(), encoding="utf-8")
    (line,) = printed(capsys, "--profile", str(file), "--json").splitlines()
    assert json.loads(line)["rows_in"] == pytest.approx(50, abs=12)


def test_a_gantt_chart(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "gantt.png"
    out = printed(capsys, "--policy", "fcfs", "--policy", "chain", "--plot", str(picture))
    drawn = picture.read_bytes()
    assert drawn.startswith(b"\x89PNG")
    assert f"plot: {picture}" in out
    printed(capsys, "--policy", "fcfs", "--policy", "chain", "--plot", str(picture))
    assert picture.read_bytes() == drawn


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "best"], "no policy 'best'; there are: round_robin"),
        (["--machine", "toaster"], "no machine 'toaster'; there are: streams-xeon"),
        (["--high", "4"], "--high 4: there are 3 queries"),
        (["--profile", "nowhere.json"], "nowhere.json"),
        (["--plot", "no/such/folder/a.png"], "there is no folder"),
    ],
)
def test_mistakes_end_in_a_message(capsys, arguments, message):
    assert main([*SHORT, *arguments]) == 1
    assert message in capsys.readouterr().err
