"""limit and dedup against the reference: cut anyhow, over shards, on engines, saved."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.choices import Choices, Seeded, choices
from tests.naive import naive, rows_of
from tests.random_rows import tables
from tests.running import check_anyhow, check_on_engines, check_over_shards
from tests.saving import check_saved, cuts

import headrace as hr
from headrace import PipelineError, col
from headrace.asked import planned
from headrace.plan.schema import Field, Schema
from headrace.plan.types import float64, int32, int64, optional, string
from headrace.stage.stage import Stage
from headrace.testing.stages import run_stages

pytestmark = pytest.mark.timeout(600)

KEYS = [("k",), ("f",), ("k", "x")]


def pipeline(choose: Choices, channels: int = 1, most: int = 40, key=None) -> list:
    """Some of the rows, by themselves, behind and before other operators."""
    time = optional(int64) if key is None and choose.chance(30) else int64
    fields = {"t": time, "k": optional(string), "x": optional(int32), "f": float64}
    schema = Schema(tuple(Field(name, of) for name, of in fields.items()))
    rows = tables(choose, schema, channels=channels, most=most, disorder=15)
    stream = hr.read.memory(rows, schema=schema, name="rows").with_watermark("t", 5)
    key = key or choose.pick(KEYS)
    within = choose.pick([1, 7, 30])
    once = stream.dedup(*key)
    windows = stream.dedup(*key, within=within).key_by("k").window(hr.tumbling(10))
    return [
        stream.limit(choose.pick([0, 3, 10, 1000])).write.collect(),
        stream.filter(col("f") > 0).key_by("k").limit(5).select("k").write.collect(),
        once.write.collect(),
        once.limit(4).write.collect(),
        stream.key_by(*key).dedup(within=within).write.collect(),
        windows.agg(n=hr.count(), f=hr.max("f")).write.collect(),
    ]


@given(choose=choices())
def test_some_rows_agree_with_the_reference(choose):
    outputs = pipeline(choose)
    check_anyhow(outputs, choose)


@given(choose=choices())
def test_some_rows_over_shards(choose):
    outputs = pipeline(choose)
    del outputs[3]  # the rows of several owners come in any order
    check_over_shards(outputs, choose)


@given(choose=choices())
def test_a_limit_over_channels_is_any_so_many_rows(choose):
    fields = Schema((Field("t", int64), Field("x", int64)))
    rows = tables(choose, fields, channels=3, most=15)
    stream = hr.read.memory(rows, schema=fields)
    (found,) = run_stages(stream.limit(7).write.collect(), batch=4).values()
    (every,) = naive([stream.write.collect()])
    assert found.num_rows == min(7, len(every))
    for row in rows_of(found):
        every.remove(row)


@pytest.mark.compiled
def test_compiled_rows_agree_on_engines():
    for seed in range(2):
        choose = Seeded(seed)
        outputs = pipeline(choose, most=400, key=("k",))
        check_on_engines(outputs, choose, ordered=True)


def events(first, last):
    numbers = range(first, last)
    words = [f"{'a long word, number ' if n % 3 else 'w'}{n * 7 % 23}" for n in numbers]
    return pa.record_batch(
        {"k": words, "x": list(numbers), "t": [n - n * 13 % 17 for n in numbers]}
    )


@settings(max_examples=20)
@given(cuts=cuts(100))
def test_saved_and_restored_anywhere(cuts):
    stream = hr.read.memory({"k": ["a"], "x": [1], "t": [0]}, name="events").with_watermark("t", 7)
    made = [stream.dedup("k"), stream.dedup("k", within=40), stream.limit(60)]
    plan = planned([each.write.null(name=f"out_{k}") for k, each in enumerate(made)])
    check_saved(plan, events, 100, cuts)


def test_keys_are_forgotten():
    """Those that a row may still be near to are remembered, the others are not."""
    stream = hr.read.index(1).select(k=col("index"), t=col("index")).with_watermark("t", 10)
    plan = planned([stream.dedup("k", within=50).write.null(name="out")]).whole
    stage, (source,) = Stage(plan, compiled=False), plan.inputs
    keys = []
    for start in range(0, 3_000, 30):
        stage.push(source.name, pa.record_batch({"index": list(range(start, start + 30))}), "0")
        list(stage.pull())
        keys.append(max(m.get("state_keys", 0) for m in stage.metrics().values()))
    assert 100 <= min(keys[10:]) <= max(keys) <= 4 * 50


def test_only_what_is_read_goes_along():
    stream = hr.read.memory({"k": [1], "x": [1], "s": ["a"]})
    plan = planned([stream.dedup("k").select("x").write.null()])
    (source,) = plan.whole.inputs
    assert source.schema.names == ("k", "x")


def test_mistakes_say_what_to_do():
    rows = hr.read.memory({"t": [1], "x": [1]})
    for made, said in (
        (lambda: rows.limit(-1), "-1 is not a number of rows"),
        (lambda: rows.limit("5"), "'5' is not a number of rows"),
        (lambda: rows.dedup(), "the stream has no key"),
        (lambda: rows.dedup("y"), "no column 'y'"),
        (lambda: rows.dedup("x", "x"), "twice"),
        (lambda: rows.dedup("x", within=5), "no event time"),
        (lambda: rows.with_watermark("t", 0).dedup("x", within=0), "within 0 is not positive"),
        (lambda: rows.with_watermark("t", 0).dedup("x", within="1s"), "is a duration"),
        (lambda: rows.with_watermark("t", 0).dedup("x", within=1 << 61), "is too long"),
    ):
        with pytest.raises(PipelineError, match=said):
            made()
