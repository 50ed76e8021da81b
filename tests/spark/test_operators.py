"""Operators that share one query on Spark give what the reference gives, over several batches."""

from tests.naive import naive, rows_of
from tests.running import assert_same
from tests.spark import pipelines

import headrace as hr


def test_operators(session):
    rows = hr.read.memory(pipelines.tables(600, 1, disorder=30, seed=4)[0])
    stream = rows.with_watermark("at", 30)
    made = {
        "limit": stream.limit(123),
        "dedup": stream.dedup("user", "value"),
        "dedup within": stream.dedup("user", within=100),
    }
    outputs = [each.write.collect(name=name) for name, each in made.items()]
    hr.run(*outputs, engine="spark", session=session, compiled=False, batch_rows=250, shards=2)
    for output, expected in zip(outputs, naive(outputs), strict=True):
        assert_same(rows_of(output.result()), expected, ordered=False)
