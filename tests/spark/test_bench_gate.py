"""`headrace bench gate` runs, says what it must, and notices wrong results."""

from types import SimpleNamespace

import pyarrow.compute as pc
import pytest
from tests.spark.small_spark import SmallSpark, on_small_spark

from headrace.bench import gate
from headrace.bench.node.bench import Settings


def test_percentiles():
    assert gate.percentile([5.0], 0.95) == 5.0
    assert gate.percentile([4.0, 1.0, 2.0, 3.0], 0.5) == 2.0


def one_more(rows):
    """The same rows with wrong results."""
    return rows.set_column(rows.schema.get_field_index("m"), "m", pc.add(rows["m"], 1))


@pytest.mark.compiled
@pytest.mark.parametrize("are_right", [True, False])
def test_the_figure_on_a_small_spark(are_right, monkeypatch):
    monkeypatch.setattr(gate, "LOW_RATE", 20_000.0)
    monkeypatch.setattr(gate, "LOW_BATCH", 500)
    if not are_right:
        seen = gate.High._take
        monkeypatch.setattr(gate.High, "_take", lambda self, rows: seen(self, one_more(rows)))
    bench = gate.Bench(SimpleNamespace(session=SmallSpark()), Settings.quick())
    with on_small_spark():
        found = gate.high(bench)["high"]
    assert found.correct is are_right and found.value > 0
    assert found.details["fair_ratio"] > 0 and found.details["low_ratio"] > 0
    assert not found.details["starved"] and len(found.details["low_batches"]["gate"]) == 2


@pytest.mark.soak
def test_the_figure(session):
    (found,) = gate.run(settings=Settings.quick(), session=session, as_json=True)
    assert found["figure"] == "high" and found["correct"] and found["ratio"] > 0
    assert {"fair_ratio", "low_ratio"} <= set(found)
