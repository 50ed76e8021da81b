"""`headrace bench spark` on few rows: every case is right and complete, verdicts are true."""

import json

import pytest
from rich.console import Console

from headrace.bench.spark import command
from headrace.bench.spark.cases import CASES, Case
from headrace.bench.spark.context import Skipped, opened
from headrace.cli import main

PROMISED = {"case", "ratio", "rows_per_s", "their_rows_per_s", "correct", "target", "reached"}
QUICK = ("window_parquet", "etl_parquet", "keyed_aggregate", "tick")
LONG = ("keyed_python", "python_udf", "python_chain", "large_state", "dataframe", "startup")


def check(name, capsys, session):
    (result,) = command.run([name], scale=0.0005, as_json=True, session=session)
    assert json.loads(capsys.readouterr().out) == result
    assert set(result) >= PROMISED
    assert result["case"] == name
    assert result["correct"] is True
    assert result["ratio"] > 0 or name == "startup"
    return result


@pytest.mark.parametrize("name", QUICK)
def test_a_case_is_right_and_complete(name, capsys, session):
    result = check(name, capsys, session)
    assert result["rows_per_s"] > 0 and result["their_rows_per_s"] > 0


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


def test_every_case_is_tested():
    assert set(CASES) == {*QUICK, *LONG, "kafka_json"}


# ---------------------------------------------------------------- verdicts


def measured(ratio, correct=True):
    return lambda context: {
        "ratio": ratio,
        "rows_per_s": 2_000_000,
        "their_rows_per_s": 1_000_000,
        "correct": correct,
    }


@pytest.mark.parametrize(
    ("limits", "ratio", "correct", "reached"),
    [
        ({"at_least": 2.0}, 2.0, True, True),
        ({"at_least": 2.0}, 1.99, True, False),
        ({"at_least": 2.0}, 3.0, False, False),
        ({"at_most": 1.3}, 1.3, True, True),
        ({"at_most": 1.3}, 1.4, True, False),
    ],
)
def test_a_ratio_is_held_against_its_target(limits, ratio, correct, reached):
    case = Case("tick", "a title", measured(ratio, correct), **limits)
    assert case.run(None)["reached"] is reached


def test_a_table_shows_what_was_found():
    results = [Case("tick", "", measured(9.0), at_most=1.3).run(None)]
    results += [Case("etl_parquet", "", measured(3.0, correct=False), 2.0).run(None)]
    results += [Case("window_parquet", "", measured(3.0), 2.0).run(None)]
    text = shown(results)
    assert "missed" in text and "WRONG" in text and "reached" in text and "2 M/s" in text


def test_a_skipped_case_has_no_ratio():
    def measure(context):
        raise Skipped("no broker")

    result = Case("kafka_json", "", measure, 1.5).run(None)
    assert result["skipped"] == "no broker" and set(result) >= PROMISED
    assert "kafka_json: no broker" in shown([result])


def shown(results):
    console = Console(width=160, record=True, file=open("/dev/null", "w"))
    console.print(command.table(results))
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
