"""The same mistake is the same error on Spark as on one thread: type, text, notes."""

import errno
import re
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark import pipelines
from tests.spark.test_jobs import picky, reciprocal

import headrace as hr
from headrace import col
from headrace.connect.parquet_sink import ParquetSink
from headrace.plan.errors import DataError, PipelineError


class FullDisk(ParquetSink):
    """Takes nothing."""

    def write(self, rows, batch, attempt):
        raise OSError(errno.ENOSPC, "No space left on device", "rows.parquet")


def source():
    return hr.read.memory(pipelines.tables(500, 1, disorder=20)[0])


def bad_row(folder):
    return source().map(reciprocal, output="r", columns=["at"]).write.null()


def bad_row_behind_a_key(folder):
    keyed = source().key_by("user")
    return keyed.process(picky, state={"n": 0}, output="n", columns=["value"]).write.null()


def bad_expression(folder):
    return source().select(n=col("at").fill_null(0) // (col("at") - 300)).write.null()


def bad_file(folder):
    for name in "ab":
        pq.write_table(pa.table({"n": list(range(100))}), folder / f"{name}.parquet")
    stream = hr.read.parquet(folder)
    content = (folder / "b.parquet").read_bytes()
    (folder / "b.parquet").write_bytes(content[: len(content) // 2])
    return stream.write.null()


def bad_line(folder):
    (folder / "a.json").write_text('{"n": 1}\n{"n": "two"}\n')
    return hr.read.json(folder, schema={"n": int}).write.null()


def file_without_a_column(folder):
    pq.write_table(pa.table({"n": [1], "m": [2]}), folder / "a.parquet")
    pq.write_table(pa.table({"n": [1]}), folder / "b.parquet")
    return hr.read.parquet(folder).write.null()


def full_disk(folder):
    return source().write.to(FullDisk(folder / "out"))


def bad_rows_of_map_batches(folder):
    given = source().map_batches(lambda rows: rows.select(["at"]), schema={"n": int})
    return given.write.null()


CASES = [
    bad_row,
    bad_row_behind_a_key,
    bad_expression,
    bad_file,
    bad_line,
    file_without_a_column,
    full_disk,
    bad_rows_of_map_batches,
]


def error_of(output, **options) -> tuple:
    with pytest.raises(Exception) as caught:
        hr.run(output, **options)
    notes = getattr(caught.value, "__notes__", ())
    # A traceback does not travel: where an error says too little, its last lines are notes.
    kept = tuple(note for note in notes if not re.match(r"  at /.* in \w+: ", note))
    return type(caught.value), str(caught.value), kept


@pytest.mark.filterwarnings("ignore:.*GIL")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_same_error(session, tmp_path, case):
    output = case(tmp_path)
    expected = error_of(output, engine="thread", compiled=False)
    found = error_of(output, engine="spark", session=session, compiled=False, shards=1)
    assert found == expected
    assert "SQLSTATE" not in found[1] and "Spark" not in found[1]


@pytest.mark.filterwarnings("ignore:.*GIL")
def test_what_cannot_be_sent(session, tmp_path):
    """It is named, with the operator and the user's line; and nothing is left behind."""
    lock = threading.Lock()

    def guarded(rows):
        with lock:
            return rows

    made = source().map_batches(guarded, schema=source().schema)
    with pytest.raises(PipelineError) as caught:
        hr.run(made.write.null(), engine="spark", session=session, checkpoint=tmp_path / "c")
    said = str(caught.value)
    assert "map_batches_1: 'lock', which guarded() uses" in said
    assert "at test_same_errors.py:" in said and "fix: make it inside" in said
    assert not list((tmp_path / "c").rglob("plan-*"))


def test_a_file_that_is_gone_is_named_whole(session, tmp_path):
    pq.write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")
    stream = hr.read.parquet(tmp_path / "a.parquet")
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(DataError, match=str(tmp_path / "a.parquet")):
        hr.run(stream.write.null(), engine="spark", session=session)
