"""Spark gives the rows that the thread gives, and that the reference gives."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.naive import naive, rows_of
from tests.node.fed import reached
from tests.running import assert_same
from tests.spark import pipelines

import headrace as hr
from headrace import col

SECONDS = 240.0


def run_on_spark(outputs, session, **options):
    options = {"compiled": False, "batch_rows": 400, **options}
    return hr.run(*outputs, engine="spark", session=session, **options)


def check(outputs, session, **options):
    job = run_on_spark(outputs, session, **options)
    assert job.status == "finished"
    found = [rows_of(output.result()) for output in outputs]
    for one, other in zip(found, naive(outputs), strict=True):
        assert_same(one, other, ordered=False)
    return job, found


@pytest.mark.parametrize("shards", [pytest.param(1, marks=pytest.mark.soak), 3])
def test_many_pipelines_in_one_query(session, shards):
    """Stateless, windowed (in halves and whole) and two exchanges; two channels, many batches."""
    source = hr.read.memory(pipelines.tables(600, 2, disorder=30))
    single = hr.read.memory(pipelines.tables(600, 1, disorder=30, seed=2)[0])
    outputs = [
        pipelines.stateless(source).write.collect(),
        pipelines.exploded(source).write.collect(),
        pipelines.counted(source).write.collect(),
        pipelines.averaged(single).write.collect(),
        pipelines.slid(single).write.collect(),
        pipelines.visited(single).write.collect(),
        pipelines.processed(single).write.collect(),
        pipelines.recounted(source).write.collect(),
    ]
    job, _ = check(outputs, session, shards=shards)
    progress = job.progress()
    assert progress.batches >= 4
    assert progress.rows_in == 1800
    assert progress.late_rows == 0
    assert progress.rows_out == sum(output.result().num_rows for output in outputs)
    assert progress.state_written > 0


@pytest.mark.compiled
def test_compiled(session):
    """The same with machine code, and one channel cut into a split for each core."""
    source = hr.read.memory(pipelines.tables(4000, 1, disorder=30))
    outputs = [
        pipelines.counted(source).write.collect(),
        pipelines.slid(source).write.collect(),
        pipelines.visited(source).write.collect(),
        pipelines.processed(source).write.collect(),
    ]
    check(outputs, session, compiled=True, shards=2, batch_rows=1000)


def test_late_rows(session):
    """Rows beyond the bound are late, the same ones, however the channel is cut."""
    source = hr.read.memory(pipelines.tables(800, 2, disorder=150))
    counted = pipelines.counted(source)
    late = counted.late()
    outputs = [counted.write.collect(), late.write.collect()]
    job, found = check(outputs, session, shards=2, batch_rows=400)
    assert found[1]
    assert job.progress().late_rows == len(found[1])


def test_union_of_two_sources(session):
    one = hr.read.memory(pipelines.tables(700, 1, disorder=20))
    other = hr.read.memory(pipelines.tables(300, 2, disorder=20, seed=3))
    both = one.filter(col("value") > 0).union(other)
    outputs = [pipelines.counted(both).write.collect()]
    check(outputs, session, shards=2, batch_rows=300)


def test_a_table_that_is_replayed(session):
    """Rounds follow one another over batches, which are planned by the clock."""
    table = pipelines.tables(100, 1, disorder=20)[0]
    source = hr.read.replay(table, time="at", rows=230, rate=[(1_000, "50ms"), (100_000, None)])
    job, _ = check([pipelines.counted(source).write.collect()], session, shards=1)
    assert job.progress().rows_in == 230


def test_times_that_are_computed(session):
    """The planner computes the clock's times where they are no plain column."""
    source = hr.read.index(1500, channels=2)
    made = source.select(key=col("index") % 7, at=col("index") * 3 - (col("index") % 5) * 20)
    windows = made.with_watermark("at", 50).key_by("key").window(hr.tumbling(500))
    counted = windows.agg(n=hr.count())
    check([counted.write.collect(), counted.late().write.collect()], session, shards=2)


def test_parquet_to_parquet(session, tmp_path):
    """Files in, files out: staged by tasks, committed by the driver."""
    for number, table in enumerate(pipelines.tables(1000, 3, disorder=20)):
        folder = tmp_path / "in"
        folder.mkdir(exist_ok=True)
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=300)
    source = hr.read.parquet(tmp_path / "in")
    out = source.filter(col("value") > 0).write.parquet(tmp_path / "out")
    expected = source.filter(col("value") > 0).write.collect()
    job = run_on_spark([out], session, shards=2, batch_rows=700)
    hr.run(expected)
    assert job.progress().rows_out == expected.result().num_rows
    assert "shards" in job.explain() or "source stages" in job.explain()
    published = (tmp_path / "out").glob("part-*.parquet")  # files, and folders of files
    found = pa.concat_tables([pq.read_table(path) for path in published])
    assert_same(rows_of(found), rows_of(expected.result()), ordered=False)


def test_endless_source_stops(session, tmp_path):
    """stop() finishes what was planned; a new job goes on from there."""
    source = hr.read.index(rate=2000)
    checkpoint = tmp_path / "checkpoint"
    seen = []
    for _ in range(2):
        out = source.key_by("index").process(_once, state={"n": 0}, output="n").write.collect()
        options = {"compiled": False, "batch_rows": 400, "checkpoint": checkpoint, "shards": 1}
        job = hr.start(out, engine="spark", session=session, **options)
        assert reached(lambda job=job: job.progress().rows_out >= 200, SECONDS)
        assert job.stop(timeout=SECONDS) and job.status == "stopped"
        seen.extend(out.result()["index"].to_pylist())
    assert sorted(seen) == list(range(len(seen)))
    assert len(seen) >= 400


def _once(state, index):
    state.n += 1
    yield state.n
