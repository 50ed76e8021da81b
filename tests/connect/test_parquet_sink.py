"""A folder of Parquet files as a sink: what is committed is there once, and nothing else is."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.connect.data import tables

from headrace.connect import staging
from headrace.connect.parquet import ParquetSource
from headrace.connect.parquet_sink import ParquetSink
from headrace.plan.connector import Sink
from headrace.plan.errors import DataError
from headrace.plan.schema import Schema
from headrace.plan.types import optional

SCHEMA = Schema.of({"n": int})


def rows(*numbers):
    return pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA.to_arrow())


def opened(path, **options):
    sink = ParquetSink(path, **options)
    sink.open(SCHEMA)
    return sink


def visible(path):
    """What readers that know nothing of us see."""
    found = sorted(ds.dataset(path, format="parquet").to_table().to_pylist(), key=str)
    ours = ParquetSource(path, schema=SCHEMA).table().to_pylist()
    assert sorted(ours, key=str) == found
    return [row["n"] for row in found] if found else []


def staged(path):
    return sorted(p.relative_to(path).as_posix() for p in path.glob("_staging/*/*"))


def test_rows_are_visible_once_they_are_committed(tmp_path):
    sink = opened(tmp_path)
    assert isinstance(sink, Sink)
    messages = [sink.write(rows(1, 2), "a", "0"), sink.write(rows(3), "a", "0")]
    assert visible(tmp_path) == []
    sink.commit("a", messages)
    assert visible(tmp_path) == [1, 2, 3]
    assert [p.name for p in tmp_path.glob("*.parquet")] == ["part-a.parquet"]
    assert staged(tmp_path) == []
    sink.close()


def test_a_repeated_commit_does_nothing(tmp_path):
    sink = opened(tmp_path)
    messages = [sink.write(rows(1), "a", "0")]
    sink.commit("a", messages)
    before = (tmp_path / "part-a.parquet").stat()
    sink.commit("a", messages)
    # After a crash the batch is computed again, by another attempt, and committed again.
    again = opened(tmp_path)
    again.commit("a", [again.write(rows(1), "a", "1")])
    assert visible(tmp_path) == [1]
    after = (tmp_path / "part-a.parquet").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert staged(tmp_path) == []


def test_the_attempts_that_died_are_removed_with_the_commit(tmp_path):
    dead = opened(tmp_path)
    dead.write(rows(1), "a", "0")
    dead.write(rows(9), "b", "0")
    sink = opened(tmp_path)
    sink.commit("a", [sink.write(rows(1), "a", "1")])
    assert visible(tmp_path) == [1]
    assert staged(tmp_path) == ["_staging/b/0"]


def test_what_nobody_came_back_for_is_removed_in_the_end(tmp_path):
    sink = opened(tmp_path)
    sink.write(rows(1), "a", "0")
    sink.close()
    opened(tmp_path)
    assert staged(tmp_path) == ["_staging/a/0"]
    past = time.time() - 3600
    for path in [*tmp_path.rglob("_staging/a/*"), *tmp_path.glob("_staging/*/*/*")]:
        os.utime(path, (past, past))
    os.utime(tmp_path / "_staging" / "a", (past, past))
    opened(tmp_path, keep_staged=7200)
    assert staged(tmp_path) == ["_staging/a/0"]
    opened(tmp_path, keep_staged=60)
    assert staged(tmp_path) == []


def test_abort_removes_one_attempt(tmp_path):
    sink = opened(tmp_path)
    sink.write(rows(1), "a", "0")
    message = sink.write(rows(1), "a", "1")
    sink.abort("a", "0")
    sink.abort("a", "7")
    assert staged(tmp_path) == ["_staging/a/1"]
    sink.commit("a", [message])
    assert visible(tmp_path) == [1]


def test_several_tasks_are_published_in_one_step(tmp_path):
    tasks = [opened(tmp_path) for _ in range(3)]
    names = [".commit", "_commit", "2"]
    messages = [task.write(rows(n), "a", names[n]) for n, task in enumerate(tasks)]
    for task in tasks:
        task.close()
    opened(tmp_path).write(rows(99), "a", "dead")
    driver = opened(tmp_path)
    driver.commit("a", messages)
    driver.commit("a", messages)
    assert visible(tmp_path) == [0, 1, 2]
    assert staged(tmp_path) == []


@pytest.mark.parametrize("deaths", range(5))
def test_a_commit_that_dies_half_way_can_be_repeated(tmp_path, monkeypatch, deaths):
    sink = opened(tmp_path)
    messages = [sink.write(rows(n), "a", str(n)) for n in range(3)]
    real, left = os.rename, [deaths]

    def dying(source, target):
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1
        real(source, target)

    monkeypatch.setattr(os, "rename", dying)
    try:
        sink.commit("a", messages)
    except KeyboardInterrupt:
        assert visible(tmp_path) == []
    monkeypatch.setattr(os, "rename", real)
    opened(tmp_path).commit("a", messages)
    assert visible(tmp_path) == [0, 1, 2]


KILLED = """
    import os, signal, sys
    import pyarrow as pa
    from headrace.connect.parquet_sink import ParquetSink
    from headrace.plan.schema import Schema
    sink = ParquetSink(sys.argv[1])
    sink.open(Schema.of({"n": int}))
    schema = Schema.of({"n": int}).to_arrow()
    for n in range(3):
        batch = pa.record_batch([pa.array([n] * 200_000, pa.int64())], schema=schema)
        message = sink.write(batch, "batch", "first")
    if sys.argv[2] == "finished":
        sink.close()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["open", "finished"])
