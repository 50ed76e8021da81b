"""`headrace bench spark` on few rows: every case is right and complete, verdicts are true."""

import json
import os
import sys

import pytest
from rich.console import Console

from headrace.bench import report
from headrace.bench.figure import Figure
from headrace.bench.spark import command
from headrace.bench.spark.bounded import SAIL
from headrace.bench.spark.cases import CASES, MEASURED_BY, found_by
from headrace.bench.spark.context import opened
from headrace.cli import main

PROMISED = {"figure", "value", "unit", "correct", "must_reach", "reached", "load_before"}
QUICK = ("window_parquet", "etl_parquet", "keyed_aggregate", "tick", "bounded_keyed", "bounded_etl")
RIVALS = ("rival_window", "rival_keyed", "rival_etl")
LONG = (
    "bounded_window",
    "keyed_python",
    "python_udf",
    "python_chain",
    "large_state",
    "dataframe",
    "startup",
)


def check(name, capsys, session):
    (result,) = command.run([name], scale=0.0005, as_json=True, session=session)
    assert json.loads(capsys.readouterr().out) == result
    assert set(result) >= PROMISED
    assert result["figure"] == name
    assert result["correct"] is True
    assert result["value"] > 0 or name == "startup"
    return result


@pytest.mark.parametrize("name", QUICK)
def test_a_case_is_right_and_complete(name, capsys, session):
    result = check(name, capsys, session)
    assert len(result["sides"]) == 2
    assert all(side["best"] >= side["median"] > 0 for side in result["sides"].values())


@pytest.mark.soak
@pytest.mark.parametrize("name", LONG)
def test_a_long_case_is_right_and_complete(name, capsys, session):
    check(name, capsys, session)


def test_a_case_that_cannot_be_run_says_why(capsys, session):
    """This session was started without Spark's Kafka connector."""
    (result,) = command.run(["kafka_json"], as_json=True, session=session)
    assert "connector" in json.loads(capsys.readouterr().out)["skipped"]
    assert result["reached"] is None and result["ratio"] is None
    assert "kafka_json: " in shown([result])


@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_is_right_or_not_there(name, capsys, session, monkeypatch):
    if SAIL in os.environ:
        check(name, capsys, session)
    monkeypatch.delenv(SAIL, raising=False)
    (result,) = command.run([name], as_json=True, session=session)
    assert "pip install pysail" in result["skipped"] and result["ratio"] is None


def test_a_python_without_sail_is_told(session, monkeypatch):
    monkeypatch.setenv(SAIL, sys.executable)
    (result,) = command.run(["rival_etl"], scale=0.0001, as_json=True, session=session)
    assert result["skipped"].startswith("Sail ended; ")


def test_every_case_is_tested():
    assert set(CASES) == {*QUICK, *LONG, *RIVALS, "kafka_json"}
    assert [measure.__name__ for measure in MEASURED_BY] == list(CASES)


# ---------------------------------------------------------------- verdicts


def said(ratio, correct=True, **limits):
    rates = {"best": 2_000_000, "median": 2_000_000}
    found = {"ratio": ratio, "sides": {"headrace": rates, "Spark": rates}, "correct": correct}
    return found_by(lambda context: dict(found), None).said(Figure("tick", "a title", **limits))


@pytest.mark.parametrize(
    ("limits", "ratio", "correct", "reached"),
    [
        ({"limit": 2.0}, 2.0, True, True),
        ({"limit": 2.0}, 1.99, True, False),
        ({"limit": 2.0}, 3.0, False, False),
        ({"limit": 1.3, "at_most": True}, 1.3, True, True),
        ({"limit": 1.3, "at_most": True}, 1.4, True, False),
    ],
)
def test_a_ratio_is_held_against_its_target(limits, ratio, correct, reached):
    assert said(ratio, correct, **limits)["reached"] is reached


def test_a_table_shows_what_was_found():
    results = [
        said(9.0, limit=1.3, at_most=True),
        said(3.0, False, limit=2.0),
        said(3.0, limit=2.0),
    ]
    text = shown(results)
    assert "missed" in text and "WRONG" in text and "reached" in text and "2.00 M" in text


def shown(results):
    console = Console(width=160, record=True, file=open("/dev/null", "w"))
    console.print(report.table("cases", results))
    return console.export_text()


def test_a_wrong_name_is_explained(capsys):
    with pytest.raises(SystemExit):
        main(["bench", "spark", "--case", "nothing"])
    assert "no case 'nothing'; there are: window_parquet" in capsys.readouterr().err


def test_the_folder_of_a_run_is_removed(session):
    with opened(session=session) as context:
        folder = context.folder
        context.new_folder("rows")
        assert folder.is_dir()
    assert not folder.exists()
