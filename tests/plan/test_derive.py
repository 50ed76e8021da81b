"""The event time as an expression over the columns of each source."""

import datetime as dt

import pyarrow as pa
import pytest

from headrace.expr import col, count, from_millis
from headrace.plan.derive import time_expression
from headrace.plan.errors import PipelineError
from headrace.plan.schema import Schema
from headrace.plan.table import Table
from headrace.stream import example
from headrace.time import tumbling

ADS = Table("ads", Schema.of({"id": int, "since": dt.datetime}), lambda: pa.table({}))


def derived(stream, column="t"):
    return [
        (source.schema.names, str(made)) for source, made in time_expression(stream.node, column)
    ]


def test_through_projections_filters_and_declarations():
    made = (
        example(ms=int, id=int)
        .rename(ms="sent")
        .filter(col("sent") > 0)
        .with_columns(t=from_millis("sent"), sent=1)
        .key_by("id")
        .with_watermark("t", "1s")
    )
    assert derived(made) == [(("ms", "id"), "cast((ms * 1000), timestamp)")]


def test_through_each_side_of_a_union():
    left = example(t=int)
    right = example(x=int).select(t=col("x") + 1)
    assert derived(left.union(right)) == [(("t",), "t"), (("x",), "(x + 1)")]


def test_a_source_on_two_sides_is_told_once():
    one = example(t=int)
    assert derived(one.filter(col("t") > 1).union(one)) == [(("t",), "t")]


def test_through_the_left_side_of_a_join():
    made = example(t=int, id=int).join(ADS, on="id")
    assert derived(made) == [(("t", "id"), "t")]


def test_not_from_a_table():
    made = example(id=int).join(ADS, on="id").with_columns(t=col("since"))
    with pytest.raises(PipelineError, match="'since' comes from the table ads"):
        time_expression(made.node, "t")


def test_not_behind_a_window():
    counts = example(t=int).with_watermark("t", 1).window(tumbling(5)).agg(n=count())
    for made, column in ((counts, "window_start"), (counts.late(), "t")):
        with pytest.raises(PipelineError, match="it lies behind a window"):
            time_expression(made.node, column)


@pytest.mark.filterwarnings("ignore::headrace.plan.build.PlainPythonWarning")
def test_not_behind_plain_python():
    made = example(t=int).map_batches(lambda batch: batch, schema={"t": int})
    with pytest.raises(PipelineError, match="it is made by a map_batches"):
        made.with_watermark("t", 1)
