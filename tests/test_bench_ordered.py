"""`headrace bench ordered` on few rows: all sides are right, and in order."""

from __future__ import annotations

import json

import pytest

from headrace.cli import main

LIMITS = {
    "stateless": 1.8, "process": 1.6, "skew": 0.9, "latency": 3.0,
    "reorder": 0.95, "reorder_slowed": 1.2, "overhead": 0.85,
}  # fmt: skip


@pytest.mark.timeout(300)
def test_the_figures_are_right(capsys):
    assert main(["bench", "ordered", "--json", "--rows", "3000", "--repeat", "1"]) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {found["figure"]: found["must_reach"] for found in said} == LIMITS
    assert all(found["correct"] and found["ratio"] > 0 for found in said)
