"""PostgreSQL as a sink, against a real server: exactly once, upserts, every type, what is wrong."""

import datetime as dt
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
from decimal import Decimal

import psutil
import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.connect.data import from_json, tables

import headrace as hr
from headrace.connect import postgres_sink
from headrace.connect.postgres_sink import PostgresSink
from headrace.plan.errors import DataError
from headrace.plan.schema import Schema
from headrace.plan.types import optional

pgserver = pytest.importorskip("pgserver")
dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
SCHEMA = Schema.of({"n": int, "text": optional(str)})


@pytest.fixture(scope="module")
def server():
    folder = tempfile.mkdtemp(prefix="postgres")
    os.chmod(folder, 0o755)  # where we are root, the server is somebody else
    made = pgserver.get_server(folder, cleanup_mode="delete")
    yield made
    made.cleanup()


@pytest.fixture
def url(server):
    for name in ("t", "headrace_batches"):
        query(server.get_uri(), f"DROP TABLE IF EXISTS {name}", fetch=False)
    return server.get_uri()


def query(url, text, fetch=True):
    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(text)
        found = cursor.fetchall() if fetch else None
        connection.commit()
        return found


def rows(*numbers, text="x"):
    texts = [text] * len(numbers)
    return pa.record_batch([pa.array(numbers, pa.int64()), pa.array(texts)], SCHEMA.to_arrow())


def opened(url, tmp_path, schema=SCHEMA, **options):
    sink = PostgresSink(url, "t", staging=str(tmp_path), **options)
    sink.open(schema)
    return sink


def commit(sink, batch, *batches, attempt="0", end=""):
    sink.commit(batch, [sink.write(each, batch, attempt) for each in batches], end)


def numbers(url):
    return [n for (n,) in query(url, "SELECT n FROM t ORDER BY n")]


def test_rows_are_there_once_they_are_committed(url, tmp_path):
    sink = opened(url, tmp_path)
    message = sink.write(rows(1, 2), "a", "0")
    assert numbers(url) == []
    sink.commit("a", [message], "end")
    sink.commit("a", [message], "end")
    again = opened(url, tmp_path)  # after a crash, by another attempt
    commit(again, "a", rows(1, 2), attempt="1", end="end")
    commit(again, "b", rows(3))
    assert numbers(url) == [1, 2, 3]
    assert list(tmp_path.rglob("*.arrow")) == []
    with pytest.raises(DataError, match="batch 'a' was published with another end"):
        commit(again, "a", rows(9), attempt="2", end="other")


def test_a_row_replaces_the_one_that_has_its_key(url, tmp_path):
    sink = opened(url, tmp_path, key="n")
    commit(sink, "a", rows(1, 2, text="old"))
    commit(sink, "b", rows(2, 3, text="first"), rows(3, text="last"))
    found = query(url, "SELECT n, text FROM t ORDER BY n")
    assert found == [(1, "old"), (2, "first"), (3, "last")]
    only_key = PostgresSink(url, "t", key=["n"], staging=str(tmp_path))
    query(url, "ALTER TABLE t DROP COLUMN text", fetch=False)
    schema = Schema.of({"n": int})
    only_key.open(schema)
    batch = pa.record_batch([pa.array([3, 4])], schema.to_arrow())
    commit(only_key, "c", batch)
    assert numbers(url) == [1, 2, 3, 4]


def without_zeros(value):
    """A value whose texts have no zero in them."""
    if isinstance(value, str):
        return value.replace("\0", "0")
    if isinstance(value, dict):
        return {name: without_zeros(part) for name, part in value.items()}
    return [without_zeros(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=30)
@given(drawn=tables(max_rows=10))
def test_all_types_round_trip(server, tmp_path_factory, drawn):
    schema, table = drawn
    for field in schema:
        if "string" in field.type.name:  # PostgreSQL has no texts with a zero
            place, kept = schema.index(field.name), without_zeros(table[field.name].to_pylist())
            column = pa.array(kept, field.type.to_arrow())
            table = table.set_column(place, table.schema.field(place), column)
    url = server.get_uri()
    for name in ("t", "headrace_batches"):
        query(url, f"DROP TABLE IF EXISTS {name}", fetch=False)
    sink = opened(url, tmp_path_factory.mktemp("staged"), schema)
    commit(sink, "a", *table.to_batches())
    names = ", ".join(
        f"extract(epoch FROM {f.name}) * 1000000" if f.type.name == "duration" else f.name
        for f in schema
    )

    found = query(url, f"SELECT {names} FROM t")
    for got, row in zip(found, table.to_pylist(), strict=True):
        for value, field in zip(got, schema, strict=True):
            expected = row[field.name]
            if isinstance(expected, dt.timedelta):
                expected = expected // dt.timedelta(microseconds=1)
            numeric = field.type.name in ("uint64", "duration") or field.type.is_decimal
            if numeric and value is not None:
                value = Decimal(value)  # of a numeric, which comes as a text
            assert from_json(value, field.type) == expected
    opened(url, tmp_path_factory.mktemp("staged"), schema)  # it fits what it has made itself


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ("n text, text text", "column 'n' would be bigint, and in the table, .* it is text"),
        ("n bigint", "column 'text' would be text, and in the table, .* it is missing"),
        ("n bigint, text text, m int NOT NULL", "needs a value for column 'm'"),
        ("n bigint, text text NOT NULL", "column 'text' may be null, and the table, .* NOT NULL"),
    ],
)
def test_tables_that_do_not_fit(url, tmp_path, table, what):
    query(url, f"CREATE TABLE t ({table})", fetch=False)
    with pytest.raises(DataError, match=what):
        opened(url, tmp_path)


