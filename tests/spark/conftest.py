"""One Spark for all tests, on two cores; without PySpark or Java they are skipped."""

import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest
from tests.broker import broker

__all__ = ["broker"]  # a fixture


def pytest_collection_modifyitems(items):
    reason = missing()
    if reason:
        for item in items:
            if "spark" in item.path.parts:
                item.add_marker(pytest.mark.skip(reason=reason))


def missing() -> str:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "PySpark is not installed"
    from headrace.spark.errors import SparkError
    from headrace.spark.session import check_java

    try:
        check_java()
    except SparkError as error:
        return str(error).splitlines()[0]
    return ""


@pytest.fixture(scope="session")
def session():
    from headrace.spark.session import open_session

    made = open_session("local[2,3]", None)  # a task may fail twice
    yield made
    made.stop()


@pytest.fixture(scope="module")
def pythons(tmp_path_factory):
    """Gives a Python with a version of PySpark over the packages of this one."""
    folder = tmp_path_factory.mktemp("pythons")

    def make(version: str) -> Path:
        place = folder / version
        venv.create(place, with_pip=True)
        python = place / "bin/python"
        paths = sysconfig.get_paths(vars={"base": str(place), "platbase": str(place)})
        ours = sysconfig.get_paths()["purelib"]
        Path(paths["purelib"], "ours.pth").write_text(ours)  # behind its own packages
        command = [python, "-m", "pip", "install", "-q", "--ignore-installed"]
        subprocess.run([*command, f"pyspark=={version}.*"], check=True, timeout=1800)
        return python

    return make