def test_a_process_that_is_killed_leaves_nothing_visible(tmp_path, how):
    code = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path), how]
    done = subprocess.run(code, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == -signal.SIGKILL
    assert visible(tmp_path) == []
    assert staged(tmp_path) == ["_staging/batch/first"]
    sink = opened(tmp_path)
    if how == "open":
        with pytest.raises(DataError, match=r"rows.parquet is not finished; close the sink"):
            sink.commit("batch", [{"attempt": "first", "rows": 600_000}])
    sink.commit("batch", [sink.write(rows(1, 2), "batch", "second")])
    assert visible(tmp_path) == [1, 2]
    assert staged(tmp_path) == []


def test_rows_that_were_lost_are_noticed(tmp_path):
    sink = opened(tmp_path)
    message = sink.write(rows(1, 2), "a", "0")
    with pytest.raises(DataError, match="has 2 rows, and 5 were staged"):
        sink.commit("a", [{**message, "rows": 5}])
    with pytest.raises(DataError, match="is gone, and was staged before"):
        sink.commit("b", [{"attempt": "0", "rows": 1}])


def test_ids_of_any_characters_stay_apart(tmp_path):
    sink = opened(tmp_path / "out")
    ids = ["a/b", "a%2Fb", "..", ".", "", "ä", "a-b", "_x", "x y"]
    for number, batch in enumerate(ids):
        sink.commit(batch, [sink.write(rows(number), batch, "../../0")])
    assert visible(tmp_path / "out") == list(range(len(ids)))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_small_writes_become_large_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(staging, "GROUP_ROWS", 10)
    sink = opened(tmp_path)
    sink.commit("a", [sink.write(rows(n), "a", "0") for n in range(25)])
    found = pq.ParquetFile(tmp_path / "part-a.parquet").metadata
    assert [found.row_group(g).num_rows for g in range(found.num_row_groups)] == [10, 10, 5]


@given(tables(), st.integers(1, 10))
def test_all_types_round_trip(tmp_path_factory, drawn, size):
    schema, table = drawn
    path = tmp_path_factory.mktemp("sink")
    sink = ParquetSink(path)
    sink.open(schema)
    messages = [sink.write(batch, "a", "0") for batch in table.to_batches(max_chunksize=size)]
    sink.commit("a", messages)
    source = ParquetSource(path, schema=schema)
    assert source.table().to_pylist() == table.to_pylist()
    if table.num_rows:
        assert ParquetSource(path).schema() == schema


def test_a_batch_without_rows_leaves_no_file(tmp_path):
    sink = opened(tmp_path)
    sink.commit("a", [])
    assert list(tmp_path.glob("*.parquet")) == []


def test_errors_come_before_any_row(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="cannot make this folder"):
        opened(tmp_path / "file")
    with pytest.raises(DataError, match=r"open\(\) comes before write"):
        ParquetSink(tmp_path).write(rows(1), "a", "0")
    with pytest.raises(DataError, match="s3://bucket is a URL") as raised:
        ParquetSink("s3://user:secret@bucket")
    assert "secret" not in str(raised.value)
    with pytest.raises(DataError, match="compression='zip': use one of none, snappy"):
        ParquetSink(tmp_path, compression="zip")


def test_a_folder_keeps_one_schema(tmp_path):
    sink = opened(tmp_path)
    sink.commit("a", [sink.write(rows(1), "a", "0")])
    ParquetSink(tmp_path).open(Schema.of({"n": optional(int)}))
    for other, message in [
        ({"n": str}, "column 'n' is string, and in part-a.parquet, which is there already, int64"),
        ({"m": int}, "column 'm' is int64, and in part-a.parquet, which is there already, no such"),
    ]:
        with pytest.raises(DataError, match=message):
            ParquetSink(tmp_path).open(Schema.of(other))
    wider = Schema.of({"n": int, "m": int})
    with pytest.raises(DataError, match="no such column"):
        ParquetSink(tmp_path).open(wider)


def test_it_travels(tmp_path):
    sink = pickle.loads(pickle.dumps(opened(tmp_path)))
    message = sink.write(rows(1), "a", "0")
    sink.close()
    opened(tmp_path).commit("a", [message])
    assert visible(tmp_path) == [1]
