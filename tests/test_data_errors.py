"""Rows that fail, left out or as dead letters, against the reference: cut anyhow, over shards, on
engines, saved."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.choices import Choices, Seeded, choices
from tests.naive import naive, rows_of
from tests.random_rows import tables
from tests.running import assert_same, check, check_anyhow, check_over_shards
from tests.saving import check_saved, cuts

import headrace as hr
from headrace import PipelineError, col
from headrace.asked import planned
from headrace.observe.progress import line
from headrace.plan.schema import Field, Schema
from headrace.plan.types import float64, int32, int64, optional, string

pytestmark = pytest.mark.timeout(600)


def ratio(x, f):
    if x is None:
        raise ValueError("no x")
    return f / x


def some(x):
    if x is None:
        raise KeyError("no x")
    for k in range(x % 7):
        if k == 4:
            raise ValueError("too many, and the words for it are longer than a view is")
        yield k


def total(state, x):
    state.n += 1
    yield state.n
    if x is None or x % 5 == 0:
        raise ArithmeticError("not counted")
    state.said = "rows that were counted: " + str(state.n)
    yield state.n


def letters(stream):
    """Dead letters, with the kind of the error alone: the reference has its own words."""
    kind = col("error_message").str.split_part(":", 0)
    return stream.dead_letters().with_columns(error_message=kind)


def pipeline(choose: Choices, channels: int = 1, most: int = 40, key=None) -> list:
    """Operators that fail on some rows, alone and behind each other, by key and before windows."""
    fields = {"t": int64, "k": optional(string), "x": optional(int32), "f": float64, "s": string}
    schema = Schema(tuple(Field(name, of) for name, of in fields.items()))
    rows = tables(choose, schema, channels=channels, most=most, disorder=15)
    stream = hr.read.memory(rows, schema=schema, name="rows").with_watermark("t", 5)
    texts = hr.read.memory(rows, schema=schema, name="texts")
    whole = {"on_error": "dead_letter"}
    divided = stream.with_columns(q=col("t") // col("x"), name="divided", **whole)
    filtered = divided.filter(10 / col("q") > 1, name="filtered", **whole)
    mapped = stream.map(ratio, output="r", carry=["k", "x"], name="mapped", **whole)
    flat = stream.flat_map(some, output="n", carry=["s", "k"], name="flat", **whole)
    again = flat.select("s", m=6 // (col("n") - 1), name="again", on_error="skip")
    state = {"n": int, "said": str}
    keyed = stream.key_by("k").process(total, state=state, output="n", name="keyed", **whole)
    windows = divided.key_by("k").window(hr.tumbling(10)).agg(n=hr.count(), q=hr.max("q"))
    unread = stream.with_columns(y=col("x") + col("s").cast(int), on_error="skip").select("t")
    text = hr.when(col("f") > 0).then(col("t").cast(str)).otherwise(col("s"))
    read = texts.with_columns(at=text.cast(int), name="read", **whole)
    timed = read.with_watermark("at", 2).window(hr.tumbling(10)).agg(n=hr.count())
    joined = hr.table({"m": [6, 3, -6], "name": ["a", "b", "c"]})
    made = [
        divided, letters(divided), filtered, letters(filtered), mapped, letters(mapped),
        flat, letters(flat), again, again.join(joined, on="m"), windows, windows.late(),
        keyed, letters(keyed), letters(divided).key_by("k").agg(n=hr.count()),
        unread,
    ]  # fmt: skip
    behind = stream.limit(1000).map(ratio, output="r", name="behind", **whole)
    made += [timed, timed.late(), letters(read), behind, letters(behind)]
    return [each.write.collect() for each in made]


@given(choose=choices())
def test_rows_left_out_agree_with_the_reference(choose):
    outputs = pipeline(choose)
    check_anyhow(outputs, choose)


@given(choose=choices())
def test_rows_left_out_over_shards(choose):
    outputs = pipeline(choose)
    check_over_shards(outputs, choose)


@pytest.mark.compiled
def test_compiled_rows_agree_on_engines():
    """Also with more dead letters than a block has rows, and several workers on one operator."""
    choose = Seeded(3)
    outputs = pipeline(choose, most=400)
    outputs = [outputs[k] for k in (0, 1, 6, 7, 12, 13, -2, -1)]
    check(outputs, compiled=True, capacity=7, cuts=choose)
    expected = naive(outputs)
    for workers, capacity in ((1, 8192), (2, 16), (4, 7)):
        hr.run(*outputs, engine="node", workers=workers, capacity=capacity)
        for output, other in zip(outputs, expected, strict=True):
            assert_same(rows_of(output.result()), other, ordered=True)


def events(first, last):
    numbers = range(first, last)
    words = [f"{'a long word, number ' if n % 3 else 'w'}{n * 7 % 23}" for n in numbers]
    return pa.record_batch({"k": words, "x": [n % 11 for n in numbers]})


@settings(max_examples=20)
@given(cuts=cuts(100))
def test_saved_and_restored_anywhere(cuts):
    stream = hr.read.memory({"k": ["a"], "x": [1]}, name="events")
    whole = {"on_error": "dead_letter"}
    keyed = stream.key_by("k").process(
        total, state={"n": int, "said": str}, output="n", name="keyed", **whole
    )
    made = [keyed, keyed.dead_letters()]
    plan = planned([each.write.null(name=f"out_{k}") for k, each in enumerate(made)])
    check_saved(plan, events, 100, cuts)


ENGINES = [
    {"engine": "thread", "compiled": False},
    pytest.param({"engine": "thread"}, marks=pytest.mark.compiled),
    pytest.param({"engine": "node", "workers": 2}, marks=pytest.mark.compiled),
]


@pytest.mark.parametrize("engine", ENGINES, ids=["interpreted", "thread", "node"])
def test_rows_that_fail_are_counted(engine):
    numbers = pa.table({"x": pa.array(range(100_000), pa.int64())})
    stream = hr.read.memory(numbers)
    made = stream.select(y=100 // (col("x") % 10), on_error="skip", name="halves")
    kept = made.agg(n=hr.count()).write.collect()
    job = hr.run(kept, **engine)
    assert kept.result().to_pylist() == [{"n": 90_000}]
    assert job.progress().failed_rows == job.metrics()["halves"]["failed_rows"] == 10_000


def test_a_job_says_how_many_rows_failed():
    stream = hr.read.memory({"x": [1, 0, 2]})
    out = stream.select(y=1 // col("x"), on_error="skip").write.null()
    job = hr.run(out, engine="thread", compiled=False)
    assert ", 1 failed" in line("job", job.progress(), 0.0)
    assert "(on error: skip)" in job.explain()


def test_letters_say_what_python_says():
    stream = hr.read.memory({"x": [1, 0], "s": ["a", "b"]})
    made = stream.map(lambda x: 5 // x, output="y", on_error="dead_letter", name="fifths")
    letters = made.dead_letters().write.collect()
    hr.run(letters, made.write.null(), engine="thread", compiled=False)
    said = "ZeroDivisionError: integer division or modulo by zero"
    assert letters.result().to_pylist() == [
        {"x": 0, "s": "b", "error_operator": "fifths", "error_message": said}
    ]


def test_only_what_is_read_goes_along():
    stream = hr.read.memory({"k": [1], "x": [1], "s": ["a"]})
    skipped = stream.with_columns(y=1 // col("x"), on_error="skip").select("k")
    (source,) = planned([skipped.write.null()]).whole.inputs
    assert source.schema.names == ("k", "x")


def test_mistakes_say_what_to_do():
    rows = hr.read.memory({"t": [1], "s": ["1"], "error_message": ["a"]})
    read = rows.select(at=1 // col("t"), on_error="skip")
    named = rows.select("t", on_error="dead_letter")
    for made, said in (
        (lambda: rows.filter(col("t") > 1, on_error="ignore"), "on_error='ignore' says nothing"),
        (
            lambda: rows.select(d=col("s").str.to_datetime("%Y"), on_error="skip"),
            "no single row can be left out",
        ),
        (lambda: rows.select("t").dead_letters(), "select keeps no rows that it fails on"),
        (lambda: named.dead_letters(), "two columns are named 'error_message'"),
        (
            lambda: planned(
                [read.with_watermark("at", 1).window(hr.tumbling(5)).agg(n=hr.count()).write.null()]
            ),
            "leaves the row out behind the source",
        ),
    ):
        with pytest.raises(PipelineError, match=said):
            made()
