"""DataFrames before and after a pipeline: the same rows as without Spark, and clear refusals."""

import datetime as dt
import os
import traceback
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.naive import naive, rows_of
from tests.running import assert_same
from tests.spark import pipelines

import headrace as hr
from headrace import col
from headrace.plan.errors import DataError, PipelineError
from headrace.spark import reported_times

OPTIONS = {"compiled": False, "shards": 2}


def run(*outputs, session, **options):
    return hr.run(*outputs, engine="spark", session=session, **{**OPTIONS, **options})


def frame_of(session, table: pa.Table, partitions: int):
    """A batch DataFrame with the rows in the order of its partitions."""
    return session.createDataFrame(table).repartitionByRange(partitions, "at")


# ---- batch DataFrames --------------------------------------------------------------------------


def test_types(session):
    """Every type, with nulls, comes back as it went in; others stay unread."""
    moment = dt.datetime(2026, 3, 29, 1, 30, 0, 7, tzinfo=dt.UTC)
    values = {
        "boolean": True,
        "tinyint": -3,
        "smallint": 300,
        "int": -70_000,
        "bigint": 1 << 40,
        "float": 0.5,
        "double": 1e300,
        "date": dt.date(1969, 12, 31),
        "timestamp": moment,
        "string": "a text of more than twelve bytes, ü",
        "binary": b"\x00\xff",
        "decimal(38,2)": Decimal("-1.50"),
        "array<string>": ["one", None],
        "struct<at:timestamp,n:array<int>>": (moment, [1]),
    }
    schema = ", ".join(f"`a {name}` {name}" for name in values) + ", odd map<int, int>"
    rows = [(*values.values(), {1: 1}), (None,) * (len(values) + 1)]
    frame = session.createDataFrame(rows, schema)
    stream = hr.read.spark(frame)
    assert stream.schema.names == tuple(f"a {name}" for name in values)
    assert all(field.type.nullable for field in stream.schema)
    back = stream.filter(hr.lit(True)).to_spark(compiled=False)
    assert not back.isStreaming
    assert back.collect() == frame.drop("odd").collect()
    assert back.sparkSession is session
    assert "unread: odd (map<int,int>)" in stream.explain()


def test_nulls_and_required_columns(session):
    frame = session.range(4).selectExpr("id", "if(id = 2, null, id) AS n")
    assert repr(hr.read.spark(frame)) == "Stream(id: int64, n: optional(int64))"
    chosen = hr.read.spark(frame, schema={"n": int})
    with pytest.raises(DataError, match=r"'n' is null in row \d of the batch"):
        run(chosen.write.collect(), session=session)
    with pytest.raises(DataError, match="'n' is null in row 2"):
        hr.run(chosen.write.collect(), engine="thread")


def test_batch_frames_run_like_other_sources(session):
    """Stateless, windowed in halves, keyed and with two exchanges; one query, one batch."""
    frame = frame_of(session, pipelines.tables(900, 1, disorder=0)[0], 3)
    source = hr.read.spark(frame)
    outputs = [
        pipelines.stateless(source).write.collect(),
        pipelines.counted(source).write.collect(),
        pipelines.processed(source).write.collect(),
        pipelines.recounted(source).write.collect(),
    ]
    job = run(*outputs, session=session)
    assert job.status == "finished"
    assert job.progress().rows_in == 900
    assert job.progress().batches == 1
    found = [rows_of(output.result()) for output in outputs]
    assert [bool(rows) for rows in found] == [True] * 4
    for one, other in zip(found, naive(outputs), strict=True):
        assert_same(one, other, ordered=False)


def test_other_engines_collect_batch_frames(session):
    frame = frame_of(session, pipelines.tables(300, 1, disorder=200)[0], 2)
    counted = pipelines.counted(hr.read.spark(frame))
    expected, found = counted.write.collect(), counted.write.collect()
    job = hr.run(expected, engine="thread", compiled=False)
    assert job.progress().late_rows == 0  # rows of one batch are not late for each other
    run(found, session=session)
    assert_same(rows_of(found.result()), rows_of(expected.result()), ordered=False)


def test_frames_beside_other_sources(session, tmp_path):
    """A batch DataFrame beside a stream is read from files that a restart finds again."""
    one, other = pipelines.tables(300, 2, disorder=20)
    both = hr.read.spark(frame_of(session, one, 2)).union(hr.read.memory(other))
    output = pipelines.counted(both).write.collect()
    run(output, session=session, checkpoint=tmp_path / "checkpoint", batch_rows=200)
    sources = hr.read.memory([one, other])
    expected = pipelines.counted(sources).write.collect()
    hr.run(expected, engine="thread", compiled=False)
    assert_same(rows_of(output.result()), rows_of(expected.result()), ordered=False)
    assert list((tmp_path / "checkpoint" / "frames").glob("*/_SUCCESS"))


