"""Every kind of windows against the reference: cut anyhow, over shards, on engines, saved, in time.

Rows are out of order within and beyond the bound, with null times, and keys of every type.
"""

from __future__ import annotations

import datetime as dt
import random
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.choices import Choices, Seeded, choices, fewer, kinds_of
from tests.naive import naive, rows_of
from tests.random_rows import tables
from tests.running import CAPACITIES, assert_same, check, check_anyhow, check_over_shards
from tests.saving import check_saved, cuts

import headrace as hr
from headrace import PipelineError, col
from headrace.asked import planned
from headrace.plan.nodes import HIDDEN
from headrace.plan.schema import Field, Schema
from headrace.plan.types import float64, int32, int64, optional, string, timestamp
from headrace.stage.blocks.arrow import to_arrow
from headrace.stage.stage import Stage
from headrace.testing.stages import run_stages

pytestmark = pytest.mark.timeout(600)

KINDS = {
    "tumbling": hr.tumbling(10, offset=3),
    "sliding": hr.sliding(12, every=3),
    "sliding, uneven": hr.sliding(10, every=4, offset=1),
    "sliding by one": hr.sliding(7, every=1),
    "session": hr.session(gap=4),
    "session, long": hr.session(gap=25),
}
kinds = kinds_of(KINDS)
some_kinds = kinds_of(KINDS, "tumbling", "sliding, uneven", "session")
KEYS = [(), ("k",), ("f",), ("k", "x")]
BOUND = 5


def pipeline(
    choose: Choices,
    kind: str,
    channels: int = 1,
    most: int = 40,
    key: tuple[str, ...] | None = None,
) -> list:
    """The results of windows, and their late rows, over random rows."""
    time = optional(int64) if key is None and choose.chance(30) else int64
    fields = {"t": time, "k": optional(string), "x": optional(int32), "f": float64}
    schema = Schema(tuple(Field(name, of) for name, of in fields.items()))
    rows = tables(choose, schema, channels=channels, most=most, disorder=15)
    stream = hr.read.memory(rows, schema=schema, name="rows").with_watermark("t", BOUND)
    return results(stream, KINDS[kind], choose.pick(KEYS) if key is None else key, channels == 1)


def results(stream, window, key, in_order=True):
    keyed = stream.key_by(*key) if key else stream
    made = {"n": hr.count(), "of": hr.count("k"), "s": hr.sum("x"), "most": hr.max("k")}
    if in_order:  # what several channels give has none
        made |= {"first": hr.first("k"), "last": hr.last("x"), "sum": hr.sum("f")}
    windows = keyed.window(window).agg(made)
    return [windows.write.collect(), windows.late().write.collect()]


@kinds
@fewer
@given(choose=choices())
def test_windows_agree_with_the_reference(kind, choose):
    outputs = pipeline(choose, kind)
    check_anyhow(outputs, choose)


@kinds
@fewer
@given(choose=choices())
def test_windows_over_channels_and_shards(kind, choose):
    outputs = pipeline(choose, kind, channels=3, most=15)
    check(outputs, capacity=choose.pick(CAPACITIES), cuts=choose)
    check_over_shards(outputs, choose)


@pytest.mark.compiled
@some_kinds
def test_compiled_windows_agree_on_engines(kind):
    """The same kernels interpreted by nobody: as a stage, and by several workers of a node."""
    for seed in range(4):
        choose = Seeded(seed)
        outputs = pipeline(choose, kind, most=400, key=("k",))
        check(outputs, compiled=True, capacity=choose.pick(CAPACITIES), cuts=choose)
        for workers in (1, 3):
            hr.run(*outputs, engine="node", workers=workers)
            for output, expected in zip(outputs, naive(outputs), strict=True):
                assert_same(rows_of(output.result()), expected, ordered=output is outputs[0])


