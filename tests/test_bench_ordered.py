"""`headrace bench ordered` on few rows: both sides are right, and in order."""

from __future__ import annotations

import json

import pytest

from headrace.cli import main


@pytest.mark.timeout(300)
def test_the_figure_is_right(capsys):
    assert main(["bench", "ordered", "--json", "--rows", "3000", "--repeat", "1"]) == 0
    (said,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (said["figure"], said["must_reach"]) == ("stateless", 1.8)
    assert said["correct"] and said["ratio"] > 0 and said["rows"] == 3000
