"""Folders of JSON lines, CSV, Arrow and Parquet files as sinks: what is committed is there once."""

import csv
import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.connect.data import tables

from headrace.connect import staging
from headrace.connect.arrow_files import ArrowSource
from headrace.connect.arrow_sink import ArrowSink
from headrace.connect.csv_files import CsvSource
from headrace.connect.csv_sink import CsvSink
from headrace.connect.json_lines import JsonSource
from headrace.connect.json_sink import JsonSink
from headrace.connect.parquet import ParquetSource
from headrace.connect.parquet_sink import ParquetSink
from headrace.plan.connector import Sink
from headrace.plan.errors import DataError
from headrace.plan.schema import Schema
from headrace.plan.types import optional

SCHEMA = Schema.of({"n": int})
SOURCES = {
    JsonSink: JsonSource,
    CsvSink: CsvSource,
    ArrowSink: ArrowSource,
    ParquetSink: ParquetSource,
}
every_sink = pytest.mark.parametrize("make", list(SOURCES), ids=lambda make: make.kind)


def rows(*numbers):
    return pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA.to_arrow())


def opened(make, path, **options):
    sink = make(path, **options)
    sink.open(SCHEMA)
    return sink


def visible(make, path):
    """What readers that know nothing of us see: all files of the format that are not hidden."""
    found = []
    for file in sorted(path.rglob(f"*{make.ending}")):
        inside = file.relative_to(path).parts
        if file.is_file() and not any(part[0] in "_." for part in inside):
            if make is JsonSink:
                found += [json.loads(line)["n"] for line in file.read_text().splitlines()]
            elif make is CsvSink:
                with open(file, newline="") as lines:
                    found += [int(row["n"]) for row in csv.DictReader(lines)]
            elif make is ParquetSink:
                found += pq.read_table(file)["n"].to_pylist()
            else:
                found += pa.ipc.open_file(file).read_all()["n"].to_pylist()
    ours = SOURCES[make](path, schema=SCHEMA).table()["n"].to_pylist()
    assert sorted(ours) == sorted(found)
    return sorted(found)


def staged(path):
    return sorted(p.relative_to(path).as_posix() for p in path.glob("_staging/*/*"))


@every_sink
def test_rows_are_visible_once_they_are_committed(tmp_path, make):
    sink = opened(make, tmp_path)
    assert isinstance(sink, Sink) and sink.exactly_once
    messages = [sink.write(rows(1, 2), "a", "0"), sink.write(rows(3), "a", "0")]
    assert visible(make, tmp_path) == []
    sink.commit("a", messages)
    assert visible(make, tmp_path) == [1, 2, 3]
    before = (tmp_path / f"part-a{make.ending}").stat()
    sink.commit("a", messages)
    # After a crash the batch is computed again, by another attempt, and committed again.
    again = opened(make, tmp_path)
    again.commit("a", [again.write(rows(1, 2, 3), "a", "1")])
    again.commit("empty", [])
    assert visible(make, tmp_path) == [1, 2, 3] and staged(tmp_path) == []
    after = (tmp_path / f"part-a{make.ending}").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@every_sink
def test_dead_attempts_and_leftovers(tmp_path, make):
    dead = opened(make, tmp_path)
    dead.write(rows(1), "a", "0")
    dead.write(rows(9), "b", "0")
    dead.write(rows(9), "", "0")
    sink = opened(make, tmp_path)
    sink.commit("a", [sink.write(rows(1), "a", "1")])
    assert visible(make, tmp_path) == [1]
    assert staged(tmp_path) == ["_staging/%/0", "_staging/b/0"]
    sink.abort("b", "0")
    sink.abort("b", "7")
    sink.commit("", [sink.write(rows(2), "", "1")])
    sink.write(rows(9), "c", "0")
    sink.close()
    (tmp_path / "_staging" / "a" / "late").mkdir(parents=True)  # a task that did not know
    opened(make, tmp_path)
    assert staged(tmp_path) == ["_staging/c/0"]
    time.sleep(0.01)
    opened(make, tmp_path, keep_staged=0.0)
    assert staged(tmp_path) == [] and visible(make, tmp_path) == [1, 2]


@every_sink
@pytest.mark.parametrize("deaths", range(5))
def test_several_tasks_in_one_step_even_if_the_commit_dies(tmp_path, monkeypatch, make, deaths):
    tasks = [opened(make, tmp_path) for _ in range(3)]
    messages = [task.write(rows(n), "a", [".commit", "..", "2"][n]) for n, task in enumerate(tasks)]
    for task in tasks:
        task.close()
    opened(make, tmp_path).write(rows(99), "a", "dead")
    real, left = os.rename, [deaths]

    def dying(source, target):
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1
        real(source, target)

    monkeypatch.setattr(os, "rename", dying)
    try:
        opened(make, tmp_path).commit("a", messages)
    except KeyboardInterrupt:
        assert visible(make, tmp_path) == []
    monkeypatch.setattr(os, "rename", real)
    opened(make, tmp_path).commit("a", messages)
    opened(make, tmp_path).commit("a", messages)
    assert visible(make, tmp_path) == [0, 1, 2] and staged(tmp_path) == []


