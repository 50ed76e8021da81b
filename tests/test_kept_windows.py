"""Windows that are kept for late rows against the reference: cut anyhow, over shards, on engines,
saved, and at the right moment."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.choices import Choices, Seeded, choices
from tests.random_rows import tables
from tests.running import (
    check_anyhow,
    check_on_engines,
    check_over_shards,
    order_matters,
)
from tests.saving import check_saved, cuts

import headrace as hr
from headrace import PipelineError
from headrace.job import planned
from headrace.plan.schema import Field, Schema
from headrace.plan.types import float64, int32, int64, optional, string
from headrace.stage.blocks.arrow import to_arrow
from headrace.stage.stage import Stage

pytestmark = pytest.mark.timeout(600)


def pipeline(choose: Choices, channels: int = 1, most: int = 40) -> list:
    """Results in time and updated ones, with and without a key, and windows over them."""
    fields = {"t": int64, "k": optional(string), "x": optional(int32), "f": float64}
    schema = Schema(tuple(Field(name, of) for name, of in fields.items()))
    rows = tables(choose, schema, channels=channels, most=most, disorder=30)
    stream = hr.read.memory(rows, schema=schema, name="rows").with_watermark("t", 2)
    size, lateness = choose.pick([2, 5, 10]), choose.pick([1, 5, 10, 13, 40])
    window = hr.tumbling(size, offset=choose.pick([0, 3]), lateness=lateness)
    by_key = stream.key_by("k").window(window)
    summed = by_key.agg(n=hr.count(), f=hr.sum("f"), last=hr.last("x"))
    halves = by_key.agg(n=hr.count(), x=hr.max("x"), s=hr.min("k"))
    alone = stream.window(window).agg(n=hr.count(), x=hr.sum("x"))
    again = halves.window(hr.tumbling(50)).agg(n=hr.sum("n"), given=hr.count())
    made = [summed, summed.late(), halves, alone, again, again.late()]
    return [each.write.collect() for each in made]


@given(choose=choices())
def test_updated_results_agree_with_the_reference(choose):
    channels = choose.pick([1, 3])
    outputs = pipeline(choose, channels)
    if channels > 1:  # sums of floats, and the last of several rows at one time
        outputs = [output for output in outputs if not order_matters(output.node)]
    check_anyhow(outputs, choose)


@given(choose=choices())
def test_updated_results_over_shards(choose):
    outputs = pipeline(choose)
    check_over_shards(outputs, choose)


@pytest.mark.compiled
def test_compiled_results_agree_on_engines():
    choose = Seeded(2)
    outputs = pipeline(choose, most=400)
    check_on_engines(outputs, choose, ordered=True)


def events(first, last):
    numbers = range(first, last)
    return pa.record_batch(
        {"k": [f"w{n * 7 % 5}" for n in numbers], "t": [n - n * 13 % 29 for n in numbers]}
    )


@settings(max_examples=20)
@given(cuts=cuts(100))
def test_saved_and_restored_anywhere(cuts):
    stream = hr.read.memory({"k": ["a"], "t": [0]}, name="events").with_watermark("t", 3)
    made = stream.key_by("k").window(hr.tumbling(10, lateness=12)).agg(n=hr.count())
    plan = planned([made.write.null(name="made"), made.late().write.null(name="late")])
    check_saved(plan, events, 100, cuts)


def test_results_come_when_they_are_due():
    """The first result at the end of the window, the second one at that of its lateness."""
    stream = hr.read.memory({"t": [0]}, name="rows").with_watermark("t", 0)
    made = stream.window(hr.tumbling(10, lateness=7)).agg(n=hr.count()).write.null(name="out")
    stage = Stage(planned([made]).whole, compiled=False)

    def push(*times):
        stage.push("rows", pa.record_batch({"t": list(times)}), "0")
        return [
            (row["window_start"], row["n"], row["window_given"], row["window_updated"])
            for _, block in stage.pull()
            for row in to_arrow(block).to_pylist()
        ]

    assert push(1, 2, 9) == []
    assert push(10) == [(0, 3, 10, False)]
    assert push(3, 16, 4) == []
    assert push(17) == [(0, 5, 17, True)]
    assert push(5) == []  # too late
    stage.end("rows", "0")
    assert push() == [(10, 3, 20, False)]
    stage.close()


def test_mistakes_say_what_to_do():
    rows = hr.read.memory({"t": [1], "x": [1]}).with_watermark("t", 0)
    for made, said in (
        (lambda: rows.window(hr.tumbling(5, lateness=0)), "lateness 0 is not positive"),
        (lambda: rows.window(hr.tumbling(1, lateness=5)), "windows of one unit"),
        (lambda: hr.tumbling("1mo", lateness="1d"), "windows of the calendar are not kept"),
        (
            lambda: rows.window_join(
                rows.rename(t="u", x="y"),
                "x",
                hr.tumbling(5, lateness=2),
                right_on="y",
            ),
            "wait for late rows",
        ),
    ):
        with pytest.raises(PipelineError, match=said):
            made()
