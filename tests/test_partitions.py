"""How keys lie in parts: the same results, and the rows of a part in one place, on every engine."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.choices import fewer
from tests.counts import count
from tests.naive import naive, rows_of
from tests.running import assert_same
from tests.spark.shards import Engine

import headrace as hr
from headrace.asked import planned
from headrace.node import engine
from headrace.plan.errors import PipelineError, StateError
from headrace.plan.nodes import PARTITIONINGS
from headrace.spark import keyed as keyed_stage
from headrace.spark.errors import carried
from headrace.spark.moving import groups_of
from headrace.spark.wire import ERROR
from headrace.stage.stage import Stage
from headrace.stage.store import group_of_part
from headrace.stage.tables import GROUP
from headrace.testing.stages import run_stages

BOUNDS = [-2, 3, 10]


@pytest.fixture(autouse=True)
def fresh_worker():
    keyed_stage._cached.clear()
    yield
    keyed_stage._cached.clear()


def third(k):
    return 2 if k is None else k % 3


def by_length(k, s):
    return (third(k) + len(s)) % 5


def totals(state, n):
    state.total += n
    yield state.total, n


def table(keys):
    size = len(keys)
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "s": pa.array([f"the name {n % 4}" * (n % 2) for n in range(size)], pa.string()),
            "t": np.arange(size),
            "n": np.arange(size) % 7,
        }
    )


PARTITIONS = {
    "range": (("k",), hr.by_range(BOUNDS)),
    "text": (("s",), hr.by_range(["the", "the name 2"])),
    "function": (("k",), hr.by_function(third, parts=3)),
    "two columns": (("k", "s"), hr.by_function(by_length, parts=5)),
    "one part": (("k",), hr.by_range([10**6])),
}


def streams(keys, name):
    """Every kind of state, twice by one key without an exchange between them."""
    key, partition = PARTITIONS[name]
    source = hr.read.memory(table(keys)).with_watermark("t", 3)
    keyed = source.key_by(*key, partition=partition)
    processed = keyed.process(totals, state={"total": int}, output=["m", "n"])
    counted = keyed.window(hr.tumbling(20)).agg(c=hr.count(), total=hr.sum("n"))
    return [
        processed,
        processed.running(seen=hr.count()),
        counted,
        counted.running(so_far=hr.sum("c")),
        keyed.window(hr.session(2)).agg(first=hr.first("n")),
        keyed.dedup(),
        keyed.dedup(within=5),
        keyed.process(totals, state={"total": int}, output=["m", "n"], ttl=4),
    ]


keys = st.lists(st.none() | st.integers(-5, 15), max_size=40)
some = st.sets(st.integers(0, 7), min_size=1, max_size=2)


@fewer
@given(
    keys=keys,
    name=st.sampled_from(list(PARTITIONS)),
    chosen=some,
    workers=st.integers(1, 4),
    partitioning=st.sampled_from(PARTITIONINGS),
)
def test_results_do_not_depend_on_a_partition(keys, name, chosen, workers, partitioning):
    outputs = [streams(keys, name)[k].write.collect() for k in chosen]
    expected = naive(outputs)
    for options in (
        {"engine": "thread"},
        {"engine": "node", "workers": workers, "partitioning": partitioning},
    ):
        hr.run(*outputs, compiled=False, capacity=16, **options)
        for output, wanted in zip(outputs, expected, strict=True):
            assert_same(rows_of(output.result()), wanted, ordered=True)
    count("pipelines with partitions of their own")


@fewer
@given(
    keys=keys,
    name=st.sampled_from(list(PARTITIONS)),
    chosen=some,
    shards=st.sampled_from([2, 3, 7]),
)
def test_shards_give_the_same_rows(keys, name, chosen, shards):
    outputs = [streams(keys, name)[k].write.collect() for k in chosen]
    found = run_stages(*outputs, shards=shards, capacity=16)
    for table_, wanted in zip(found.values(), naive(outputs), strict=True):
        assert_same(rows_of(table_), wanted, ordered=False)
    count("pipelines with partitions of their own over shards")


@pytest.mark.compiled
def test_compiled_it_is_the_same(monkeypatch):
    monkeypatch.setattr(engine, "OWNERS", 3)
    random = np.random.default_rng(1)
    many = [None if n > 15 else int(n) for n in random.integers(-5, 17, 3_000)]
    for name in ("range", "function"):
        output = streams(many, name)[1].write.collect()
        (expected,) = naive([output])
        for options in ({}, {"partitioning": "hybrid"}):
            hr.run(output, engine="node", workers=2, **options)
            assert_same(rows_of(output.result()), expected, ordered=True)


# ---- where state lies ------------------------------------------------------------------------


def test_a_part_is_a_key_group():
    """What is saved says the group; restored, and saved again, it is the same."""
    stream = hr.read.memory(table(range(-5, 15)), name="rows")
    keyed = stream.key_by("k", partition=hr.by_range(BOUNDS))
    output = keyed.process(totals, state={"total": int}, output=["m", "n"], name="totals")
    plan = planned([output.write.null()])
    expected = {k: group_of_part(sum(k >= b for b in BOUNDS), 4) for k in range(-5, 15)}
    stage = Stage(plan.whole, capacity=8, compiled=False)
    stage.declare("rows", "0")
    stage.push("rows", table(range(-5, 15)).to_batches()[0], "0")
    list(stage.pull())
    for _ in range(2):
        saved = stage.snapshot()
        rows = saved.operators["totals"].rows
        found = dict(zip(rows.column(2).to_pylist(), rows.column(GROUP).to_pylist(), strict=True))
        assert found == expected
        stage.close()
        stage = Stage(plan.whole, capacity=8, compiled=False)
        stage.restore(saved)
    stage.close()


@pytest.mark.parametrize("name", ["range", "two columns"])
def test_shards_change(tmp_path, name):
    """Records find their new owners, part by part, and the state of a part is in one shard."""
    random = np.random.default_rng(2)
    many = [None if n > 15 else int(n) for n in random.integers(-5, 17, 400)]
    job = Engine(streams(many, name), tmp_path, 60, 3)
    for shards in (7, 2):
        job.commit(*job.batch())
        job.commit(*job.batch())
        job.move(shards)
    while not job.has_ended:
        job.commit(*job.batch())
    for found, expected in zip(job.rows, naive(job.outputs), strict=True):
        assert_same(found, expected, ordered=False)


def test_ranges_are_shards():
    """As many ranges as shards: each has one."""
    for parts in range(1, 129):
        for part in range(parts):
            assert group_of_part(part, parts) in groups_of(part, parts)


def test_saved_state_of_another_partition_is_refused(tmp_path):
    def stage(partition):
        keyed = hr.read.memory(table([1]), name="rows").key_by("k", partition=partition)
        output = keyed.process(totals, state={"total": int}, output=["m", "n"], name="totals")
        return Stage(planned([output.write.null()]).whole, compiled=False)

    first, other = stage(hr.by_range([3])), stage(hr.by_range([4]))
    with pytest.raises(StateError, match=r"partition: saved range\(3\), now range\(4\)"):
        other.restore(first.snapshot())
    with pytest.raises(StateError, match=r"partition: saved range\(3\), now None"):
        stage(None).restore(first.snapshot())


# ---- mistakes --------------------------------------------------------------------------------


def source(**types):
    return hr.read.memory({"k": [1], "s": ["a"], "f": [0.5], "b": [True], "d": [dt.date.min]})


@pytest.mark.parametrize(
    ("key", "partition", "said"),
    [
        (["k"], 3, "partition=3 does not say how keys lie in parts"),
        (["k"], hr.by_range([]), "0 bounds make 1 ranges: there are 2 to 128"),
        (["k"], hr.by_range(range(128)), "128 bounds make 129 ranges"),
        (["k"], hr.by_range("10"), "the bounds are a list"),
        (["k"], hr.by_range(7), "the bounds are a list"),
        (["k"], hr.by_range([1, 5, 5]), "5 is not above 5"),
        (["k"], hr.by_range(["a"]), "'a' is not a value of int64"),
        (["k"], hr.by_range([None]), "None is not a value of int64"),
        (["f"], hr.by_range([float("nan")]), "NaN bounds nothing"),
        (["b"], hr.by_range([True]), "'b' is bool, which is not divided into ranges"),
        (["k", "s"], hr.by_range([3]), "is for one column, and the key has 2: k, s"),
        (["k"], hr.by_function(third, parts=0), "parts=0 is not a number of parts"),
        (["k"], hr.by_function(third, parts=129), "there are 1 to 128"),
        (["k"], hr.by_function(lambda k: k / 2, parts=2), "gives float64, and a part is a whole"),
        (["k"], hr.by_function(lambda k: (k, k), parts=2), "gives int64, int64, and a part"),
        (["k", "s"], hr.by_function(third, parts=2), "third() takes 1 arguments and is given 2"),
        (["s"], hr.by_function(third, parts=2), "third"),
    ],
)
def test_mistakes_are_found_when_the_key_is_declared(key, partition, said):
    with pytest.raises(PipelineError, match="key_by") as caught:
        source().key_by(*key, partition=partition)
    assert said in str(caught.value) and "test_partitions.py" in str(caught.value)


def test_streams_that_meet_agree_on_the_parts():
    def side(partition, name):
        rows = hr.read.memory({"k": [1], name: [2]}).with_watermark(name, 1)
        return rows.key_by("k", partition=partition)

    def joined(*partitions):
        left, right = (side(p, n) for p, n in zip(partitions, "ab", strict=True))
        stream = left.window_join(right, "k", hr.tumbling(5))
        output = stream.write.collect()
        return hr.run(output, engine="node", workers=2, compiled=False) and output.result()

    assert joined(hr.by_range([3]), hr.by_range([3])).num_rows == 1
    assert joined(hr.by_range([3]), None).num_rows == 1
    with pytest.raises(PipelineError, match=r"by range\(3\) in one stream and by range\(4\) in"):
        joined(hr.by_range([3]), hr.by_range([4]))


def test_a_function_has_the_types_of_the_key():
    def side(kind, name):
        rows = hr.read.memory({"k": [1], name: [2]}, schema={"k": kind, name: int})
        return rows.with_watermark(name, 1)

    def joined(left, right):
        return planned([left.window_join(right, "k", hr.tumbling(5)).write.null()])

    sides = side(int, "a"), side(hr.optional(int), "b")
    keyed = [one.key_by("k", partition=hr.by_function(third, parts=3)) for one in sides]
    assert joined(*keyed)
    with pytest.raises(
        PipelineError, match=r"the key is optional\(int64\) here, and not so"
    ) as said:
        joined(keyed[0], sides[1])
    assert "by third in 3 parts" in str(said.value) and "window_join" in str(said.value)


def ninth(k):
    return k


@pytest.mark.parametrize(
    "options", [{"engine": "thread"}, {"engine": "node", "workers": 2}], ids=["thread", "node"]
)
@pytest.mark.parametrize("bad", [7, -1])
def test_a_part_that_is_not_there_is_an_error_of_the_row(options, bad):
    """The same everywhere, though the operator behind it leaves out rows that it fails on."""
    rows = hr.read.memory({"k": [0, 6, bad], "n": [1, 2, 3]})
    keyed = rows.key_by("k", partition=hr.by_function(ninth, parts=7))
    stream = keyed.process(totals, state={"total": int}, output=["m", "n"], on_error="skip")
    with pytest.raises(ValueError, match="in a part that is not there") as caught:
        hr.run(stream.write.collect(), compiled=False, **options)
    said = "\n".join(caught.value.__notes__)
    assert "in operator key_by" in said and f"row: k={bad}, n=3" in said
    assert "partition=hr.by_function(ninth, parts=7)" in said


def test_a_part_that_is_not_there_is_the_same_error_on_spark(tmp_path):
    rows = hr.read.memory({"k": [0, 6, 9], "n": [1, 2, 3]})
    keyed = rows.key_by("k", partition=hr.by_function(ninth, parts=7))
    job = Engine([keyed.dedup()], tmp_path, 60, 2)
    _, messages = job.batch()
    told = [carried(x.payload) for x in messages if x.kind == ERROR]
    assert told and "in a part that is not there" in str(told[0])


def test_explain_says_how_keys_lie():
    key, partition = PARTITIONS["function"]
    stream = hr.read.memory(table([1])).key_by(*key, partition=partition).dedup()
    said = hr.explain(stream.write.collect(), engine="node")
    assert "[SL] k, by third in 3 parts" in said
    assert "dedup_1.exchange: by k, by third in 3 parts" in said
    assert "hash(k, part=third(k))" in said
    said = hr.explain(stream.write.collect(), engine="spark")
    assert "by k, by third in 3 parts" in said


def strict(state, n):
    state.total += n
    yield 1 // (state.total - 7), n


@pytest.mark.parametrize("partition", [None, hr.by_range([3]), hr.by_function(third, parts=3)])
def test_a_row_that_fails_is_explained_with_the_state_of_its_key(partition):
    """It is run again on a copy of that state, wherever its part lies."""
    rows = hr.read.memory({"k": [1, 5, 1, 5], "n": [3, 1, 4, 2]})
    keyed = rows.key_by("k", partition=partition)
    made = keyed.process(strict, state={"total": int}, output=["m", "n"], on_error="dead_letter")
    outputs = [made.write.collect(), made.dead_letters().select("k", "n").write.collect()]
    for options in ({"engine": "thread"}, {"engine": "node", "workers": 2}):
        hr.run(*outputs, compiled=False, **options)
        assert outputs[0].result()["n"].to_pylist() == [3, 1, 2]
        assert outputs[1].result().to_pylist() == [{"k": 1, "n": 4}]
