"""Rows that are shared anew: the same ones on every engine, in order on a node, by any worker."""

from __future__ import annotations

import pytest
from hypothesis import given
from tests.choices import Choices, Seeded, choices, fewer
from tests.naive import naive, rows_of
from tests.random_rows import tables
from tests.running import assert_same, check_anyhow, check_over_shards
from tests.spark import pipelines
from tests.spark.shards import Engine

import headrace as hr
from headrace import PipelineError, col
from headrace.asked import planned
from headrace.node.graph import Graph
from headrace.options import OptionError
from headrace.plan.explain import explain_plan
from headrace.plan.schema import Field, Schema
from headrace.plan.types import int64, optional, string

pytestmark = pytest.mark.timeout(600)


def repeated(x, t):
    for k in range(0 if x is None else x % 7):
        yield t, k


def pipeline(choose: Choices, channels: int = 1, most: int = 40) -> list:
    """Rows that become many, shared in front of and behind that, late rows, and windows."""
    schema = Schema((Field("t", int64), Field("k", optional(string)), Field("x", optional(int64))))
    rows = tables(choose, schema, channels=channels, most=most, disorder=15)
    stream = hr.read.memory(rows, schema=schema, name="rows").with_watermark("t", 5)
    width = choose.pick([None, 1, 2, 9])
    many = stream.rebalance(width).flat_map(
        repeated, output={"t": int, "n": int}, columns=["x", "t"], carry="k"
    )
    summed = many.rebalance().filter(col("n") != 3).with_columns(n=col("n") * 2)
    counted = summed.key_by("k").window(hr.tumbling(10)).agg(n=hr.count(), s=hr.sum("n"))
    made = [many, summed, counted, counted.late(), counted.rebalance(width).select("k", "s")]
    return [each.write.collect() for each in made]


@fewer
@given(choose=choices())
def test_rows_agree_with_the_reference(choose):
    check_anyhow(pipeline(choose), choose)


@fewer
@given(choose=choices())
def test_rows_over_shards(choose):
    check_over_shards(pipeline(choose, channels=2), choose)


@pytest.mark.parametrize(
    "compiled", [False, pytest.param(True, marks=pytest.mark.compiled)], ids=str
)
def test_rows_on_workers_are_in_order(compiled):
    outputs = pipeline(Seeded(3), most=60 if not compiled else 2000)
    expected = naive(outputs)
    for workers in (1, 3):
        hr.run(*outputs, engine="node", workers=workers, compiled=compiled)
        for output, other in zip(outputs, expected, strict=True):
            assert_same(rows_of(output.result()), other, ordered=True)


def test_a_split_is_worked_on_by_several_workers():
    """All rows come in one split, whose replica would do everything alone."""
    rows = hr.read.memory({"n": list(range(60))}).rebalance()
    made = rows.flat_map(_slowly, output={"n": int})
    output = made.write.collect()
    job = hr.start(output, engine="node", workers=3, compiled=False)
    assert job.await_termination(120)
    assert output.result()["n"].to_pylist() == list(range(60))
    explained = job.explain()
    assert "its workers share the rows anew" in explained
    assert "flat_map_1, on any number of workers at once" in explained


def _slowly(n):
    total = 0
    for k in range(20_000):
        total += k % 7
    yield n + total - total


def _twice(n):
    return 2 * n


def test_the_plan_says_how_many_workers_there_are():
    rows = hr.read.memory({"n": [1]})
    for width, units, said in (
        (None, 3, "on any number of workers at once"),
        (2, 2, "on up to 2 workers at once"),
        (1, 1, "on one worker at a time"),
    ):
        output = rows.rebalance(width).map(_twice, output="m").write.null()
        plan = planned([output])
        assert said in explain_plan(plan, owned=True)
        graph = Graph(plan, 3, 3, 64, compiled=False)
        assert [each.name for each in graph.operators].count("map_1") == units


def test_spark_sends_rows_in_turns(tmp_path):
    """Every shard gets as many as the others, and a batch that is run again the same ones."""
    (tmp_path / "made").mkdir()
    rows = hr.read.memory(pipelines.tables(400, 2, disorder=20))
    stream = rows.with_watermark("at", 40).rebalance(2).with_columns(v=col("value") * 2)
    counted = stream.key_by("user").window(hr.tumbling(50)).agg(n=hr.count(), s=hr.sum("v"))
    engine = Engine([stream, counted], tmp_path / "made", 100, 3)
    (exchange,) = [name for name in engine.shipment.receivers if "rebalance" in name]
    while not engine.has_ended:
        end, tasks = engine.plan()
        sent = [_sent(engine, tasks, exchange) for _ in range(2)]
        assert sent[0] == sent[1] and sum(sent[0].values()) > 0
        counts = [sent[0].get(label, 0) for label in engine.shipment.labels]
        assert counts[2] == 0 and abs(counts[0] - counts[1]) <= len(tasks)
        engine.commit(*engine.batch((end, tasks)))
    for found, expected in zip(engine.rows, naive(engine.outputs), strict=True):
        assert_same(found, expected, ordered=False)


def _sent(engine, tasks, exchange):
    """How many rows of an exchange each shard is sent."""
    from headrace.spark.wire import ROWS, from_columns

    sent: dict = {}
    for task in tasks:
        for block in engine.reader.read(task):
            for message in from_columns(column.to_pylist() for column in block.columns):
                if message.kind == ROWS and message.port == exchange:
                    sent[message.shard] = sent.get(message.shard, 0) + message.rows
    return sent


def test_mistakes_say_what_to_do():
    rows = hr.read.memory({"n": [1], "k": [1]})
    for width in (0, True, "2"):
        with pytest.raises(PipelineError, match="is not a number of workers"):
            rows.rebalance(width)
    made = rows.rebalance().key_by("k").running(s=hr.sum("n")).write.null()
    with pytest.raises(OptionError, match="needs the order of rows"):
        hr.run(made, engine="spark")
