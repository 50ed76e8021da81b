"""The testing kit itself, and reading and writing as users name it."""

import datetime as dt
import math
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.connect.data import read_all

from headrace import read
from headrace.connect.null import NullSink
from headrace.expr import col
from headrace.job import run
from headrace.plan.connector import Source, is_replayable
from headrace.plan.errors import DataError, PipelineError
from headrace.plan.graph import walk
from headrace.plan.nodes import Sink
from headrace.plan.schema import Schema
from headrace.plan.types import optional
from headrace.table import table
from headrace.testing import (
    ABORT,
    END,
    PAUSE,
    Abort,
    Aborted,
    Pause,
    TestSource,
    VirtualClock,
    assert_same_rows,
    rows_of,
)


def numbers(reader, **options):
    return [row["n"] for row in read_all(reader, **options)[0]]


def row(n):
    return {"n": n}


# ---------------------------------------------------------------- the test source


def test_rows_in_a_row_come_together_and_lists_as_they_are():
    source = TestSource([row(1), row(2), [row(3)], [row(4), row(5)], pa.table({"n": [6]})])
    assert isinstance(source, Source) and is_replayable(source)
    reader, sizes = source.open("0"), []
    while not (batch := reader.poll(10, 0.0)).ended:
        sizes.append(batch.rows.num_rows)
    assert sizes == [2, 1, 2, 1]
    assert numbers(source.open("0"), max_rows=1) == [1, 2, 3, 4, 5, 6]
    assert source.opened == {"0": 2}


def test_any_range_of_a_script_can_be_read_again():
    source = TestSource([row(1), row(2), [row(3), row(4)], [], row(5)])
    rows, positions = read_all(source.open("0"), 1)
    for i, (low, start) in enumerate(positions):
        for high, stop in positions[i:]:
            assert read_all(source.open("0", start, stop), 2)[0] == rows[low:high]
    assert positions[-1][1] == source.latest()["0"]


def test_end_ends_and_the_next_reader_goes_on():
    source = TestSource([row(1), END, row(2)])
    rows, positions = read_all(source.open("0"))
    assert rows == [row(1)]
    assert numbers(source.open("0", positions[-1][1])) == [2]
    assert numbers(source.open("0")) == [1]


def test_abort_raises_once_after_the_rows_before_it():
    source = TestSource([row(1), ABORT, row(2), Abort(OSError("disk")), row(3)])
    reader = source.open("0")
    assert reader.poll(10, 0.0).rows.to_pylist() == [row(1)]
    with pytest.raises(Aborted, match="step 1 of channel 0"):
        reader.poll(10, 0.0)
    again = source.open("0")
    again.poll(10, 0.0), again.poll(10, 0.0)
    with pytest.raises(OSError, match="disk"):
        again.poll(10, 0.0)
    assert numbers(source.open("0")) == [1, 2, 3]


def test_pause_ends_with_the_clock_or_with_resume():
    clock = VirtualClock()
    source = TestSource([PAUSE, row(1), Pause(5.0), row(2), Pause(5.0), row(3)], clock=clock)
    reader = source.open("0")
    assert reader.poll(10, 0.0).rows is None
    clock.advance(0.1)
    assert reader.poll(10, 0.0).rows.to_pylist() == [row(1)]
    assert reader.poll(10, 0.0).rows is None
    clock.advance(4.9)
    assert reader.poll(10, 0.0).rows is None
    clock.advance(0.1)
    assert reader.poll(10, 0.0).rows.to_pylist() == [row(2)]
    assert reader.poll(10, 0.0).rows is None
    source.resume()
    assert reader.poll(10, 0.0).rows.to_pylist() == [row(3)]
    assert numbers(source.open("0")) == [1, 2, 3], "a pause is made once"


def test_a_poll_that_waits_is_woken():
    source = TestSource([PAUSE, row(1)])
    threading.Timer(0.02, source.resume).start()
    assert source.open("0").poll(10, 30.0).rows.to_pylist() == [row(1)]
    quick = TestSource([Pause(3600.0), row(1)], clock=VirtualClock(automatic=True))
    assert numbers(quick.open("0")) == [1]