KILLED = """
    import os, signal, sys
    import pyarrow as pa
    from headrace.connect.{module} import {name}
    from headrace.plan.schema import Schema
    sink = {name}(sys.argv[1])
    sink.open(Schema.of({{"n": int}}))
    for n in range(3):
        message = sink.write(pa.record_batch({{"n": [n] * 100_000}}), "batch", "first")
    if sys.argv[2] == "finished":
        sink.close()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@every_sink
@pytest.mark.parametrize("how", ["open", "finished"])
def test_a_process_that_is_killed_leaves_nothing_visible(tmp_path, make, how):
    code = textwrap.dedent(KILLED).format(module=f"{make.kind}_sink", name=make.__name__)
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path), how])
    assert done.returncode == -signal.SIGKILL
    assert visible(make, tmp_path) == [] and staged(tmp_path) == ["_staging/batch/first"]
    sink = opened(make, tmp_path)
    if how == "open":
        with pytest.raises(DataError, match=r"is not finished|rows, and 300000 were staged"):
            sink.commit("batch", [{"attempt": "first", "rows": 300_000}])
        sink.commit("batch", [sink.write(rows(1, 2), "batch", "second")])
        assert visible(make, tmp_path) == [1, 2]
    else:
        sink.commit("batch", [{"attempt": "first", "rows": 300_000}])
        assert len(visible(make, tmp_path)) == 300_000
    assert staged(tmp_path) == []


@every_sink
@given(drawn=tables(), size=st.integers(1, 10))
def test_all_types_round_trip(tmp_path_factory, make, drawn, size):
    schema, table = drawn
    path = tmp_path_factory.mktemp("sink")
    sink = make(path)
    sink.open(schema)
    sink.commit("a", [sink.write(b, "a", "0") for b in table.to_batches(max_chunksize=size)])
    assert SOURCES[make](path, schema=schema).table().to_pylist() == table.to_pylist()
    make(path).open(schema)
    if make is ParquetSink and table.num_rows:
        assert ParquetSource(path).schema() == schema


def test_floats_that_json_lacks(tmp_path):
    sink = JsonSink(tmp_path)
    schema = Schema.of({"f": optional(float), "g": "float32"})
    sink.open(schema)
    values = [float("nan"), float("inf"), -float("inf"), -0.0, None]
    written = pa.record_batch({"f": values, "g": pa.array([*values[:4], 0.1], pa.float32())})
    sink.commit("a", [sink.write(written, "a", "0")])
    assert str(JsonSource(tmp_path, schema=schema).table().to_pydict()) == str(written.to_pydict())


def test_times_that_have_no_text(tmp_path):
    for kind, value in ({"at": "timestamp"}, 2**60), ({"at": "date"}, -(2**30)):
        sink = JsonSink(tmp_path)
        sink.open(Schema.of(kind))
        column = pa.array([value], pa.int64() if value > 0 else pa.int32())
        batch = pa.record_batch({"at": column.cast(Schema.of(kind).to_arrow().field(0).type)})
        with pytest.raises(DataError, match=r"column 'at': .* is not in the years 1 to 9999"):
            sink.commit("a", [sink.write(batch, "a", "0")])
        sink.abort("a", "0")


@every_sink
def test_rows_that_were_lost_are_noticed(tmp_path, make):
    sink = opened(make, tmp_path)
    message = sink.write(rows(1, 2), "a", "0")
    with pytest.raises(DataError, match="has 2 rows, and 5 were staged"):
        sink.commit("a", [{**message, "rows": 5}])
    with pytest.raises(DataError, match="is gone, and was staged before"):
        sink.commit("b", [{"attempt": "0", "rows": 1}])


@every_sink
def test_a_folder_keeps_one_schema(tmp_path, make):
    sink = opened(make, tmp_path)
    sink.commit("a", [sink.write(rows(1), "a", "0")])
    make(tmp_path).open(Schema.of({"n": optional(int)}))
    text = {"n": str} if make is not CsvSink else {"n": "date"}  # anything is a text in CSV
    for other in (text, {"m": optional(int)}, {"n": int, "m": optional(int)}):
        with pytest.raises(DataError, match=r"part-a.*, which is there already.* another folder"):
            make(tmp_path).open(Schema.of(other))


@every_sink
def test_errors_come_before_any_row(tmp_path, make):
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="file/_staging cannot be written: Not a directory"):
        opened(make, tmp_path / "file")
    with pytest.raises(DataError, match=r"open\(\) comes before write"):
        make(tmp_path).write(rows(1), "a", "0")
    with pytest.raises(DataError, match="there must be at least one column"):
        make(tmp_path).open(Schema(()))
    with pytest.raises(DataError, match="s3://bucket is a URL") as raised:
        make("s3://user:secret@bucket")
    assert "secret" not in str(raised.value)


def test_small_writes_are_put_together_and_may_be_compressed(tmp_path, monkeypatch):
    monkeypatch.setattr(staging, "GROUP_ROWS", 10)
    sink = opened(ArrowSink, tmp_path, compression="zstd")
    sink.commit("a", [sink.write(rows(n), "a", "0") for n in range(25)])
    found = pa.ipc.open_file(tmp_path / "part-a.arrow")
    assert [found.get_batch(n).num_rows for n in range(3)] == [10, 10, 5]
    with pytest.raises(DataError, match="compression='zip': use one of none, lz4, zstd"):
        ArrowSink(tmp_path, compression="zip")


@every_sink
def test_it_travels(tmp_path, make):
    driver = opened(make, tmp_path)
    task = pickle.loads(pickle.dumps(driver))
    message = task.write(rows(1), "a", "0")
    task.close()
    driver.commit("a", [message])
    assert visible(make, tmp_path) == [1]
