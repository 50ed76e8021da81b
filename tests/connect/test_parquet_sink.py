"""A folder of Parquet files as a sink: what it has besides what all folders have."""

import errno
import os
import time

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.connect import staging
from headrace.connect.parquet import ParquetSource
from headrace.connect.parquet_sink import ParquetRowsWriter, ParquetSink
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


@pytest.mark.parametrize("method", ["encoded", "add"])
def test_what_threads_cannot_write_is_never_published(tmp_path, monkeypatch, method):
    """The error comes with rows behind, or with the commit, again and again."""
    calls, works = [], getattr(ParquetRowsWriter, method)

    def fails(writer, given):
        calls.append(given)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "full")
        return works(writer, given)

    monkeypatch.setattr(staging, "GROUP_ROWS", 10)
    monkeypatch.setattr(ParquetRowsWriter, method, fails)
    sink, messages = opened(tmp_path), []
    with pytest.raises(DataError, match="No space left on device"):
        messages.extend(sink.write(rows(n), "a", "0") for n in range(20))
        sink.commit("a", messages)
    with pytest.raises(DataError, match=r"not finished|No space left"):
        sink.commit("a", [{"attempt": "0", "rows": 20}])
    sink.abort("a", "0")
    assert visible(tmp_path) == [] and staged(tmp_path) == []


@pytest.mark.parametrize("system", ["linux", "another"])
def test_a_file_goes_to_the_disk_while_it_grows(tmp_path, monkeypatch, system):
    begun = []

    def begin(descriptor, start, size, flags):
        begun.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(staging, "GROUP_ROWS", 10)
    monkeypatch.setattr(staging, "_begin", begin if system == "linux" else None)
    sink = opened(tmp_path)
    sink.commit("a", [sink.write(rows(n), "a", "0") for n in range(25)])
    assert len(begun) == (3 if system == "linux" else 0)
    assert begun == sorted(set(begun))
    assert sorted(visible(tmp_path)) == list(range(25))


def test_a_compression_that_there_is_not(tmp_path):
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


def test_whole_numbers_are_written_as_differences(tmp_path):
    rows = pa.table({"n": range(1000), "at": pa.array(range(1000), pa.timestamp("us", "UTC"))})
    output = hr.read.memory(rows).write.parquet(tmp_path)
    hr.run(output, engine="thread", compiled=False)
    (path,) = tmp_path.glob("*.parquet")
    group = pq.read_metadata(path).row_group(0)
    assert ["DELTA_BINARY_PACKED" in group.column(n).encodings for n in range(2)] == [True, True]
    assert pq.read_table(path).to_pydict() == rows.to_pydict()
