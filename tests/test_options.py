"""No option is left out in silence: an engine honours it, or says that it does not."""

import inspect

import pytest

import headrace as hr
from headrace import job
from headrace.cli import main
from headrace.options import ENGINES, OPTIONS, OptionError

VALUES = {
    "workers": 2,
    "memory": 1 << 24,
    "idle": "1s",
    "policy": "highest_rate",
    "priority": "high",
    "reorder": "lock",
    "scheduler": "free_list",
    "transport": "queues",
    "deadline": "50ms",
    "partitioning": "hybrid",
    "master": "local[1]",
    "session": object(),
    "checkpoint": "somewhere",
    "shards": 2,
    "batch_rows": 100,
    "trigger": "1 second",
    "gate": hr.Gate(),
}
REFUSED = [
    (engine, name)
    for engine in ENGINES
    for name, option in OPTIONS.items()
    if engine not in option.engines
]


def output():
    return hr.read.memory({"n": [1, 2]}).write.collect()


@pytest.mark.parametrize("begin", [hr.run, hr.start])
@pytest.mark.parametrize(("engine", "name"), REFUSED)
def test_what_an_engine_does_not_honour_is_refused(begin, engine, name):
    with pytest.raises(OptionError) as caught:
        begin(output(), engine=engine, **{name: VALUES[name]})
    said = str(caught.value)
    assert said.startswith(f"{name}={VALUES[name]!r}") and f'engine="{engine}"' in said
    assert "\n  fix: " in said


@pytest.mark.parametrize("begin", [hr.run, hr.start])
@pytest.mark.parametrize("name", [name for name in OPTIONS if "node" in OPTIONS[name].engines])
def test_what_the_node_engine_honours(begin, name):
    collected = output()
    given = {name: VALUES[name]} | ({"policy": "fcfs"} if name == "deadline" else {})
    ran = begin(collected, engine="node", compiled=False, **given)
    assert ran.await_termination(60) and ran.status == "finished"
    assert collected.result()["n"].to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"priority": "high"}, "priority='high': on Spark queries have priorities at a gate"),
        ({"gate": "open"}, "gate='open': this is not a gate"),
        ({"gate": VALUES["gate"], "priority": "urgent"}, "priority='urgent': this is no priority"),
        (
            {"gate": VALUES["gate"], "policy": "fcfs"},
            r"fix: on Spark a gate has it: gate=hr.Gate\(",
        ),
    ],
)
def test_priorities_on_spark_need_a_gate(given, said):
    with pytest.raises(OptionError, match=said):
        hr.start(output(), engine="spark", **given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"policy": "best"}, "policy='best': there is no such policy"),
        ({"running": 0}, "running=0: there must be at least one"),
        ({"running": 1.5}, "running=1.5: this is not a number of batches"),
        ({"patience": "soon"}, "patience='soon': this is not a duration"),
    ],
)
def test_a_gate_checks_what_it_is_given(given, said):
    with pytest.raises(OptionError, match=said):
        hr.Gate(**given)


def test_the_table_has_all_options():
    """Those of `run` and `start` are the same, with the same defaults, and each is in the table or
    honoured by all."""
    by_all = {"fuse", "prune", "capacity", "compiled", "seconds", "watch", "engine", "ordering"}
    defaults, others = (
        {p.name: p.default for p in inspect.signature(each).parameters.values()}
        for each in (hr.run, hr.start)
    )
    assert defaults == others
    assert set(defaults) - {"outputs"} == by_all | set(OPTIONS)
    assert set(VALUES) == set(OPTIONS)
    for option in OPTIONS.values():
        assert set(option.instead) == set(ENGINES) - set(option.engines)


@pytest.mark.parametrize("begin", [hr.run, hr.start])
def test_an_option_that_nobody_knows_is_named_with_its_function(begin):
    with pytest.raises(TypeError, match=rf"{begin.__name__}\(\).* 'worker'"):
        begin(output(), worker=2)


def test_the_engine_of_the_environment_is_named(monkeypatch):
    monkeypatch.setenv("HEADRACE_ENGINE", "thread")
    with pytest.raises(OptionError, match='workers=3: engine="thread"'):
        hr.run(output(), workers=3)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"scheduler": "fifo"}, "scheduler='fifo': there is no such scheduler\n  fix: one of near"),
        ({"scheduler": "near", "policy": "fcfs"}, "asks no policy, and 'fcfs' was given\n  fix: "),
        ({"scheduler": "priority"}, "it asks a policy, and none was given\n  fix: name one"),
        ({"scheduler": "manual", "workers": 2}, "one thread runs all operators\n  fix: leave"),
        (
            {"scheduler": "dedicated", "workers": "auto"},
            "a thread of its own\n  fix: name a number",
        ),
    ],
)
def test_a_scheduler_and_a_policy_that_do_not_go_together(given, said):
    for begin in (lambda: hr.run(output(), engine="node", **given), lambda: hr.Engine(**given)):
        with pytest.raises(OptionError, match=said):
            begin()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"transport": "pipes"}, "transport='pipes': there is no such transport\n  fix: one of"),
        ({"transport": "queues", "capacity": 9}, "capacity=9: .* no blocks\n  fix: leave one"),
    ],
)
def test_what_is_no_transport(given, said):
    with pytest.raises(OptionError, match=said):
        hr.run(output(), engine="node", **given)


def test_nobody_would_look_at_a_priority():
    with pytest.raises(hr.HeadraceError, match=r"priority=1: .* asks no policy.*\n  fix: leave"):
        hr.run(output(), engine="node", scheduler="near", priority="high")


@pytest.mark.parametrize(
    ("deadline", "said"),
    [
        ("soon", "deadline='soon': this is not a duration"),
        ("2s", "deadline=2s: there is no policy"),
    ],
)
def test_a_deadline_that_nobody_could_meet(deadline, said):
    with pytest.raises(hr.HeadraceError, match=said + r".*\n  fix: give"):
        hr.run(output(), engine="node", deadline=deadline)


def test_explain_refuses_them_too():
    with pytest.raises(OptionError, match='shards=2: engine="node"'):
        job.explain(output(), engine="node", shards=2)


@pytest.mark.parametrize("idle", ["soon", 1.5])
def test_a_time_that_is_none(idle):
    with pytest.raises(hr.HeadraceError, match="duration"):
        hr.run(output(), engine="node", idle=idle)


def test_the_command_says_it_without_a_traceback(tmp_path, capsys):
    file = tmp_path / "some.py"
    file.write_text("import headrace as hr\nout = hr.read.memory({'n': [1]}).write.null()\n")
    assert main(["run", str(file), "--engine", "thread", "--workers", "2"]) == 1
    assert 'engine="node" has workers' in capsys.readouterr().err
    assert main(["run", str(file), "--engine", "thread", "--policy", "fcfs"]) == 1
    assert 'engine="node" takes policies' in capsys.readouterr().err
    given = ["--idle", "2s", "--workers", "1", "--policy", "fcfs", "--scheduler", "priority"]
    assert main(["run", str(file), "--engine", "node", *given]) == 0
