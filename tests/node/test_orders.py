"""What sinks are promised: random pipelines under every ordering, against a run on one thread."""

import time
from collections import defaultdict

import pytest
from hypothesis import given
from tests.choices import Seeded, choices, fewer
from tests.counts import count
from tests.node.schedulers import scheduled
from tests.node.sizes import any_sizes

import headrace as hr
from headrace import col
from headrace.node import engine
from headrace.node.mode import Mode
from headrace.options import REORDERS
from headrace.plan.nodes import ORDERINGS, PARTITIONINGS
from headrace.stage.memory.calls import call

SECONDS = 120.0
pytestmark = pytest.mark.usefixtures("no_thread_is_left")


# ---- random pipelines ------------------------------------------------------------------------


def many(n):
    """From no row to fifty for a row."""
    for k in range((n * 7) % 51):
        yield n * 100 + k


def since(state, n):
    """Depends on the order of the rows of its key."""
    state.last, before = n, state.last
    if n % 11 != 3:
        yield n - before
    if n % 7 == 0:
        yield n


def skewed(choose, rows):
    """Rows with a few keys that have most of them, as numbers and as text."""
    common = choose.number(0, 9)
    keys = [choose.number(0, 9) if choose.chance(40) else common for _ in range(rows)]
    texts = [f"{k} " + "a name that is long enough for a heap" * (k % 2) for k in keys]
    tables = {"n": list(range(rows)), "t": list(range(rows)), "k": keys, "s": texts}
    return hr.read.memory(tables).with_watermark("t", 0)


def _filtered(stream):
    return stream.filter(col("n") % 3 != 1)


def _written(stream):
    return stream.with_columns(n=col("n") + 1)


def _multiplied(stream):
    return stream.flat_map(many, output={"n": hr.int64}, columns=["n"], carry=["k", "s"])


def _processed(stream):
    made = stream.key_by("k", "s").process(since, state={"last": int}, output=["n"], columns=["n"])
    return made.select("n", "k", "s")


def _summed(stream):
    return stream.key_by("s").running(m=hr.sum("n")).with_columns(n=col("n") + col("m")).drop("m")


def _halved(k, s):
    return (k + len(s)) % 2


def _divided(stream):
    """As `_processed`, with keys in parts that a function gives."""
    keyed = stream.key_by("k", "s", partition=hr.by_function(_halved, parts=2))
    made = keyed.process(since, state={"last": int}, output=["n"], columns=["n"])
    return made.select("n", "k", "s")


def _ranged(stream):
    """As `_summed`, with keys in ranges."""
    keyed = stream.key_by("k", partition=hr.by_range([1, 4, 5]))
    return keyed.running(m=hr.sum("n")).with_columns(n=col("n") + col("m")).drop("m")


def _joined(stream):
    table = hr.table({"k": [0, 1, 2, 3, 5, 8], "v": [7, 6, 5, 4, 3, 2]})
    return stream.join(table, on="k").with_columns(n=col("n") * col("v")).drop("v")


def _limited(stream):
    return stream.limit(40)


def _branched(stream):
    """Two ways that meet again, in the order of the rows that both begin with."""
    return stream.union(stream.filter(col("n") % 2 == 0).with_columns(n=1 - col("n")))


STATELESS = (_filtered, _written, _joined, _branched)
STATEFUL = (_processed, _divided, _summed, _ranged, _limited)


def random_stream(choose):
    """A chain of random operators, and the key that its sink has."""
    multiplied = choose.chance(50)
    stream = skewed(choose, choose.number(1, 10 if multiplied else 40))
    if choose.chance(50):  # behind an exchange, in the order of windows and keys
        windows = stream.key_by("n", "k", "s").window(hr.tumbling(10))
        stream = windows.agg(c=hr.count()).drop("c", "window_start")
    else:
        stream = stream.drop("t")
    steps = [choose.pick((*STATELESS, *STATEFUL)) for _ in range(choose.number(1, 4))]
    if multiplied:
        steps.insert(choose.number(0, len(steps)), _multiplied)
    for step in steps:
        stream = step(stream)
    return stream.key_by(*choose.pick([("k",), ("s",), ("k", "s"), ("k", "s")]))


def by_key(table, key):
    """The rows of each key, in their order."""
    found = defaultdict(list)
    for row in table.to_pylist():
        found[tuple(row[name] for name in key)].append(row)
    return found


def assert_promised(found, expected, ordering, key):
    """A result against that of one thread."""
    if ordering == "total":
        assert found.equals(expected)
    elif ordering == "key":
        assert by_key(found, key) == by_key(expected, key)
    else:
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))


