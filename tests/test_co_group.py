"""`co_group`, and lists in users' functions, against the reference."""

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
from headrace.plan.schema import Field, Schema
from headrace.plan.types import float64, int16, int64, optional, string

pytestmark = pytest.mark.timeout(600)


def paired(window_start, x, y, s):
    """Rows of both sides, and how many there are; of a side that is empty nothing but that."""
    yield window_start, len(x), len(y), "all"
    for k in range(len(x)):
        first, text = x[k], s[k]
        if first is not None:
            for second in y:
                if second > first:
                    yield first, k, len(y), text
    if len(y) > 0:
        yield len(y), 0, 1 if y[-1] > 0.5 else 0, "last"


OUTPUT = {"a": optional(int64), "b": hr.int64, "c": hr.int64, "text": optional(string)}


def pipeline(choose: Choices, channels: int = 1, most: int = 30) -> list:
    fields = {"t": int64, "k": optional(int16), "x": optional(int16), "s": optional(string)}
    others = {"u": int64, "j": int16, "y": float64}
    streams = []
    for name, side in (("left", fields), ("right", others)):
        schema = Schema(tuple(Field(n, of) for n, of in side.items()))
        (time, *_) = side
        timed = Schema((Field("t", int64), *schema.fields[1:]))
        given = tables(choose, timed, channels=channels, most=most, disorder=9)
        given = [table.rename_columns(schema.names) for table in given]
        streams.append(hr.read.memory(given, schema=schema, name=name).with_watermark(time, 4))
    window = choose.pick([hr.tumbling(10), hr.sliding(10, every=4), hr.session(3)])
    how = choose.pick(["inner", "left", "full"])
    left, right = streams
    made = left.co_group(right, {"k": "j"}, window, paired, output=OUTPUT, how=how)
    return [made.write.collect()]


@given(choose=choices())
def test_groups_agree_with_the_reference(choose):
    check_anyhow(pipeline(choose), choose)


@given(choose=choices())
def test_groups_over_shards(choose):
    check_over_shards(pipeline(choose), choose)


@pytest.mark.compiled
@pytest.mark.parametrize("engine", ["thread", "node"])
def test_compiled_groups(engine):
    outputs = pipeline(Seeded(1), most=200)
    hr.run(*outputs, engine=engine)
    assert_same(rows_of(outputs[0].result()), naive(outputs)[0], ordered=True)


@settings(max_examples=15)
@given(cuts=cuts(60))
def test_saved_and_restored_anywhere(cuts):
    stream = hr.read.memory({"k": ["a"], "t": [0], "s": ["a"]}, name="events")
    stream = stream.with_watermark("t", 3)
    left, right = stream.split(col("t") % 2 == 0)
    made = left.co_group(
        right.rename(t="u", s="r"), "k", hr.sliding(10, every=5), both_texts, output=["n", "last"]
    )
    check_saved(planned([made.write.collect()]), events, 60, cuts)


def both_texts(s, r):
    found = ""
    for text in r:
        found = text
    yield len(s), found


def events(first, last):
    numbers = range(first, last)
    texts = [f"{'a long string, number ' * (n % 2)}{n * 7 % 13}" for n in numbers]
    keys, times = [f"w{n * 7 % 3}" for n in numbers], [n - n * 13 % 5 for n in numbers]
    return pa.record_batch({"k": keys, "t": times, "s": texts})


# ---- lists in functions ----------------------------------------------------------------------


def summed(xs):
    if xs is None:
        return -1, 0
    total = 0
    for x in xs:
        if x is not None:
            total += x
    return total, len(xs)


def spelled(k, xs):
    if xs is not None:
        for x in xs:
            if x is not None:
                yield x, len(x)
        yield "all", len(xs)


