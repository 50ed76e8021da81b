"""A stage by itself: what it takes, when it works, what it gives, and in which order."""

import pyarrow as pa
import pytest

import headrace as hr
from headrace import col
from headrace.asked import planned
from headrace.plan.schema import HIDDEN_PREFIX
from headrace.stage.blocks.arrow import to_arrow
from headrace.stage.blocks.block import Block
from headrace.stage.blocks.layout import Layout
from headrace.stage.clock import FOREVER, NEVER
from headrace.stage.stage import Stage

MODES = pytest.mark.parametrize("compiled", [True, False])


def numbers(*values, time=None):
    return pa.record_batch({"n": list(values), "t": list(time or values)})


def source():
    return hr.read.memory({"n": [0], "t": [0]}, name="in")


def stage_of(*outputs, stage=None, **options):
    plan = planned(outputs, fuse=options.pop("fuse", "auto"))
    return Stage(plan.whole if stage is None else plan.stages()[stage], **options)


def rows(stage, column="n"):
    return [(name, to_arrow(block).column(column).to_pylist()) for name, block in stage.pull()]


@MODES
def test_nothing_runs_in_push(compiled):
    calls = []

    def note(batch):
        calls.append(batch.num_rows)
        return batch

    with pytest.warns(UserWarning, match="map_batches"):
        stream = source().map_batches(note, schema={"n": int, "t": int})
    stage = stage_of(stream.write.null(name="out"), compiled=compiled)
    stage.push("in", numbers(1, 2))
    assert not calls and not stage.is_idle
    assert rows(stage) == [("out", [1, 2])]
    assert calls == [2] and stage.is_idle


@MODES
def test_blocks_come_as_they_are_full_and_the_rest_at_the_end(compiled):
    kept = source().filter(col("n") % 2 == 0).write.null(name="out")
    stage = stage_of(kept, capacity=3, compiled=compiled)
    stage.push("in", numbers(*range(20)))
    assert rows(stage) == [
        ("out", [0, 2, 4]),
        ("out", [6, 8, 10]),
        ("out", [12, 14, 16]),
        ("out", [18]),
    ]


@MODES
def test_work_goes_on_only_as_far_as_it_is_pulled(compiled):
    def endless(n):
        while True:
            yield n

    stage = stage_of(
        source().flat_map(endless, output=["n"]).write.null(name="out"),
        capacity=2,
        compiled=compiled,
    )
    stage.push("in", numbers(7))
    pulled = stage.pull()
    for _ in range(5):
        name, block = next(pulled)
        assert (name, to_arrow(block).column("n").to_pylist()) == ("out", [7, 7])


@MODES
def test_the_rows_of_a_branch_reach_every_reader_in_order(compiled):
    whole = source()
    outputs = [
        whole.filter(col("n") > 2).write.null(name="large"),
        whole.write.null(name="all"),
        whole.with_columns(n=-col("n")).write.null(name="negative"),
    ]
    stage = stage_of(*outputs, capacity=2, compiled=compiled)
    stage.push("in", numbers(1, 2, 3, 4, 5))
    found = {"large": [], "all": [], "negative": []}
    for name, values in rows(stage):
        found[name] += values
    assert found == {"large": [3, 4, 5], "all": [1, 2, 3, 4, 5], "negative": [-1, -2, -3, -4, -5]}


def windows():
    return source().with_watermark("t", 0).window(hr.tumbling(10)).agg(n=hr.count())


@MODES
def test_windows_wait_for_every_channel(compiled):
    stage = stage_of(windows().write.null(name="out"), compiled=compiled)
    stage.declare("in", "a", "b")
    stage.push("in", numbers(1, 12), "a")
    assert rows(stage) == []
    stage.push("in", numbers(3, 25), "b")
    assert rows(stage) == [("out", [2])]  # both have passed 10
    stage.end("in", "a")
    assert rows(stage) == [("out", [1])]  # b has passed 20
    assert stage.outputs["out"].watermark == 25
    stage.end("in", "b")
    assert rows(stage) == [("out", [1])]
    assert stage.outputs["out"].watermark == FOREVER


