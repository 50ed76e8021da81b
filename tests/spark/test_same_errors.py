"""The same mistake is the same error on every engine: type, text, notes."""

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
from headrace.spark.errors import SparkError


class FullDisk(ParquetSink):
    """Takes nothing."""

    def _writer(self, path, schema):
        raise OSError(errno.ENOSPC, "No space left on device", str(path.parents[2]))


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


def bad_call_of_map_batches(folder):
    def divided(rows):
        return rows.num_rows // 0

    return source().map_batches(divided, schema={"n": int}).write.null()


def bad_pattern(folder):
    text = hr.read.memory({"s": ["2026", "x"]})
    return text.select(t=col("s").str.to_datetime("%Y")).write.null()


def bad_time(folder):
    rows = hr.read.memory({"n": [5, 4, 3]}).with_columns(t=col("n") * (1 << 62))
    counted = rows.with_watermark("t", 0).key_by("n").window(hr.tumbling(10)).agg(k=hr.count())
    return counted.write.null()


def one_of_many(folder):
    """Of the operators of a kernel only one is at fault."""
    rows = source().with_columns(a=col("at").fill_null(0) + 1).filter(col("a") // 1 > 0)
    rows = rows.map(reciprocal, output="r", columns=["at"], name="inverse")
    return rows.with_columns(s=col("r") * 2.0).write.null()


def one_of_many_behind_a_key(folder):
    keyed = source().key_by("user")
    made = keyed.process(picky, state={"n": 0}, output="n", columns=["value"])
    return made.with_columns(m=100 // col("n")).write.null()


CASES = {
    bad_row: "map",
    bad_row_behind_a_key: "process",
    bad_expression: "select",
    bad_file: "read.parquet",
    bad_line: "read.json",
    file_without_a_column: "read.parquet",
    full_disk: "write.to",
    bad_rows_of_map_batches: "map_batches",
    bad_call_of_map_batches: "map_batches",
    bad_pattern: "select",
    bad_time: "with_watermark",
    one_of_many: "map 'inverse'",
    one_of_many_behind_a_key: "process",
}
ENGINES = ("node", "spark")


def error_of(output, **options) -> tuple:
    with pytest.raises(Exception) as caught:
        hr.run(output, **options)
    notes = getattr(caught.value, "__notes__", ())
    # A traceback does not travel: where an error says too little, its last lines are notes.
    kept = tuple(note for note in notes if not re.match(r"  at /.* in \w+: ", note))
    return type(caught.value), str(caught.value), kept


@pytest.mark.filterwarnings("ignore:.*GIL")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_same_error(session, tmp_path, case, engine):
    output = case(tmp_path)
    expected = error_of(output, engine="thread", compiled=False)
    options = {"session": session, "shards": 1} if engine == "spark" else {"workers": 2}
    found = error_of(output, engine=engine, compiled=False, **options)
    assert found == expected
    said = "\n".join([found[1], *found[2]]).replace(str(tmp_path), "")
    assert "SQLSTATE" not in said and "Spark" not in said
    assert f"in operator {CASES[case]}\n" in said or said.startswith(f"{CASES[case]}: "), said
    assert "  at test_same_errors.py:" in said and not re.search(r"\w_1\b", said)


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
    assert "map_batches: 'lock', which guarded() uses" in said
    assert "at test_same_errors.py:" in said and "fix: make it inside" in said
    assert not list((tmp_path / "c").rglob("plan-*"))


def test_a_file_that_is_gone_is_named_whole(session, tmp_path):
    pq.write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")
    stream = hr.read.parquet(tmp_path / "a.parquet")
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(DataError, match=str(tmp_path / "a.parquet")):
        hr.run(stream.write.null(), engine="spark", session=session)


@pytest.mark.parametrize("streams", [False, True], ids=["batch", "stream"])
def test_an_error_of_spark(session, tmp_path, streams, capfd):
    """Spark's own words, without its names for errors, states and the way that they took."""
    session.range(5).write.parquet(str(tmp_path / "in"))
    reader = session.readStream.schema("id bigint") if streams else session.read
    rows = reader.parquet(str(tmp_path / "in")).selectExpr("cast(concat('a', id) as int) as n")
    with pytest.raises(SparkError) as caught:
        hr.run(hr.read.spark(rows).write.null(), engine="spark", session=session)
    said = str(caught.value)
    assert said.startswith("Spark: The value 'a") and "cannot be cast" in said
    assert not re.search(r"SQLSTATE|\[[A-Z_]{3,}|Traceback|java", said)
    assert "QueryContextLogger" not in capfd.readouterr().err
    if not streams:
        from pyspark.errors import PySparkException

        with pytest.raises(PySparkException):  # what users do themselves is logged as ever
            rows.collect()