def test_channels_have_scripts_of_their_own():
    source = TestSource({"left": [row(1), None_ := {"n": None}], "right": [END]})
    assert source.channels() == ["left", "right"]
    assert source.schema() == Schema.of({"n": optional(int)})
    assert rows_of([read_all(source.open("left"))[0]]) == [row(1), None_]
    assert read_all(source.open("right"))[0] == []
    source.committed("left", [1, 0])
    assert source.commits == {"left": [1, 0]}
    with pytest.raises(DataError, match="no channel 'x'"):
        source.open("x")
    with pytest.raises(DataError, match="needs schema="):
        TestSource([END])
    assert numbers(TestSource([END], schema={"n": int}).open("0")) == []


def test_a_closed_reader_gives_neither_rows_nor_the_end():
    reader = TestSource([row(1)]).open("0", columns=["n"])
    reader.close()
    assert (reader.poll(1, 0.0).rows, reader.poll(1, 0.0).ended) == (None, False)


def test_the_clock_does_not_go_back():
    with pytest.raises(ValueError, match="does not go back"):
        VirtualClock().advance(-1)


# ---------------------------------------------------------------- comparing rows

NAN = math.nan


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([row(1), row(2)], [row(2), row(1)]),
        ([row(NAN)], [row(NAN)]),
        ([row(None)], [row(None)]),
        ([{"a": 1, "b": 2}], [{"b": 2, "a": 1}]),
        ([row(dt.datetime(2024, 1, 1))], [row(dt.datetime(2024, 1, 1, tzinfo=dt.UTC))]),
        (pa.table({"n": [1, 2]}), [pa.record_batch({"n": [2]}), row(1)]),
        ({"n": [1]}, [row(1)]),
        ([], []),
    ],
)
def test_the_same_rows(found, expected):
    assert_same_rows(found, expected)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([row(1)], [row(1), row(1)]),
        ([row(NAN)], [row(None)]),
        ([row(0)], [row(None)]),
        ([row(1)], [row(True)]),
        ([row("1")], [row(1)]),
        ([{"n": 1, "m": None}], [row(1)]),
        ([{"m": 1}], [row(1)]),
    ],
)
@pytest.mark.parametrize("ordered", [False, True])
def test_not_the_same_rows(found, expected, ordered):
    with pytest.raises(AssertionError):
        assert_same_rows(found, expected, ordered=ordered)


def message(found, expected, **options):
    with pytest.raises(AssertionError) as raised:
        assert_same_rows(found, expected, **options)
    return str(raised.value).splitlines()


def test_the_difference_is_readable():
    assert message([row(1), row(2)], [row(2), row(1)], ordered=True) == [
        "2 rows found, 2 expected",
        "row 0 differs in n:",
        "  found    {'n': 1}",
        "  expected {'n': 2}",
    ]
    assert message([row(1)], [row(1), row(2)], ordered=True) == [
        "1 rows found, 2 expected",
        "missing at the end 1:",
        "  {'n': 2}",
    ]
    many = message([row(n) for n in range(100)], [])
    assert many[1] == "not expected 100:" and many[-1] == "  ... and 90 more" and len(many) == 13


# ---------------------------------------------------------------- read, write and table


def test_read_makes_named_sources():
    stream = read.memory({"n": [1, None]}, name="numbers")
    assert (stream.node.name, stream.schema) == ("numbers", Schema.of({"n": optional(int)}))
    assert "read.memory" in stream.node.site.text
    assert read.iterate([row(1)]).schema == read.index(3).rename(index="n").schema
    assert read.source(TestSource([row(1)])).schema == Schema.of({"n": int})


@pytest.mark.compiled
def test_generate_is_an_index_and_a_map():
    stream = read.generate(lambda i: (i, i / 2), output=["index", "half"], rows=5, channels=2)
    assert stream.schema == Schema.of({"index": int, "half": float})
    source, _ = walk([stream.node])
    assert source.connector.channels() == ["0", "1"]