KINDS = {
    "int8": [-(2**7), 2**7 - 1], "int16": [-(2**15), 3], "int32": [-(2**31), 3],
    "int64": [-(2**63) + 9, 3], "uint8": [0, 2**8 - 1], "uint16": [0, 2**16 - 1],
    "uint32": [0, 2**32 - 1], "float32": [0.5, -0.25], "float64": [0.1, 1e300],
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_lists_of_numbers(kind):
    dtype = getattr(pa, kind)()
    lists = [KINDS[kind], [], None, [KINDS[kind][1], None]]
    rows = hr.read.memory(pa.table({"xs": pa.array(lists, pa.list_(dtype))}))
    outputs = [rows.map(summed, output=["total", "n"]).write.collect()]
    assert check(outputs)


def longer(s, xs):
    return s + " and more of it, a long one", -1 if xs is None else len(xs)


def test_a_null_list_has_no_items_of_the_row_before():
    """The memory of short lists was that of texts before."""
    lists = pa.array([[1, 2, 3], None, [], None, [7], None], pa.list_(pa.int64()))
    rows = hr.read.memory(pa.table({"s": ["a" * 24] * 6, "xs": lists}))
    made = rows.map(longer, output=["t", "n"]).write.collect()
    hr.run(made, engine="thread", compiled=False)
    assert made.result()["n"].to_pylist() == [3, -1, 0, -1, 1, -1]


@pytest.mark.compiled
@pytest.mark.parametrize("capacity", [1, 64])
def test_compiled_lists(capacity):
    """Also where a function is suspended in the middle of a list."""
    texts = [["a", None, "a text that is rather long"], [], None, ["é"] * 5]
    numbers = [[1, None, 3], None, [], list(range(20))]
    rows = {"k": [1, 2, 3, 4], "xs": texts, "ns": pa.array(numbers, pa.list_(pa.uint16()))}
    stream = hr.read.memory(pa.table({k: pa.array(v) for k, v in rows.items()}))
    outputs = [
        stream.flat_map(spelled, output=["text", "n"], carry="k").write.collect(),
        stream.map(summed, output=["total", "n"], columns=["ns"]).write.collect(),
        stream.map(lambda xs: xs[-1] if xs is not None and len(xs) > 0 else None, output="x")
        .write.collect(),
    ]  # fmt: skip
    assert check(outputs, compiled=True, capacity=capacity)


def test_places_outside_of_a_list(run_either):
    rows = hr.read.memory({"xs": [[1, 2]]})
    with pytest.raises(IndexError, match="list index out of range"):
        run_either(rows.map(lambda xs: xs[2], output={"x": optional(int64)}))


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.compiled)])
def run_either(request):
    return lambda stream: hr.run(stream.write.collect(), engine="thread", compiled=request.param)


# ---- mistakes --------------------------------------------------------------------------------


def test_mistakes():
    left = hr.read.memory({"k": [1], "t": [1], "x": [1]}).with_watermark("t", 0)
    right = hr.read.memory({"k": [1], "u": [1], "y": [1]}).with_watermark("u", 0)

    def grouped(function=lambda x: (yield len(x)), other=right, window=hr.tumbling(5), **given):
        return left.co_group(other, "k", window, function, **{"output": "n", **given})

    for make, said in (
        (lambda: grouped(how="right"), "how='right' is not a way to group"),
        (lambda: grouped(limit=0), "limit=0"),
        (lambda: grouped(window=5), "5 is not a window"),
        (lambda: grouped(window=hr.tumbling(5, lateness=3)), "groups are given once"),
        (lambda: grouped(other=hr.table(pa.table({"k": [1]}))), "is not a stream"),
        (lambda: grouped(other=right.rename(y="x")), "both streams have a column 'x'"),
        (lambda: grouped(lambda k: (yield k)), "reads no column of either side"),
        (
            lambda: grouped(lambda x, z: (yield len(x))),
            r"parameter 'z', but neither side has(.|\n)*are: k, window_start, t, x, u, y$",
        ),
        (lambda: grouped(lambda x: x, output=["n"]), "does not yield"),
        (lambda: grouped(lambda x: (yield x)), "a list, set or array"),
    ):
        with pytest.raises(PipelineError, match=said):
            make()


def test_more_rows_than_the_limit():
    left = hr.read.memory({"k": [1] * 9, "t": [1] * 9}).with_watermark("t", 0)
    right = hr.read.memory({"k": [1], "u": [1]}).with_watermark("u", 0)
    made = left.co_group(right, "k", hr.tumbling(5), lambda t: (yield len(t)), output="n", limit=8)
    with pytest.raises(ValueError, match="more values than the limit of the list"):
        hr.run(made.write.collect(), engine="thread", compiled=False)
