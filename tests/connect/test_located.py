"""Errors while a pipeline runs: the same on every engine, with file, operator and line."""

import errno
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.node.endless import await_that

import headrace as hr
from headrace.connect import staging
from headrace.connect.parquet_sink import ParquetSink
from headrace.connect.sqlite_sink import SqliteSink
from headrace.connect.staging import StagedSink
from headrace.plan.errors import DataError, UnreadColumnsWarning
from headrace.plan.schema import Schema

ENGINES = ("thread", "node")


def said_by(engine, output):
    with pytest.raises(DataError) as raised:
        hr.run(output, engine=engine, compiled=False)
    return type(raised.value), str(raised.value)


def said(make):
    """What all engines say of a pipeline, made anew for each: the type and the text."""
    found = {said_by(engine, make()) for engine in ENGINES}
    assert len(found) == 1, found
    return found.pop()


def test_a_bad_row_of_a_file(tmp_path, monkeypatch):
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "a.json").write_text('{"n": 1}\n{"n": "x"}\n')
    monkeypatch.chdir(tmp_path)  # the path is whole all the same

    def make():
        lines = hr.read.json("rows", schema={"n": int}, name="lines")
        return lines.filter(hr.col("n") > 0).write.null()

    kind, text = said(make)
    assert kind is DataError
    assert text.splitlines() == [
        f"read.json 'lines': {tmp_path}/rows/a.json, line 2: column 'n': 'x' is not a value of "
        "int64",
        f"  at {Path(__file__).name}:{make.__code__.co_firstlineno + 1}: "
        'lines = hr.read.json("rows", schema={"n": int}, name="lines")',
    ]


def test_a_bad_file(tmp_path):
    pq.write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    _, text = said(lambda: hr.read.parquet(tmp_path).write.null())
    assert text.startswith(f"read.parquet: {tmp_path}/b.parquet cannot be read as Parquet: ")
    assert f"  at {Path(__file__).name}:" in text


def test_a_bad_row_of_an_iterable():
    rows = [{"n": 1}, {"n": "x"}]
    _, text = said(lambda: hr.read.iterate(iter(rows), schema={"n": int}).write.null())
    assert text.startswith("read.iterate: column 'n', row 1: 'x' is not a value of int64\n  at ")


def test_a_full_disk(tmp_path, monkeypatch):
    class Full:
        def encoded(self, rows):
            return rows

        def add(self, encoded):
            raise OSError(errno.ENOSPC, "whatever the library says")

        def close(self):
            raise OSError(errno.ENOSPC, "once more")

    monkeypatch.setattr(ParquetSink, "_writer", lambda self, path, schema: Full())
    out = tmp_path / "out"
    _, text = said(lambda: hr.read.memory({"n": [1]}).write.parquet(out, name="table"))
    first, second, third = text.splitlines()
    assert first == (
        f"write.parquet 'table': parquet {out}: {out} cannot be written: No space left on device"
    )
    assert second.startswith(f"  at {Path(__file__).name}:")
    assert third == "  fix: make room there, or write elsewhere"
    assert list(out.rglob("*")) == []


LIMITED = """
import resource, signal, sys
import headrace as hr
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
numbers = hr.read.index(2_000_000).select(root=hr.col("index").sqrt()).write.parquet(
    sys.argv[1], compression="none"
)
import headrace.job, headrace.thread, pyarrow.parquet
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    hr.run(numbers, engine="thread", compiled=False)
except hr.plan.errors.DataError as error:
    print(error)
"""


