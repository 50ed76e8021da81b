"""Files in and files out, through `hr.run`."""

import sqlite3
from contextlib import closing

import pyarrow as pa
import pytest
from tests.connect.file_formats import KINDS

import headrace as hr
from headrace import col

READS = {
    "parquet": hr.read.parquet,
    "arrow": hr.read.arrow,
    "json": hr.read.json,
    "csv": hr.read.csv,
}
SCHEMA = {"n": int, "user": hr.optional(str), "at": "timestamp"}


def rows(count):
    moments = pa.array([n * 10**6 for n in range(count)]).cast(pa.timestamp("us", "UTC"))
    users = [None if n % 5 == 0 else f"user {n % 3}" for n in range(count)]
    return pa.table({"n": list(range(count)), "user": users, "at": moments})


@pytest.mark.parametrize("kind", READS)
def test_what_is_written_is_read_again(tmp_path, kind):
    numbers = hr.read.memory(rows(1000), schema=SCHEMA)
    even = numbers.filter(col("n") % 2 == 0)
    hr.run(getattr(even.write, kind)(tmp_path / "out"), compiled=False)
    back = READS[kind](tmp_path / "out", schema=SCHEMA).filter(col("n") >= 500).write.collect()
    hr.run(back, compiled=False)
    expected = [row for row in rows(1000).to_pylist() if row["n"] % 2 == 0 and row["n"] >= 500]
    assert back.result().to_pylist() == expected


def test_into_sqlite_and_a_function(tmp_path):
    got = []
    numbers = hr.read.memory(rows(100), schema=SCHEMA)
    stored = numbers.select("n", "user").write.sqlite(tmp_path / "out.db", "users")
    given = numbers.write.foreach_batch(lambda table, batch: got.append((batch, table)))
    hr.run(stored, given, compiled=False)
    with closing(sqlite3.connect(tmp_path / "out.db")) as database:
        found = database.execute("SELECT n, user FROM users ORDER BY n").fetchall()
        batches = database.execute("SELECT batch, rows FROM headrace_batches").fetchall()
    assert found == [(row["n"], row["user"]) for row in rows(100).to_pylist()]
    assert sum(count for _, count in batches) == 100
    assert {batch for batch, _ in got} == {batch for batch, _ in batches}
    assert pa.concat_tables([table for _, table in got]).num_rows == 100


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_watched_folder_is_read_until_the_job_is_stopped(tmp_path, kind):
    read = READS[kind.name.split()[0]]
    kind.add(tmp_path, 100, [0, 1, 2])
    folder = read(tmp_path, schema={"n": int}, watch=hr.read.Watch(interval=0.01))
    doubled = folder.with_columns(n=col("n") * 2).write.collect()
    sent = [3]

    def feed(job):
        """A file more whenever the rows of the last one have come out."""
        if job.progress().rows_out == sent[0]:
            if sent[0] == 30:
                job.stop()
            else:
                kind.add(tmp_path, 100 + sent[0], range(sent[0], sent[0] + 3))
                sent[0] += 3

    job = hr.run(doubled, compiled=False, watch=feed, seconds=60)
    assert job.status == "stopped"
    assert doubled.result()["n"].to_pylist() == [n * 2 for n in range(30)]


def test_a_line_that_is_wrong_fails_the_job_or_is_left_out(tmp_path):
    (tmp_path / "a.json").write_text('{"n": 1}\n{"n": 2.5}\n')
    with pytest.raises(
        hr.DataError, match=r"a.json, line 2: column 'n': 2.5 is not a value of int"
    ):
        hr.run(hr.read.json(tmp_path, schema={"n": int}).write.null(), compiled=False)
    kept = hr.read.json(tmp_path, schema={"n": int}, on_error="skip").write.collect()
    hr.run(kept, compiled=False)
    assert kept.result()["n"].to_pylist() == [1]


def test_mistakes_are_said_with_the_users_line(tmp_path):
    numbers = hr.read.memory({"n": [1]})
    for make, what in [
        (lambda: hr.read.json(tmp_path / "no", schema={"n": int}), "there is no file or folder"),
        (lambda: hr.read.json(tmp_path, schema={"n": int}, on_error="x"), "on_error='x': use one"),
        (lambda: hr.read.arrow(tmp_path), r"there are no arrow files in .*; give schema="),
        (lambda: hr.read.parquet(tmp_path / "no", watch=True), "only folders can be watched"),
        (lambda: numbers.write.arrow(tmp_path, compression="x"), "compression='x': use one of"),
        (lambda: numbers.write.sqlite(":memory:", "t"), "':memory:' is not a file"),
        (lambda: numbers.write.foreach_batch(5), "5 is not a function of a table"),
    ]:
        with pytest.raises(hr.PipelineError, match=what) as raised:
            make()
        assert "test_run_files.py" in str(raised.value)
