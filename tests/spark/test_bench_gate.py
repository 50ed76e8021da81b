"""`headrace bench gate` runs, and says what it must."""

import pytest

from headrace.bench import gate
from headrace.bench.node.bench import Settings


def test_percentiles():
    assert gate.percentile([5.0], 0.95) == 5.0
    assert gate.percentile([4.0, 1.0, 2.0, 3.0], 0.5) == 2.0


@pytest.mark.soak
def test_the_figure(session, capsys):
    (found,) = gate.run(settings=Settings.quick(), session=session, as_json=True)
    assert found["figure"] == "high" and found["correct"] and found["ratio"] > 0
    assert {"fair_ratio", "low_ratio"} <= set(found)
