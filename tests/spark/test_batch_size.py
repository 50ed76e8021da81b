"""Batches of sources that end grow by themselves, as far as memory allows; the rows stay."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace import col
from headrace.plan.planner import plan
from headrace.spark import job as spark_job
from headrace.spark.batch_size import HELD, PASSING, STEADY, growth


def events(folder):
    pq.write_table(pa.table({"k": [1], "t": [1], "x": [0.5]}), folder / "a.parquet")
    return hr.read.parquet(folder)


def windows(stream):
    return stream.with_watermark("t", 0).key_by("k").window(hr.tumbling(10))


def yielding(state, t):
    state.n += 1
    yield state.n


def numbered(stream):
    return stream.key_by("k").process(yielding, state={"n": 0}, output="y")


PIPELINES = {
    "rows are written by tasks": (lambda s, out: s.write.parquet(out), PASSING),
    "counts cross": (lambda s, out: windows(s).agg(n=hr.count()).write.collect(), PASSING),
    "rows cross, for sums of floats in order": (
        lambda s, out: windows(s).agg(n=hr.sum("x")).write.parquet(out),
        HELD,
    ),
    "rows cross, for a state": (
        lambda s, out: numbered(s).write.parquet(out),
        HELD,
    ),
    "rows come to the driver": (lambda s, out: s.write.collect(), STEADY),
}


@pytest.mark.parametrize("made", PIPELINES)
def test_how_far_batches_grow(tmp_path, made):
    pipeline, expected = PIPELINES[made]
    planned = plan([pipeline(events(tmp_path), tmp_path / "out").node])
    assert growth(planned, planned.stages()) == expected


def test_sources_without_an_end_do_not_grow(tmp_path):
    watched = hr.read.parquet(tmp_path, schema={"n": int}, watch=True)
    planned = plan([watched.write.parquet(tmp_path / "out").node])
    assert growth(planned, planned.stages()) == STEADY


def test_batches_grow(session, tmp_path, monkeypatch):
    monkeypatch.setattr(spark_job, "BATCH_ROWS", 50)
    (tmp_path / "in").mkdir()
    for number in range(10):
        rows = pa.table({"n": list(range(number * 1000, number * 1000 + 1000))})
        pq.write_table(rows, tmp_path / "in" / f"{number}.parquet", row_group_size=300)
    kept = hr.read.parquet(tmp_path / "in").filter(col("n") % 2 == 0)
    job = hr.run(
        kept.write.parquet(tmp_path / "out"), engine="spark", session=session, compiled=False
    )
    found = pq.ParquetDataset(tmp_path / "out").read().column("n").to_pylist()
    assert sorted(found) == list(range(0, 10_000, 2))
    assert job.progress().batches < 10_000 // 200  # the first one has four times 50
