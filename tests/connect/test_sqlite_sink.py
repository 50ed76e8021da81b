"""SQLite as a sink: each batch in one transaction, once."""

import base64
import datetime as dt
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.connect.data import from_json, tables

from headrace.connect import sqlite_sink
from headrace.connect.sqlite_sink import SqliteSink
from headrace.plan.connector import Sink
from headrace.plan.errors import DataError
from headrace.plan.schema import Schema
from headrace.plan.types import optional

SCHEMA = Schema.of({"n": int})


def rows(*numbers):
    return pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA.to_arrow())


def opened(folder, table="t"):
    sink = SqliteSink(folder / "out.db", table)
    sink.open(SCHEMA)
    return sink


def query(folder, sql):
    with closing(sqlite3.connect(folder / "out.db")) as database, database:
        return database.execute(sql).fetchall()


def stored(folder, table="t"):
    return [n for (n,) in query(folder, f'SELECT n FROM "{table}" ORDER BY rowid')]


def staged(folder):
    return sorted(p.name for p in folder.glob("out.db-staging/*/*/*"))


def test_a_batch_is_there_once_however_often_it_is_committed(tmp_path):
    sink = opened(tmp_path)
    assert isinstance(sink, Sink) and sink.exactly_once
    messages = [sink.write(rows(1, 2), "a", "0"), sink.write(rows(3), "a", "0")]
    assert stored(tmp_path) == []
    sink.commit("a", messages)
    sink.commit("a", messages)
    again = opened(tmp_path)  # after a crash: another attempt, committed again
    again.commit("a", [again.write(rows(1, 2, 3), "a", "1")])
    again.commit("empty", [])
    assert stored(tmp_path) == [1, 2, 3] and staged(tmp_path) == []
    assert query(tmp_path, "SELECT target, batch, rows FROM headrace_batches") == [("t", "a", 3)]


def test_several_tasks_and_several_tables(tmp_path):
    for table in ("t", 'odd "name"'):
        tasks = [pickle.loads(pickle.dumps(opened(tmp_path, table))) for _ in range(3)]
        messages = [task.write(rows(n), "a", str(n)) for n, task in enumerate(tasks)]
        for task in tasks:
            task.close()
        opened(tmp_path, table).write(rows(99), "a", "dead")
        opened(tmp_path, table).commit("a", messages)
    assert stored(tmp_path) == [0, 1, 2]
    assert [n for (n,) in query(tmp_path, 'SELECT n FROM "odd ""name"""')] == [0, 1, 2]
    assert staged(tmp_path) == []


def test_a_commit_that_fails_half_way_leaves_nothing_and_can_be_repeated(tmp_path, monkeypatch):
    sink = opened(tmp_path)
    messages = [sink.write(rows(n), "a", str(n)) for n in range(3)]
    real, left = sqlite_sink._rows, [2]

    def dying(batch, schema):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return real(batch, schema)

    monkeypatch.setattr(sqlite_sink, "_rows", dying)
    with pytest.raises(KeyboardInterrupt):
        sink.commit("a", messages)
    assert stored(tmp_path) == []
    monkeypatch.setattr(sqlite_sink, "_rows", real)
    opened(tmp_path).commit("a", messages)
    assert stored(tmp_path) == [0, 1, 2]