MAPS = pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))  # we have no such type


@pytest.mark.parametrize(
    ("build", "operator", "what"),
    [
        (lambda: read.memory(5), "read.memory", "a int is not data"),
        (
            lambda: read.memory({"n": [1]}, schema={"n": list}),
            "read.memory",
            "is not a column type",
        ),
        (
            lambda: read.memory({"headrace:n": [1]}),
            "read.memory",
            "'headrace:n' is a reserved name",
        ),
        (lambda: read.memory({"n": [1]}, name=""), "read.memory", "name='' is not the name"),
        (lambda: read.memory(pa.table({"n": MAPS})), "read.memory", "no column is left"),
        (lambda: read.index(rows=-1), "read.index", "rows=-1: cannot be negative"),
        (lambda: read.iterate([]), "read.iterate", "there is no first row"),
        (lambda: read.parquet("nowhere"), "read.parquet", "there is no file or folder nowhere"),
        (lambda: read.source(5), "read.source", "5 is not a source connector"),
        (lambda: read.index(1).write.callback(5), "write.callback", "5 is not a function"),
        (lambda: read.index(1).write.to(5), "write.to", "5 is not a sink connector"),
        (lambda: read.index(1).write.parquet("s3://x"), "write.parquet", "s3://x is a URL"),
        (lambda: table("nowhere.parquet"), "table", "there is no file or folder"),
        (lambda: table([1, 2]), "table", "a list is not data"),
    ],
)
def test_mistakes_are_said_with_the_line(build, operator, what):
    with pytest.raises(PipelineError) as raised:
        build()
    assert raised.value.operator == operator
    assert what in str(raised.value)
    assert "test_testing.py" in str(raised.value)


def test_write_makes_sink_nodes():
    stream = read.memory({"n": [1]})
    outputs = [
        stream.write.collect(name="kept"),
        stream.write.callback(print),
        stream.write.parquet("out"),
        stream.write.console(limit=5),
        stream.write.null(),
        stream.write.to(NullSink()),
    ]
    assert [str(output.connector) for output in outputs] == [
        *("collect", "callback print", "parquet out", "console, 5 rows", "null", "null")
    ]
    assert all(isinstance(output.node, Sink) for output in outputs)
    assert outputs[0].node.name == "kept" and outputs[0].node.input is stream.node
    with pytest.raises(DataError, match=r"give the output to hr\.run first"):
        outputs[0].result()
    assert outputs[4].rows == 0


@pytest.mark.compiled
def test_rows_of_a_stream_are_those_of_its_run():
    clock = VirtualClock(automatic=True)
    source = TestSource({"a": [row(1), Pause(60.0), row(2)], "b": [row(3), END]}, clock=clock)
    assert_same_rows(read.source(source), [row(1), row(2), row(3)])


@pytest.mark.compiled
def test_files_and_generated_rows_go_through_a_run(tmp_path):
    made = read.generate(lambda i: (i, i % 3), output=["n", "m"], rows=1000, channels=3)
    counted, twice = made.write.null(), made.write.parquet(tmp_path / "rows")
    run(counted, twice)
    run(twice)
    assert counted.rows == 1000
    stored = read.parquet(tmp_path / "rows").filter(col("n") >= 995)
    wanted = [{"n": n, "m": n % 3} for n in range(995, 1000)]
    assert_same_rows(stored, wanted * 2)
    assert not (tmp_path / "rows" / "_staging").exists()


def test_tables_of_all_kinds(tmp_path):
    pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "ads.parquet")
    path = tmp_path / "ads.parquet"
    for data, name in ((path, "ads"), (str(path), "ads"), ({"n": [1, 2]}, "table")):
        made = table(data)
        assert (made.name, made.schema.names) == (name, ("n",))
        assert made.load().to_pylist() == [row(1), row(2)]
    strict = table(path, schema={"n": int}, name="strict")
    assert (strict.name, strict.schema) == ("strict", Schema.of({"n": int}))
    assert table(pa.table({"n": [1]})).schema == Schema.of({"n": int})
