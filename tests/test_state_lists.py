"""Lists of bounded length in the state of `process`, against the reference: cut anyhow, over
shards, on engines, saved; errors, and the memory of changes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.choices import Choices, Seeded, choices, fewer, kinds_of
from tests.random_rows import tables
from tests.running import check_anyhow, check_on_engines, check_over_shards
from tests.saving import check_saved, cuts

import headrace as hr
from headrace import PipelineError
from headrace.asked import planned
from headrace.plan.schema import Field, Schema
from headrace.plan.types import binary, float64, int64, optional, string

pytestmark = pytest.mark.timeout(600)


class Lists:
    numbers: hr.bounded_list(int, 5, on_full="last")
    texts: hr.bounded_list(str, 4, on_full="last")
    few: hr.bounded_list(float, 3)
    flags: hr.bounded_list(bool, 40, on_full="last")
    blobs: hr.bounded_list(bytes, 2, on_full="last")
    due: hr.optional(int) = None


OUTPUT = {"t": int64, "n": int64, "number": int64, "text": optional(string), "half": float64}


def kept(state, t, x, s, b):
    """All that lists can do; loops over one that changes, strings of all lengths."""
    state.numbers.append(x)
    if s is not None:
        state.texts.append(s)
        if len(s) > 3:
            state.texts.append("twice and longer: " + s)
    state.flags.append(x > 2)
    state.blobs.append(b)
    if len(state.few) == 3:
        state.few.clear()
    state.few.append(x / 2)
    total = 0
    for number in state.numbers:
        total += number
        if number % 3 == 0:
            state.numbers.append(number + 1)
    text = state.texts[-1] if len(state.texts) > 0 else None
    yield t, len(state.texts), total, text, state.few[0]
    if len(state.flags) % 4 == 3 and state.flags[-1]:
        first = state.numbers.popleft()
        yield t, len(state.blobs), first, None, 0.5
    for text in state.texts:
        yield t, len(text), len(state.blobs[-1]), text, state.few[-1]
    if x == 1 and len(state.texts) > 0:
        oldest = state.texts.popleft()
        yield t, -1, len(oldest), oldest, 0.0


def failing(state, t, x, s, b):
    """Rows that fail change no list: too many items, none at all, and a place that is not there."""
    state.numbers.append(x)
    if s is not None:
        state.texts.append(s)
        state.few.append(len(s) / 2)
    if x > 4:
        state.few.popleft()
    yield t, len(state.few), state.numbers[x], None, 0.0


def waits(state, t, x, s):
    if s is not None:
        state.texts.append(s)
    state.numbers.append(x)
    state.due = t + 6


def told(state, t):
    for text in state.texts:
        yield t, len(state.numbers), state.numbers[0], text, 0.0
    state.texts.clear()
    if len(state.numbers) > 2:
        state.numbers.popleft()
        state.due = t + 2


def plain(stream):
    return [stream.process(kept, state=Lists, output=OUTPUT)]


def letters(stream):
    made = stream.process(
        failing, state=Lists, output=OUTPUT, on_error="dead_letter", name="failing"
    )
    return [made, made.dead_letters().drop("error_message")]


def timed(stream):
    made = stream.process(waits, state=Lists, output=OUTPUT, timers={"due": told}, ttl=9)
    return [made]


KINDS = {"plain": plain, "letters": letters, "timed": timed}
kinds = kinds_of(KINDS)


def pipeline(choose: Choices, kind: str, channels: int = 1, most: int = 40) -> list:
    fields = {"t": int64, "k": optional(string), "x": int64, "s": optional(string), "b": binary}
    schema = Schema(tuple(Field(name, of) for name, of in fields.items()))
    rows = tables(choose, schema, channels=channels, most=most, disorder=12)
    stream = hr.read.memory(rows, schema=schema, name="rows")
    stream = stream.with_columns(x=hr.col("x") % 7).with_watermark("t", 5).key_by("k")
    return [each.write.collect() for each in KINDS[kind](stream)]


@kinds
@fewer
@given(choose=choices())
def test_lists_agree_with_the_reference(kind, choose):
    check_anyhow(pipeline(choose, kind), choose)


@fewer
@given(choose=choices())
def test_lists_over_shards(choose):
    check_over_shards(pipeline(choose, choose.pick(list(KINDS))), choose)


@pytest.mark.compiled
@kinds_of(KINDS, "plain", "timed")
def test_compiled_lists_agree_on_engines(kind):
    choose = Seeded(4)
    check_on_engines(pipeline(choose, kind, most=300), choose, ordered=True)


def events(first, last):
    numbers = range(first, last)
    words = [f"{'a long word, number ' if n % 3 else 'w'}{n * 7 % 5}" for n in numbers]
    times = [n // 2 - n * 13 % 7 for n in numbers]
    blobs = [bytes([n % 251]) * (n % 20) for n in numbers]
    return pa.record_batch({
        "k": [word[-1] for word in words], "s": words, "t": times, "b": blobs,
        "x": [n * 5 % 7 for n in numbers],
    })  # fmt: skip


@kinds
@settings(max_examples=4)
@given(cuts=cuts(100))
def test_saved_and_restored_anywhere(kind, cuts):
    rows = {"k": ["a"], "s": ["a"], "t": [0], "b": [b""], "x": [1]}
    stream = hr.read.memory(rows, name="events").with_watermark("t", 7).key_by("k")
    outputs = [each.write.null(name=f"out_{k}") for k, each in enumerate(KINDS[kind](stream))]
    check_saved(planned(outputs), events, 100, cuts)


@pytest.mark.compiled
def test_lists_do_not_pile_up():
    """What changes leave behind, 20 MB of them, is given back."""
    rows, keys = 50_000, 10

    def note(state, x):
        state.last.append(x)
        yield len(state.last)

    table = pa.table({"k": [n % keys for n in range(rows)], "x": list(range(rows))})
    stream = hr.read.memory(table).key_by("k")
    state = {"last": hr.bounded_list(int, 50, on_full="last")}
    output = stream.process(note, state=state, output="n", name="noted").write.collect()
    job = hr.run(output, engine="thread")
    assert max(row["n"] for row in output.result().to_pylist()) == 50
    assert job.metrics()["noted"]["state_bytes"] < 4_000_000


@pytest.mark.parametrize(
    "options",
    [
        {"engine": "thread", "compiled": False},
        pytest.param({"engine": "node"}, marks=pytest.mark.compiled),
    ],
    ids=str,
)
def test_errors_name_the_line(options):
    def add(state, x):
        state.all.append(x)
        yield len(state.all)

    def take(state, x):
        yield state.all.popleft()

    rows = hr.read.memory({"k": ["a"] * 4, "x": [1, 2, 3, 4], "t": [1, 2, 3, 4]})
    rows = rows.with_watermark("t", 0).key_by("k")
    state = {"all": hr.bounded_list(int, 3)}
    for made, error, said, line in (
        (rows.process(add, state=state, output="n"), ValueError, "as its limit", "append(x)"),
        (rows.process(take, state=state, output="n"), IndexError, "pop from", "popleft()"),
        (rows.process(add, state=state, output="n", ttl=9), ValueError, "limit", "append(x)"),
    ):
        with pytest.raises(error, match=said) as caught:
            hr.run(made.write.null(), **options)
        assert line in "\n".join(caught.value.__notes__)


def test_mistakes_say_what_to_do():
    rows = hr.read.memory({"k": ["a"], "x": [1], "s": ["a"]}).key_by("k")

    def add(state, x):
        state.all.append(x)
        yield len(state.all)

    def set_to(state, x):
        state.all = x
        yield x

    def gives(state, x):
        yield state.all

    class Begun:
        all: hr.bounded_list(int, 3) = (1,)

    def process(function=add, kind=hr.bounded_list(int, 3), state=None):
        return rows.process(function, state=state or {"all": kind}, output="n")

    for made, said in (
        (lambda: process(kind=list[int]), "the list 'all' of the state has no limit"),
        (lambda: process(kind=hr.bounded_list(int, 0)), "0 is no limit"),
        (lambda: process(kind=hr.bounded_list(int, 10_001)), "from 1 to 10,000"),
        (lambda: process(kind=hr.bounded_list(int, 3, on_full="first")), "neither .fail. nor"),
        (lambda: process(kind=hr.bounded_list(hr.int32, 3)), "cannot have items of type int32"),
        (lambda: process(kind=hr.bounded_list(hr.optional(int), 3)), "cannot have items of type"),
        (lambda: process(kind=hr.bounded_list(str, 3)), "a list of string cannot have an item"),
        (lambda: process(state=Begun), "begins empty"),
        (lambda: process(set_to), "cannot assign"),
        (lambda: process(gives), "a list, set or array"),
    ):
        with pytest.raises(PipelineError, match=said):
            made()