def compare(choose, *, compiled):
    stream, ordering = random_stream(choose), choose.pick(ORDERINGS)
    declared = choose.chance(50)
    output = (stream.with_ordering(ordering) if declared else stream).write.collect()
    hr.run(output, engine="thread", compiled=False)
    expected = output.result()
    with any_sizes(choose):
        job = hr.start(
            output,
            engine="node",
            workers=choose.number(1, 8),
            ordering=choose.pick(ORDERINGS) if declared else ordering,
            capacity=choose.pick([1, 3, 64]) if not compiled else 64,
            fuse=choose.pick(["auto", "none"]),
            reorder=choose.pick(REORDERS),
            partitioning=choose.pick(PARTITIONINGS),
            compiled=compiled,
        )
        assert job.await_termination(SECONDS), "it does not end"
    assert_promised(output.result(), expected, ordering, stream.node.key)


@fewer
@given(choose=choices())
def test_random_pipelines_keep_their_promise(choose):
    compare(choose, compiled=False)
    count("random pipelines under an ordering")


@pytest.mark.parametrize("seed", range(16))
def test_pipelines_that_stall_keep_their_promise(seed, monkeypatch):
    random = Seeded(seed)

    def stalling(address, argument):
        if random.chance(20):
            time.sleep(random.number(0, 3) / 1000)
        return call(address, argument)

    slow = Mode(False, call=stalling, MARKER_PERIOD=random.pick([100_000, 5_000_000]))
    monkeypatch.setattr(engine, "_mode", lambda compiled: slow)
    with scheduled(random.pick(["near", "random"])):
        compare(random, compiled=False)
    count("random pipelines under an ordering that stall")


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(4))
def test_random_pipelines_keep_their_promise_compiled(seed):
    compare(Seeded(seed), compiled=True)
    count("random pipelines under an ordering, compiled")


# ---- who is not waited for -------------------------------------------------------------------


def numbered(rows):
    return hr.read.memory({"n": list(range(rows)), "k": [n % 5 for n in range(rows)]})


def slow_split(monkeypatch):
    """The first kernel that is called stalls: others overtake it, where they may."""
    calls = []

    def stalling(address, argument):
        calls.append(1)
        if len(calls) == 2:
            time.sleep(0.3)
        return call(address, argument)

    monkeypatch.setattr(engine, "_mode", lambda compiled: Mode(False, call=stalling))


def order_of(monkeypatch, ordering):
    with any_sizes(Seeded(1)) as _, pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.node.building.SPLIT_BLOCKS", 1)
        slow_split(monkeypatch)
        output = numbered(400).with_columns(m=col("n") * 2).write.collect()
        options = {"workers": 3, "capacity": 16, "compiled": False, "ordering": ordering}
        job = hr.start(output, engine="node", **options)
        assert job.await_termination(SECONDS)
    return output.result()["n"].to_pylist()


def test_rows_without_a_promised_order_do_not_wait_for_a_straggler(monkeypatch):
    assert order_of(monkeypatch, "total") == list(range(400))
    found = order_of(monkeypatch, "none")
    assert found != sorted(found) and sorted(found) == list(range(400))


# ---- what is said, and mistakes --------------------------------------------------------------


def kept(state, n):
    state.last = n
    yield n


def test_explain_says_how_rows_come_together_and_in_which_order():
    stream = numbered(3).key_by("k").process(kept, state={"last": int}, output=["m"])
    said = {
        ordering: hr.explain(stream.write.collect(), engine="node", ordering=ordering)
        for ordering in ORDERINGS
    }
    assert "brought together by place in the input" in said["total"]
    assert "brought together as they come" in said["key"]
    assert "sink_1: in order on threads, in order for each k on Spark" in said["total"]
    assert "sink_1: in order for each k on threads" in said["key"]
    assert "sink_1: in any order on threads" in said["none"]
    rows = hr.explain(numbered(3).write.collect(), engine="node", ordering="none")
    assert "sink_1: collect, as it comes" in rows
    assert "sink_1: in any order on threads, in order on Spark" in rows


def test_the_declaration_of_a_stream_comes_before_that_of_the_run():
    stream = numbered(3).with_ordering("none")
    outputs = [stream.write.collect(), numbered(3).write.collect()]
    said = hr.explain(*outputs, engine="node", ordering="total")
    assert "sink_1: in any order on threads" in said and "sink_2: in order on threads" in said
    both = stream.union(numbered(3)).write.collect()
    assert "in any order on threads" in hr.explain(both, engine="node", ordering="total")


def test_orders_that_do_not_exist_are_errors():
    with pytest.raises(hr.PipelineError, match="'some' is not an order"):
        numbered(3).with_ordering("some")
    with pytest.raises(hr.PipelineError, match="the stream has no key"):
        numbered(3).with_ordering("key")
    with pytest.raises(ValueError, match="ordering='some': there is no such order"):
        hr.run(numbered(3).write.null(), engine="thread", ordering="some")


def test_an_order_that_spark_does_not_give_is_an_error():
    stream = numbered(3).key_by("k").process(kept, state={"last": int}, output=["m"])
    with pytest.raises(ValueError, match="on Spark sink_1 sees rows in order for each k"):
        hr.run(stream.write.null(), engine="spark", ordering="total")