def test_a_batch_is_committed_once(session, tmp_path):
    frame = session.range(100)
    checkpoint = tmp_path / "checkpoint"
    for expected_batches in (1, 0):
        out = hr.read.spark(frame).filter(col("id") < 7).write.parquet(tmp_path / "out")
        job = run(out, session=session, checkpoint=checkpoint)
        assert (job.status, job.progress().batches) == ("finished", expected_batches)
    published = (tmp_path / "out").glob("part-*.parquet")
    found = pa.concat_tables([pq.read_table(path) for path in published])
    assert sorted(found["id"].to_pylist()) == list(range(7))


# ---- streaming DataFrames ----------------------------------------------------------------------


def times(batch: int) -> list[int]:
    """Of each file: out of order, some behind the windows that the files before have closed."""
    return [batch * 100 + k * 37 % 100 - (150 if k % 10 == 0 else 0) for k in range(50)]


def expected_windows(batches: int, bound: int, size: int) -> tuple[Counter, int]:
    """Windows closed by the last batch, and late rows: watermarks move behind each batch."""
    windows, late, largest, watermark = Counter(), 0, -(1 << 62), -(1 << 62)
    for batch in range(batches):
        for time in times(batch):
            if time // size * size + size <= watermark:
                late += 1
            else:
                windows[time // size * size] += 1
            largest = max(largest, time)
        watermark = largest - bound
    closed = {start: n for start, n in windows.items() if start + size <= watermark}
    return Counter(closed), late


def write_files(folder, batches):
    folder.mkdir(exist_ok=True)
    for batch in batches:
        path = folder / f"{batch}.parquet"
        pq.write_table(pa.table({"at": times(batch)}), path)
        os.utime(path, (batch, batch))  # Spark reads files in the order of these times


def counted(stream):
    windows = stream.with_watermark("at", 20).key_by("parity").window(hr.tumbling(25))
    return windows.agg(n=hr.count())


def streaming(session, folder):
    reader = session.readStream.schema("at long").option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder)).selectExpr("at", "abs(at) % 2 AS parity")


def by_window(rows) -> Counter:
    made = Counter()
    for row in rows:
        made[row["window_start"]] += row["n"]
    return made


def test_streaming_frames(session, tmp_path):
    """Several batches, a restart that goes on with more files, late rows as Spark would find."""
    found, late = Counter(), 0
    for batches in (range(3), range(3, 5)):
        write_files(tmp_path / "in", batches)
        stream = counted(hr.read.spark(streaming(session, tmp_path / "in")))
        output = stream.write.collect()
        options = {"checkpoint": tmp_path / "checkpoint", "trigger": "available now"}
        job = run(output, session=session, **options)
        assert job.status == "stopped"
        assert job.progress().batches == len(batches)
        found += by_window(output.result().to_pylist())
        late += job.progress().late_rows
    assert (found, late) == expected_windows(5, 20, 25)
    assert late > 0


def test_two_streaming_frames_that_take_turns(session, tmp_path):
    """A source that is silent in a batch keeps its time: what is late stays late."""
    arrivals = [
        {"a": range(0, 1000, 10), "b": range(0, 1000, 10)},
        {"b": range(1000, 1100, 10)},  # a is silent
        {"b": range(1100, 1200, 10)},
        {"a": [100, 1100]},  # the window of 100 was closed by the first batch
        {"a": range(1200, 2000, 10), "b": range(1200, 2000, 10)},
    ]
    for name in "ab":
        (tmp_path / name).mkdir()
    windows, late = Counter(), 0
    for number, arrived in enumerate(arrivals):
        for name, times in arrived.items():
            pq.write_table(pa.table({"at": list(times)}), tmp_path / name / f"{number}.parquet")
        both = [hr.read.spark(streaming(session, tmp_path / name), name=name) for name in "ab"]
        output = counted(both[0].union(both[1])).write.collect()
        options = {"checkpoint": tmp_path / "checkpoint", "trigger": "available now"}
        job = run(output, session=session, **options)
        late += job.progress().late_rows
        rows = output.result().to_pylist()
        windows.update((row["window_start"], row["parity"]) for row in rows)
    assert set(windows.values()) == {1}  # none comes out twice
    assert late == 1


