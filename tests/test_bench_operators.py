"""`headrace bench operators` on few rows: both sides are right, and wrong results are noticed."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from headrace.bench import operators
from headrace.cli import main


@pytest.mark.timeout(900)
def test_all_figures_are_right(capsys):
    pytest.importorskip("polars")
    assert main(["bench", "operators", "--json", "--rows", "4000", "--repeat", "1"]) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["figure"] for line in said] == list(operators.FIGURES)
    assert all(line["correct"] and line["ratio"] > 0 for line in said)
    assert [line["must_reach"] for line in said] == [0.5, 1.0, 0.5, 0.5, 0.5, 1.0]


def test_other_counts_are_noticed():
    expected = operators._flat([0, 10], [np.array([1, 0, 2]), np.array([0, 3, 0])])
    names = ("window_start", "key", "n")
    right = pa.table(dict(zip(names, ([0, 0, 10], [0, 2, 1], [1, 2, 3]), strict=True)))
    assert operators._same(right, names, expected)
    for name in names:
        wrong = right.set_column(names.index(name), name, pa.array([7, 7, 7]))
        assert not operators._same(wrong, names, expected)