def test_keys_that_are_none(url, tmp_path):
    for key in ("text", "no"):
        with pytest.raises(DataError, match=f"no column '{key}' for key= that is never null"):
            opened(url, tmp_path, key=key)
    query(url, "CREATE TABLE t (n bigint, text text)", fetch=False)
    with pytest.raises(DataError, match="no unique or exclusion constraint matching"):
        opened(url, tmp_path, key="n")


def test_a_commit_that_fails_leaves_nothing_and_can_be_repeated(url, tmp_path):
    query(url, "CREATE TABLE t (n bigint CHECK (n < 10), text text)", fetch=False)
    sink = opened(url, tmp_path)
    with pytest.raises(DataError, match="violates check constraint"):
        commit(sink, "a", rows(1, 99))
    assert numbers(url) == [] and query(url, "SELECT * FROM headrace_batches") == []
    query(url, "ALTER TABLE t DROP CONSTRAINT t_n_check", fetch=False)
    commit(opened(url, tmp_path), "a", rows(1, 99), attempt="1")
    assert numbers(url) == [1, 99]


def test_modes(url, tmp_path):
    commit(opened(url, tmp_path), "a-1", rows(1))
    with pytest.raises(DataError, match="a row is there already, and the mode is 'error'"):
        opened(url, tmp_path, mode="error")
    mine = PostgresSink(url, "t", staging=str(tmp_path), mode="overwrite")
    mine.begin("b")
    mine.open(SCHEMA)
    commit(mine, "b-1", rows(2))
    mine.open(SCHEMA)  # started again: what it has written stays
    assert numbers(url) == [2]


def test_the_server_is_gone_and_comes_back(url, server, tmp_path, monkeypatch):
    sink = opened(url, tmp_path)
    commit(sink, "a", rows(1))
    message = sink.write(rows(2), "b", "0")
    real, calls = sink._copy, []

    def restarted(database, paths):
        """The server is stopped at once in the middle of the first commit."""
        real(database, paths)
        if not calls:
            calls.append(1)
            pid = server.get_pid()
            os.kill(pid, signal.SIGQUIT)  # "immediate shutdown"
            psutil.wait_procs([psutil.Process(pid)], timeout=60)
            server.ensure_postgres_running()

    monkeypatch.setattr(sink, "_copy", restarted)
    sink.commit("b", [message])
    assert calls and numbers(url) == [1, 2]


def test_nobody_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(postgres_sink, "PATIENCE", 0.0)
    with pytest.raises(
        DataError, match=r"^postgres postgresql://127.0.0.1:1/x, table t: "
    ) as error:
        opened("postgresql://me:swordfish@127.0.0.1:1/x", tmp_path)
    assert "swordfish" not in str(error.value)


def test_a_process_that_dies_in_a_commit(url, tmp_path):
    """It is killed when the rows are copied and not committed; another one commits the batch."""
    code = """
        import os, signal, sys
        from headrace.connect.postgres_sink import PostgresSink
        from tests.connect.test_postgres_sink import SCHEMA, rows
        sink = PostgresSink(sys.argv[1], "t", staging=sys.argv[2])
        sink.open(SCHEMA)
        message = sink.write(rows(1, 2, 3), "a", "0")
        real = sink._copy
        def dying(*given):
            real(*given)
            os.kill(os.getpid(), signal.SIGKILL)
        sink._copy = dying
        sink.commit("a", [message])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), url, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=120,
    )
    assert done.returncode == -signal.SIGKILL
    assert numbers(url) == []
    commit(opened(url, tmp_path), "a", rows(1, 2, 3), attempt="1")
    assert numbers(url) == [1, 2, 3]


def test_a_sink_travels_without_showing_its_password():
    sink = PostgresSink("postgresql://me:swordfish@db/x?password=swordfish", "s.t")
    copy = pickle.loads(pickle.dumps(sink))
    for each in (sink, copy):
        assert str(each) == "postgres postgresql://db/x, table s.t"
        assert "swordfish" not in repr(vars(each))


@pytest.mark.parametrize(
    ("url", "table", "what"),
    [
        ("host=db", "t", "the database is a URL"),
        ("postgresql://db/x", "a.b.c", "use table or schema.table"),
        ("postgresql://db/x", "headrace_batches", "cannot be the name"),
    ],
)
def test_mistakes(url, table, what):
    with pytest.raises(hr.PipelineError, match=what):
        hr.read.memory({"n": [1]}).write.postgres(url, table)


@pytest.mark.parametrize("engine", ["thread", "node"])
def test_through_a_job(url, tmp_path, engine):
    numbers_in = hr.read.memory({"n": list(range(5000))})
    out = numbers_in.write.postgres(url, "t", key="n", staging=str(tmp_path))
    hr.run(out, engine=engine, compiled=False)
    assert numbers(url) == list(range(5000))