def test_to_a_streaming_frame(session, tmp_path):
    """Windows over a streaming DataFrame as one, with SQL behind it and a restart in between."""
    found = Counter()
    for batches in (range(2), range(2, 4)):
        write_files(tmp_path / "in", batches)
        stream = counted(hr.read.spark(streaming(session, tmp_path / "in")))
        frame = stream.to_spark(checkpoint=tmp_path / "ours", **OPTIONS)
        assert frame.isStreaming
        frame.createOrReplaceTempView("counts")
        summed = frame.sparkSession.sql("SELECT window_start, n FROM counts WHERE n > 0")
        rows = []
        query = (
            summed.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
            .option("checkpointLocation", str(tmp_path / "theirs"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        found += by_window(rows)
    assert found == expected_windows(4, 20, 25)[0]


def test_other_sources_to_a_frame(session):
    """A bounded source of ours becomes a streaming DataFrame that gives all windows."""
    rows = hr.read.index(600, channels=2).select(at=col("index") * 3, parity=col("index") % 2)
    frame = counted(rows).to_spark(session=session, batch_rows=250, **OPTIONS)
    found = []
    query = frame.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect())).start()
    query.processAllAvailable()
    query.stop()
    assert by_window(found) == Counter(k * 3 // 25 * 25 for k in range(600))


def test_the_example(session, tmp_path):
    """Spark's sources, a pipeline, SQL and Spark's sink; the same by Spark alone."""
    from examples import spark_frames
    from pyspark.sql import functions

    found = spark_frames.run(session, str(tmp_path)).collect()
    rows = session.read.schema("sensor BIGINT, time TIMESTAMP, raw BIGINT")
    rows = rows.json(f"{tmp_path}/readings").selectExpr(
        "sensor", "window(time, '60 seconds').start AS window_start", "raw"
    )
    rows = rows.selectExpr("*", "if(raw < 200, raw / 10 - 5, 5 + raw / 20) AS celsius")
    expected = (
        rows.groupBy("sensor", "window_start")
        .agg(functions.count("*").alias("readings"), functions.max("celsius").alias("warmest"))
        .where("warmest > 19.5 AND window_start < timestamp_seconds(1980)")  # those that closed
        .orderBy("window_start", "sensor")
    )
    assert len(found) > 100
    assert found == expected.collect()


# ---- errors ------------------------------------------------------------------------------------


def reciprocal(id):
    return 100 // (id - 70)


@pytest.mark.parametrize("way", ["run", "to_spark"])
def test_an_error_in_a_user_function(session, way):
    made = hr.read.spark(session.range(100)).map(reciprocal, output="r")
    if way == "to_spark":
        with pytest.raises(Exception, match="ZeroDivisionError"):
            made.to_spark(compiled=False).collect()
        return
    with pytest.raises(ZeroDivisionError) as caught:
        run(made.write.collect(), session=session)
    said = "".join(traceback.format_exception_only(caught.value))
    assert "in operator" in said and "test_frames.py" in said and "row: id=70" in said
    assert len(said.splitlines()) <= 15


def test_mistakes(session, tmp_path):
    frame = session.range(3)
    with pytest.raises(PipelineError, match="no column 'ide'; did you mean 'id'"):
        hr.read.spark(frame, schema={"ide": int})
    with pytest.raises(PipelineError, match="'id' is int64 in the DataFrame and string in schema="):
        hr.read.spark(frame, schema={"id": str})
    with pytest.raises(PipelineError, match="two columns 'id'"):
        hr.read.spark(frame.join(session.range(3)))
    maps = session.createDataFrame([({"x": 1},)], "a map<string,int>")
    with pytest.raises(PipelineError, match=r"'a' is map<string,int> .* no type for"):
        hr.read.spark(maps, schema={"a": int})
    write_files(tmp_path / "in", range(1))
    stream = hr.read.spark(streaming(session, tmp_path / "in"))
    with pytest.raises(DataError, match='engine="spark"'):
        hr.run(stream.write.null(), engine="thread")
    both = hr.read.spark(frame).select(at=col("id")).union(stream.select("at"))
    with pytest.raises(PipelineError, match="a batch DataFrame and a stream"):
        both.to_spark()
    once = hr.read.iterate(({"n": n} for n in range(3)), schema={"n": int})
    with pytest.raises(PipelineError, match="cannot be read again"):
        once.to_spark()


def test_told_times(tmp_path):
    """The last batch that has some counts; a few stay."""
    for batch in (1, 2, 3, 5, 6, 9):
        for task in ("0", "1"):
            reported_times.tell(tmp_path, batch, "s", "rows", task, batch * 10 + int(task))
    assert reported_times.reported_before(tmp_path, 9) == {"s": {"rows": 61}}
    assert reported_times.told(tmp_path, 9) == {"s": {"rows": 91}}
    assert reported_times.told(tmp_path, 2) == {}
