"""Windows that are given out more than once, early and for late rows, against the reference: cut
anyhow, over shards, on engines, saved, and at the right moment."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.choices import Choices, Seeded, choices, fewer
from tests.random_rows import tables
from tests.running import (
    check,
    check_anyhow,
    check_on_engines,
    check_over_shards,
    order_matters,
)
from tests.saving import check_saved, cuts

import headrace as hr
from headrace import PipelineError
from headrace.asked import planned
from headrace.plan.schema import Field, Schema
from headrace.plan.types import float64, int32, int64, optional, string
from headrace.stage.blocks.arrow import to_arrow
from headrace.stage.stage import Stage

pytestmark = pytest.mark.timeout(600)


SIZES = [2, 5, 10]
OFTEN = {2: [None], 5: [None, 2, 3], 10: [None, 2, 3, 5, 9]}  # how often there are early results


def pipeline(choose: Choices, channels: int = 1, most: int = 40, rows: int = 0) -> list:
    """Early, final and updated results, with and without a key, and windows over them. rows: of a
    key, that give an early result."""
    fields = {"t": int64, "k": optional(string), "x": optional(int32), "f": float64}
    schema = Schema(tuple(Field(name, of) for name, of in fields.items()))
    tabled = tables(choose, schema, channels=channels, most=most, disorder=30)
    stream = hr.read.memory(tabled, schema=schema, name="rows").with_watermark("t", 2)
    size = choose.pick(SIZES)
    early = hr.counting(rows) if rows else choose.pick(OFTEN[size])
    lateness = choose.pick([1, 5, 10, 13, 40, *([] if early is None else [None, None])])
    window = hr.tumbling(size, offset=choose.pick([0, 3]), lateness=lateness, early=early)
    by_key = stream.key_by("k").window(window)
    summed = by_key.agg(n=hr.count(), f=hr.sum("f"), last=hr.last("x"))
    halves = by_key.agg(n=hr.count(), x=hr.max("x"), s=hr.min("k"))
    alone = stream.window(window).agg(n=hr.count(), x=hr.sum("x"))
    again = halves.window(hr.tumbling(50)).agg(n=hr.sum("n"), given=hr.count())
    made = [summed, summed.late(), halves, alone, again, again.late()]
    return [each.write.collect() for each in made]


ROWS = [0, 1, 3]


@fewer
@given(choose=choices())
def test_results_agree_with_the_reference(choose):
    channels, rows = choose.pick([(1, 0), (3, 0), (1, 1), (1, 3)])
    outputs = pipeline(choose, channels, rows=rows)
    if channels > 1:  # sums of floats, and the last of several rows at one time
        outputs = [output for output in outputs if not order_matters(output.node)]
    check_anyhow(outputs, choose)


@fewer
@given(choose=choices())
def test_results_over_shards(choose):
    outputs = pipeline(choose, rows=choose.pick(ROWS))
    check_over_shards(outputs, choose)


@pytest.mark.compiled
@pytest.mark.parametrize("rows", [0, 3])
def test_compiled_results_agree_on_engines(rows):
    choose = Seeded(2)
    outputs = pipeline(choose, most=400, rows=rows)
    check_on_engines(outputs, choose, ordered=not rows)


@pytest.mark.compiled
def test_a_key_has_its_early_results_in_order():
    """On several workers, whatever order is asked for: early ones before that of their window."""
    rows = {"t": [k // 4 for k in range(4000)], "k": [k % 7 for k in range(4000)]}
    stream = hr.read.memory(rows).with_watermark("t", 3).key_by("k")
    made = stream.window(hr.tumbling(50, early=hr.counting(5))).agg(n=hr.count())
    for ordering in ("total", "key"):
        output = made.write.collect()
        hr.run(output, engine="node", workers=3, ordering=ordering)
        counts: dict = {}
        for row in output.result().to_pylist():
            counts.setdefault((row["k"], row["window_start"]), []).append(row["n"])
        for found in counts.values():
            assert found == [*range(5, found[-1] + 1, 5), found[-1]]


def events(first, last):
    numbers = range(first, last)
    return pa.record_batch(
        {"k": [f"w{n * 7 % 5}" for n in numbers], "t": [n - n * 13 % 29 for n in numbers]}
    )


@settings(max_examples=20)
@given(cuts=cuts(100))
def test_saved_and_restored_anywhere(cuts):
    stream = hr.read.memory({"k": ["a"], "t": [0]}, name="events").with_watermark("t", 3)
    for early, by in ((None, ()), (3, ()), (hr.counting(2), ("k", "window_start"))):
        window = hr.tumbling(10, lateness=12, early=early)
        made = stream.key_by("k").window(window).agg(n=hr.count())
        check_saved(planned([made.write.null(name="made")]), events, 100, cuts, by)


class Fed:
    """Windows over rows that are pushed one after the other."""

    def __init__(self, window):
        stream = hr.read.memory({"t": [0]}, name="rows").with_watermark("t", 0)
        made = stream.window(window).agg(n=hr.count()).write.null(name="out")
        self.stage = Stage(planned([made]).whole, compiled=False)

    def push(self, *times):
        """What comes then: start, and all the rest."""
        self.stage.push("rows", pa.record_batch({"t": list(times)}), "0")
        blocks = [to_arrow(block).to_pylist() for _, block in self.stage.pull()]
        rows = [row for block in blocks for row in block]
        return [(row["window_start"], row["n"], *list(row.values())[1:-1]) for row in rows]


def test_early_results_come_when_they_are_due():
    fed = Fed(hr.tumbling(10, early=3))
    assert fed.push(1, 2) == []
    assert fed.push(3) == [(0, 2, 3, True)]
    assert fed.push(7) == [(0, 3, 6, True)]  # the row of 2 comes too late for 3, not for 9
    assert fed.push(2, 8) == []
    assert fed.push(10) == [(0, 6, 9, True), (0, 6, 10, False)]
    assert fed.push(22) == [(10, 1, 13, True), (10, 1, 20, False)]  # nothing new at 16 and 19
    fed.stage.close()


def test_early_results_come_with_their_row():
    fed = Fed(hr.tumbling(10, early=hr.counting(2)))
    assert fed.push(1) == []
    assert fed.push(2, 3, 0) == [(0, 2, True), (0, 4, True)]
    assert fed.push(11, 12) == [(10, 2, True), (0, 4, False)]
    fed.stage.close()


def test_early_results_in_windows_of_the_calendar():
    """Every six hours of the local day, the last part of which is an hour longer or shorter."""
    first = dt.datetime(2026, 3, 28, 23, tzinfo=dt.UTC)  # midnight in Berlin, of a day of 23 hours
    times = [first + dt.timedelta(hours=h) for h in range(0, 40)]
    stream = hr.read.memory({"t": times}).with_watermark("t", "0s")
    window = hr.tumbling("1d", zone="Europe/Berlin", early="6h")
    output = stream.window(window).agg(n=hr.count()).write.collect()
    hr.run(output, engine="thread", compiled=False)
    found = [(row["n"], row["window_early"]) for row in output.result().to_pylist()]
    whole = [(6, True), (12, True), (18, True), (23, False)]
    assert found == [*whole, (6, True), (12, True), (17, True), (17, False)]
    check([output], capacity=4)


def test_updated_results_come_when_they_are_due():
    """The first result at the end of the window, the second one at that of its lateness."""
    fed = Fed(hr.tumbling(10, lateness=7))
    stage, push = fed.stage, fed.push
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
        (lambda: rows.window(hr.tumbling(1, lateness=5)), "at every unit of time"),
        (lambda: rows.window(hr.tumbling(9, lateness=5, early=1)), "at every unit of time"),
        (lambda: rows.window(hr.tumbling(9, early=9)), "early=9 is not shorter than the window"),
        (lambda: rows.window(hr.tumbling(9, early=0)), "early 0 is not positive"),
        (lambda: rows.window(hr.tumbling(9, early="1s")), "early '1s' is a duration"),
        (lambda: rows.window(hr.tumbling(10**6, early=1)), "given out 1000000 times"),
        (lambda: hr.tumbling("1mo", lateness="1d"), "windows of the calendar are not kept"),
        (
            lambda: rows.window_join(
                rows.rename(t="u", x="y"),
                "x",
                hr.tumbling(5, lateness=2),
                right_on="y",
            ),
            "are given out once",
        ),
    ):
        with pytest.raises(PipelineError, match=said):
            made()
