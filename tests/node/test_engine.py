"""Pipelines on several threads: the same rows, in the same order, whatever the workers do."""

import _thread
import threading
import time

import pyarrow as pa
import pytest
from tests.choices import Seeded
from tests.counts import count
from tests.naive import rows_of
from tests.pipelines import random_pipeline
from tests.running import CAPACITIES, assert_same, in_any_order, is_ordered

import headrace as hr
from headrace import col, job
from headrace.node import building

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


@pytest.fixture
def small_splits(monkeypatch):
    """Splits of few rows, so that small inputs have many."""
    monkeypatch.setattr(building, "SPLIT_BLOCKS", 1)
    monkeypatch.setattr(job, "NODE_CAPACITY", 3)


def _compare(outputs, choose):
    expected = in_any_order(outputs)
    if expected is None:
        return
    hr.run(
        *outputs,
        engine="node",
        workers=choose.number(1, 4),
        capacity=choose.pick(CAPACITIES),
        fuse=choose.pick(["auto", "none"]),
        compiled=False,
    )
    for output, rows in zip(outputs, expected, strict=True):
        assert_same(rows_of(output.result()), rows, ordered=is_ordered(output.node))
    count("random pipelines on several threads, interpreted")


@pytest.mark.parametrize("seed", range(40))
def test_seeded_pipelines(seed, small_splits):
    choose = Seeded(seed)
    _compare(random_pipeline(choose), choose)


def campaigns(rows):
    events = hr.read.memory(
        {"time": list(range(rows)), "ad": [n % 7 for n in range(rows)]}, name="events"
    )
    table = hr.table({"ad": list(range(6)), "campaign": ["a", "b", "c", "a", "b", "c"]})
    return (
        events.filter(col("time") % 3 != 1)
        .join(table, on="ad")
        .with_watermark("time", 5)
        .key_by("campaign")
        .window(hr.tumbling(100))
        .agg(n=hr.count(), last=hr.max("time"))
    )


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_compiled_and_in_order(workers, monkeypatch):
    monkeypatch.setattr(building, "SPLIT_BLOCKS", 1)
    monkeypatch.setattr(job, "NODE_CAPACITY", 1000)
    out = campaigns(50_000).write.collect()
    hr.run(out)
    expected = out.result()
    ran = hr.run(out, engine="node", workers=workers)
    assert out.result().equals(expected)
    assert ran.status == "finished"
    assert ran.progress().rows_in == 50_000 and ran.progress().rows_out == expected.num_rows


def running_total(state, ad):
    state.count += 1
    yield state.count


def test_rows_keep_the_order_of_their_channel(small_splits):
    events = hr.read.memory({"n": list(range(500)), "ad": [n % 7 for n in range(500)]})
    plain = events.with_columns(m=col("n") * 2).write.collect()
    keyed = (
        events.key_by("ad").process(running_total, state={"count": int}, output=["k"])
    ).write.collect()
    hr.run(plain, keyed, engine="node", workers=4, compiled=False)
    assert plain.result().column("m").to_pylist() == [2 * n for n in range(500)]
    assert keyed.result().column("k").to_pylist() == [n // 7 + 1 for n in range(500)]


def test_an_error_ends_the_run(small_splits):
    numbers = hr.read.memory({"n": list(range(200))})
    out = numbers.with_columns(m=100 // (col("n") - 150)).write.null()
    with pytest.raises(ZeroDivisionError) as caught:
        hr.run(out, engine="node", workers=3, compiled=False)
    assert "n=150" in "\n".join(caught.value.__notes__)


def test_an_error_of_a_sink_ends_the_run(small_splits):
    def refuse(batch: pa.RecordBatch):
        raise OSError("no room")

    out = hr.read.memory({"n": list(range(200))}).write.callback(refuse)
    with pytest.raises(OSError, match="no room"):
        hr.run(out, engine="node", workers=3, compiled=False)


def test_it_stops_when_told_and_finishes_what_it_read():
    out = hr.read.index(rate=20_000).write.collect()
    ran = hr.run(out, engine="node", workers=2, compiled=False, seconds=0.3)
    assert ran.status == "stopped"
    found = out.result().column("index").to_pylist()
    assert found == list(range(len(found))) and len(found) > 100


@pytest.mark.parametrize("engine", ["thread", "node"])
def test_ctrl_c_drains(engine):
    out = hr.read.index(rate=20_000).write.collect()
    threading.Timer(0.4, _thread.interrupt_main).start()
    started = time.monotonic()
    ran = hr.run(out, engine=engine, compiled=False, seconds=30)
    assert ran.status == "stopped" and time.monotonic() - started < 10
    found = out.result().column("index").to_pylist()
    assert found == list(range(len(found))) and found


def test_a_silent_source_costs_little():
    """A source without rows leaves the processor to others."""
    out = hr.read.index(rate=1).write.null()
    before = time.process_time()
    hr.run(out, engine="node", workers=2, compiled=False, seconds=1.0)
    assert time.process_time() - before < 0.7


def test_an_unknown_engine_is_refused():
    with pytest.raises(ValueError, match='use "spark", "node" or "thread"'):
        hr.run(hr.read.memory({"n": [1]}).write.null(), engine="nodes")