@MODES
def test_a_watermark_follows_its_rows(compiled):
    stage = stage_of(windows().write.null(name="out"), compiled=compiled)
    assert stage.outputs["out"].watermark == NEVER
    stage.push("in", numbers(1, 12, 5, 30, 12))
    assert rows(stage) == [("out", [1, 1])]  # 5 and the second 12 are late
    assert stage.metrics()["window_1"]["late_rows"] == 2


@MODES
def test_a_stage_behind_an_exchange_is_told_how_time_goes(compiled):
    output = windows().write.null(name="out")
    first = stage_of(output, stage=0, compiled=compiled)
    second = stage_of(output, stage=1, compiled=compiled)
    (sent,) = first.outputs
    first.push("in", numbers(1, 2, 3, 12))
    assert next(iter(first.pull()))[1].rows == 1, "one partial result of a closed window"
    first.push("in", numbers(13, 14))
    first.flush()
    ((_, block),) = list(first.pull())
    second.push(sent, block, "0")
    second.advance(sent, 14, "0")
    assert rows(second) == []
    second.advance(sent, 20, "0")
    assert rows(second) == [("out", [3])]


@MODES
def test_blocks_can_be_pushed_too(compiled):
    stage = stage_of(
        source().with_columns(n=col("n") + 1).write.null(name="out"), compiled=compiled
    )
    layout = Layout.of(stage.inputs["in"].node.schema)
    block = Block.allocate(layout, 4)
    for k in range(len(layout.columns)):
        block.values(k)[:2] = [5, 6]
    block.rows = 2
    stage.push("in", block)
    assert rows(stage) == [("out", [6, 7])]


def test_wrong_inputs_are_refused():
    stage = stage_of(source().write.null(name="out"), compiled=False)
    with pytest.raises(KeyError, match="no input 'inn'; there are: in"):
        stage.push("inn", numbers(1))
    with pytest.raises(ValueError, match="at least one row"):
        stage_of(source().write.null(name="out"), capacity=0)
    stage.push("in", pa.record_batch({"n": [1]}))
    with pytest.raises(hr.DataError, match="'t'"):
        list(stage.pull())


@MODES
@pytest.mark.parametrize("fuse", ["auto", "none"])
def test_a_chain_of_a_thousand_operators(compiled, fuse):
    stream = source()
    for _ in range(1000):
        stream = stream.filter(col("n") >= 0)
    stage = stage_of(stream.write.null(name="out"), capacity=4, compiled=compiled, fuse=fuse)
    stage.push("in", numbers(1, -1, 2))
    assert rows(stage) == [("out", [1, 2])]


def test_equal_kernels_are_compiled_once():
    stream = source()
    for _ in range(5):
        stream = stream.filter(col("n") >= 0)
    stage = stage_of(stream.write.null(name="out"), fuse="none")
    kernels = [unit.kernel._rows for unit in stage._units if hasattr(unit, "kernel")]
    assert len(kernels) == 5
    assert len(set(kernels)) == 1


@MODES
def test_a_flush_takes_rows_along_that_are_on_their_way(compiled):
    """Unfused, rows wait in half-filled blocks between kernels: they belong to the flush too."""
    output = source().with_columns(t=col("t") + 1).with_watermark("t", 0).window(hr.tumbling(10))
    plan = planned([output.agg(n=hr.count()).write.null(name="out")], fuse="none")
    stage = Stage(plan.stages()[0], compiled=compiled)
    stage.push("in", numbers(1, 2, 3))
    stage.flush()
    ((_, block),) = list(stage.pull())
    assert to_arrow(block).column(f"{HIDDEN_PREFIX}count_0").to_pylist() == [3]


def three_times(n):
    yield n
    yield n
    yield n


@pytest.mark.parametrize("capacity", [1, 2, 3, 4])
def test_blocks_never_hold_more_than_they_can(capacity):
    """Many blocks are driven in one call; an output that is full inside a row is taken first."""
    stage = stage_of(
        source().flat_map(three_times, output=["n"]).write.null(name="out"), capacity=capacity
    )
    stage.push("in", numbers(*range(50)))
    found = []
    for _, block in stage.pull():
        assert 0 < block.rows <= capacity
        found += to_arrow(block).column("n").to_pylist()
    assert found == [n for n in range(50) for _ in range(3)]
