"""`process` with timers and a time-to-live against the reference: cut anyhow, over shards, on
engines, saved; in time, forgotten, and what goes wrong."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from tests.choices import Choices, Seeded, choices, fewer, kinds_of
from tests.naive import naive, rows_of
from tests.random_rows import tables
from tests.running import assert_same, check_anyhow, check_on_engines, check_over_shards
from tests.saving import check_saved, cuts

import headrace as hr
from headrace import PipelineError, col
from headrace.asked import planned
from headrace.plan.schema import Field, Schema
from headrace.plan.types import float64, int64, optional, string
from headrace.stage.blocks.arrow import to_arrow
from headrace.stage.stage import Stage

pytestmark = pytest.mark.timeout(600)

DUE = hr.optional(int)


def counted(state, t):
    state.n += 1
    state.due = t + 9
    yield t, state.n, "a row that is counted"


def silent(state, t):
    yield t, -state.n, "silent"


def noted(state, t, s):
    """Yields nothing; strings are kept, timers move to and fro, and are taken back."""
    state.n += 1
    if s is not None:
        state.last = s
        state.other = t + 11 + state.n % 3 * 150  # states lie in short panes and in long ones
    state.due = t + state.n % 5 * 4 - 3
    if state.n % 7 == 0:
        state.due = None


def told(state, k, t):
    """More rows than a block takes; then it is set again, a few times."""
    for i in range(state.n % 4 * 3):
        yield t, i, state.last
    yield t, -1, k
    state.n += 3
    if state.n < 40:
        state.due = t + 2
    if state.n % 3 == 0:
        state.other = None


def other(state, t):
    """Sets the other one, perhaps for a time that is over."""
    state.due = t + 4 if state.n % 2 else t - 4
    yield t, state.n, None


def pairs(state, t):
    """Who forgets it begins anew."""
    state.n += 1
    yield t, state.n, None


OUTPUT = {"t": int64, "n": int64, "said": optional(string)}
COUNTED = {"function": counted, "state": {"n": int, "due": DUE}, "timers": {"due": silent}}
KINDS = {
    "silent": {
        "function": counted,
        "state": {"n": int, "due": DUE},
        "timers": {"due": silent},
        "ttl": 1,
    },
    "kept": {"function": counted, "state": {"n": int, "due": DUE}, "timers": {"due": silent}},
    "strings": {
        "function": noted,
        "state": {"n": int, "last": hr.optional(str), "due": DUE, "other": DUE},
        "timers": {"other": other, "due": told},
        "ttl": 6,
    },
    "no timer": {"function": pairs, "state": {"n": int}, "ttl": 8},
}
kinds = kinds_of(KINDS)
some_kinds = kinds_of(KINDS, "strings")
KEYS = [("k",), ("f",), ("k", "f")]


def pipeline(choose: Choices, kind: str, channels: int = 1, most: int = 30, key=None) -> list:
    """What functions yield, what comes too late, and a window behind."""
    time = optional(int64) if key is None and choose.chance(30) else int64
    fields = {"t": time, "k": optional(string), "f": float64, "x": int64, "s": optional(string)}
    schema = Schema(tuple(Field(name, of) for name, of in fields.items()))
    rows = tables(choose, schema, channels=channels, most=most, disorder=15)
    stream = hr.read.memory(rows, schema=schema, name="rows")
    stream = stream.with_watermark("t", choose.pick([0, 5, 20]))
    key = key or choose.pick(KEYS if kind != "strings" else [("k",)])
    given = dict(KINDS[kind])
    if time.nullable:  # functions of these tests take numbers
        stream = stream.with_columns(x=col("t").fill_null(0))
        given["columns"] = ["x", "s"] if kind == "strings" else ["x"]
    made = stream.key_by(*key).process(given.pop("function"), output=OUTPUT, **given)
    windows = made.window(hr.tumbling(20)).agg(rows=hr.count())
    return [made.write.collect(), made.late().write.collect(), windows.write.collect()]


@kinds
@fewer
@given(choose=choices())
def test_timers_agree_with_the_reference(kind, choose):
    outputs = pipeline(choose, kind)
    check_anyhow(outputs, choose)


@some_kinds
@fewer
@given(choose=choices())
def test_timers_over_shards(kind, choose):
    check_over_shards(pipeline(choose, kind, most=15), choose)


@fewer
@given(choose=choices())
def test_timers_over_channels(choose):
    """What a row of any channel does is the same: which of equal times comes first is not said."""
    outputs = pipeline(choose, "no timer", channels=3, most=15)
    check_over_shards(outputs, choose)


@pytest.mark.compiled
@some_kinds
def test_compiled_timers_agree_on_engines(kind):
    for seed in range(2):
        choose = Seeded(seed)
        check_on_engines(pipeline(choose, kind, most=150, key=("k",)), choose, ordered=True)


def events(first, last):
    numbers = range(first, last)
    words = [f"{'a long word, number ' if n % 3 else 'w'}{n * 7 % 5}" for n in numbers]
    times = [n // 2 + 10 * (n // 40) - (n * 13 % 7) for n in numbers]
    columns = {"k": words, "s": words, "x": [n % 3 - 1 for n in numbers], "t": times}
    return pa.record_batch(columns)


@some_kinds
@fewer
@given(cuts=cuts(100))
def test_saved_and_restored_anywhere(kind, cuts):
    rows = {"k": ["a"], "s": ["a"], "x": [1], "t": [0]}
    stream = hr.read.memory(rows, name="events").with_watermark("t", 7).key_by("k")
    given = dict(KINDS[kind])
    made = stream.process(given.pop("function"), output=OUTPUT, **given)
    check_saved(planned([made.write.null(name="rows")]), events, 100, cuts)


# ---- in time, and forgotten ----------------------------------------------------------------


def test_timers_go_off_when_the_watermark_is_behind_them():
    """Not earlier and not later, and before the rows of their time."""
    rows = hr.read.memory({"k": ["a"], "t": [0]}, name="rows").with_watermark("t", 0).key_by("k")
    made = rows.process(output=OUTPUT, **KINDS["silent"]).write.null(name="out")
    stage = Stage(planned([made]).whole, compiled=False)

    def after(*times):
        stage.push("rows", pa.record_batch({"k": ["a"] * len(times), "t": list(times)}), "0")
        given = [row for _, block in stage.pull() for row in to_arrow(block).to_pylist()]
        return [(row["t"], row["n"]) for row in given]

    assert after(1) == []
    assert after(2) == [(1, 1)]
    assert after(11) == [(2, 2)]  # another row of 11 may come, and the timer is of 11
    assert after(12) == [(11, -2), (11, 3)]
    assert after(40) == [(12, 4), (21, -4)]
    assert after(41) == [(40, 1)]  # the state before was forgotten when the timer had gone off


def test_states_are_forgotten():
    """Each key comes once; those of the last units of time are remembered."""
    rows = hr.read.index(1)
    stream = rows.select(k=col("index"), t=col("index")).with_watermark("t", 0).key_by("k")
    made = [
        stream.process(pairs, state={"n": int}, output=OUTPUT, ttl=60),
        stream.process(output=OUTPUT, **(KINDS["silent"] | {"ttl": 20})),
    ]
    plan = planned([each.write.null(name=f"out_{k}") for k, each in enumerate(made)]).whole
    stage, (source,) = Stage(plan, compiled=False), plan.inputs
    keys, sizes = [], []
    for start in range(0, 2_000, 20):
        stage.push(source.name, pa.record_batch({"index": list(range(start, start + 20))}), "0")
        list(stage.pull())
        found = [m for m in stage.metrics().values() if m.get("state_keys")]
        keys.append([m["state_keys"] for m in found])
        sizes.append(sum(m["state_bytes"] for m in found))
    assert max(max(each) for each in keys[10:]) < 270
    assert sizes[-1] <= 2 * sizes[10]
    stage.end(source.name, "0")
    list(stage.pull())
    assert not any(m.get("state_keys") for m in stage.metrics().values())


def test_states_are_forgotten_while_much_is_worked_on():
    """All rows at once, and a life as short as can be: panes do not pile up."""
    rows = 1_000
    table = {"k": [n % 7 for n in range(rows)], "t": [3 * n for n in range(rows)]}
    stream = hr.read.memory(pa.table(table)).with_watermark("t", 0).key_by("k")
    output = stream.process(pairs, state={"n": int}, output=OUTPUT, ttl=1).write.null(name="out")
    plan = planned([output]).whole
    stage, (source,) = Stage(plan, compiled=False), plan.inputs
    stage.push(source.name, pa.table(table).to_batches()[0], "0")
    list(stage.pull())
    (kernel,) = [u.kernel for u in stage._units if getattr(u, "kernel", None) and u.kernel.windows]
    assert kernel.windows.panes.mask < 64


# ---- what goes wrong -----------------------------------------------------------------------


def for_ever(state, t):
    state.due = t + 1
    yield t, 0, None


def fails(state, t):
    yield t, 10 // (t - 29), None


def stream_of(times):
    rows = {"k": ["a"] * len(times), "t": times, "x": times}
    return hr.read.memory(rows).with_watermark("t", 0).key_by("k")


def test_timers_without_end():
    made = stream_of([1, 2]).process(
        for_ever, state={"due": DUE}, output=OUTPUT, timers={"due": for_ever}
    )
    with pytest.raises(RuntimeError, match="timers set timers without end"):
        hr.run(made.write.null(), engine="thread", compiled=False)


@pytest.mark.parametrize(
    "options", [{"engine": "thread", "compiled": False}, {"engine": "node"}], ids=str
)
def test_functions_that_fail_name_the_line(options):
    """That of a timer, and that of a row, as Python raises it."""
    given = {"state": {"n": int, "due": DUE}, "output": OUTPUT}
    for made, said in (
        (stream_of([20]).process(counted, timers={"due": fails}, **given), "timer"),
        (stream_of([20, 29]).process(fails, ttl=5, **given), "row"),
    ):
        with pytest.raises(ZeroDivisionError) as caught:
            hr.run(made.write.null(), **options)
        notes = "\n".join(caught.value.__notes__)
        assert "in operator process" in notes
        assert "10 // (t - 29)" in notes
        assert f"{said}: k='a', t=29" in notes


def test_times_far_away():
    far = 1 << 59
    made = stream_of([-far, 0, far]).process(output=OUTPUT, **KINDS["silent"])
    outputs = [made.write.collect()]
    hr.run(*outputs, engine="thread", compiled=False)
    assert_same(rows_of(outputs[0].result()), naive(outputs)[0], ordered=True)


def test_mistakes_say_what_to_do():
    rows = hr.read.memory({"k": ["a"], "t": [1], "x": [1]})
    timed = rows.with_watermark("t", 0).key_by("k")
    state = {"n": int, "due": DUE, "name": str}

    def process(stream=timed, function=counted, **given):
        given = {"state": state, "output": OUTPUT, "timers": {"due": silent}} | given
        return stream.process(function, **given)

    def needs_x(state, x):
        yield x, 1, None

    def returns(state, t):
        return t

    def quiet(state):
        state.n += 1

    for made, said in (
        (lambda: process(rows.key_by("k")), "timers and a time-to-live go by event time"),
        (lambda: process(rows.with_watermark("t", 0)), "has no key"),
        (lambda: process(ttl=0), "is not positive"),
        (lambda: process(ttl="1s"), "is a duration"),
        (lambda: process(ttl=1 << 61), "too long"),
        (lambda: process(timers={"late": silent}), "'late' is no field of the state"),
        (lambda: process(timers={"n": silent}), "cannot say when a timer goes off"),
        (lambda: process(timers={"name": silent}), "cannot say when a timer goes off"),
        (lambda: process(timers={"due": 5}), "5 is not a function"),
        (lambda: process(timers=["due"]), "does not name fields"),
        (lambda: process(timers={"due": needs_x}), "there is no row when a timer goes off"),
        (lambda: process(timers={"due": returns}), "returns a value"),
        (lambda: process(function=quiet, timers={"due": quiet}), "no function yields"),
        (lambda: process(on_error="skip"), "is not possible with timers"),
        (lambda: process(rows.key_by("k"), timers=None).late(), "has late rows"),
    ):
        with pytest.raises(PipelineError, match=said):
            made()