KILLED = """
    import os, signal, sys
    import pyarrow as pa
    from headrace.connect import sqlite_sink
    from headrace.plan.schema import Schema
    sink = sqlite_sink.SqliteSink(sys.argv[1], "t")
    sink.open(Schema.of({"n": int}))
    messages = [sink.write(pa.record_batch({"n": [n] * 1000}), "a", str(n)) for n in range(3)]
    real, left = sqlite_sink._rows, [int(sys.argv[2])]
    def dying(batch, schema):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(batch, schema)
    sqlite_sink._rows = dying
    sink.commit("a", messages)
    sink.commit("a", messages)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("parts", range(4))
def test_a_process_that_is_killed_in_a_commit(tmp_path, parts):
    code = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path / "out.db"), str(parts)]
    assert subprocess.run(code).returncode == -signal.SIGKILL
    assert len(stored(tmp_path)) == (3000 if parts == 3 else 0)
    messages = [{"attempt": str(n), "rows": 1000} for n in range(3)]
    opened(tmp_path).commit("a", messages)
    assert sorted(stored(tmp_path)) == sorted([0, 1, 2] * 1000)
    assert staged(tmp_path) == []


def as_stored(value, kind):
    if value is None:
        return None
    if kind.name == "date":
        return value.isoformat()
    if kind.name == "timestamp":
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return f"{text}Z"
    if kind.name == "time":
        return value.isoformat(timespec="microseconds")
    if kind.name == "duration":
        return value // dt.timedelta(microseconds=1)
    if kind.name == "uint64" or kind.is_decimal:
        return str(value)
    return int(value) if kind.name == "bool" else value


@given(tables(), st.integers(1, 10))
def test_all_types_round_trip(tmp_path_factory, drawn, size):
    schema, table = drawn
    folder = tmp_path_factory.mktemp("sqlite")
    sink = SqliteSink(folder / "out.db", "t")
    sink.open(schema)
    sink.commit("a", [sink.write(b, "a", "0") for b in table.to_batches(max_chunksize=size)])
    kinds = [field.type for field in schema]
    expected = [
        tuple(as_stored(row[field.name], field.type) for field in schema)
        for row in table.to_pylist()
    ]
    found = query(folder, "SELECT * FROM t ORDER BY rowid")
    assert [tuple(map(from_json, row, kinds)) for row in found] == expected
    SqliteSink(folder / "out.db", "t").open(schema)


def test_sqlite_has_no_nan_but_infinity(tmp_path):
    sink = SqliteSink(tmp_path / "out.db", "t")
    sink.open(Schema.of({"n": float}))
    batch = pa.record_batch({"n": [float("nan"), float("inf"), 1.5]})
    sink.commit("a", [sink.write(batch, "a", "0")])
    assert stored(tmp_path) == [None, float("inf"), 1.5]


def test_times_sort_as_texts_and_sqlite_understands_them(tmp_path):
    sink = SqliteSink(tmp_path / "out.db", "t")
    sink.open(Schema.of({"at": "timestamp", "b": "binary"}))
    moments = pa.array([10**15, 5, 10**6], pa.int64()).cast(pa.timestamp("us", "UTC"))
    batch = pa.record_batch({"at": moments, "b": [b"\0", b"", base64.b64decode("/w==")]})
    sink.commit("a", [sink.write(batch, "a", "0")])
    assert query(tmp_path, "SELECT strftime('%s', at), b FROM t ORDER BY at") == [
        ("0", b""),
        ("1", b"\xff"),
        ("1000000000", b"\0"),
    ]


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ("n TEXT", "column 'n' would be INTEGER, and in the table, .* it is TEXT"),
        ("m INTEGER", "column 'n' would be INTEGER, and in the table, .* it is missing"),
        ("n INTEGER, m TEXT NOT NULL", "needs a value for column 'm'; give the column a default"),
        ("n INTEGER NOT NULL", ""),
        ("id INTEGER PRIMARY KEY, n integer, m TEXT NOT NULL DEFAULT 'x'", ""),
    ],
)
def test_a_table_that_is_there_is_checked(tmp_path, table, what):
    query(tmp_path, f"CREATE TABLE t ({table})")
    if what:
        with pytest.raises(DataError, match=what):
            opened(tmp_path)
    else:
        sink = opened(tmp_path)
        sink.commit("a", [sink.write(rows(1), "a", "0")])
        assert stored(tmp_path) == [1]
    if table == "n INTEGER NOT NULL":
        with pytest.raises(DataError, match=r"column 'n' may be null, and the table, .*NOT NULL"):
            SqliteSink(tmp_path / "out.db", "t").open(Schema.of({"n": optional(int)}))


def test_errors_say_what_and_where(tmp_path):
    with pytest.raises(DataError, match="':memory:' is not a file"):
        SqliteSink(":memory:", "t")
    with pytest.raises(DataError, match="'headrace_batches' cannot be the name of the table"):
        SqliteSink(tmp_path / "x", "headrace_batches")
    with pytest.raises(DataError, match="db://host/x is a URL") as raised:
        SqliteSink("db://user:secret@host/x", "t")
    assert "secret" not in str(raised.value)
    (tmp_path / "out.db").write_text("this is not a database, whatever its name may say")
    with pytest.raises(DataError, match=r"sqlite .*out.db, table t: file is not a database"):
        opened(tmp_path)
    os.unlink(tmp_path / "out.db")
    with pytest.raises(DataError, match="duplicate column name"):
        SqliteSink(tmp_path / "out.db", "t").open(Schema.of({"a": int, "A": int}))
    query(tmp_path, "CREATE TABLE t (n INTEGER UNIQUE)")
    sink = opened(tmp_path)
    with pytest.raises(DataError, match=r"UNIQUE constraint failed: t.n"):
        sink.commit("a", [sink.write(rows(1, 1), "a", "0")])
    assert stored(tmp_path) == []


def test_two_tables_of_one_job(tmp_path):
    """A commit of one leaves alone what the other has staged under the same name."""
    sinks = [opened(tmp_path, name) for name in ("ones", "twos")]
    messages = [sink.write(rows(number), "7", "a") for number, sink in enumerate(sinks, 1)]
    for sink in sinks:
        sink.close()
    for sink, message in zip(sinks, messages, strict=True):
        sink.commit("7", [message])
    assert (stored(tmp_path, "ones"), stored(tmp_path, "twos")) == ([1], [2])
