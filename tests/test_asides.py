"""Several outputs of a function, against the reference: cut anyhow, over shards, saved, on
engines."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.choices import Choices, Seeded, choices, fewer, kinds_of
from tests.naive import naive, rows_of
from tests.random_rows import tables
from tests.running import assert_same, check, check_anyhow, check_over_shards
from tests.saving import check_saved, cuts

import headrace as hr
from headrace import PipelineError, col
from headrace.asked import planned
from headrace.plan.schema import Field, Schema
from headrace.plan.types import float64, int32, int64, optional, string

pytestmark = pytest.mark.timeout(600)

DUE = hr.optional(int)


def split_up(s, x):
    """More rows than a block takes, for one output and another in turn; strings of all lengths."""
    if s is not None:
        for k in range(len(s) % 9):
            yield hr.aside("letters", s[k : k + 1], s + " and more than a view holds", k)
            if k % 2:
                yield k, None if x is None else x % 100
    if x is not None:
        yield hr.aside("halves", x / 2, x)
    yield -1, x


def counted(state, t, s):
    state.n += 1
    if state.n % 3 == 0:
        yield hr.aside("thirds", t, s)
    if state.n % 2:
        yield state.n
    elif s is not None:
        yield hr.aside("texts", s + "!", state.last)
        state.last = s


def failing(state, x):
    yield hr.aside("tried", state.n)
    state.n += 1
    yield 12 // x
    yield hr.aside("tried", -state.n)


def visited(state, t):
    state.n += 1
    state.due = t + 5
    yield hr.aside("visits", t, state.n)


def left(state, k, t):
    yield t, state.n
    if state.n % 2:
        yield hr.aside("odd", "an odd number of visits by " + (k if k is not None else "nobody"))


FLAT = {"letters": ["letter", "text", "at"], "halves": {"half": float64, "x": optional(int64)}}
KEYED = {"thirds": ["t", "s"], "texts": ["text", "before"]}
TIMED = {"visits": {"t": int64, "n": int32}, "odd": "said"}


def flat(stream):
    """One output alone, a union of two, and a window behind one."""
    made = stream.flat_map(split_up, output=["n", "x"], asides=FLAT, carry=["t", "k"], name="flat")
    alone = stream.flat_map(split_up, output=["n", "x"], asides=FLAT, name="alone")
    both = made.aside("letters").select("t", "k", n=col("at")).union(made.select("t", "k", "n"))
    return [made, made.aside("letters"), made.aside("halves"), alone.aside("halves"), both]


def keyed(stream):
    made = stream.key_by("k").process(
        counted, state={"n": int, "last": str}, output="n", asides=KEYED, name="keyed"
    )
    windows = made.aside("thirds").window(hr.tumbling(10)).agg(n=hr.count())
    return [made, made.aside("thirds"), made.aside("texts"), windows]


def failed(stream):
    made = stream.key_by("k").process(
        failing, state={"n": int}, output="q", asides={"tried": "n"}, on_error="dead_letter",
        name="failed",
    )  # fmt: skip
    kind = col("error_message").str.split_part(":", 0)
    letters = made.dead_letters().with_columns(error_message=kind)
    return [made, made.aside("tried"), letters]


def timed(stream):
    made = stream.key_by("k").process(
        visited, state={"n": int, "due": DUE}, output=["t", "n"], timers={"due": left}, ttl=1,
        asides=TIMED, name="timed",
    )  # fmt: skip
    return [made, made.aside("visits"), made.aside("odd"), made.late()]


KINDS = {"flat": flat, "keyed": keyed, "failed": failed, "timed": timed}
kinds = kinds_of(KINDS)


def pipeline(choose: Choices, kind: str, channels: int = 1, most: int = 30) -> list:
    """All outputs of an operator that has several."""
    fields = {"t": int64, "k": optional(string), "x": optional(int32), "s": optional(string)}
    schema = Schema(tuple(Field(name, of) for name, of in fields.items()))
    rows = tables(choose, schema, channels=channels, most=most, disorder=12)
    stream = hr.read.memory(rows, schema=schema, name="rows").with_watermark("t", 5)
    return [each.write.collect() for each in KINDS[kind](stream)]


@kinds
@fewer
@given(choose=choices())
def test_outputs_agree_with_the_reference(kind, choose):
    check_anyhow(pipeline(choose, kind), choose)


@fewer
@given(choose=choices())
def test_outputs_over_shards(choose):
    check_over_shards(pipeline(choose, choose.pick(list(KINDS))), choose)


@pytest.mark.compiled
@kinds_of(KINDS, "keyed", "timed")
def test_compiled_outputs_agree_on_engines(kind):
    """In order for each output, with blocks that end in the middle of a row."""
    choose = Seeded(5)
    outputs = pipeline(choose, kind, most=300)
    outputs = outputs[:-1] if kind == "flat" else outputs  # the sides of a union mix
    check(outputs, compiled=True, capacity=7, cuts=choose)
    expected = naive(outputs)
    assert all(expected)
    for partitioning, workers, capacity in (
        ("shared", 1, 8192),
        ("owners", 3, 7),
        ("hybrid", 2, 16),
    ):
        hr.run(
            *outputs, engine="node", workers=workers, capacity=capacity, partitioning=partitioning
        )
        for output, other in zip(outputs, expected, strict=True):
            assert_same(rows_of(output.result()), other, ordered=True)


def events(first, last):
    numbers = range(first, last)
    words = [f"{'a long word, number ' if n % 3 else 'w'}{n * 7 % 5}" for n in numbers]
    times = [n // 2 - n * 13 % 7 for n in numbers]
    return pa.record_batch({"k": words, "s": words, "t": times})


@settings(max_examples=6)
@given(cuts=cuts(100))
def test_saved_and_restored_anywhere(cuts):
    rows = hr.read.memory({"k": ["a"], "s": ["a"], "t": [0]}, name="events")
    stream = rows.with_watermark("t", 7).key_by("k")
    keyed = stream.process(
        counted, state={"n": int, "last": str}, output="n", asides=KEYED, name="keyed"
    )
    timed = stream.process(
        visited, state={"n": int, "due": DUE}, output=["t", "n"], timers={"due": left},
        asides=TIMED, name="timed",
    )  # fmt: skip
    made = [keyed, keyed.aside("texts"), timed, timed.aside("odd"), timed.aside("visits")]
    plan = planned([each.write.null(name=f"out_{k}") for k, each in enumerate(made)])
    check_saved(plan, events, 100, cuts)


def test_values_of_one_type_share_a_column():
    rows = hr.read.memory({"k": ["a"], "t": [0], "s": ["a"]}).key_by("k")
    made = rows.process(
        counted, state={"n": int, "last": str}, output="n", asides=KEYED, name="keyed"
    )
    kinds = [field.type for field in made.node.input.input.schema][2:]
    assert kinds == [int64, string, string]  # of six values


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.compiled)])
def test_a_stream_may_be_none_but_asides(compiled):
    """What the stream itself would have is declared then, and may be nothing."""

    def only(x):
        yield hr.aside("all", x)

    rows = hr.read.memory({"x": [1, 2]})
    made = rows.flat_map(only, output={"n": int}, asides={"all": "x"})
    outputs = [made.write.collect(), made.aside("all").write.collect()]
    hr.run(*outputs, engine="thread", compiled=compiled)
    assert outputs[0].result().to_pylist() == []
    assert outputs[1].result().to_pylist() == [{"x": 1}, {"x": 2}]


@pytest.mark.compiled
@pytest.mark.parametrize("engine", ["thread", "node"])
def test_single_values_that_may_be_none(engine):
    def some(x):
        if x % 2:
            yield hr.aside("odd", x)
        yield None if x % 3 == 0 else x * 0.5

    rows = hr.read.memory({"x": [1, 2, 3]})
    made = rows.flat_map(some, output="half", asides={"odd": "x"})
    outputs = [made.write.collect(), made.aside("odd").write.collect()]
    hr.run(*outputs, engine=engine)
    assert [row["half"] for row in outputs[0].result().to_pylist()] == [0.5, 1.0, None]
    assert [row["x"] for row in outputs[1].result().to_pylist()] == [1, 3]


def test_mistakes_say_what_to_do():
    rows = hr.read.memory({"k": ["a"], "x": [1]}).key_by("k")

    def watch(state, x):
        state.n += 1
        if x > 3:
            yield hr.aside("alerts", x)
        yield state.n

    def unlike(state, x):
        yield hr.aside("alerts", x)
        yield hr.aside("alerts", x, x)
        yield x

    def by_variable(state, x):
        name = "alerts" if x > 3 else "others"
        yield hr.aside(name, x)

    def process(function=watch, asides=None, output="n"):
        return rows.process(function, state={"n": int}, output=output, asides=asides)

    alerts = {"alerts": "x"}
    for made, said in (
        (lambda: process(), "yields to the aside 'alerts', which is not named"),
        (lambda: process(asides={"alarms": "x"}), "'alerts', which is not named"),
        (lambda: process(asides=alerts | {"more": "y"}), "no row is yielded for the aside 'more'"),
        (lambda: process(asides={"alerts": ["x", "y"]}), "gives 1 value for 2 columns"),
        (lambda: process(asides={"alerts": {"x": str}}), "gives int64 for column 'x'"),
        (lambda: process(asides={"alerts": "k"}), "k comes by itself"),
        (lambda: process(asides={}), "names no outputs"),
        (lambda: process(asides={"": "x"}), "is no name of an aside"),
        (lambda: process(asides={"alerts": []}), "names no column"),
        (lambda: process(unlike, asides=alerts), "yields different types"),
        (lambda: process(by_variable, asides=alerts), "aside"),
        (lambda: process(asides=alerts).aside("others"), "no aside 'others', only 'alerts'"),
        (lambda: rows.aside("alerts"), "has no aside 'alerts'"),
    ):
        with pytest.raises(PipelineError, match=said):
            made()
