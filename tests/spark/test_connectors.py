"""Watched folders and Kafka as sources on Spark: what was read can be read again, the same."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.broker import new_topic, send
from tests.connect.file_formats import KINDS
from tests.connect.test_stand_ins import sorted_rows
from tests.naive import rows_of
from tests.running import assert_same
from tests.spark import pipelines
from tests.spark.shards import Engine

import headrace as hr
from headrace import col
from headrace.spark.source import HeadraceReader
from headrace.spark.wire import RESULT, from_columns, unpack


def published(folder):
    paths = sorted(folder.glob("part-*.parquet"))
    return rows_of(pa.concat_tables([pq.read_table(path) for path in paths]))


def results(reader, tasks):
    """The rows that tasks give to a sink."""
    return [
        row
        for task in tasks
        for given in reader.read(task)
        for message in from_columns(column.to_pylist() for column in given.columns)
        if message.kind == RESULT
        for batch in unpack(message.payload)
        for row in rows_of(batch)
    ]


# ---- watched folders -----------------------------------------------------------------------

WATCH = hr.read.Watch(interval=0.01)


def watched(kind, folder):
    read = getattr(hr.read, kind.name.split()[0])
    schema = {"user": str, "at": int, "value": hr.optional(hr.int64)}
    return read(folder, schema=schema, watch=WATCH)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_batch_names_its_files(tmp_path, kind):
    """Whatever has arrived since, under whatever name: a batch reads what it has read."""
    folder, job = tmp_path / "in", tmp_path / "job"
    folder.mkdir()
    job.mkdir()
    parts = pipelines.tables(60, 4, disorder=20)
    kind.add(folder, 5, parts[0])
    kind.add(folder, 6, parts[1])
    stream = watched(kind, folder).select("user", "at", "value")
    engine = Engine([stream, pipelines.counted(stream)], job, 50, 2)
    planned = engine.plan()
    first = results(engine.reader, planned[1])
    kind.add(folder, 1, parts[2])  # sorts before the others
    (folder / f"half{kind.ending}").write_bytes(b"{")  # not whole yet
    restarted = HeadraceReader(engine.address)
    again = results(restarted, restarted.partitions(None, planned[0]))
    assert_same(again, first, ordered=True)
    assert len(first) == 50
    engine.commit(*engine.batch(planned))
    for _ in range(20):
        if len(engine.rows[0]) == 180:
            break
        engine.commit(*engine.batch())
    kind.add(folder, 2, parts[3])
    while len(engine.rows[0]) < 240:
        engine.commit(*engine.batch())
    expected = [row for part in parts for row in rows_of(part)]
    assert_same(engine.rows[0], expected, ordered=False)


def test_a_watched_folder_over_a_restart(session, tmp_path):
    """Files arrive all the time; a job goes on where the one before it stopped."""
    (kind,) = [kind for kind in KINDS if kind.name == "json"]
    folder = tmp_path / "in"
    folder.mkdir()
    parts = pipelines.tables(100, 4, disorder=20)
    for turn in (0, 2):
        kind.add(folder, 9 - turn, parts[turn])

        def watch(job, turn=turn):
            if job.progress().rows_in >= 100 and not (folder / kind.file(8 - turn)).exists():
                kind.add(folder, 8 - turn, parts[turn + 1])
            if job.progress().rows_in >= 200:
                job.stop()

        stream = watched(kind, folder).select("user", "at", "value")
        job = hr.run(
            stream.write.parquet(tmp_path / "out"),
            pipelines.counted(stream).write.parquet(tmp_path / "counts"),
            engine="spark",
            session=session,
            checkpoint=tmp_path / "checkpoint",
            compiled=False,
            shards=1,
            batch_rows=70,
            watch=watch,
        )
        assert (job.status, job.progress().rows_in) == ("stopped", 200)
    expected = [row for part in parts for row in rows_of(part)]
    assert_same(published(tmp_path / "out"), expected, ordered=False)


# ---- Parquet -------------------------------------------------------------------------------


def test_row_groups_that_are_left_out_move_the_watermark(session, tmp_path):
    """Batches end inside of row groups, too."""
    source = sorted_rows(tmp_path).with_watermark("at", 105).filter(col("n") == 3)
    counts = source.window(hr.tumbling(10)).agg(n=hr.count())
    outputs = {"found": counts, "late": counts.late().select("at")}
    hr.run(
        *(stream.write.parquet(tmp_path / name) for name, stream in outputs.items()),
        engine="spark",
        session=session,
        compiled=False,
        batch_rows=7,
    )
    found = published(tmp_path / "found")
    assert [(row["window_start"], row["n"]) for row in found] == [(400, 5)]
    assert sorted(row["at"] for row in published(tmp_path / "late")) == [395, 396, 397, 398, 399]


# ---- Kafka ---------------------------------------------------------------------------------


@pytest.mark.timeout(600)
def test_kafka_and_a_broker_that_restarts(session, broker, tmp_path):
    check_kafka(session, broker, tmp_path, messages=10_000, batch_rows=3_000, compiled=False)


@pytest.mark.soak
@pytest.mark.compiled
@pytest.mark.timeout(3600)
def test_a_million_messages(session, broker, tmp_path):
    check_kafka(session, broker, tmp_path, messages=1_000_000, batch_rows=100_000, compiled=True)


def check_kafka(session, broker, folder, *, messages, batch_rows, compiled):
    """Every message once, though the broker goes away in the middle; windows count the same."""
    topic, half = new_topic(broker, partitions=2), messages // 2
    for partition in range(2):
        numbers = range(partition * half, (partition + 1) * half)
        texts = (b'{"n":%d,"at":%d,"key":"k%d"}' % (n, n % half, n % 7) for n in numbers)
        send(broker, topic, texts, partition)
    schema = {"n": int, "at": int, "key": str}
    source = hr.read.kafka(broker.servers, topic, schema=schema, stop={0: half, 1: half})
    windows = source.with_watermark("at", 10).key_by("key").window(hr.tumbling(half // 10))
    restarts = []

    def restart(job):
        if not restarts and job.progress().batches >= 1:
            restarts.append(job.progress().rows_in)
            broker.stop()
            broker.start()

    job = hr.run(
        source.filter(col("n") >= 0).write.parquet(folder / "rows"),
        windows.agg(n=hr.count(), total=hr.sum("at")).write.parquet(folder / "windows"),
        engine="spark",
        session=session,
        compiled=compiled,
        shards=2,
        batch_rows=batch_rows,
        watch=restart,
    )
    assert job.status == "finished"
    assert 0 < restarts[0] < messages
    found = sorted(row["n"] for row in published(folder / "rows"))
    assert found == list(range(messages))
    counted = published(folder / "windows")
    assert len(counted) == 70
    assert sum(row["n"] for row in counted) == messages
    assert sum(row["total"] for row in counted) == 2 * sum(range(half))


def test_kafka_as_a_sink_with_transactions(session, broker, tmp_path):
    """Every row once, also when the last batch is published and its commit by Spark is lost."""
    topic = new_topic(broker, partitions=2)
    rows = hr.read.memory({"n": list(range(1000))}, name="numbers")
    checkpoint = tmp_path / "checkpoint"
    for _ in range(2):
        out = rows.write.kafka(broker.servers, topic, transaction="numbers", name="copy")
        options = {"batch_rows": 300, "compiled": False, "checkpoint": checkpoint}
        job = hr.run(out, engine="spark", session=session, **options)
        assert job.status == "finished"
        found = hr.read.kafka(
            broker.servers, topic, schema={"n": int}, stop="latest"
        ).write.collect()
        hr.run(found, engine="thread", compiled=False)
        assert sorted(found.result()["n"].to_pylist()) == list(range(1000))
        last = max(map(int, (p.name for p in checkpoint.rglob("commits/*") if p.name.isdigit())))
        for path in checkpoint.rglob(f"commits/*{last}*"):
            path.unlink()
