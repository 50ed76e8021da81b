"""The sinks that write no files: collect, callback, console, null."""

import io
import math

import pyarrow as pa
import pytest
from hypothesis import given
from tests.connect.data import tables

import headrace as hr
from headrace.connect.callback import CallbackSink
from headrace.connect.collect import CollectSink
from headrace.connect.console import ConsoleSink
from headrace.connect.null import NullSink
from headrace.plan.connector import Sink
from headrace.plan.errors import DataError, PipelineError
from headrace.plan.schema import Schema

SCHEMA = Schema.of({"n": int})


def rows(*numbers):
    return pa.record_batch({"n": pa.array(numbers, pa.int64())})


@pytest.mark.parametrize(
    "sink", [CollectSink(), CallbackSink(print), ConsoleSink(), NullSink()], ids=str
)
def test_they_follow_the_protocol(sink):
    assert isinstance(sink, Sink)
    assert isinstance(sink.exactly_once, bool)


def test_collect_takes_a_batch_once_and_no_dead_attempts():
    sink = CollectSink()
    with pytest.raises(DataError, match="there is no result yet"):
        sink.result()
    sink.open(SCHEMA)
    sink.write(rows(9), "a", "dead")
    sink.write(rows(8), "a", "aborted")
    sink.abort("a", "aborted")
    messages = [sink.write(rows(1), "a", "0"), sink.write(rows(2), "a", "0")]
    assert sink.result().num_rows == 0
    sink.commit("a", messages)
    sink.commit("a", messages)
    sink.commit("a", [sink.write(rows(1, 2), "a", "1")])
    assert sink.result()["n"].to_pylist() == [1, 2]
    assert sink.result().schema == SCHEMA.to_arrow()
    sink.open(SCHEMA)
    assert sink.result().num_rows == 0


@given(tables())
def test_collect_gives_back_what_it_got(drawn):
    schema, table = drawn
    sink = CollectSink()
    sink.open(schema)
    sink.commit("a", [sink.write(batch, "a", "0") for batch in table.to_batches()])
    assert sink.result().equals(table)


def test_null_counts_committed_rows_once():
    sink = NullSink()
    sink.open(SCHEMA)
    messages = [sink.write(rows(1, 2), "a", "0"), sink.write(rows(3), "a", "0")]
    sink.write(rows(9), "a", "dead")
    assert sink.rows == 0
    sink.commit("a", messages)
    sink.commit("a", messages)
    assert sink.rows == 3
    sink.open(SCHEMA)
    assert sink.rows == 0


def test_callback_gets_each_batch_and_its_errors_surface():
    got = []
    CallbackSink(got.append).write(rows(1, 2), "a", "0")
    assert got == [rows(1, 2)]

    def failing(batch):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        CallbackSink(failing).write(rows(1), "a", "0")
    with pytest.raises(TypeError, match="5 is not a function"):
        CallbackSink(5)


def printed(schema, *batches, limit=20):
    file = io.StringIO()
    sink = ConsoleSink(limit, file=file)
    sink.open(Schema.of(schema))
    for batch in batches:
        sink.write(batch, "a", "0")
    sink.close()
    sink.close()
    return file.getvalue().splitlines()


def test_console_aligns_and_limits():
    first = pa.record_batch({"who": ["ann", None], "n": [1, 20], "f": [0.5, math.nan]})
    second = pa.record_batch({"who": ["a" * 50, "x\ny"], "n": [1, 2], "f": [1e9, 1 / 3]})
    lines = printed({"who": str, "n": int, "f": float}, first, second, second, limit=4)
    assert lines[:4] == [
        "who    n    f",
        "────  ──  ───",
        "ann    1  0.5",
        "null  20  nan",
    ]
    assert lines[4] == "a" * 39 + "…   1     1e+09"
    assert lines[5].startswith("x\\ny ") and lines[5].endswith("0.333333")
    assert lines[6:] == ["… and 2 more rows"]


def test_console_without_limit_and_without_rows():
    assert len(printed({"n": int}, rows(*range(50)), limit=None)) == 52
    assert printed({"n": int}) == []
    assert printed({"n": int}, rows(1), limit=0) == ["… and 1 more row"]


@pytest.mark.parametrize("engine", ["thread", "node"])
def test_two_sinks_need_two_places(tmp_path, engine):
    """Batches of a job have one name: the second sink's would pass for published."""
    numbers = hr.read.memory({"n": [1, 2, 3]})
    outputs = [numbers.write.parquet(tmp_path / "out") for _ in range(2)]
    with pytest.raises(
        PipelineError, match=r"write.parquet: .*out is written to at test_sinks.py:.*, too"
    ):
        hr.run(*outputs, engine=engine)
