"""split and sample: every row once, and the same rows everywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.naive import rows_of
from tests.running import check

import headrace as hr
from headrace import PipelineError, col


def collected(*streams, **options):
    outputs = [stream.write.collect() for stream in streams]
    hr.run(*outputs, **options)
    return [rows_of(output.result()) for output in outputs]


@given(values=st.lists(st.one_of(st.none(), st.integers(-5, 5)), max_size=30))
def test_a_split_gives_each_row_once(values):
    stream = hr.read.memory(
        {"x": values, "n": range(len(values))}, schema={"x": hr.optional(int), "n": int}
    )
    chosen, others = stream.split(col("x") > 0)
    check([chosen.write.collect(), others.write.collect()], capacity=4)
    taken, left = collected(chosen, others, engine="thread", compiled=False)
    assert sorted(row["n"] for row in taken + left) == list(range(len(values)))
    assert all(row["x"] is not None and row["x"] > 0 for row in taken)


def test_a_sample_is_the_same_everywhere_and_of_its_size():
    stream = hr.read.memory({"user": [f"user {n % 500}" for n in range(5000)], "n": range(5000)})
    by_row, by_user, others = (
        stream.sample(0.3),
        stream.sample(0.2, by="user"),
        stream.sample(0.3, seed=1),
    )
    found = collected(by_row, by_user, others, engine="thread", compiled=False)
    assert found == collected(by_row, by_user, others, engine="node", workers=2)
    rows, users, seeded = found
    assert 1300 < len(rows) < 1700 and rows != seeded
    names = {row["user"] for row in users}
    assert len(users) == 10 * len(names) and 60 < len(names) < 140
    every, none = collected(stream.sample(1), stream.sample(0), engine="thread", compiled=False)
    assert (len(every), len(none)) == (5000, 0)


@pytest.mark.parametrize("wrong", [2, -0.1, "half", True])
def test_a_share_is_from_0_to_1(wrong):
    with pytest.raises(PipelineError, match="fraction"):
        hr.read.memory({"x": [1]}).sample(wrong)


def test_a_sample_names_columns_that_are_not_there():
    with pytest.raises(PipelineError, match="y"):
        hr.read.memory({"x": [1]}).sample(0.5, by="y")
