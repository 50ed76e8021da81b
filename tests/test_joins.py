"""Joins of streams against the reference: cut anyhow, over shards, on engines, saved, in time."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from tests.choices import Choices, Seeded, choices, fewer, kinds_of
from tests.naive import naive, rows_of
from tests.random_rows import tables
from tests.running import assert_same, check, check_anyhow, check_on_engines, check_over_shards
from tests.saving import check_saved, cuts

import headrace as hr
from headrace import PipelineError, col
from headrace.asked import planned
from headrace.plan.partition import GROUPS
from headrace.plan.schema import Field, Schema
from headrace.plan.types import float64, int32, int64, optional, string, timestamp
from headrace.stage.blocks.arrow import to_arrow
from headrace.stage.stage import Stage
from headrace.stage.tables import GROUP

pytestmark = pytest.mark.timeout(600)

KINDS = {
    "window inner": lambda a, b, on: a.window_join(b, on, hr.tumbling(10, offset=3)),
    "window left": lambda a, b, on: a.window_join(b, on, hr.tumbling(10), how="left"),
    "window full": lambda a, b, on: a.window_join(b, on, hr.tumbling(25), how="full"),
    "interval": lambda a, b, on: a.interval_join(b, on, before=4, after=9),
    "interval left": lambda a, b, on: a.interval_join(b, on, before=7, how="left"),
    "interval after": lambda a, b, on: a.interval_join(b, on, after=12),
    "same time": lambda a, b, on: a.interval_join(b, on, how="left"),
    "as of": lambda a, b, on: a.asof_join(b, on),
    "as of, near": lambda a, b, on: a.asof_join(b, on, tolerance=6, how="left"),
}
kinds = kinds_of(KINDS)
some_kinds = kinds_of(KINDS, "window full", "interval left", "as of, near")
KEYS = [{"k": "id"}, {"f": "g"}, {"k": "id", "x": "y"}]


def pipeline(choose: Choices, kind: str, channels: int = 1, most: int = 30, on=None) -> list:
    """Pairs, and what a filter leaves of some of their columns, of random rows."""
    left = {"t": int64, "k": optional(string), "x": optional(int32), "f": float64}
    right = {"id": string, "u": optional(int64), "y": int32, "g": float64, "s": optional(string)}
    streams = []
    for number, fields in enumerate((left, right)):
        time = "u" if number else "t"
        # tables() knows the time by its name
        named = {("t" if name == time else name): of for name, of in fields.items()}
        schema = Schema(tuple(Field(name, of) for name, of in named.items()))
        # of versions of equal times the last one counts: they come through one channel
        single = number == 1 and kind.startswith("as of")
        many = 1 if single else channels
        rows = tables(choose, schema, channels=many, most=most, disorder=15)
        stream = hr.read.memory(rows, schema=schema, name=f"side_{number}")
        stream = stream.rename({"t": "u"}) if number else stream
        streams.append(stream.with_watermark(time, choose.pick([0, 5, 20])))
    on = choose.pick(KEYS) if on is None else on
    joined = KINDS[kind](*streams, on)
    some = joined.filter(col("s").is_not_null()).select("s", *on)
    return [joined.write.collect(), some.write.collect()]


@kinds
@fewer
@given(choose=choices())
def test_joins_agree_with_the_reference(kind, choose):
    check_anyhow(pipeline(choose, kind), choose)


@kinds
@fewer
@given(choose=choices())
def test_joins_over_channels_and_shards(kind, choose):
    outputs = pipeline(choose, kind, channels=choose.pick([1, 3]), most=15)
    check_over_shards(outputs, choose)


@pytest.mark.compiled
@some_kinds
def test_compiled_joins_agree_on_engines(kind):
    for seed in range(2):
        choose = Seeded(seed)
        outputs = pipeline(choose, kind, most=150, on={"k": "id"})
        check_on_engines(outputs, choose, ordered=False)


@pytest.mark.compiled
@pytest.mark.parametrize("fan_out", [0, 1, 50])
def test_many_partners_into_small_blocks(fan_out):
    """Every row of a key that all have: blocks are full in the middle of a row's partners."""
    left = {"k": [n % 7 for n in range(200)], "t": [n // 10 for n in range(200)], "x": range(200)}
    right = {"k": [n % 7 for n in range(7 * fan_out)], "u": [5] * 7 * fan_out}
    sides = [
        hr.read.memory(pa.table({name: pa.array(list(v), pa.int64()) for name, v in side.items()}))
        for side in (left, right)
    ]
    one, other = sides[0].with_watermark("t", 0), sides[1].with_watermark("u", 0)
    outputs = [
        one.window_join(other, "k", hr.tumbling(100), how="left").write.collect(),
        one.interval_join(other, "k", before=10, after=10).write.collect(),
        one.asof_join(other, "k", how="left").write.collect(),
    ]
    for capacity in (1, 7, 8192):
        assert check(outputs, compiled=True, capacity=capacity)
    assert len(naive(outputs)[0]) == 200 * max(fan_out, 1)


def test_pairs_come_in_order_of_windows_and_keys():
    left = hr.read.memory({"k": [3, 1, 2, 1], "t": [1, 2, 11, 12]}).with_watermark("t", 5)
    right = hr.read.memory({"k": [1, 2, 3, 1], "u": [3, 12, 4, 13]}).with_watermark("u", 5)
    output = left.window_join(right, "k", hr.tumbling(10)).write.collect()
    for engine in ("thread", "node"):
        hr.run(output, engine=engine)
        found = [(r["window_start"], r["k"], r["t"], r["u"]) for r in output.result().to_pylist()]
        assert found == [(0, 1, 2, 3), (0, 3, 1, 4), (10, 1, 12, 13), (10, 2, 11, 12)]


def test_pairs_come_when_their_window_is_over():
    """Both sides have passed the end of the window, not earlier and not later."""
    left = hr.read.memory({"k": [1], "t": [0]}, name="left").with_watermark("t", 0)
    right = hr.read.memory({"k": [1], "u": [0]}, name="right").with_watermark("u", 0)
    window = left.window_join(right, "k", hr.tumbling(10)).write.null(name="window")
    near = left.interval_join(right, "k", before=3, after=5).write.null(name="near")
    stage = Stage(planned([window, near]).whole, compiled=False)
    for side in ("left", "right"):
        stage.declare(side, "0")

    def after(side, time):
        name = "t" if side == "left" else "u"
        stage.push(side, pa.record_batch({"k": [1], name: [time]}), "0")
        return Counter(n for n, block in stage.pull() for _ in to_arrow(block).to_pylist())

    assert not after("left", 4)
    assert not after("right", 2)
    assert not after("left", 12)
    assert not after("right", 9)
    assert after("right", 10) == {"window": 2, "near": 2}  # 4 with 2 and 9


# ---- saved ---------------------------------------------------------------------------------


def events(first, last):
    numbers = range(first, last)
    words = [f"{'a long word, number ' if n % 3 else 'w'}{n * 7 % 5}" for n in numbers]
    times = [n // 2 + 10 * (n // 40) - (n * 13 % 7) for n in numbers]
    return pa.record_batch({"k": words, "x": list(numbers), "t": times})


@kinds
@fewer
@given(cuts=cuts(100))
def test_saved_and_restored_anywhere(kind, cuts):
    check_saved(with_itself(kind), events, 100, cuts)


def with_itself(kind):
    """The plan of a join of a stream with itself, so that one source feeds both sides."""
    stream = hr.read.memory({"k": ["a"], "x": [1], "t": [0]}, name="events").with_watermark("t", 7)
    left = stream.filter(col("x") % 3 != 0)
    right = stream.filter(col("x") % 2 == 0).rename(k="id", x="y", t="u")
    joined = KINDS[kind](left, right, {"k": "id"})
    return planned([joined.write.null(name="pairs")])


@kinds
def test_an_owner_of_fewer_keys_goes_on_in_order(kind):
    """Its rows come behind those that were saved, of which there were more than it has."""
    plan = with_itself(kind)

    def fed(stage, rows, end=False):
        stage.push("events", rows, "0")
        if end:
            stage.end("events", "0")
        return [row for _, block in stage.pull() for row in to_arrow(block).to_pylist()]

    one, other, last = (Stage(plan.whole, compiled=False) for _ in range(3))
    before = fed(one, events(0, 60))
    saved = one.snapshot()
    other.restore(saved, groups=range(GROUPS // 2))
    (state,) = saved.operators.values()
    groups = zip(state.rows["key_0"].to_pylist(), state.rows[GROUP].to_pylist(), strict=True)
    kept = {key for key, group in groups if group < GROUPS // 2}
    rows = events(60, 80)
    rows = rows.filter(pc.is_in(rows["k"], pa.array(kept)))
    before += fed(other, rows)
    last.restore(other.snapshot())
    found = [*before, *fed(last, rows.slice(rows.num_rows), end=True)]
    whole = fed(Stage(plan.whole, compiled=False), events(0, 80), end=True)
    theirs = [row for row in whole if row["k"] in kept]
    assert 0 < len(theirs) < len(whole)
    assert [row for row in found if row["k"] in kept] == theirs


# ---- around them ---------------------------------------------------------------------------


def test_windows_behind_a_window_join():
    """Pairs are rows at the start of their window, and come in time for windows as long."""
    left = hr.read.memory({"k": [1, 1, 2, 1], "t": [1, 2, 11, 25]}).with_watermark("t", 0)
    right = hr.read.memory({"k": [1, 2, 1], "u": [3, 12, 26]}).with_watermark("u", 0)
    pairs = left.window_join(right, "k", hr.tumbling(10))
    outputs = [pairs.window(hr.tumbling(20)).agg(n=hr.count(), last=hr.max("u")).write.collect()]
    assert naive(outputs)[0] == [
        {"k": 1, "window_start": 0, "n": 2, "last": 3},
        {"k": 2, "window_start": 0, "n": 1, "last": 12},
        {"k": 1, "window_start": 20, "n": 1, "last": 26},
    ]
    assert check(outputs)
    for workers in (1, 3):
        hr.run(*outputs, engine="node", workers=workers)
        assert_same(rows_of(outputs[0].result()), naive(outputs)[0], ordered=True)


def test_state_goes_with_its_windows():
    """Rows are forgotten when no partner of them can come any more."""
    numbers = hr.read.index(40_000)
    left = numbers.select(k=col("index") % 50, t=col("index")).with_watermark("t", 0)
    right = left.rename(t="u")
    joined = left.interval_join(right, "k", after=100)
    stage = Stage(planned([joined.write.null(name="pairs")]).whole, compiled=False)
    (source,) = planned([joined.write.null(name="pairs")]).whole.inputs
    most = 0
    for start in range(0, 3000, 300):
        batch = pa.record_batch({"index": list(range(start, start + 300))})
        stage.push(source.name, batch, "0")
        list(stage.pull())
        kept = [m["state_keys"] for m in stage.metrics().values() if m.get("state_keys")]
        most = max(most, *kept, 0)
    assert 0 < most < 2000


def test_mistakes_say_what_to_do():
    rows = hr.read.memory({"t": [1], "x": [1], "s": ["a"]})
    left = rows.with_watermark("t", 0)
    right = rows.rename(t="u", s="r").with_watermark("u", 0)
    times = hr.read.memory([], schema={"at": timestamp, "x": int64}).with_watermark("at", "1s")
    window = hr.tumbling(10)
    for made, said in (
        (lambda: left.window_join(rows, "x", window), "on the right: the stream has no event time"),
        (lambda: left.window_join(left, "x", window), "both streams have a column 't'"),
        (lambda: left.window_join(right, "y", window), "no column 'y'"),
        (lambda: left.window_join(right, {"s": "x"}, window), "'s' is string on the left"),
        (lambda: left.window_join(right, "x", window, how="right"), "is not a kind of join"),
        (lambda: left.window_join(right, "x", hr.session(3)), "do not overlap or grow"),
        (lambda: left.window_join(right, "x", hr.sliding(4, 2)), "do not overlap or grow"),
        (lambda: left.window_join(right, "x", 10), "10 is not a window"),
        (lambda: left.window_join(times, "x", window), "are int64 and timestamp"),
        (lambda: left.window_join(hr.table({"x": [1]}), "x", window), "is not a stream"),
        (lambda: left.interval_join(right, "x", after=-1), "after=-1 is negative"),
        (lambda: left.interval_join(right, "x", how="full"), "is not a kind of join"),
        (lambda: left.interval_join(right, "x", before="1s"), "is a duration"),
        (lambda: left.interval_join(right, "x").window(window), "event-time column"),
    ):
        with pytest.raises(PipelineError, match=said):
            made()
