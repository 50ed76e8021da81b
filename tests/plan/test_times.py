"""Times that a source computes are not computed again behind it."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.naive import naive, rows_of
from tests.running import assert_same

import headrace as hr
from headrace.asked import planned
from headrace.expr import col
from headrace.plan.expressions import Column
from headrace.plan.graph import walk
from headrace.plan.nodes import TIME, Filter, Project, Sink, Source
from headrace.plan.schema import Schema
from headrace.plan.table import Table
from headrace.stream import example
from headrace.time import tumbling

SMALL = st.integers(0, 20)
ADS = Table("ads", Schema.of({"id": int, "name": str}), lambda: pa.table({}))


def nodes(*streams, kind):
    roots = planned([stream.write.null() for stream in streams]).optimized
    return [node for node in walk(roots) if isinstance(node, kind)]


def counted(stream):
    return stream.key_by("id").window(tumbling(10)).agg(n=hr.count())


def takes_time(project):
    return [name for name, made in project.columns if made == Column(TIME) and name != TIME]


def test_a_project_takes_the_time_of_its_source():
    stream = example(x=int, id=int).with_columns(t=col("x") * 3).with_watermark("t", 1)
    (source,) = nodes(counted(stream), kind=Source)
    assert source.schema.names[-1] == TIME and source.given.names == ("x", "id")
    assert takes_time(nodes(counted(stream), kind=Project)[0]) == ["t"]


def test_through_filters_and_other_projects():
    """What only the time was made of is not made any more."""
    stream = (
        example(x=int, id=int)
        .with_columns(y=col("x") + 1)
        .filter(col("y") > 0)
        .with_columns(t=col("y") * 3, z=col("y"))
        .with_watermark("t", 1)
    )
    first, second, *_ = nodes(counted(stream.select("t", "id")), kind=Project)
    assert TIME in first.schema and takes_time(second) == ["t"]


def test_a_column_of_the_source_is_taken_as_it_is():
    stream = example(t=int, id=int).with_watermark("t", 1)
    assert all(TIME not in node.schema for node in nodes(counted(stream), kind=object))


def test_a_table_may_bring_a_column_of_any_name():
    """Behind a join an expression that reads the same may mean another column."""
    stream = example(x=int, id=int).join(ADS, on="id").with_columns(t=col("x") * 3)
    projects = nodes(counted(stream.with_watermark("t", 1)), kind=Project)
    assert not any(takes_time(each) for each in projects)


def test_others_do_not_see_it():
    """A sink, a filter and a union beside the operator that takes the time."""
    rows = example(x=int, id=int)
    stream = rows.with_columns(t=col("x") * 3).with_watermark("t", 1)
    beside = rows.filter(col("x") > 5)
    many = [counted(stream), rows, beside, rows.union(beside)]
    for sink in nodes(*many, kind=Sink):
        assert TIME not in sink.input.schema
    for node in nodes(*many, kind=Filter):
        assert TIME not in node.schema


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("engine", ["thread", "node"])
@given(times=st.lists(st.one_of(st.none(), st.integers(-50, 200)), max_size=40), bound=SMALL)
def test_rows_are_the_same(engine, compiled, times, bound):
    """Also where times are null, and where rows are late."""
    rows = pa.table(
        {
            "x": pa.array(times, pa.int64()),
            "id": pa.array((n % 3 for n in range(len(times))), pa.int64()),
        }
    )
    stream = (
        hr.read.memory(rows)
        .filter(hr.col("id") < 2)
        .with_columns(t=hr.col("x") * 3 - 1, y=hr.col("x") * 3)
        .with_watermark("t", bound)
    )
    windows = stream.key_by("id").window(tumbling(10)).agg(n=hr.count(), last=hr.max("t"))
    outputs = [s.write.collect() for s in (windows, windows.late(), stream)]
    expected = naive(outputs)
    hr.run(*outputs, engine=engine, compiled=compiled, capacity=8)
    for output, found in zip(outputs, expected, strict=True):
        assert_same(rows_of(output.result()), found, ordered=True)
