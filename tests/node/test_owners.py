"""Owners of key groups: the same rows in the same order, however many there are."""

import numpy as np
import pyarrow as pa
import pytest
from tests.naive import naive, rows_of
from tests.running import assert_same

import headrace as hr
from headrace import col
from headrace.node import building, engine
from headrace.plan.errors import MemoryBudgetError
from headrace.stage import windows

SECONDS = 300.0
OWNERS = pytest.mark.parametrize("owners", [1, 2, 7])

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


@pytest.fixture
def with_owners(monkeypatch):
    return lambda owners: monkeypatch.setattr(engine, "OWNERS", owners)


def run_all(*outputs, **options):
    job = hr.start(*outputs, engine="node", **options)
    assert job.await_termination(SECONDS), "it does not end"
    return job


def totals(state, key, n):
    state.total += n
    state.last = key
    yield state.total, state.last
    if n % 5 == 0:
        state.last = key + "!"
        yield -state.total, state.last


def counts(state, w, t):
    state.total += t
    yield state.total, w


STATE = {"total": int, "last": str}


def rows(count, keys):
    random = np.random.default_rng(3)
    return hr.read.memory(
        pa.table(
            {
                "time": np.arange(count),
                "key": [f"the key number {k}" for k in random.integers(0, keys, count)],
                "n": random.integers(0, 50, count),
            }
        )
    )


@OWNERS
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.compiled)])
def test_rows_of_a_state_come_in_the_order_of_their_input(owners, compiled, with_owners):
    """Several rows or none for each, strings among them, and an exchange by another key behind."""
    with_owners(owners)
    kept = (
        rows(600, 40)
        .key_by("key")
        .process(totals, state=STATE, output=["t", "w"])
        .filter(col("t") % 7 != 3)
    )
    again = kept.key_by("w").process(counts, state={"total": int}, output=["u", "v"])
    outputs = [kept.write.collect(), again.write.collect()]
    expected = naive(outputs)
    run_all(*outputs, workers=3, capacity=16, compiled=compiled)
    for output, wanted in zip(outputs, expected, strict=True):
        assert_same(rows_of(output.result()), wanted, ordered=True)


@OWNERS
@pytest.mark.parametrize("keys", [3, 5_000])
def test_windows_come_by_window_and_key(owners, keys, with_owners, monkeypatch):
    """With few keys partial results reduce; with many they are left out."""
    monkeypatch.setattr(windows, "ENOUGH_ROWS", 16)
    with_owners(owners)
    opened = rows(3_000, keys).with_watermark("time", 10).key_by("key").window(hr.tumbling(700))
    exact = opened.agg(n=hr.count(), total=hr.sum("n"), least=hr.min("n")).write.collect()
    texts = opened.agg(first=hr.min("key"), mean=hr.mean("n")).write.collect()
    floats = opened.agg(sum=hr.sum(col("n") * 0.1)).select("sum").write.collect()
    expected = naive([exact, texts, floats])
    job = run_all(exact, texts, floats, workers=2, capacity=64, compiled=False)
    for output, wanted in zip((exact, texts, floats), expected, strict=True):
        assert_same(rows_of(output.result()), wanted, ordered=True)
    partial = next(m for name, m in job.metrics().items() if name.endswith(".partial"))
    assert (partial["rows_out"] > partial["rows_in"] / 2) == (keys > 3)


@OWNERS
def test_several_branches_of_owners_meet(owners, with_owners, monkeypatch):
    """Each of them is brought together by itself, with little room everywhere."""
    with_owners(owners)
    monkeypatch.setattr(building, "RING", 1)
    totalled = rows(300, 40).key_by("key").process(totals, state=STATE, output=["t", "w"])
    both = totalled.with_columns(d=col("t") * 2)
    # filters that leave out rows that fail do not become one operator with the union
    none, some = (both.filter(c, on_error="skip") for c in (col("t") < 0, col("t") % 2 == 0))
    union = both.union(none, some).write.collect()
    (expected,) = naive([union])
    run_all(union, workers=3, capacity=16, compiled=False, fuse="none")
    assert_same(rows_of(union.result()), expected, ordered=False)


@pytest.mark.compiled
def test_state_counts_against_the_budget():
    """What does not fit is an error that names the operator and the way out."""
    many = rows(200_000, 100_000).key_by("key").process(totals, state=STATE, output=["t", "w"])
    with pytest.raises(MemoryBudgetError, match="process_1: its state needs more than is left"):
        run_all(many.write.null(), workers=1, memory=24 << 20)


def test_explain_says_how_many_copies_run():
    said = hr.explain(
        rows(3, 3).key_by("key").process(totals, state=STATE, output=["t", "w"]).write.collect(),
        engine="node",
    )
    assert "stage 0, replicated: it reads sources" in said
    assert "stage 1, owned: it keeps state by key" in said
    assert "brought together by place in the input" in said