def test_a_disk_that_takes_no_more(tmp_path):
    """A real one: the size of files is limited."""
    environment = {**os.environ, "PYTHONPATH": str(Path(hr.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, tmp_path / "out"],
        capture_output=True, text=True, env=environment, check=True,
    )  # fmt: skip
    assert "write.parquet: parquet" in done.stdout
    assert "cannot be written: File too large" in done.stdout
    left = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert all(pq.read_table(path).num_rows for path in left)  # committed before, where it was slow


def test_an_error_is_located_once(tmp_path):
    (tmp_path / "a.json").write_text("x\n")
    _, text = said(lambda: hr.read.json(tmp_path, schema={"n": int}).write.null())
    assert text.count("  at ") == 1 and text.count("read.json") == 2  # once in the line


# ---- columns of types that headrace lacks --------------------------------------------------------


def frame():
    tags = pa.array([[("x", 1)]], pa.map_(pa.string(), pa.int8()))
    return pa.table({"a": [1], "tags": tags, "big": pa.array([1], pa.decimal256(39, 2))})


@pytest.mark.parametrize("kind", ["parquet", "arrow", "memory", "replay", "table"])
def test_columns_that_stay_unread_are_named(tmp_path, kind):
    table = frame()
    pq.write_table(table, tmp_path / "a.parquet")
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    make = {
        "parquet": lambda: hr.read.parquet(tmp_path),
        "arrow": lambda: hr.read.arrow(tmp_path),
        "memory": lambda: hr.read.memory(table),
        "replay": lambda: hr.read.replay(table, rows=1),
        "table": lambda: hr.table(table),
    }[kind]
    with pytest.warns(UnreadColumnsWarning) as warned:
        made = make()
    (warning,) = warned
    assert "'tags' (map<" in str(warning.message) and "'big' (decimal256" in str(warning.message)
    assert warning.filename == __file__
    if kind != "table":
        for ask in (
            lambda: made.select("tags"),
            lambda: made.filter(hr.col("a") > 0).select("tags"),
            lambda: made.with_columns(b=hr.col("a")).filter(hr.col("tags") == "x"),
            lambda: made.select("a").key_by("tags"),
        ):
            with pytest.raises(hr.PipelineError, match=r"no .*'tags'(.|\n)*it is map<.* lacks"):
                ask()


def test_a_schema_says_what_is_wanted(tmp_path):
    pq.write_table(frame(), tmp_path / "a.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hr.read.parquet(tmp_path, schema={"a": int})
        hr.read.memory({"a": [1]})


def test_what_is_unread_makes_no_other_schema():
    known, _ = (Schema.of({"a": int}), None)
    assert Schema(known.fields, (("tags", "list<string>"),)) == known
    assert hash(Schema(known.fields, (("tags", "list<string>"),))) == hash(known)


# ---- what sinks make and leave -------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_a_finished_job_leaves_no_staging_folders(tmp_path, engine):
    rows = hr.read.memory({"n": [1, 2]})
    outputs = [
        rows.write.parquet(tmp_path / "parquet"),
        rows.write.json(tmp_path / "json"),
        rows.write.sqlite(tmp_path / "rows.db", "numbers"),
        rows.write.sqlite(tmp_path / "rows.db", "others"),
    ]
    hr.run(*outputs, engine=engine, compiled=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["json", "parquet", "rows.db"]
    assert len(list((tmp_path / "parquet").iterdir())) == 1
    assert len(list((tmp_path / "json").iterdir())) == 1


def test_a_database_in_a_folder_that_is_not_there(tmp_path):
    path = tmp_path / "typo" / "rows.db"
    _, text = said(lambda: hr.read.memory({"n": [1]}).write.sqlite(path, "numbers"))
    assert f"there is no folder {tmp_path}/typo; make it, or correct the path" in text
    assert list(tmp_path.iterdir()) == []


def test_staged_rows_stay_until_they_are_committed(tmp_path):
    """A sink that is closed before a commit leaves what it staged, and only that."""
    for sink in (ParquetSink(tmp_path / "out"), SqliteSink(tmp_path / "rows.db", "numbers")):
        sink.open(Schema.of({"n": int}))
        message = sink.write(pa.record_batch({"n": [1]}), "7", "first")
        sink.close()
        other = pickled(sink)
        other.commit("7", [message])
        other.close()
        assert not sink._staging.exists()


def pickled(sink: StagedSink) -> StagedSink:
    import pickle

    return pickle.loads(pickle.dumps(sink))


def test_folders_are_made_while_others_remove_them(tmp_path, monkeypatch):
    real, tries = Path.mkdir, []

    def mkdir(self, *given, **named):
        tries.append(self)
        if len(tries) < 5:
            raise FileNotFoundError(2, "removed just now")
        return real(self, *given, **named)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    staging.make_folders(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_rows_that_wait_to_be_written_are_bounded_by_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(staging, "GROUP_BYTES", 1000)
    written, sink = [], ParquetSink(tmp_path)

    class Spy:
        def encoded(self, rows):
            return rows

        def add(self, encoded):
            written.append(encoded.num_rows)

        def close(self):
            pass

    monkeypatch.setattr(sink, "_writer", lambda path, schema: path.touch() or Spy())
    sink.open(Schema.of({"s": str}))
    for _ in range(4):
        sink.write(pa.record_batch({"s": ["x" * 600]}), "7", "first")
    await_that(lambda: sum(written) == 4)  # a thread writes them
    assert written == [2, 2]
