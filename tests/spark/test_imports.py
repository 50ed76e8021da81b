"""Spark starts helper processes for every query: they load only what they need."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["headrace", "headrace.spark.source", "headrace.spark.job"])
def test_the_compiler_is_loaded_only_where_rows_are(module):
    code = f"import sys, {module}; print([m for m in ('numba', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr


def test_an_unknown_name_is_an_error():
    import headrace.spark

    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = headrace.spark.nothing
