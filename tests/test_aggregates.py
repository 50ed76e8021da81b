"""Aggregates against obvious ones: nulls, strings, extremes, few values, parts in any number."""

from __future__ import annotations

import math
import statistics

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive import naive, rows_of
from tests.running import assert_same, check, run_staged

import headrace as hr
from headrace import PipelineError
from headrace.testing.stages import run_stages

WINDOWS = {
    "tumbling": hr.tumbling(10),
    "sliding": hr.sliding(10, every=3),
    "session": hr.session(3),
}
windows = pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
floats = st.one_of(st.none(), st.floats(-1e6, 1e6))
whole = st.integers(-(2**63), 2**63 - 1)


def over(values, kind, window, **aggregates):
    """Aggregates of values, two at each time, in order."""
    times = pa.array([k // 2 for k in range(len(values))], pa.int64())
    rows = pa.table({"t": times, "x": pa.array(values, kind)})
    stream = hr.read.memory(rows, name="rows").with_watermark("t", 0)
    return [stream.window(window).agg(aggregates).write.collect()]


# ---- variance and stddev -------------------------------------------------------------------


@windows
@given(values=st.lists(floats, max_size=60))
def test_spread(window, values):
    outputs = over(
        values,
        pa.float64(),
        window,
        sample=hr.variance("x"),
        every=hr.variance("x", ddof=0),
        root=hr.stddev("x"),
    )
    expected = naive(outputs)[0]
    found = run_staged(outputs, capacity=7)[0]
    halves = next(iter(run_stages(*outputs, shards=3, capacity=5, batch=4).values()))
    for rows in (found, rows_of(halves)):
        assert [row["window_start"] for row in rows] == [row["window_start"] for row in expected]
        for row, other in zip(rows, expected):
            for name in ("sample", "every", "root"):
                near(row[name], other[name])


def near(found, expected):
    if expected is None:
        assert found is None
    else:
        assert math.isclose(found, expected, rel_tol=1e-6, abs_tol=1e-6 * 1e6)


def test_spread_of_numbers_far_from_zero():
    """Welford's algorithm, where a sum of squares would give nothing at all."""
    values = [1e9 + k for k in (4, 7, 13, 16)]
    outputs = over(values, pa.float64(), hr.tumbling(100), v=hr.variance("x"))
    assert run_staged(outputs)[0][0]["v"] == pytest.approx(statistics.variance(values), rel=1e-12)


@windows
def test_spread_in_parts_by_any_order(window):
    """`reproducible=False` lets partial results of floats be merged."""
    rows = {
        "t": list(range(60)),
        "k": [k % 3 for k in range(60)],
        "x": [k * 0.1 for k in range(60)],
    }
    stream = hr.read.memory(rows, name="rows").with_watermark("t", 0).key_by("k").window(window)
    outputs = [stream.agg(v=hr.variance("x"), reproducible=False).write.collect()]
    found = next(iter(run_stages(*outputs, shards=3, capacity=4, batch=5).values()))
    expected = naive(outputs)[0]
    key = lambda row: (row["window_start"], row["k"])  # noqa: E731
    for row, other in zip(sorted(rows_of(found), key=key), sorted(expected, key=key), strict=True):
        near(row["v"], other["v"])


# ---- mean ----------------------------------------------------------------------------------


@windows
@given(values=st.lists(st.one_of(st.none(), whole), max_size=40))
def test_means_of_whole_numbers_never_overflow(window, values):
    outputs = over(values, pa.int64(), window, m=hr.mean("x"))
    assert check(outputs, capacity=7)
    halves = next(iter(run_stages(*outputs, shards=2, capacity=5, batch=4).values()))
    assert_same(rows_of(halves), naive(outputs)[0], ordered=True)


@pytest.mark.compiled
def test_compiled_means_of_extremes():
    for values in ([2**63 - 1] * 9, [-(2**63)] * 9, [2**63 - 1, -(2**63)] * 5, [2**53 + 1, 1, 1]):
        assert check(over(values, pa.int64(), hr.tumbling(100), m=hr.mean("x")), compiled=True)


# ---- first and last ------------------------------------------------------------------------

texts = st.one_of(st.none(), st.sampled_from(["", "a", "a string that is not short at all", "é"]))


@windows
@settings(max_examples=40)
@given(rows=st.lists(st.tuples(st.integers(-3, 3), texts, st.sampled_from("ab")), max_size=40))
def test_first_and_last_go_by_time(window, rows):
    columns = {
        "t": pa.array([k // 3 + shift for k, (shift, _, _) in enumerate(rows)], pa.int64()),
        "x": pa.array([text for _, text, _ in rows], pa.string()),
        "k": pa.array([key for _, _, key in rows], pa.string()),
    }
    stream = hr.read.memory(pa.table(columns), name="rows").with_watermark("t", 2).key_by("k")
    made = stream.window(window).agg(a=hr.first("x"), z=hr.last("x"), n=hr.last("t"))
    outputs = [made.write.collect(), made.late().write.collect()]
    assert check(outputs, capacity=5)
    found = run_stages(*outputs, shards=3, capacity=5, batch=4)
    for one, other in zip(found.values(), naive(outputs), strict=True):
        assert_same(rows_of(one), other, ordered=False)


# ---- users' own ----------------------------------------------------------------------------


def extent(low, high, n, x):
    return min(low, x), max(high, x), n + 1


def both(low, high, n, other_low, other_high, other_n):
    return min(low, other_low), max(high, other_high), n + other_n


EXTENT = hr.aggregate(
    init=(2**62, -(2**62), 0),
    add=extent,
    merge=both,
    result=lambda low, high, n: (high - low) / n if n else None,
)
MEAN = hr.aggregate(
    init=(0.0, 0),
    add=lambda total, n, x: (total + x, n + 1),
    merge=lambda total, n, more, m: (total + more, n + m),
    result=lambda total, n: total / n if n > 0 else 0.0,
)
ANY = hr.aggregate(
    init=(False,),
    add=lambda any, x: any or x > 3,
    merge=lambda a, b: a or b,
    result=lambda any: any,
)


@windows
@settings(max_examples=30)
@given(values=st.lists(st.one_of(st.none(), st.integers(-9, 9)), max_size=40))
def test_aggregates_of_users(window, values):
    outputs = over(values, pa.int64(), window, e=EXTENT("x"), any=ANY("x"), m=MEAN("x"))
    assert check(outputs, capacity=7)
    halves = next(iter(run_stages(*outputs, shards=2, capacity=5, batch=4).values()))
    assert_same(rows_of(halves), naive(outputs)[0], ordered=True)


@pytest.mark.compiled
@pytest.mark.parametrize("engine", ["thread", "node"])
def test_aggregates_of_users_on_engines(engine):
    values = [None if k % 7 == 0 else k * 37 % 101 for k in range(500)]
    window = hr.sliding(50, every=20)
    (output,) = over(values, pa.int64(), window, e=EXTENT("x"), any=ANY("x"), m=MEAN("x"))
    hr.run(output, engine=engine)
    assert_same(rows_of(output.result()), naive([output])[0], ordered=True)


def test_mistakes_in_aggregates_of_users():
    rows = hr.read.memory({"t": [1], "x": [1], "s": ["a"]}).with_watermark("t", 0)
    windowed = rows.window(hr.tumbling(1))
    parts = {"merge": both, "result": lambda low, high, n: n}
    for made, said in (
        (lambda: hr.aggregate(init=("a",), add=extent, **parts), "is not a number"),
        (lambda: hr.aggregate(init=(), add=extent, **parts), "keeps something"),
        (lambda: hr.aggregate(init=(1,), add=3, **parts), "is not a function"),
        (lambda: windowed.agg(e=EXTENT("s")), "take numbers and times, and values are string"),
        (lambda: windowed.agg(e=hr.aggregate(init=(0,), add=extent, **parts)("x")), "extent"),
    ):
        with pytest.raises(PipelineError, match=said):
            made()


# ---- on engines, and mistakes --------------------------------------------------------------


@pytest.mark.compiled
@pytest.mark.parametrize("engine", ["thread", "node"])
def test_all_of_them_on_engines(engine):
    rows = {
        "t": [k // 5 for k in range(2000)],
        "k": [f"user {k * 7 % 13}" for k in range(2000)],
        "x": [None if k % 11 == 0 else k * 37 % 101 for k in range(2000)],
    }
    stream = (
        hr.read.memory(rows).with_watermark("t", 0).key_by("k").window(hr.sliding(50, every=10))
    )
    made = stream.agg(
        n=hr.count("x"), s=hr.sum("x"), m=hr.mean("x"), a=hr.first("x"), z=hr.last("k"),
        lo=hr.min("k"), v=hr.variance("x"),
    )  # fmt: skip
    output = made.write.collect()
    hr.run(output, engine=engine)
    found, (expected,) = rows_of(output.result()), naive([output])
    for row, other in zip(found, expected, strict=True):
        near(row.pop("v"), other.pop("v"))
    assert_same(found, expected, ordered=True)


def test_mistakes_say_what_to_do():
    rows = hr.read.memory({"t": [1], "x": ["a"]}).with_watermark("t", 0).window(hr.tumbling(1))
    for made in (hr.variance("x"), hr.stddev("x"), hr.mean("x"), hr.sum("x")):
        with pytest.raises(PipelineError, match="needs numbers, and x is string"):
            rows.agg(v=made)
    with pytest.raises(PipelineError, match="ddof=-1"):
        hr.variance("x", ddof=-1)
