"""Running aggregates and windows by count, against the reference: cut anyhow, on engines, saved."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.choices import Choices, Seeded, choices
from tests.random_rows import tables
from tests.running import check_anyhow, check_on_engines, check_over_shards
from tests.saving import check_saved, cuts

import headrace as hr
from headrace import PipelineError, col
from headrace.asked import planned
from headrace.plan.schema import Field, Schema
from headrace.plan.types import float64, int32, int64, optional, string

pytestmark = pytest.mark.timeout(600)

KEYS = [(), ("k",), ("f",), ("k", "x")]


def aggregates():
    return {
        "n": hr.count(),
        "s": hr.sum("x"),
        "sum": hr.sum("f"),
        "most": hr.max("k"),
        "last": hr.last("k"),
        "different": hr.count_distinct("k"),
        "mean": hr.mean(col("x") * 2),
    }


def pipeline(choose: Choices, most: int = 40, key=None) -> list:
    time = optional(int64) if key is None and choose.chance(30) else int64
    fields = {"t": time, "k": optional(string), "x": optional(int32), "f": float64}
    schema = Schema(tuple(Field(name, of) for name, of in fields.items()))
    rows = tables(choose, schema, most=most, disorder=15)
    stream = hr.read.memory(rows, schema=schema, name="rows").with_watermark("t", 5)
    key = choose.pick(KEYS) if key is None else key
    keyed = stream.key_by(*key) if key else stream
    running = keyed.running(aggregates())
    return [
        running.write.collect(),
        keyed.window(hr.counting(choose.pick([1, 2, 5]))).agg(aggregates()).write.collect(),
        running.filter(col("n") > 2).select("t", "n").window(hr.tumbling(10))
        .agg(top=hr.max("n")).write.collect(),
    ]  # fmt: skip


@given(choose=choices())
def test_running_aggregates_agree_with_the_reference(choose):
    check_anyhow(pipeline(choose), choose)


@given(choose=choices())
def test_running_aggregates_over_shards(choose):
    outputs = pipeline(choose)
    check_over_shards(outputs, choose)


@pytest.mark.compiled
def test_compiled_aggregates_agree_on_engines():
    for seed in range(2):
        choose = Seeded(seed)
        outputs = pipeline(choose, most=400, key=("k",))
        check_on_engines(outputs, choose, ordered=True)


def events(first, last):
    numbers = range(first, last)
    words = [f"{'a long word, number ' if n % 3 else 'w'}{n * 7 % 11}" for n in numbers]
    return pa.record_batch({"k": words, "x": list(numbers), "t": list(numbers)})


@settings(max_examples=20)
@given(cuts=cuts(100))
def test_saved_and_restored_anywhere(cuts):
    source = hr.read.memory({"k": ["a"], "x": [1], "t": [0]}, name="events").with_watermark("t", 7)
    keyed = source.key_by("k")
    made = {"n": hr.count(), "k_most": hr.max("k"), "last": hr.last("x")}
    streams = [keyed.running(made), keyed.window(hr.counting(3)).agg(made)]
    plan = planned([each.write.null(name=f"out_{k}") for k, each in enumerate(streams)])
    check_saved(plan, events, 100, cuts)


def test_strings_that_are_given_out_leave_the_heap():
    """Windows by count forget their strings: the memory of state does not grow with the rows."""
    rows = {"s": [f"a string of its own, which is long, {k}" * 20 for k in range(20_000)]}
    made = hr.read.memory(rows).window(hr.counting(10)).agg(most=hr.max("s"))
    output = made.write.null()
    job = hr.run(output, engine="node", workers=1)
    (kept,) = [unit["state_bytes"] for unit in job.metrics().values() if unit.get("state_keys")]
    assert kept < 8 << 20 < sum(map(len, rows["s"]))


def test_a_sum_that_overflows_names_its_operator():
    stream = hr.read.memory({"x": [2**62, 1, 2**62]})
    output = stream.running(s=hr.sum("x"), name="totals").write.collect()
    for engine in ("thread", "node"):
        with pytest.raises(OverflowError) as caught:
            hr.run(output, engine=engine)
        assert any("totals" in note for note in caught.value.__notes__)


def test_mistakes_say_what_to_do():
    rows = hr.read.memory({"x": [1]})
    for made, said in (
        (lambda: rows.running(), "no aggregate is given"),
        (lambda: rows.running(x=hr.count()), "two columns are named 'x'"),
        (lambda: rows.running(n=3), "is not an aggregate"),
        (lambda: rows.running(n=hr.first("x")), "goes by event time"),
        (lambda: hr.counting(0), "0 is not a number of rows"),
        (lambda: rows.window(hr.counting(2)).agg(), "no aggregate is given"),
        (lambda: rows.window(hr.counting(2)).agg(n=hr.count()).late(), "has late rows"),
    ):
        with pytest.raises(PipelineError, match=said):
            made()
