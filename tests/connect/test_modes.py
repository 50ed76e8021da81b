"""What becomes of rows that are there when a job begins: `mode=` of folders and tables."""

import sqlite3
from contextlib import closing

import pyarrow as pa
import pytest

import headrace as hr
from headrace.connect.json_sink import JsonSink
from headrace.connect.sqlite_sink import SqliteSink
from headrace.plan.errors import DataError
from headrace.plan.schema import Schema

KINDS = ["parquet", "arrow", "json", "csv", "sqlite"]
every_kind = pytest.mark.parametrize("kind", KINDS)


def write(kind, folder, numbers, engine="thread", name="n", **options):
    stream = hr.read.memory({name: numbers}, schema={name: int})
    if kind == "sqlite":
        sink = stream.write.sqlite(folder / "out.db", "numbers", **options)
    else:
        sink = getattr(stream.write, kind)(folder, **options)
    hr.run(sink, engine=engine, compiled=False)


def found(kind, folder, name="n"):
    if kind == "sqlite":
        with closing(sqlite3.connect(folder / "out.db")) as database:
            return sorted(row[0] for row in database.execute(f"SELECT {name} FROM numbers"))
    back = getattr(hr.read, kind)(folder, schema={name: int}).write.collect()
    hr.run(back, engine="thread", compiled=False)
    return sorted(back.result()[name].to_pylist())


@pytest.mark.parametrize("engine", ["thread", "node"])
@every_kind
def test_modes(tmp_path, kind, engine):
    write(kind, tmp_path, [1], engine, mode="error")
    write(kind, tmp_path, [2], engine)
    assert found(kind, tmp_path) == [1, 2]
    with pytest.raises(hr.DataError, match="is there already, and the mode is 'error'; write to"):
        write(kind, tmp_path, [3], engine, mode="error")
    assert found(kind, tmp_path) == [1, 2]
    write(kind, tmp_path, [4], engine, mode="overwrite")
    assert found(kind, tmp_path) == [4]
    write(kind, tmp_path, [5], engine, name="other", mode="overwrite")  # other columns, too
    assert found(kind, tmp_path, "other") == [5]


@every_kind
def test_overwritten_by_nothing(tmp_path, kind):
    write(kind, tmp_path, [1])
    write(kind, tmp_path, [], mode="overwrite")
    assert found(kind, tmp_path) == []


def test_a_mode_that_is_none(tmp_path):
    with pytest.raises(hr.PipelineError, match="mode='replace': use one of append, overwrite"):
        hr.read.memory({"n": [1]}).write.json(tmp_path, mode="replace")


@pytest.mark.parametrize("mode", ["overwrite", "error"])
@pytest.mark.parametrize(
    "make", [JsonSink, lambda f, **o: SqliteSink(f / "out.db", "numbers", **o)]
)
def test_a_job_keeps_what_it_has_written_itself(tmp_path, make, mode):
    """After a crash a job begins again, with the names of batches that it had."""
    schema = Schema.of({"n": int})
    rows = [pa.record_batch([pa.array([n])], schema=schema.to_arrow()) for n in range(2)]
    for turn in range(2):
        sink = make(tmp_path, mode=mode)
        sink.begin("job.a")
        sink.open(schema)
        sink.commit(f"job.a-{turn}", [sink.write(rows[turn], f"job.a-{turn}", "0")])
        sink.close()
    kind = "json" if make is JsonSink else "sqlite"
    assert found(kind, tmp_path) == [0, 1]
    other = make(tmp_path, mode=mode)
    other.begin("job.b")
    if mode == "error":
        with pytest.raises(DataError, match="is there already"):
            other.open(schema)
    else:
        other.open(schema)
        assert found(kind, tmp_path) == []
