"""The archive of Spark's Java classes (`headrace warm`)."""

import subprocess
import sys

import pytest

from headrace.cli import main
from headrace.spark import archive
from headrace.spark.java import Java, find_java


@pytest.fixture
def java(monkeypatch, tmp_path):
    """A Java of which nothing is archived, and a cache folder of its own."""
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "the cache"))
    monkeypatch.delenv("HEADRACE_MAKE_ARCHIVE", raising=False)
    made = Java(str(tmp_path / "bin" / "java"), 17)
    monkeypatch.setattr(archive, "find_java", lambda: made)
    return made


def test_java_is_told_of_an_archive_that_is_there(java):
    assert archive.java_options() == ""
    path = archive.archive_of(java)
    path.parent.mkdir(parents=True)
    path.touch()
    assert archive.java_options().startswith(f'"-XX:SharedArchiveFile={path}" ')


def test_each_java_has_an_archive_of_its_own(java):
    others = [Java(java.path, 21), Java(java.path + "x", 17)]
    assert len({archive.archive_of(one) for one in [java, *others]}) == 3


def test_a_java_that_makes_none_is_an_error(java, monkeypatch):
    def run(command, env, **options):
        assert env["HEADRACE_MAKE_ARCHIVE"].endswith(".part")
        return subprocess.CompletedProcess(command, 1, "", "no base archive\n")

    monkeypatch.setattr(archive.subprocess, "run", run)
    with pytest.raises(archive.NoArchive, match="no base archive"):
        archive.make_archive()


PROGRAM = """
import headrace as hr
from headrace.spark.session import close_session
out = hr.read.memory({"n": [1, 2, 3]}).write.collect()
hr.run(out, engine="spark", master="local[2]")
from pyspark.sql import SparkSession
print(out.result()["n"].to_pylist())
print(SparkSession.getActiveSession().sparkContext.getConf().get("spark.driver.defaultJavaOptions"))
close_session()
"""


@pytest.mark.soak
def test_a_session_with_an_archive(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HEADRACE_ENGINE", raising=False)
    assert main(["warm"]) == 0
    path = archive.archive_of(find_java())
    assert f"done: {path} " in capsys.readouterr().out
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=300
    ).stdout
    assert said.startswith("[1, 2, 3]\n") and str(path) in said and "warning" not in said
