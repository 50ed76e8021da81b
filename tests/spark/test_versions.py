"""Versions of PySpark: an old one tells its sources no start; all sides must have the same."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest
from tests.spark import version_job
from tests.spark.crashes import Machine
from tests.spark.small_spark import SmallSpark
from tests.spark.test_crash import SMALL, kill_at_points, traced, write_input

import headrace as hr
from headrace.connect import spark_versions
from headrace.connect.spark_versions import installed, parsed
from headrace.plan.errors import PipelineError
from headrace.spark import agreement, outgoing
from headrace.spark.errors import SparkError
from headrace.spark.session import left_alone, open_session

ROOT = Path(__file__).parents[2]
OTHERS = [v for v in ("4.0", "4.1", "4.2", "4.3") if parsed(v) != installed()]


# ---- a Spark that does not tell where the next batch begins --------------------------------------


def silent(folder, crashes=False) -> Machine:
    """A job on the small Spark, as the versions before 4.2 are."""
    write_input(folder / "in", SMALL)
    arguments = (str(SMALL.batch_rows), "silent")
    return Machine("tests.spark.small_job", folder, arguments, crashes)


@pytest.mark.timeout(900)
def test_killed_where_spark_tells_no_start(tmp_path):
    machine, points = traced(silent, tmp_path)
    assert any("asked.json" in str(point) for point in points)
    kill_at_points(machine, points, 4)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_killed_at_every_call_where_spark_tells_no_start(tmp_path):
    machine, points = traced(silent, tmp_path, crashes=True)
    kill_at_points(machine, points, len(points), crash=True)


def test_a_query_of_the_users_needs_a_checkpoint_there(monkeypatch, session):
    monkeypatch.setattr(outgoing, "tells_start", lambda: False)
    with pytest.raises(PipelineError, match=r"before 4.2(.|\n)*fix: give to_spark\(checkpoint="):
        hr.read.memory({"n": [1]}).to_spark(session=session, compiled=False)


# ---- all sides have the same --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "is_known"), [("4.0.0", True), ("4.4.0", False), ("3.5.9", False)]
)
def test_versions_that_are_known(monkeypatch, version, is_known):
    monkeypatch.setattr(pyspark, "__version__", version)
    if is_known:
        agreement.check_package()
        return
    with pytest.raises(
        SparkError, match=rf"PySpark {version} .* knows 4.0 to 4.3\n  fix: pip inst"
    ):
        agreement.check_package()


def test_java_runs_another_spark():
    """As SPARK_HOME makes it."""
    context = SimpleNamespace(version="4.0.1")
    with pytest.raises(SparkError, match=r'talks to Spark 4.0.1.*\n.*install "pyspark==4.0.\*"'):
        agreement.check_java_side(context)


def test_workers_of_another_version(monkeypatch, session):
    """Tasks tell what they run on; a driver of another version does not begin."""
    context = session.sparkContext
    monkeypatch.setattr(agreement, "_agreed", set())
    agreement.check_workers(context)
    assert context in agreement._agreed
    agreement._agreed.clear()
    here = pyspark.__version__
    monkeypatch.setattr(pyspark, "__version__", "4.1.7")
    said = rf"the cluster has Spark {here} .* the driver PySpark 4\.1\.7"
    with pytest.raises(SparkError, match=said):
        agreement.check_workers(context)


def test_workers_that_cannot_run_our_tasks(monkeypatch):
    """Python of another version, say: Spark says so, and we how to go on."""

    def collect():
        raise RuntimeError(
            "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has 3.9"
        )

    rows = SimpleNamespace(mapPartitions=lambda function: SimpleNamespace(collect=collect))
    context = SimpleNamespace(defaultParallelism=2, parallelize=lambda *given: rows)
    monkeypatch.setattr(agreement, "_agreed", [])
    with pytest.raises(SparkError, match=r"PYTHON_VERSION_MISMATCH.*\n  fix: use the cluster's"):
        agreement.check_workers(context)


def test_a_session_of_spark_connect_is_refused():
    remote = SimpleNamespace(version="4.3.0")
    with pytest.raises(SparkError, match=r"Spark Connect(.|\n)*fix: without SPARK_REMOTE"):
        open_session(None, remote)


def test_an_old_spark_is_not_blamed_for_what_it_lacks(monkeypatch):
    assert any("unix.domain" in line for line in left_alone(SmallSpark()))
    monkeypatch.setattr(spark_versions, "installed", lambda: (4, 0))
    assert not any("unix.domain" in line for line in left_alone(SmallSpark()))


# ---- a run in a Python of their own ------------------------------------------------------------


def check_said(said: str, version: str) -> None:
    told = json.loads(said.splitlines()[-1])
    notes = told.pop("errors")
    assert "row: " in notes and "in operator" in notes
    assert told.pop("version").startswith(f"{version}.")
    assert told.pop("tells_start") == (parsed(version) >= (4, 2))
    assert all(told.values()), told


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("version", OTHERS)
def test_another_version(pythons, tmp_path, version):
    """pip needs minutes for each: Spark is 400 MB."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(
        [pythons(version), "-m", version_job.__name__, str(tmp_path)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    check_said(done.stdout, version)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_this_version(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", version_job.__name__, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    check_said(done.stdout, ".".join(map(str, installed())))
