"""`collect` and `top_k` against the reference: of all types, cut anyhow, over shards, on engines,
and saved."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.choices import Choices, choices
from tests.naive import naive, rows_of
from tests.random_rows import tables
from tests.running import assert_same, check_anyhow, check_over_shards
from tests.saving import check_saved, cuts

import headrace as hr
from headrace import PipelineError, col
from headrace.asked import planned
from headrace.plan.schema import Field, Schema
from headrace.plan.types import SCALARS, int64, optional, string

pytestmark = pytest.mark.timeout(600)
VALUES = [kind for name, kind in SCALARS.items() if name != "uint64"]


def pipeline(choose: Choices, most: int = 40, channels: int = 1) -> list:
    """Lists of one type, in windows of every kind, running, by count, and of everything."""
    kind = optional(choose.pick(VALUES))
    fields = {"t": int64, "k": optional(string), "x": kind, "r": optional(choose.pick(VALUES[:10]))}
    schema = Schema(tuple(Field(name, of) for name, of in fields.items()))
    rows = tables(choose, schema, channels=channels, most=most, disorder=10)
    stream = hr.read.memory(rows, schema=schema, name="rows")
    timed = stream.with_watermark("t", 5).key_by("k")
    limit = choose.pick([1, 2, 5, 1000])
    top = {"top": hr.top_k("x", limit), "by": hr.top_k("x", limit, by="r")}
    both = {**top, "all": hr.collect("x", limit, on_full="first"), "n": hr.count()}
    several = [timed.window(hr.sliding(10, every=4)).agg(top), stream.agg(top)]
    single = [
        timed.window(hr.tumbling(10)).agg(both),
        timed.window(hr.sliding(10, every=4)).agg(both),
        timed.window(hr.session(3)).agg(both),
        timed.window(hr.tumbling(10, lateness=7)).agg(both),
        timed.window(hr.counting(3)).agg(both),
        timed.running(both),
        timed.agg(both),
        stream.key_by("k").agg(both),
    ]
    return [choose.pick(several if channels > 1 else single).write.collect()]


@given(choose=choices())
def test_lists_agree_with_the_reference(choose):
    check_anyhow(pipeline(choose, channels=choose.pick([1, 1, 3])), choose)


@given(choose=choices())
def test_lists_over_shards(choose):
    check_over_shards(pipeline(choose, channels=choose.pick([1, 1, 3])), choose)


@pytest.mark.compiled
@pytest.mark.parametrize("engine", ["thread", "node"])
def test_compiled_lists(engine):
    rows = {
        "t": [k * 7 % 11 + k for k in range(300)],
        "k": [k % 3 for k in range(300)],
        "x": pa.array([k * 37 % 101 / 8 for k in range(300)], pa.float32()),
        "s": [
            None if k % 7 == 0 else f"page {k * 13 % 29} {'of a book' * (k % 2)}"
            for k in range(300)
        ],
    }
    stream = hr.read.memory(rows, name="rows").with_watermark("t", 20).key_by("k")
    outputs = [
        stream.window(hr.sliding(20, every=10))
        .agg(top=hr.top_k("s", 3, by="x"), last=hr.top_k("s", 2), most=hr.top_k("x", 2))
        .write.collect(),
        stream.window(hr.tumbling(50))
        .agg(all=hr.collect("s", 100), few=hr.collect("x", 3, on_full="first"))
        .write.collect(),
    ]
    hr.run(*outputs, engine=engine)
    for output, expected in zip(outputs, naive(outputs), strict=True):
        assert_same(rows_of(output.result()), expected, ordered=True)


@settings(max_examples=20)
@given(cuts=cuts(100))
def test_saved_and_restored_anywhere(cuts):
    stream = hr.read.memory({"k": ["a"], "t": [0], "s": ["a"]}, name="events")
    stream = stream.with_watermark("t", 3).key_by("k")
    made = {"all": hr.collect("s", 4, on_full="first"), "top": hr.top_k("s", 2, by="t")}
    outputs = [
        stream.window(hr.sliding(10, every=5)).agg(made).write.collect(),
        stream.running(made).write.collect(),
    ]
    check_saved(planned(outputs), events, 100, cuts)


def events(first, last):
    numbers = range(first, last)
    texts = [f"{'a long string, number ' * (n % 2)}{n * 7 % 13}" for n in numbers]
    return pa.record_batch(
        {
            "k": [f"w{n * 7 % 5}" for n in numbers],
            "t": [n - n * 13 % 5 for n in numbers],
            "s": texts,
        }
    )


# ---- what lists hold -------------------------------------------------------------------------


def only(**aggregates):
    """The only row of aggregates over a few values of many types."""
    rows = {
        "at": [dt.datetime(2026, 1, k, tzinfo=dt.UTC) for k in (3, 1, 2)],
        "day": [dt.date(2026, 1, k) for k in (3, 1, 2)],
        "price": [Decimal("1.50"), None, Decimal("-2.25")],
        "tags": [["a", None], [], ["b"]],
        "where": [{"x": 1, "y": "s"}, {"x": None, "y": "t"}, {"x": 3, "y": None}],
        "yes": [True, False, None],
        "x": [1, 2, 3],
    }
    output = hr.read.memory(rows).agg(aggregates).write.collect()
    hr.run(output, compiled=False)
    return output.result().to_pylist()[0]


def test_values_of_any_type():
    made = only(
        **{name: hr.collect(name, 5) for name in ("at", "day", "price", "tags", "where", "yes")},
        late=hr.top_k("where", 2, by="at"),
        price_top=hr.top_k("price", 1),
        tags_top=hr.top_k("tags", 1, by=col("x") * -1),
    )
    assert [each.day for each in made["at"]] == [each.day for each in made["day"]] == [3, 1, 2]
    assert made["price"] == [Decimal("1.50"), Decimal("-2.25")]
    assert made["tags"] == [["a", None], [], ["b"]]
    assert made["where"] == [{"x": 1, "y": "s"}, {"x": None, "y": "t"}, {"x": 3, "y": None}]
    assert made["yes"] == [True, False]
    assert made["late"] == [{"x": 1, "y": "s"}, {"x": 3, "y": None}]
    assert made["price_top"] == [Decimal("1.50")]
    assert made["tags_top"] == [["a", None]]


def test_an_order_that_needs_whole_columns():
    rows = hr.read.memory({"s": ["a", "b", "c"], "day": ["02.01.2026", "03.01.2026", "01.01.2026"]})
    day = col("day").str.to_datetime("%d.%m.%Y")
    output = rows.agg(last=hr.top_k("s", 2, by=day)).write.collect()
    hr.run(output, engine="thread", compiled=False)
    assert output.result().to_pylist() == [{"last": ["b", "a"]}]


def test_unsigned_numbers_of_64_bits():
    kind = pa.uint64()
    rows = pa.table({"x": pa.array([1, 2**64 - 1, 2**63], kind)})
    output = hr.read.memory(rows).agg(all=hr.collect("x", 3), top=hr.top_k("x", 2)).write.collect()
    hr.run(output, compiled=False)
    assert output.result().schema.field("all").type == pa.list_(kind)
    assert output.result().to_pylist() == [
        {"all": [1, 2**64 - 1, 2**63], "top": [2**64 - 1, 2**63]}
    ]


def test_lists_go_on_as_columns():
    rows = {"k": ["a", "b", "a"], "x": [1, 2, 3]}
    made = hr.read.memory(rows).key_by("k").agg(xs=hr.collect("x", 5))
    output = made.with_columns(n=col("xs").list.len()).explode("xs").write.collect()
    hr.run(output, compiled=False)
    found = [tuple(row.values()) for row in output.result().to_pylist()]
    assert found == [("a", 1, 2), ("a", 3, 2), ("b", 2, 1)]


def test_values_that_are_pushed_out_leave_room():
    """Long strings that come and go: the list is copied now and then, without what is gone."""
    rows = {"x": [f"a string that is rather long, and number {k:05}" for k in range(2000)]}
    output = hr.read.memory(rows).agg(top=hr.top_k("x", 3)).write.collect()
    hr.run(output, compiled=False)
    assert output.result().to_pylist() == [{"top": rows["x"][:-4:-1]}]


# ---- mistakes --------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [hr.tumbling(100), hr.sliding(100, every=10), hr.session(9)])
@pytest.mark.parametrize("engine", ["thread", "node"])
def test_more_values_than_the_limit(engine, window):
    stream = hr.read.memory({"t": list(range(50)), "x": [1] * 50}).with_watermark("t", 0)
    made = stream.window(window).agg(xs=hr.collect("x", 20), name="listed")
    with pytest.raises(ValueError, match="more values than the limit of the list") as error:
        hr.run(made.write.collect(), engine=engine, compiled=False)
    assert "in operator agg 'listed'" in "".join(error.value.__notes__)


def test_mistakes():
    rows = hr.read.memory({"x": [1], "s": ["a"], "l": [[1]]})
    for make, said in (
        (lambda: hr.collect("x", 0), "limit=0 is not a number from 1 to 1,000,000"),
        (lambda: hr.collect("x", True), "limit=True"),
        (lambda: hr.collect("x", 5, on_full="last"), 'neither "fail" nor "first"'),
        (lambda: hr.top_k("x", 2.0), "k=2.0"),
        (lambda: rows.agg(a=hr.top_k("x", 2, by="s")), "by= is string"),
        (lambda: rows.agg(a=hr.top_k("x", 2, by="z")), "no column 'z'"),
        (lambda: rows.agg(a=hr.top_k("l", 2)), "has no order"),
        (lambda: hr.collect("x", 2) + 1, "cannot be part of an expression"),
    ):
        with pytest.raises(PipelineError, match=said):
            make()
