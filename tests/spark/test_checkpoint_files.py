"""What a checkpoint holds is what was written, belongs to the user, or is refused."""

import json
import os
import random
import stat
from pathlib import Path

import pytest
from tests.counts import count
from tests.naive import naive, rows_of
from tests.running import assert_same
from tests.spark import pipelines
from tests.spark.shards import Engine

import headrace as hr
from headrace.plan.errors import DataError, SourceChanged, StateError
from headrace.spark import batches, files, keyed, moving, planning, reported_times, temporary
from headrace.spark.checkpoint import Checkpoint
from headrace.spark.ends import Ends, drop_torn
from headrace.spark.errors import SparkError, carried
from headrace.spark.shipment import Address, receive
from headrace.spark.source_files import compare_files
from headrace.spark.wire import ERROR


@pytest.fixture(autouse=True)
def fresh_worker():
    keyed._cached.clear()
    yield
    keyed._cached.clear()


def source():
    return hr.read.memory(pipelines.tables(300, 1, disorder=20)[0])


def damages(content: bytes):
    """A file as disks and crashes leave it: bits flipped, cut off, empty, or something else."""
    chance = random.Random(len(content))
    for _ in range(20):
        at, bit = chance.randrange(len(content)), 1 << chance.randrange(8)
        yield content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :]
    yield from (b"", b"{}", b"null", content[: len(content) // 2], content + b"\0")
    yield b"[" * 100_000  # deeper than Python reads


def check_damages(path: Path, read):
    """Whatever is wrong with a file is a StateError that names it and says what to do."""
    content = path.read_bytes()
    for damage in damages(content):
        path.write_bytes(damage)
        count("damaged file of a checkpoint")
        with pytest.raises(StateError) as caught:
            read()
        assert str(path) in str(caught.value) and "fix: " in str(caught.value)
    path.unlink()
    with pytest.raises(StateError, match="lacks"):
        read()
    path.write_bytes(content)
    read()


# ---- state -------------------------------------------------------------------------------------


def raised(engine):
    """Run a batch, and raise what a shard says."""
    keyed._cached.clear()
    _, messages = engine.batch()
    for message in messages:
        if message.kind == ERROR:
            raise carried(message.payload)


@pytest.mark.parametrize("kind", ["*.snapshot", "*.json"])
def test_state_that_is_damaged(tmp_path, kind):
    engine = Engine([pipelines.processed(source())], tmp_path, 50)
    engine.commit(*engine.batch())
    (path,) = (tmp_path / "state").glob(f"*/0-0/{kind}")
    planned = engine.plan()
    engine.plan = lambda: planned
    others = set(path.parent.iterdir())

    def run():
        raised(engine)
        for made in set(path.parent.iterdir()) - others:
            made.unlink()

    check_damages(path, run)


def test_a_list_of_another_batch(tmp_path):
    """Whole, but not the one that is asked for."""
    engine = Engine([pipelines.processed(source())], tmp_path, 50)
    for _ in range(2):
        engine.commit(*engine.batch())
    first, second = sorted((tmp_path / "state").glob("*/0-0/*.json"))
    second.write_bytes(first.read_bytes())
    with pytest.raises(StateError, match="it is the list of batch 0"):
        raised(engine)


def test_parts_that_were_moved(tmp_path):
    """All shards of old must have left theirs, whole."""
    engine = Engine([pipelines.processed(source())], tmp_path, 100, 3)
    engine.commit(*engine.batch())
    engine.move(2)
    folder = engine.shipment.moved
    (stage,) = [plan.number for plan in engine.shipment.levels[0]]
    for shard in range(3):
        path = Path(folder, f"{stage}-{shard}-of-3.state")
        check_damages(path, lambda: [moving.read_parts(folder, stage, n, 2) for n in range(2)])
    Path(folder, f"{stage}-1-of-3.state~").touch()
    assert len(moving.read_parts(folder, stage, 0, 1)) == 3


def test_foreign_names_in_a_state_folder(tmp_path):
    """Of NFS, of backups, of editors: they are left alone, and in nobody's way."""
    engine = Engine([pipelines.counted(source())], tmp_path, 10)
    engine.commit(*engine.batch())
    (folder,) = (tmp_path / "state").glob("*/0-0")
    foreign = [folder / name for name in (".nfs000000000004", "lost+found", "0.json~", "x-1.tmp")]
    for path in foreign:
        path.touch()
    while not engine.has_ended:
        engine.commit(*engine.batch())
    assert all(path.exists() for path in foreign)
    for found, expected in zip(engine.rows, naive(engine.outputs), strict=True):
        assert_same(found, expected, ordered=False)


# ---- times, ends, what was agreed --------------------------------------------------------------


def test_times_that_are_damaged(tmp_path):
    planning.write_times(tmp_path, 3, {"s": {"c": 5}})
    check_damages(tmp_path / "3.json", lambda: planning.read_times(tmp_path, 3))
    reported_times.tell(tmp_path / "told", 3, "s", "c", "0", 7)
    (path,) = (tmp_path / "told").glob("*/3/*.json")
    for damage in damages(path.read_bytes()):
        path.write_bytes(damage)
        with pytest.raises(StateError, match="is damaged"):
            reported_times.reported_before(tmp_path / "told", 9)


def test_each_source_keeps_its_last_time(tmp_path):
    """However long it is silent while others tell theirs; what lies ahead is forgotten."""
    reported_times.tell(tmp_path, 1, "silent", "rows", "0", 100)
    for batch in range(1, 30):
        reported_times.tell(tmp_path, batch, "other", "rows", "0", batch)
    assert reported_times.reported_before(tmp_path, 30) == {
        "silent": {"rows": 100},
        "other": {"rows": 29},
    }
    reported_times.forget_from(tmp_path, 29)
    assert reported_times.reported_before(tmp_path, 30)["other"] == {"rows": 28}


def test_what_was_agreed_is_damaged(tmp_path):
    """Of headrace.json and sources.json."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"n": 1}\n')
    from headrace.asked import planned

    stages = planned([hr.read.json(tmp_path / "in", schema={"n": int}).write.null()]).stages()
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    checkpoint.agree(stages, 1, lambda: 1)
    for name in ("headrace.json", "sources.json"):
        if name == "headrace.json":  # without it a checkpoint begins: that is no damage
            path = checkpoint.folder / name
            content = path.read_bytes()
            for damage in damages(content):
                path.write_bytes(damage)
                with pytest.raises(StateError, match=r"headrace\.json|has format"):
                    checkpoint.agree(stages, 1, lambda: 1)
            path.write_bytes(content)
        else:
            check_damages(checkpoint.folder / name, lambda: checkpoint.agree(stages, 1, lambda: 1))
    checkpoint.close()


def test_checkpoints_of_other_formats(tmp_path):
    (tmp_path / "headrace.json").write_text(json.dumps({"format": 2, "id": "x", "shards": 1}))
    held = Checkpoint(tmp_path)
    with pytest.raises(StateError, match=r"has format 2, this version reads 3\n  fix"):
        held.agree([], 1, lambda: 1)
    held.close()


def test_ends(tmp_path):
    ends = Ends(tmp_path / "ends.json")
    for batch in range(1, 50):
        ends.keep(batch, f"end {batch}")
    ends.keep(49, "end 49")
    again = Ends(tmp_path / "ends.json")
    again.keep(49, "end 49")
    for batch, end in ((49, "another"), (48, "another"), (3, "long ago")):
        with pytest.raises(StateError, match=rf"batch {batch} was published before, and ended"):
            again.keep(batch, end)
    check_damages_of_ends(tmp_path / "ends.json")


def check_damages_of_ends(path):
    for damage in damages(path.read_bytes()):
        path.write_bytes(damage)
        with pytest.raises(StateError, match=r"ends\.json.* is damaged"):
            Ends(path).keep(50, "x")


def forget_offsets(checkpoint: Path, how_many: int) -> None:
    """As a machine that crashed may have: the last offsets and commits were never on the disk."""
    for name in ("offsets", "commits"):
        paths = (checkpoint / "spark" / name).glob("*")
        numbers = sorted(int(path.name) for path in paths if path.name.isdigit())
        for number in numbers[-how_many:]:
            (checkpoint / "spark" / name / str(number)).unlink()
            (checkpoint / "spark" / name / f".{number}.crc").unlink()


@pytest.mark.parametrize("guard", ["checkpoint", "parquet", "sqlite"])
def test_a_batch_that_is_planned_otherwise(session, tmp_path, guard):
    """It was published with other rows: that is said, and not taken for done."""
    out = tmp_path / "out"

    def run(batch_rows):
        stream = source().select("at", "user")
        if guard == "sqlite":
            written = stream.write.sqlite(f"{out}.db", "rows")
        else:
            written = stream.write.parquet(out)
        options = {"compiled": False, "shards": 1, "batch_rows": batch_rows}
        return hr.run(
            written, engine="spark", session=session, checkpoint=tmp_path / "state", **options
        )

    assert run(50).status == "finished"
    if guard == "parquet":
        assert all("@" in path.name for path in out.glob("part-*"))
    forget_offsets(tmp_path / "state", 2)
    if guard != "checkpoint":  # as if all of it came from a copy of before
        (tmp_path / "state" / "ends.json").unlink()
    with pytest.raises((StateError, DataError), match=r"ended elsewhere|another end") as caught:
        run(70)
    assert "fix: " in str(caught.value)
    forget_offsets(tmp_path / "state", 1)
    if guard != "checkpoint":
        (tmp_path / "state" / "ends.json").unlink()
    assert run(50).status == "finished"  # planned as before: all is there already


def test_logs_of_spark_that_are_torn(tmp_path):
    """Names without content, as a crash leaves them: only the last ones, and checksums."""
    for log in ("offsets", "commits"):
        (tmp_path / log).mkdir()
        for number in (8, 9, 10):
            (tmp_path / log / str(number)).write_text("" if number != 9 else "v1")
            (tmp_path / log / f".{number}.crc").write_text("" if number == 9 else "crc")
    drop_torn(tmp_path)
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*/*")}
    kept = ("8", "9", ".8.crc")
    assert found == {f"{log}/{name}" for log in ("offsets", "commits") for name in kept}


# ---- where a checkpoint may be -----------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["s3://b/x", "s3:/b/x", "dbfs:/x", "hdfs:/x", "abfss:/c@a/x", Path("s3://b/x"), "gs:/x"]
)
def test_urls(path, session, tmp_path, monkeypatch):
    """With one slash or two, in every place that takes a folder."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StateError, match=r"only folders of a file system.*\n  fix"):
        Checkpoint(path)
    with pytest.raises(StateError, match="only folders of a file system"):
        hr.read.spark(session.range(3)).to_spark(checkpoint=path)
    with pytest.raises(hr.PipelineError, match="is a URL"):
        source().write.parquet(path)
    if "://" not in str(path):  # others are looked for where they are
        with pytest.raises(hr.PipelineError, match=r"is a URL with one slash\n.*\n?  fix: write "):
            hr.read.parquet(path, schema={"n": int})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("way", ["file:///{}", "file:/{}", "/{}"])
def test_folders_as_urls(tmp_path, way):
    held = Checkpoint(way.format(str(tmp_path / "x").lstrip("/")))
    assert held.folder == tmp_path / "x"
    held.close()


def test_another_file_system(session):
    """A checkpoint in memory: another file system than that of everything else."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        pytest.skip("there is no /dev/shm")
    folder = temporary.folder_of_process("headrace-test-", memory)
    output = pipelines.counted(source()).write.collect()
    options = {"compiled": False, "shards": 2, "batch_rows": 100, "checkpoint": folder / "c"}
    hr.run(output, engine="spark", session=session, **options)
    (expected,) = naive([output])
    assert_same(rows_of(output.result()), expected, ordered=False)


@pytest.mark.parametrize("lacks", ["locks", "syncs", "renames"])
def test_file_systems_that_will_not_do(tmp_path, monkeypatch, lacks):
    """What a checkpoint rests on is tried before a row is read."""

    def refuse(*_, **__):
        raise OSError(95, "Operation not supported")

    place = {
        "locks": (temporary.fcntl, "flock"),
        "syncs": (os, "fsync"),
        "renames": (os, "replace"),
    }
    monkeypatch.setattr(*place[lacks], refuse)
    with pytest.raises(StateError, match=r"cannot hold one: .*not supported.*\n  fix"):
        Checkpoint(tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match=r"cannot be made: Not a directory\n  fix"):
        Checkpoint(tmp_path / "file" / "x")


# ---- whose it is -------------------------------------------------------------------------------


def test_everything_is_private(session, tmp_path):
    """Folders 0700, files 0600, whatever the umask; and no plan is left behind."""
    before = os.umask(0)
    try:
        outputs = [pipelines.counted(source()).write.null()]
        options = {"compiled": False, "shards": 2, "batch_rows": 100}
        checkpoint = tmp_path / "new" / "checkpoint"
        hr.run(*outputs, engine="spark", session=session, checkpoint=checkpoint, **options)
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in checkpoint.rglob("*")}
    assert stat.S_IMODE(checkpoint.stat().st_mode) == 0o700
    sparks = checkpoint / "spark"  # inside of a folder that only we can enter
    ours = {path: mode for path, mode in modes.items() if sparks not in [path, *path.parents]}
    assert len(ours) > 10
    assert {oct(mode) for path, mode in ours.items() if path.is_dir()} == {"0o700"}
    assert {oct(mode) for path, mode in ours.items() if path.is_file()} == {"0o600"}
    assert not list(checkpoint.rglob("plan-*"))


def test_a_checkpoint_of_others(tmp_path, monkeypatch):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(StateError, match="written by everybody"):
        Checkpoint(folder)
    folder.chmod(0o700)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    owner = os.stat(folder).st_uid
    if owner == 0:  # what root has made is taken as safe
        os.chown(folder, 4711, -1)
    with pytest.raises(StateError, match="belongs to another user"):
        Checkpoint(folder)


def test_a_plan_that_was_changed(tmp_path):
    """It is not even loaded."""
    engine = Engine([pipelines.counted(source())], tmp_path, 50)
    path = Path(engine.address.path)
    evil = b"cos\nsystem\n(S'touch %s'\ntR." % os.fsencode(tmp_path / "owned")
    path.write_bytes(evil)
    with pytest.raises(SparkError, match="not the one that the driver wrote"):
        receive(engine.address)
    assert not (tmp_path / "owned").exists()


def test_secrets_are_not_written(tmp_path):
    """The password of Kafka is in no file of the checkpoint; tasks have it all the same."""
    pytest.importorskip("confluent_kafka")
    from headrace.connect.kafka import KafkaSource
    from headrace.spark.shipment import Shipment, send

    kafka = KafkaSource("h:9", "t", schema={"n": int}, sasl_password="swordfish")
    names = ("staged", "channels", "checkpoint", "stop_file", "times", "state")
    values = dict.fromkeys(names, "") | {"capacity": 1, "compiled": False, "shards": 1}
    shipment = Shipment(stages=(kafka,), batch_rows=1, tasks=1, **values)
    address = send(shipment, tmp_path)
    content = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"swordfish" not in content and b"confluent" not in content
    assert "swordfish" not in repr(address)
    back = receive(Address.from_options(address.options()))
    (again,) = back.stages
    assert again._connection._options["sasl.password"].value == "swordfish"
    assert [name for name, value in address.options().items() if "swordfish" in value] == ["secret"]


# ---- tasks and their batches -------------------------------------------------------------------


class Task:
    """What Spark tells a task."""

    def __init__(self, **properties):
        self._properties = {"streaming.sql.batchId": None, "sql.streaming.queryId": None}
        self._properties |= {name.replace("_", "."): value for name, value in properties.items()}

    def getLocalProperty(self, name):
        return self._properties[name]


def test_tasks_without_a_batch(tmp_path, monkeypatch):
    """Of a streaming query they stop; a batch query has but one."""
    engine = Engine([pipelines.counted(source())], tmp_path, 50)
    for task in (None, Task()):
        monkeypatch.setattr(batches.TaskContext, "get", lambda task=task: task)
        with pytest.raises(StateError, match=r"has no number of a batch.*\n  fix"):
            batches.batch_of_task(engine.shipment)
    engine.begin(1, streaming=False)
    assert batches.batch_of_task(engine.shipment) == 1


def test_a_frame_that_two_queries_run(tmp_path, monkeypatch):
    engine = Engine([pipelines.counted(source())], tmp_path, 50, shared=True)
    one, other = Task(sql_streaming_queryId="one"), Task(sql_streaming_queryId="other")
    for task in (one, one):
        monkeypatch.setattr(batches.TaskContext, "get", lambda task=task: task)
        assert batches.query_of_task(engine.shipment) == "one"
    monkeypatch.setattr(batches.TaskContext, "get", lambda: other)
    with pytest.raises(StateError, match=r"belongs to another query \(one, this one is other\)"):
        batches.query_of_task(engine.shipment)


def test_to_spark_twice(session, tmp_path):
    """The first DataFrame still runs when there is a second one over the same checkpoint."""
    frames = [
        hr.read.spark(session.range(5))
        .filter(hr.col("id") > n)
        .to_spark(checkpoint=tmp_path, compiled=False)
        for n in range(2)
    ]
    assert [frame.count() for frame in frames] == [4, 3]


# ---- folders that changed ----------------------------------------------------------------------


def test_folders_that_are_not_watched(session, tmp_path):
    """New files, files that went, and files that were written again are told of at a restart."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.json").write_text('{"n": 1}\n')

    def run():
        rows = hr.read.json(folder, schema={"n": int}).write.null()
        options = {"compiled": False, "shards": 1, "checkpoint": tmp_path / "checkpoint"}
        return hr.run(rows, engine="spark", session=session, **options)

    assert run().progress().rows_in == 3
    (folder / "aa.json").write_text('{"n": 1}\n')
    with pytest.warns(SourceChanged, match=r"aa\.json are new.*\n  fix: .*watch=True"):
        assert run().status == "finished"
    (folder / "c.json").write_text('{"n": 12345}\n')
    with pytest.raises(StateError, match=r"c\.json changed since.*\n  fix"):
        run()


def test_files_that_went(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"n": 1}\n')
    source = hr.read.json(tmp_path, schema={"n": int}).node.connector
    before = source.files()
    compare_files(source, before)
    os.utime(path, (1, 1))
    with pytest.warns(SourceChanged, match=r"a\.json were written again"):
        compare_files(source, before)
    path.unlink()
    with pytest.warns(SourceChanged, match=r"a\.json are gone"):
        compare_files(source, before)


def test_a_folder_is_made_with_those_above(tmp_path):
    files.make_folder(tmp_path / "a" / "b")
    files.make_folder(tmp_path / "a" / "b")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


def test_what_is_synced(tmp_path, monkeypatch):
    """Once, when it is new or has changed; commits and checksums need not be."""
    from headrace.spark import ends

    seen = []
    monkeypatch.setattr(ends, "sync", lambda path: seen.append(path.name))
    folder = tmp_path / "spark"
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    synced = ends.Synced(folder)
    (folder / "offsets" / "0").write_text("v1")
    (folder / "offsets" / ".0.crc").write_text("crc")
    (folder / "commits" / "0").write_text("v1")
    synced.sync()
    assert {"0", "offsets", "spark"} == set(seen) and seen.index("0") < seen.index("spark")
    seen.clear()
    synced.sync()
    assert seen == []
    (folder / "offsets" / "1").write_text("v1")
    synced.sync()
    assert "1" in seen and "0" not in seen and seen[-1] in ("offsets", "spark")
