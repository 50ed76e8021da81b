"""Aggregates of many values: exact where they are said to be, and else within the error stated."""

from __future__ import annotations

import math
import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.choices import Choices, choices
from tests.naive import naive, rows_of
from tests.random_rows import tables
from tests.running import CAPACITIES, assert_same, check, run_staged
from tests.saving import check_saved, cuts

import headrace as hr
from headrace import PipelineError
from headrace.asked import planned
from headrace.plan.schema import Field, Schema
from headrace.plan.types import SCALARS, float64, int64, optional, string
from headrace.testing.stages import run_stages

pytestmark = pytest.mark.timeout(600)

WINDOWS = {
    "tumbling": hr.tumbling(10),
    "sliding": hr.sliding(10, every=3),
    "session": hr.session(3),
}
windows = pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
ERRORS = (0.001, 0.01, 0.2)


# ---- count_distinct ------------------------------------------------------------------------


def distinct_of(choose: Choices, kind, window, channels=1, most=40) -> list:
    schema = Schema((Field("t", int64), Field("k", optional(string)), Field("x", kind)))
    rows = tables(choose, schema, channels=channels, most=most)
    stream = hr.read.memory(rows, schema=schema, name="rows").with_watermark("t", 12)
    keyed = stream.key_by("k") if choose.chance(50) else stream
    made = keyed.window(window).agg(n=hr.count_distinct("x"), k_n=hr.count_distinct("k"))
    return [made.write.collect()]


@windows
@given(choose=choices())
def test_distinct_values_agree_with_the_reference(window, choose):
    kind = SCALARS[choose.pick(list(SCALARS))]
    kind = optional(kind) if choose.chance(50) else kind
    channels = choose.pick([1, 3])
    outputs = distinct_of(choose, kind, window, channels)
    assert check(outputs, capacity=choose.pick(CAPACITIES), cuts=choose)
    found = run_stages(*outputs, shards=3, capacity=5, batch=4, seed=choose.number(0, 9))
    assert_same(rows_of(*found.values()), naive(outputs)[0], ordered=False)


def test_distinct_values_next_to_others_and_without_windows():
    rows = {"x": [1, 1, 2, None, 3], "s": ["a", "b", "a", "c" * 40, "c" * 40]}
    made = hr.read.memory(rows).agg(
        n=hr.count(), x=hr.count_distinct("x"), s=hr.count_distinct("s"), total=hr.sum("x")
    )
    assert made.head(1).to_pylist() == [{"n": 5, "x": 3, "s": 3, "total": 7}]


# ---- on engines ----------------------------------------------------------------------------


