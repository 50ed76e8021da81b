"""A function of the user's as a sink: each committed batch, as a table."""

import pyarrow as pa
import pytest

from headrace.connect.foreach_batch import ForeachBatchSink
from headrace.plan.connector import Sink
from headrace.plan.errors import DataError
from headrace.plan.schema import Schema

SCHEMA = Schema.of({"n": int})


def rows(*numbers):
    return pa.record_batch({"n": pa.array(numbers, pa.int64())})


def opened(function):
    sink = ForeachBatchSink(function)
    sink.open(SCHEMA)
    return sink


def test_a_batch_is_given_once_as_one_table_without_dead_attempts():
    got = []
    sink = opened(lambda table, batch: got.append((batch, table)))
    assert isinstance(sink, Sink) and not sink.exactly_once
    sink.write(rows(9), "a", "dead")
    sink.write(rows(8), "a", "aborted")
    sink.abort("a", "aborted")
    messages = [sink.write(rows(1), "a", "0"), sink.write(rows(2), "a", "0")]
    assert got == []
    sink.commit("a", messages)
    sink.commit("a", messages)
    sink.commit("a", [sink.write(rows(1, 2), "a", "1")])
    sink.commit("b", [])
    sink.commit("c", [sink.write(rows(), "c", "0")])
    ((batch, table),) = got
    assert batch == "a" and table.equals(pa.table([[1, 2]], schema=SCHEMA.to_arrow()))


def test_a_function_that_fails_is_called_again_with_the_same_rows():
    got = []

    def failing(table, batch):
        got.append((batch, table["n"].to_pylist()))
        if len(got) == 1:
            raise KeyError("mine")

    sink = opened(failing)
    messages = [sink.write(rows(1), "a", "0")]
    with pytest.raises(KeyError, match="mine"):
        sink.commit("a", messages)
    sink.commit("a", messages)
    sink.commit("a", messages)
    assert got == [("a", [1])] * 2


def test_what_is_wrong_is_said():
    with pytest.raises(TypeError, match="5 is not a function of a table"):
        ForeachBatchSink(5)
    with pytest.raises(DataError, match=r"foreach_batch print: open\(\) comes before write\(\)"):
        ForeachBatchSink(print).write(rows(1), "a", "0")
