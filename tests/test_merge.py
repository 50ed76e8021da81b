"""Streams in the order of event time, one or several as one: the rows of the reference in its
order, when their time has come, late rows, saved, and what goes wrong."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from tests.choices import Choices, Seeded, choices, fewer
from tests.naive import naive, rows_of
from tests.node.fed import SECONDS, Fed, reached
from tests.random_rows import tables
from tests.running import assert_same, check, check_anyhow, check_on_engines, check_over_shards
from tests.saving import check_saved, cuts
from tests.spark import pipelines
from tests.spark.shards import Engine

import headrace as hr
from headrace import PipelineError, col
from headrace.asked import planned
from headrace.plan.graph import walk
from headrace.plan.schema import Field, Schema
from headrace.plan.types import float64, int64, optional, string
from headrace.stage.blocks.arrow import to_arrow
from headrace.stage.stage import Stage

pytestmark = pytest.mark.timeout(600)


def noted(state, t):
    state.n += 1
    yield t, state.n, state.last
    state.last = t


def last_seen(state, t, x):
    state.n += 1
    yield t, state.n


def pipeline(choose: Choices, channels: int = 1, most: int = 25) -> list:
    """Streams that are out of order, some of them empty; what comes too late; and what sees rows by
    time behind them: a state, running aggregates, timers, windows, an as-of join, another merge."""
    time = choose.pick([int64, optional(int64)])
    fields = {"t": time, "k": optional(string), "x": optional(int64), "f": float64}
    schema = Schema(tuple(Field(name, kind) for name, kind in fields.items()))
    streams = [
        hr.read.memory(rows, schema=schema, name=f"input_{k}").with_watermark(
            "t", choose.pick([0, 4, 20])
        )
        for k in range(choose.number(1, 3))
        for rows in [tables(choose, schema, channels=channels, most=most, disorder=12)]
    ]
    merged = streams[0].merge(*streams[1:], streams[0].filter(col("x") > 2))
    alone = streams[-1].with_columns(n=col("x") > 2).sort_by_time().select("t", "k", "n")
    state = {"n": int, "last": hr.optional(int)}
    output = {"at": time, "n": int, "last": hr.optional(int)}
    keyed = merged.key_by("k")
    in_state = keyed.process(noted, state=state, output=output)
    timed = keyed.process(last_seen, state=state, output={"t": time, "m": int}, ttl=7)
    windows = keyed.window(hr.tumbling(10)).agg(n=hr.count(), s=hr.sum("f"), l=hr.last("x"))
    versions = alone.rename(t="u")
    behind = [
        [in_state, keyed.running(n=hr.count(), s=hr.sum("f"))],
        [timed, timed.late()],
        [windows, windows.late()],
        [merged.asof_join(versions, "k", how="left")],
        [merged.merge(merged.filter(col("x") < 3)).filter(col("f") >= 0).select("k")],
    ]
    made = [merged, merged.late(), alone, streams[-1].sort_by_time().late().select("k")]
    return [each.write.collect() for each in [*made, *choose.pick(behind)]]


@given(choose=choices())
def test_rows_agree_with_the_reference(choose):
    """All in order, and no row is late behind that."""
    outputs = pipeline(choose)
    check_anyhow(outputs, choose)
    late = [rows for out, rows in zip(outputs, naive(outputs)) if out.node.input.kind == "late"]
    assert not any(late)


@fewer
@given(choose=choices())
def test_rows_over_shards(choose):
    check_over_shards(pipeline(choose, most=15)[:4], choose)


@fewer
@given(choose=choices())
def test_rows_of_several_channels(choose):
    """Which of equal times in one input comes first is not said, which rows there are is."""
    check_over_shards(pipeline(choose, channels=3, most=15)[:4], choose)


@pytest.mark.parametrize("ordering", ["total", "none"])
@pytest.mark.parametrize("workers", [1, 3])
def test_rows_on_workers(workers, ordering):
    """What keeps state behind it sees them in order, whatever sinks are promised."""
    for seed in range(3):
        outputs = pipeline(Seeded(seed), most=60)
        options = {"workers": workers, "ordering": ordering, "capacity": 16}
        hr.run(*outputs, engine="node", compiled=False, **options)
        for k, (output, expected) in enumerate(zip(outputs, naive(outputs), strict=True)):
            ordered = ordering == "total" and k != 1  # late rows come as they do in a union
            assert_same(rows_of(output.result()), expected, ordered=ordered)


@pytest.mark.compiled
def test_compiled_rows_agree_on_engines():
    outputs = pipeline(Seeded(7), most=300)
    check_on_engines(outputs[:1] + outputs[2:3] + outputs[4:], Seeded(7), ordered=True)


def test_timestamps_and_bytes_and_lists():
    """Any type of column waits."""
    start = dt.datetime(2020, 1, 1)
    rows = {
        "t": [start + dt.timedelta(seconds=k * 7 % 5) for k in range(5)],
        "b": [b"a", None, b"c" * 30, b"", b"e"],
        "l": [["a", "b" * 20], [], None, ["c"], ["d"]],
    }
    stream = hr.read.memory(rows).with_watermark("t", "10s")
    rows = stream.merge(stream.filter(col("b").is_not_null())).merge(stream)
    made = rows.write.collect()
    assert check([made])


# ---- when they come ------------------------------------------------------------------------


def stage_of(stream):
    """A stage, and what pushes times of an input into it and gives those that come."""
    stage = Stage(planned([stream.write.null(name="out")]).whole, compiled=False)
    for name in ("one", "two"):
        stage.declare(name, "0")

    def given():
        rows = [row for _, block in stage.pull() for row in to_arrow(block).to_pylist()]
        return [(row["t"], row["x"]) for row in rows]

    def after(name, *times):
        rows = {"t": list(times), "x": [f"{name} {number}" for number in range(len(times))]}
        stage.push(name, pa.record_batch(rows), "0")
        return given()

    def at_the_end_of(name):
        stage.end(name, "0")
        return given()

    return stage, after, at_the_end_of


def two_inputs(bound=0):
    return [
        hr.read.memory({"t": [0], "x": [""]}, name=name).with_watermark("t", bound)
        for name in ("one", "two")
    ]


def test_rows_come_when_the_smallest_watermark_is_behind_them():
    one, two = two_inputs()
    _, after, at_the_end_of = stage_of(one.merge(two))
    assert after("one", 1, 1, 3) == []
    assert after("two", 1) == []  # another row of 1 may come
    assert after("two", 1, 2) == [(1, "one 0"), (1, "one 1"), (1, "two 0"), (1, "two 0")]
    assert after("two", 9) == [(2, "two 1")]  # the first one may bring another 3
    assert after("one", 2, 7) == [(3, "one 2")]  # 2 is late
    assert at_the_end_of("one") == [(7, "one 1")]
    assert after("two", 12) == [(9, "two 0")]
    assert at_the_end_of("two") == [(12, "two 0")]


def test_an_input_that_brings_nothing_holds_the_others_until_it_ends():
    one, two = two_inputs()
    _, after, at_the_end_of = stage_of(one.merge(two))
    assert after("one", 1, 2, 3) == []
    assert at_the_end_of("one") == []
    assert at_the_end_of("two") == [(1, "one 0"), (2, "one 1"), (3, "one 2")]


def test_one_stream_waits_for_its_own_watermark():
    one, _ = two_inputs(bound=3)
    stage = Stage(planned([one.sort_by_time().write.null(name="out")]).whole, compiled=False)

    def after(*times):
        stage.push("one", pa.record_batch({"t": list(times), "x": [""] * len(times)}), "0")
        return [t for _, block in stage.pull() for t in to_arrow(block)["t"].to_pylist()]

    assert after(5, 3, 4) == []
    assert after(7) == [3]
    assert after(4, 8) == [4, 4]
    assert after(20) == [5, 7, 8]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_idle_input_holds_nobody(workers):
    """And what it brings then, behind the watermark, is late."""
    sources, found, late = (Fed("a"), Fed("b")), [], []
    one, two = (hr.read.source(source).with_watermark("t", 0) for source in sources)
    merged = one.merge(two)
    outputs = [
        merged.write.callback(lambda batch: found.extend(batch["t"].to_pylist())),
        merged.late().write.callback(lambda batch: late.extend(batch["t"].to_pylist())),
    ]
    job = hr.start(*outputs, engine="node", workers=workers, compiled=False, idle="300ms")
    sources[1].give("b", 2)
    times = iter(range(3, 1_000_000))

    def fed_further():
        sources[0].give("a", next(times))
        return len(found) > 3

    assert reached(fed_further)
    sources[1].give("b", 3)
    assert reached(lambda: late)
    for source in sources:
        source.end()
    assert job.await_termination(SECONDS) and job.status == "finished"
    assert late == [3] and found == list(range(2, next(times)))


# ---- what waits ----------------------------------------------------------------------------


def test_rows_that_wait_are_state():
    """They are in metrics, and forgotten when they are given; more than a pane takes."""
    one, two = two_inputs()
    stage, after, at_the_end_of = stage_of(one.merge(two))

    def kept():
        return max(metrics.get("state_keys", 0) for metrics in stage.metrics().values())

    for start in range(0, 20_000, 1_000):
        assert after("one", *range(start, start + 1_000)) == []
    assert kept() == 20_000
    assert len(after("two", 19_990)) == 19_990
    assert kept() < 2_000 + (1 << 14)
    assert len(at_the_end_of("one")) == 0
    assert len(at_the_end_of("two")) == 11
    assert kept() == 0


def test_rows_that_wait_have_a_budget():
    """An input that is far ahead of a silent one."""
    source = Fed("a")
    rows = hr.read.memory({"t": range(100_000)}, schema={"t": int}).with_watermark("t", 0)
    silent = hr.read.source(source).with_watermark("t", 0)
    merged = silent.merge(rows).write.null()
    try:
        with pytest.raises(hr.MemoryBudgetError, match="sort_by_time_1"):
            hr.run(merged, engine="node", workers=1, compiled=False, memory="4 MiB", capacity=256)
    finally:
        source.end()


# ---- saved ---------------------------------------------------------------------------------


def events(first, last):
    numbers = range(first, last)
    words = [None if n % 5 == 0 else f"{'a long word, number ' * (n % 3)}{n}" for n in numbers]
    times = [n // 4 + 10 * (n // 40) - (n * 13 % 7) for n in numbers]
    return pa.record_batch({"s": words, "x": list(numbers), "t": times})


@given(cuts=cuts(120))
def test_saved_and_restored_anywhere(cuts):
    """Rows of equal times keep their order, too."""
    schema = {"s": hr.optional(str), "x": int, "t": int}
    stream = hr.read.memory({"s": ["a"], "x": [1], "t": [0]}, schema=schema, name="events")
    stream = stream.with_watermark("t", 5)
    merged = stream.filter(col("x") % 3 != 0).merge(stream.with_columns(x=-col("x")))
    outputs = [merged.write.null(name="merged"), stream.sort_by_time().write.null(name="sorted")]
    for output in outputs:
        check_saved(planned([output]), events, 120, cuts)


# ---- on Spark ------------------------------------------------------------------------------


def test_rows_over_batches_of_spark(tmp_path):
    """From batch to batch they lie in the state of one shard, and a sink sees them by time."""
    (tmp_path / "made").mkdir()
    one, two = (
        hr.read.memory(pipelines.tables(200, 1, disorder=20, seed=seed)).with_watermark("at", 5)
        for seed in (1, 2)
    )
    merged = one.merge(two.filter(col("value") > -20))
    counted = merged.key_by("user").window(hr.tumbling(50)).agg(n=hr.count(), s=hr.sum("value"))
    engine = Engine([merged, merged.late(), counted], tmp_path / "made", 90, 3)
    while not engine.has_ended:
        engine.commit(*engine.batch())
    for k, (found, expected) in enumerate(zip(engine.rows, naive(engine.outputs), strict=True)):
        assert expected
        assert_same(found, expected, ordered=k == 0)


# ---- what goes wrong -----------------------------------------------------------------------


def test_mistakes_say_what_to_do():
    rows = hr.read.memory({"t": [1], "x": [1]})
    timed = rows.with_watermark("t", 0)
    other = rows.rename(t="u").with_watermark("u", 0)
    when = hr.read.memory({"t": [dt.datetime(2020, 1, 1)], "x": [1]}).with_watermark("t", "1s")
    for make, said in (
        (lambda: rows.sort_by_time(), "sort_by_time: the stream has no event time"),
        (lambda: rows.merge(timed), "merge: stream 1: the stream has no event time"),
        (lambda: timed.merge(timed, rows, name="all"), "merge 'all': stream 3: the stream has no"),
        (lambda: timed.merge(timed.drop("t")), "the event-time column 't' was lost"),
        (lambda: timed.merge(other), r"rename\(\{'u': 't'\}\)"),
        (lambda: timed.merge(when), "is int64 in stream 1 and timestamp in stream 2"),
        (lambda: timed.merge(timed.drop("x")), "merge: stream 2 has no column 'x'"),
        (lambda: timed.merge(timed.with_columns(y=1)), "stream 2 has a column 'y'"),
        (lambda: timed.merge(timed.with_columns(x="a")), "column 'x' is int64 in stream 1 and"),
        (lambda: timed.merge("t", name="all"), r"str is not a stream\n.*\n.*a.merge\(b, c\)"),
        (lambda: timed.merge(timed).filter(col("x") > 1).late(), "has late rows, not that of"),
    ):
        with pytest.raises(PipelineError, match=said):
            make()


def test_the_plan_says_that_there_is_one_copy():
    one, two = two_inputs()
    output = one.key_by("x").merge(two.key_by("x"), name="both").write.null()
    assert output.node.key == ("x",) and output.node.input.time == "t"
    said = hr.explain(output, engine="node")
    assert "both (sort_by_time) [SF] by t, then by input" in said
    assert "one copy: its rows have an order, and no key to share them by" in said
    assert "kernel  both, on one worker at a time" in said
    assert "sink_1: in order on threads, in order on Spark" in said


def test_keys_lie_in_parts_as_they_did():
    """As behind a union; also where a limit lets rows through."""
    one, two = (each.key_by("x", partition=hr.by_range(["k"])) for each in two_inputs())
    for rows in (one.merge(two), one.sort_by_time(), one.limit(5), one.union(two)):
        plan = planned([rows.running(n=hr.count()).write.null()])
        (state,) = [node for node in walk(plan.optimized) if node.kind == "running"]
        assert state.partition is not None


def test_columns_that_nobody_reads_do_not_wait():
    one, two = two_inputs()
    for stream, kept in ((one.merge(two).select("t"), ()), (one.sort_by_time(), ("x",))):
        (node,) = [
            node
            for node in walk(planned([stream.write.null()]).whole.roots)
            if node.kind == "sort_by_time"
        ]
        assert node.kept == kept
