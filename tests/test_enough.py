"""Limits that end a job, where nothing else needs its sources."""

from __future__ import annotations

from itertools import count

import pytest

import headrace as hr
from headrace import col
from headrace.asked import planned
from headrace.plan.enough import last_limits

pytestmark = pytest.mark.timeout(600)
engines = pytest.mark.parametrize("engine", ["thread", "node"])


def endless(name="endless"):
    """Rows without an end."""
    rows = ({"n": n, "k": n % 3} for n in count())
    return hr.read.iterate(rows, schema={"n": int, "k": int}, name=name)


def run(engine, *streams, **options):
    outputs = [stream.write.collect() for stream in streams]
    hr.run(*outputs, engine=engine, compiled=False, **options)
    return [output.result().to_pylist() for output in outputs]


@engines
def test_a_limit_ends_a_job(engine):
    rows = endless()
    (found,) = run(engine, rows.filter(col("n") % 2 == 1).limit(5).select("n"))
    assert [row["n"] for row in found] == [1, 3, 5, 7, 9]


@engines
def test_what_is_behind_a_limit_gives_its_results(engine):
    """Windows and aggregates end as if the source had."""
    rows = endless()
    some = rows.with_watermark("n", 0).limit(25).key_by("k")
    counted, all_ = run(
        engine, some.window(hr.tumbling(10)).agg(n=hr.count()), some.agg(n=hr.count())
    )
    assert sum(row["n"] for row in counted) == sum(row["n"] for row in all_) == 25
    assert {row["window_start"] for row in counted} == {0, 10, 20}


@engines
def test_it_ends_when_all_limits_have_their_rows(engine):
    rows = endless()
    other = endless("other")
    few, many, none = run(engine, rows.limit(3), rows.union(other).limit(700), other.limit(0))
    assert (len(few), len(many), len(none)) == (3, 700, 0)


@engines
def test_it_goes_on_where_a_sink_wants_more(engine):
    rows = hr.read.iterate(({"n": n} for n in range(2000)), schema={"n": int})
    few, all_ = run(engine, rows.limit(3), rows)
    assert (len(few), len(all_)) == (3, 2000)


@pytest.mark.compiled
@engines
def test_compiled_limits_end_jobs(engine):
    rows = endless()
    output = rows.limit(1000).write.collect()
    hr.run(output, engine=engine)
    assert output.result().num_rows == 1000


def test_limits_that_end_a_job():
    rows = hr.read.memory({"n": [1], "m": [0]}, name="rows")
    other = hr.read.memory({"n": [1], "m": [0]}, name="other")
    divided = rows.with_columns(q=col("n") // col("m"), on_error="dead_letter")
    for streams, expected in (
        ([rows.limit(3)], 1),
        ([rows.limit(3).limit(2)], 1),
        ([rows.limit(3), rows.limit(4)], 2),
        ([rows.limit(3), rows], 0),
        ([rows.limit(3).union(other)], 0),
        ([rows.union(other).limit(5)], 1),
        ([divided.limit(3)], 1),
        ([divided.limit(3), divided.dead_letters()], 0),
        ([rows], 0),
    ):
        plan = planned([stream.write.collect() for stream in streams])
        assert len(last_limits(plan.optimized)) == expected
