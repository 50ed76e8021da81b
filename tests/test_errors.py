"""Errors in user code: the user's exception, where it happened, and nothing changed by the row."""

import subprocess
import sys
import traceback

import pyarrow as pa
import pytest

import headrace as hr
from headrace import col
from headrace.asked import planned
from headrace.stage.blocks.arrow import to_arrow
from headrace.stage.stage import Stage

MODES = pytest.mark.parametrize("compiled", [True, False])


def source():
    return hr.read.memory({"key": [1, 2, 1, 2, 1], "x": [5, 4, 3, 0, 2]}, name="numbers")


@hr.udf
def inverse(x):
    return 60 // x


def divide(x):
    return 60 // x, x


def spread(x):
    yield 1
    yield 60 // x


def total(state, x):
    state.count += 1
    state.total += x
    yield state.total
    yield 60 // x


def table_lookup(x):
    return (10, 20, 30, 40)[x]


STREAMS = {
    "udf": lambda: source().with_columns(y=inverse(col("x"))),
    "map": lambda: source().map(divide, output=["y", "z"]),
    "flat_map": lambda: source().flat_map(spread, output=["y"]),
    "process": lambda: (
        source().key_by("key").process(total, state={"count": int, "total": int}, output=["y"])
    ),
    "expression": lambda: source().with_columns(y=60 // col("x")),
    "filter": lambda: source().filter(60 % col("x") == 0),
    "behind a filter": lambda: source().filter(col("key") == 2).map(divide, output=["y", "z"]),
    "in an aggregate": lambda: (
        source().with_watermark("x", 9).window(hr.tumbling(5)).agg(s=hr.sum(60 // col("x")))
    ),
    "in the time": lambda: (
        source()
        .with_columns(t=60 // col("x"))
        .with_watermark("t", 9)
        .window(hr.tumbling(5))
        .agg(n=hr.count())
    ),
}


@MODES
@pytest.mark.parametrize("where", STREAMS)
def test_the_error_says_what_and_where(where, compiled):
    with pytest.raises(ZeroDivisionError) as caught:
        hr.run(STREAMS[where]().write.null(), compiled=compiled)
    notes = "\n".join(caught.value.__notes__)
    assert "x=0" in notes, "the values of the row"
    assert "in operator" in notes
    assert "test_errors.py:" in notes, "the user's line"
    shown = "".join(traceback.format_exception(caught.value)).splitlines()
    assert len(shown) <= 15 + 4, shown  # pytest.raises itself adds two frames


@MODES
def test_an_index_is_checked(compiled):
    with pytest.raises(IndexError) as caught:
        hr.run(source().map(table_lookup, output=["y"]).write.null(), compiled=compiled)
    assert "x=5" in "\n".join(caught.value.__notes__)


@MODES
@pytest.mark.parametrize("capacity", [1, 2, 100])
def test_the_row_leaves_state_as_it_was(compiled, capacity):
    stream = STREAMS["process"]()
    plan = planned([stream.write.null(name="out")])
    stage = Stage(plan.whole, compiled=compiled, capacity=capacity)
    rows = source().node.connector.open("0").poll(10, 0).rows
    stage.push("numbers", rows, "0")
    with pytest.raises(ZeroDivisionError):
        list(stage.pull())
    kernel = next(unit.kernel for unit in stage._units if hasattr(unit, "kernel"))
    columns = kernel.functions.numbered_columns()
    saved, _ = kernel.functions.save(kernel.store, columns, range(kernel.store.count))
    assert saved.to_pylist() == [
        {"key_0": 1, "field_0": 2, "field_1": 8},
        {"key_0": 2, "field_0": 1, "field_1": 4},
    ]


def test_a_script_shows_at_most_fifteen_lines(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import headrace as hr\n"
        "def share(x):\n"
        "    whole = x * 10\n"
        "    return whole // (x - 3)\n"
        "numbers = hr.read.memory({'x': [1, 2, 3]})\n"
        "hr.run(numbers.map(share, output=['y']).write.null())\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=240, check=False
    )
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 1 and len(lines) <= 15, done.stderr
    assert "return whole // (x - 3)" in done.stderr
    assert "ZeroDivisionError" in done.stderr and "x=3" in done.stderr


@MODES
def test_an_overflow_is_an_error_not_a_wrong_number(compiled):
    big = hr.read.memory({"n": [2**62, 2**62]}, name="big")
    with pytest.raises(OverflowError):
        hr.run(big.with_columns(n=col("n") * 4).write.null(), compiled=compiled)
    summed = big.with_columns(t=col("n") * 0).with_watermark("t", 0).window(hr.tumbling(5))
    with pytest.raises(OverflowError) as caught:
        hr.run(summed.agg(s=hr.sum("n")).write.null(), compiled=compiled)
    assert "in operator" in "\n".join(caught.value.__notes__)


def count_up(n):
    k = 0
    while k < n:
        yield k
        k += 1


@pytest.mark.parametrize("rows", [30_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
def test_one_row_may_give_a_great_many_into_blocks_of_one_row(rows):
    stream = hr.read.memory({"n": [rows]}, name="one").flat_map(count_up, output=["k"])
    stage = Stage(planned([stream.write.null(name="out")]).whole, capacity=1)
    stage.push("one", pa.record_batch({"n": [rows]}), "0")
    seen = 0
    for _, block in stage.pull():
        assert block.rows == 1 and (seen % 1000 or to_arrow(block)["k"][0].as_py() == seen)
        seen += 1
    assert seen == rows


def remember(state, word):
    state.last = word + word
    state.count += 1
    if state.count % 500 == 0:
        yield state.count, state.last


@MODES
def test_strings_in_state_do_not_pile_up(compiled):
    """What a state no longer needs is given back."""
    repeat = 6000 if compiled else 1000
    words = [f"word number {n % 50} and {'more ' * 40}" for n in range(repeat)]
    stream = hr.read.memory({"key": [n % 5 for n in range(repeat)], "word": words}, name="words")
    made = stream.key_by("key").process(
        remember, state={"count": int, "last": str}, output=["n", "last"]
    )
    out = made.write.collect()
    job = hr.run(out, compiled=compiled)
    result = out.result().to_pylist()
    assert [row["n"] for row in result] == sorted(row["n"] for row in result)
    assert all(row["last"] == words[row["n"] * 5 - 5 + row["key"]] * 2 for row in result)
    kept = job.metrics()["process_1"]["state_bytes"]
    assert kept < 5_000_000
    assert sum(map(len, words)) * 2 > (2_500_000 if compiled else 0)


@MODES
def test_an_error_far_inside_a_large_batch(compiled):
    """Many blocks are driven in one call: the row is found all the same."""
    rows, bad = (50_000, 33_333) if compiled else (600, 333)
    numbers = hr.read.memory({"x": [n - bad for n in range(rows)]}, name="many")
    plan = planned([numbers.with_columns(y=60 // col("x")).write.null(name="out")])
    stage = Stage(plan.whole, compiled=compiled, capacity=1024 if compiled else 50)
    stage.push("many", numbers.node.connector.open("0").poll(rows, 0).rows, "0")
    given = 0
    with pytest.raises(ZeroDivisionError) as caught:
        for _, block in stage.pull():
            given += block.rows
    assert "x=0" in "\n".join(caught.value.__notes__)
    assert bad - stage.capacity <= given <= bad


def test_building_shows_no_line_of_ours(tmp_path):
    program = tmp_path / "wrong.py"
    program.write_text(
        "import headrace as hr\n\n\ndef build():\n"
        '    return hr.read.memory({"n": [1]}).filter(hr.col("m") > 1)\n\n\nbuild()\n'
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert done.returncode == 1
    shown = [line for line in done.stderr.splitlines() if line.startswith("  File ")]
    assert [line.split(", ")[1:] for line in shown] == [
        ["line 8", "in <module>"],
        ["line 5", "in build"],
    ]
    assert "filter: no column 'm'" in done.stderr and "fix: there are: n" in done.stderr