def many(rows: int):
    """Rows with few and many different values, of few keys."""
    chance = random.Random(7)
    columns = {
        "t": [k // 20 for k in range(rows)],
        "k": [f"key {chance.randrange(3)}" for _ in range(rows)],
        "x": [chance.randrange(rows // 3) for _ in range(rows)],
        "s": [f"{'a rather long value, ' if k % 2 else ''}{k * 7 % 1009}" for k in range(rows)],
        "f": [chance.lognormvariate(3, 2) * chance.choice([1, 1, -1]) for _ in range(rows)],
    }
    return hr.read.memory(columns, name="rows").with_watermark("t", 0).key_by("k")


def made_of(stream, window, error=0.02):
    return stream.window(window).agg(
        x=hr.count_distinct("x"),
        s=hr.count_distinct("s"),
        about_x=hr.approx_count_distinct("x", error),
        about_s=hr.approx_count_distinct("s", error / 2),
        median=hr.quantile("f", 0.5),
        top=hr.quantile("x", 0.99, error=0.001),
    )


def agrees(found, expected):
    """Exactly, or as near as it is said to be: five standard errors for those that are."""
    assert len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        for name in ("k", "window_start", "x", "s"):
            assert row[name] == other[name]
        assert math.isclose(row["about_x"], other["about_x"], rel_tol=0.1, abs_tol=1)
        assert math.isclose(row["about_s"], other["about_s"], rel_tol=0.05, abs_tol=1)
        near(row["median"], other["median"], 0.01)
        near(row["top"], other["top"], 0.001)


@pytest.mark.compiled
@windows
def test_compiled_sketches_agree_on_engines(window):
    outputs = [made_of(many(6000), window).write.collect()]
    (expected,) = naive(outputs)
    agrees(run_staged(outputs, compiled=True, capacity=100)[0], expected)
    for workers in (1, 2, 3, 4):
        hr.run(*outputs, engine="node", workers=workers)
        agrees(rows_of(outputs[0].result()), expected)


@pytest.mark.compiled
def test_a_large_set_in_one_window():
    """Far larger than a block."""
    rows = pa.table({"x": [k * 7919 % 200_003 for k in range(300_000)]})
    output = hr.read.memory(rows).agg(n=hr.count_distinct("x")).write.collect()
    for engine in ("thread", "node"):
        hr.run(output, engine=engine)
        assert output.result().to_pylist() == [{"n": len(set(rows["x"].to_pylist()))}]


# ---- approx_count_distinct -----------------------------------------------------------------


@pytest.mark.compiled
@pytest.mark.parametrize("error", [0.1, 0.02])
def test_the_standard_error_is_that_stated(error):
    """Over many keys of numbers in sequence, and of many sizes, small ones too."""
    pairs = [(k, n) for k, size in enumerate([30 * k for k in range(1, 150)]) for n in range(size)]
    rows = {"k": [k for k, _ in pairs], "x": [k * 1_000_000 + n for k, n in pairs]}
    stream = hr.read.memory(rows).key_by("k")
    output = stream.agg(n=hr.count(), about=hr.approx_count_distinct("x", error)).write.collect()
    hr.run(output, engine="thread")
    away = [row["about"] / row["n"] - 1 for row in output.result().to_pylist()]
    spread = math.sqrt(sum(each * each for each in away) / len(away))
    assert spread < 1.3 * error
    assert abs(sum(away) / len(away)) < error / 2  # no bias


# ---- quantiles -----------------------------------------------------------------------------


def near(found, expected, error):
    if expected is None or math.isnan(expected) or math.isinf(expected):
        assert str(found) == str(expected)
    else:
        assert abs(found - expected) <= error * abs(expected) * (1 + 1e-9) + 1e-300


@windows
@settings(max_examples=40)
@given(
    values=st.lists(st.one_of(st.none(), st.floats(allow_subnormal=False)), max_size=60),
    share=st.floats(0, 1),
    error=st.sampled_from(ERRORS),
)
def test_quantiles_are_as_near_as_stated(window, values, share, error):
    times = pa.array([k // 2 for k in range(len(values))], pa.int64())
    rows = pa.table({"t": times, "x": pa.array(values, pa.float64())})
    stream = hr.read.memory(rows, name="rows").with_watermark("t", 0).window(window)
    outputs = [stream.agg(q=hr.quantile("x", share, error)).write.collect()]
    expected = naive(outputs)[0]
    whole = run_staged(outputs, capacity=7)[0]
    (halves,) = run_stages(*outputs, shards=3, capacity=5, batch=4).values()
    assert_same(rows_of(halves), whole, ordered=True)
    for row, other in zip(whole, expected, strict=True):
        assert row["window_start"] == other["window_start"]
        near(row["q"], other["q"], error)


# ---- saved, and mistakes -------------------------------------------------------------------


def events(first, last):
    numbers = range(first, last)
    return pa.record_batch(
        {
            "t": [n // 2 + 10 * (n // 40) for n in numbers],
            "k": [f"key {n % 3}" for n in numbers],
            "s": [f"{'a long value, number ' if n % 3 else 'w'}{n * 7 % 50}" for n in numbers],
            "x": [n * 7919 % 101 for n in numbers],
            "f": [float(n * n % 37) for n in numbers],
        }
    )


@windows
@settings(max_examples=10)
@given(cuts=cuts(200))
def test_saved_and_restored_anywhere(window, cuts):
    source = hr.read.memory(pa.Table.from_batches([events(0, 1)]), name="rows")
    stream = source.with_watermark("t", 7).key_by("k")
    check_saved(
        planned([made_of(stream, window, error=0.2).write.null(name="out")]), events, 200, cuts
    )


def test_mistakes_say_what_to_do():
    rows = hr.read.memory({"s": ["a"]})
    for made, said in (
        (lambda: rows.agg(q=hr.quantile("s", 0.5)), "needs numbers, and s is string"),
        (lambda: hr.quantile("s", 50), "the quantile 50 is not from 0 to 1"),
        (lambda: hr.quantile("s", 0.5, error=0), "error=0 is not a number from 0.0001"),
        (lambda: hr.approx_count_distinct("s", error=0.5), "error=0.5 is not a number"),
    ):
        with pytest.raises(PipelineError, match=said):
            made()


def test_floats_that_are_equal_count_once():
    values = [0.0, -0.0, math.nan, -math.nan, 1.5, math.inf, 1.5]
    schema = Schema((Field("f", float64),))
    made = hr.read.memory([{"f": v} for v in values], schema=schema).agg(n=hr.count_distinct("f"))
    assert made.head(1)["n"].to_pylist() == [4]