@kinds
@fewer
@given(choose=choices())
def test_results_come_when_their_window_is_over(kind, choose):
    """Behind each row, exactly the windows are out that end at or before the watermark."""
    outputs = pipeline(choose, kind)[:1]
    expected = naive(outputs)[0]
    plan, window = planned(outputs), outputs[0].node.input.window
    stage, found, largest = Stage(plan.whole, capacity=8, compiled=False), [], None
    (node,) = plan.whole.inputs
    batch = node.connector.open("0").poll(1000, 1.0)
    rows = (
        batch.rows
        if batch.rows is not None
        else pa.RecordBatch.from_pylist([], schema=node.schema.to_arrow())
    )
    names = [name for name in node.schema.names if name not in HIDDEN]
    stage.declare(node.name, "0")
    for at in range(rows.num_rows):
        stage.push(node.name, rows.select(names).slice(at, 1), "0")
        found += [row for _, block in stage.pull() for row in rows_of(to_arrow(block))]
        time = rows.column("t")[at].as_py()
        if time is not None:
            largest = time if largest is None else max(largest, time)
        ends = [
            row.get("window_end", row["window_start"] + getattr(window, "size", 0))
            for row in expected
        ]
        over = [
            row
            for row, end in zip(expected, ends)
            if largest is not None and end <= largest - BOUND
        ]
        assert_same(found, over, ordered=True)


@kinds
@fewer
@given(choose=choices())
def test_times_of_the_far_future_are_late(kind, choose):
    """They leave all other rows as they are: whatever else is late would be so without them."""
    fields = Schema((Field("t", optional(int64)), Field("k", string), Field("x", int32)))
    (rows,) = tables(choose, fields, most=30, disorder=15)
    times = rows["t"].to_pylist()
    far = [choose.chance(15) for _ in times]
    mixed = rows.set_column(
        0, "t", pa.array([10**9 if f else t for t, f in zip(times, far)], pa.int64())
    )
    found = []
    for table in (mixed, rows.filter(pa.array([not f for f in far], pa.bool_()))):
        stream = hr.read.memory(table, schema=fields, name="rows")
        timed = stream.with_watermark("t", BOUND, latest=10**6).key_by("k").window(KINDS[kind])
        windows = timed.agg(n=hr.count(), s=hr.sum("x"))
        outputs = [windows.write.collect(), windows.late().write.collect()]
        assert check(outputs, capacity=choose.pick(CAPACITIES), cuts=choose)
        found.append(naive(outputs))
    assert found[0][0] == found[1][0]
    assert len(found[0][1]) == len(found[1][1]) + sum(far)


