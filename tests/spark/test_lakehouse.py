"""Delta Lake and Iceberg, by an example: their jars are for a Spark of their own."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERSION = "4.0"  # of Spark, for which the example has jars
NOT_FETCHED = ("unresolved dependency", "Server access error", "download failed")


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_windows_go_from_table_to_table(pythons, tmp_path, kind):
    try:
        python = pythons(VERSION)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"pip does not get PySpark {VERSION}: {error}")
    done = subprocess.run(
        [python, ROOT / "examples/lakehouse.py", kind, tmp_path],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    if done.returncode and any(words in done.stdout + done.stderr for words in NOT_FETCHED):
        pytest.skip(f"the jars of {kind} cannot be fetched here")
    assert done.returncode == 0, done.stderr[-3000:]
    whole = 3000 // 60 - 1  # the last minute is still open
    paid = sum(number % 100 > 0 for number in range(whole * 60))
    assert done.stdout.splitlines()[-1] == f"{whole * 5} windows, {paid} orders"