@pytest.mark.compiled
def test_times_of_the_far_future_on_engines():
    rows = {"t": [10**9 if k % 97 == 50 else k // 3 for k in range(3000)], "k": ["a", "b"] * 1500}
    stream = hr.read.memory(rows).with_watermark("t", 5, latest=10**6).key_by("k")
    windows = stream.window(hr.tumbling(10)).agg(n=hr.count())
    outputs = [windows.write.collect(), windows.late().write.collect()]
    for options in ({"engine": "thread"}, *({"engine": "node", "workers": n} for n in (1, 2, 4))):
        job = hr.run(*outputs, **options)
        for output, expected in zip(outputs, naive(outputs), strict=True):
            assert_same(rows_of(output.result()), expected, ordered=True)
        assert job.progress().late_rows == 31


# ---- saved state ---------------------------------------------------------------------------


SAVED_ROWS = 100


def saved_plan(kind):
    source = hr.read.memory({"k": ["a"], "x": [1], "t": [0]}, name="events").with_watermark("t", 7)
    windows = source.key_by("k").window(KINDS[kind])
    made = windows.agg(n=hr.count(), s=hr.sum("x"), most=hr.max("k"), last=hr.last("k"))
    return planned([made.write.null(name="windows"), made.late().write.null(name="late")])


def events(first, last):
    numbers = range(first, last)
    words = [f"{'a long word, number ' if n % 3 else 'w'}{n * 7 % 5}" for n in numbers]
    times = [n // 2 + 10 * (n // 40) - (n * 13 % 17) for n in numbers]
    return pa.record_batch({"k": words, "x": list(numbers), "t": times})


@kinds
@fewer
@given(cuts=cuts(SAVED_ROWS))
def test_saved_and_restored_anywhere(kind, cuts):
    check_saved(saved_plan(kind), events, SAVED_ROWS, cuts)


# ---- the calendar --------------------------------------------------------------------------

SPRING, AUTUMN = dt.datetime(2026, 3, 29, tzinfo=dt.UTC), dt.datetime(2026, 10, 25, tzinfo=dt.UTC)
STEPS = ["1d", "2d", "1w", "1mo", "1q", "1y"]


@fewer
@pytest.mark.parametrize("every", STEPS)
@pytest.mark.parametrize("zone", [None, "Europe/Berlin", "America/Sao_Paulo", "Pacific/Apia"])
@given(
    hours=st.lists(st.integers(-3000, 9000), max_size=25), begin=st.sampled_from([SPRING, AUTUMN])
)
def test_windows_of_the_calendar(every, zone, hours, begin):
    times = [begin + dt.timedelta(hours=h) for h in sorted(hours)]
    rows = pa.table({"t": pa.array(times, pa.timestamp("us", "UTC")), "x": list(range(len(times)))})
    stream = hr.read.memory(rows, schema={"t": timestamp, "x": int64}).with_watermark("t", "1d")
    windows = stream.window(hr.tumbling(every, zone=zone)).agg(n=hr.count(), last=hr.last("x"))
    check([windows.write.collect(), windows.late().write.collect()], capacity=4)


def test_a_day_has_its_own_length():
    """In Berlin the day on which summer time begins has 23 hours, the one on which it ends 25."""
    for day, hours in ((SPRING, 23), (AUTUMN, 25)):
        times = [day - dt.timedelta(days=1) + dt.timedelta(hours=h) for h in range(72)]
        stream = hr.read.memory({"t": times}).with_watermark("t", "0s")
        counted = stream.window(hr.tumbling("1d", zone="Europe/Berlin")).agg(n=hr.count())
        assert hours in counted.head(10)["n"].to_pylist()


# ---- all rows ------------------------------------------------------------------------------


@given(choose=choices())
def test_aggregates_without_windows(choose):
    schema = Schema((Field("k", optional(string)), Field("x", optional(int32))))
    timed = Schema((Field("t", int64), *schema))
    rows = [t.select(["k", "x"]) for t in tables(choose, timed, channels=2, most=20)]
    stream = hr.read.memory(rows, schema=schema)
    keyed = stream.key_by("k") if choose.chance(70) else stream
    outputs = [keyed.agg(n=hr.count(), s=hr.sum("x"), k_most=hr.max("k")).write.collect()]
    check(outputs, capacity=choose.pick(CAPACITIES), cuts=choose)
    found = run_stages(*outputs, shards=3, capacity=5, batch=4, seed=choose.number(0, 9))
    assert_same(rows_of(next(iter(found.values()))), naive(outputs)[0], ordered=False)


@pytest.mark.parametrize("engine", ["thread", "node"])
def test_all_rows_of_files_on_engines(engine):
    stream = hr.read.memory({"k": ["a", "b", "a"] * 1000, "x": list(range(3000))})
    output = stream.key_by("k").agg(n=hr.count(), top=hr.max("x")).write.collect()
    hr.run(output, engine=engine)
    assert output.result().to_pylist() == [
        {"k": "a", "n": 2000, "top": 2999},
        {"k": "b", "n": 1000, "top": 2998},
    ]


# ---- what there is no sense in -------------------------------------------------------------


def wrong(make, *said):
    with pytest.raises(PipelineError) as caught:
        make()
    assert all(each in str(caught.value) for each in said)


def test_mistakes_say_what_to_do():
    rows = hr.read.memory({"t": [1], "x": [1]}).with_watermark("t", 0)
    wrong(lambda: rows.window(hr.sliding(3, every=5)), "every=5 is longer", "longer window")
    wrong(lambda: rows.window(hr.sliding(10**6, every=1)), "1000000 windows", "every=")
    wrong(lambda: rows.window(hr.sliding(10, every=0)), "the every 0 is not positive")
    wrong(lambda: rows.window(hr.session(gap=0)), "the gap 0 is not positive")
    wrong(lambda: rows.window(hr.session("5s")), "is a duration", "plain number")
    wrong(lambda: rows.window(hr.tumbling("1mo")), "needs a timestamp", "from_millis")
    wrong(lambda: hr.tumbling("1d", "2h", zone="Europe/Berlin"), "no offset")
    wrong(lambda: hr.tumbling("1d", zone="Europe/Berln"), "not a time zone", "Europe/Berlin")
    wrong(lambda: hr.sliding("10 parsec", every=1), "is not a duration")
    wrong(lambda: hr.read.memory({"x": [1]}).agg(n=hr.first("x")), "goes by event time")
    times = hr.read.memory({"t": [SPRING]}).with_watermark("t", "0s")
    wrong(lambda: times.window(hr.tumbling("36h", zone="Asia/Tokyo")), "whole days", "1d")


def test_a_session_that_overflows_names_its_operator():
    rows = {"t": [0, 5, 100], "x": [2**62, 2**62, 1]}
    stream = hr.read.memory(rows).with_watermark("t", 0).window(hr.session(6), name="visits")
    output = stream.agg(s=hr.sum(col("x"))).write.collect()
    for engine in ("thread", "node"):
        with pytest.raises(OverflowError) as caught:
            hr.run(output, engine=engine)
        assert any("visits" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("compiled", [False, True])
def test_results_are_sorted_by_all_parts_of_the_key(compiled):
    """Parts that fit into one word together, and parts that do not."""
    chance = random.Random(1)
    for most in (5, 1 << 30, 1 << 62):
        rows = [
            (chance.choice([None, chance.randint(-most, most)]), chance.random() < 0.5, number % 3)
            for number in range(150)
        ]
        columns = dict(zip(("a", "b", "c"), map(list, zip(*rows, strict=True)), strict=True))
        table = pa.table({"t": range(len(rows)), **columns})
        keyed = hr.read.memory(table).with_watermark("t", 0).key_by("a", "b", "c")
        output = keyed.window(hr.tumbling(100)).agg(n=hr.count()).write.collect()
        hr.run(output, engine="thread", compiled=compiled)
        assert_same(rows_of(output.result()), naive([output])[0], ordered=True)


def test_windows_behind_windows():
    """Results of a session are rows at its end; those of others at their start."""
    rows = {"t": [0, 1, 5, 20, 21, 40], "k": [1, 1, 1, 1, 1, 1]}
    stream = hr.read.memory(rows).with_watermark("t", 0).key_by("k")
    sessions = stream.window(hr.session(5)).agg(n=hr.count())
    again = sessions.window(hr.tumbling(30)).agg(n=hr.sum("n"), sessions=hr.count())
    slid = stream.window(hr.sliding(10, every=5)).agg(n=hr.count())
    most = slid.window(hr.tumbling(20)).agg(most=hr.max("n"))
    outputs = [again.write.collect(), most.write.collect()]
    assert naive(outputs)[0] == [
        {"k": 1, "window_start": 0, "n": 5, "sessions": 2},
        {"k": 1, "window_start": 30, "n": 1, "sessions": 1},
    ]
    check(outputs, capacity=1)
    assert all(a["window_start"] < b["window_start"] for a, b in pairwise(naive(outputs)[1]))
