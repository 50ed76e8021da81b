"""Python iterables as a source."""

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.connect.data import read_all, tables

from headrace.connect.iterate import IteratorSource
from headrace.plan.connector import Batch, Source, is_replayable
from headrace.plan.errors import DataError
from headrace.plan.schema import Schema
from headrace.plan.types import optional


@given(tables(), st.booleans(), st.integers(1, 40))
def test_rows_come_as_they_are(drawn, as_tuples, max_rows):
    schema, table = drawn
    rows = table.to_pylist()
    given_rows = [tuple(row.values()) for row in rows] if as_tuples else rows
    source = IteratorSource(iter(given_rows), schema=schema)
    assert isinstance(source, Source) and not is_replayable(source)
    found, positions = read_all(source.open("0"), max_rows, timeout=1.0)
    assert found == rows
    assert positions[-1] == (len(rows), len(rows))


def test_the_first_row_tells_the_schema():
    source = IteratorSource({"n": n, "half": n / 2} for n in range(3))
    assert source.schema() == Schema.of({"n": int, "half": float})
    assert [row["n"] for row in read_all(source.open("0"))[0]] == [0, 1, 2]
    assert source.latest() == {"0": None}


def test_reading_goes_on_only_where_it_stopped():
    source = IteratorSource(iter([(1,), (2,), (3,)]), schema={"n": int})
    first = source.open("0", stop=2)
    assert read_all(first, 10, 1.0)[0] == [{"n": 1}, {"n": 2}]
    with pytest.raises(DataError, match="2 rows have been read, and reading cannot begin at row 0"):
        source.open("0")
    assert read_all(source.open("0", start=2))[0] == [{"n": 3}]


def test_what_a_schema_does_not_name_is_not_read_and_nulls_may_be_left_out():
    rows = [{"a": 1, "z": object()}, {"a": 2, "b": "x"}]
    source = IteratorSource(rows, schema={"a": int, "b": optional(str)})
    assert read_all(source.open("0"))[0] == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]
    pruned = IteratorSource(rows, schema={"a": int, "b": optional(str)})
    assert read_all(pruned.open("0", columns=["b"]))[0] == [{"b": None}, {"b": "x"}]


SCHEMA = {"n": int, "text": optional(str)}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"n": "x"}, "column 'n', row 2: 'x' is not a value of int64"),
        ({"n": 1.5}, "column 'n', row 2: 1.5 is not a value of int64"),
        ({"n": None}, r"column 'n', row 2: None is not a value of int64 \(use hr.optional"),
        ({"n": 2**63}, "column 'n', row 2: 9223372036854775808 does not fit int64"),
        ({"n": 3, "text": 5}, "column 'text', row 2: 5 is not a value of"),
        ({"text": "x"}, r"row 2: no column 'n' \(int64\) in {'text': 'x'}"),
        ((1,), r"row 2: 1 values for 2 columns: \(1,\)"),
        (7, "row 2: a int, and should be a dict or a tuple: 7"),
    ],
)
@pytest.mark.parametrize("max_rows", [1, 2, 3, 100])
def test_a_row_that_does_not_fit_is_named_after_the_rows_before_it(bad, message, max_rows):
    source = IteratorSource(iter([(0, "a"), (1, None), bad, (3, "c")]), schema=SCHEMA)
    reader, rows = source.open("0"), []
    with pytest.raises(DataError, match=message):
        while True:
            rows += reader.poll(max_rows, 1.0).rows.to_pylist()
    assert rows == [{"n": 0, "text": "a"}, {"n": 1, "text": None}]
    with pytest.raises(DataError, match=message):
        reader.poll(max_rows, 1.0)


@pytest.mark.parametrize("max_rows", [1, 2, 100])
def test_an_exception_of_the_iterable_comes_after_its_rows(max_rows):
    def failing():
        yield {"n": 1}
        yield {"n": 2}
        raise ConnectionError("lost")

    reader, rows = IteratorSource(failing()).open("0"), []
    with pytest.raises(ConnectionError, match="lost"):
        while True:
            rows += reader.poll(max_rows, 1.0).rows.to_pylist()
    assert rows == [{"n": 1}, {"n": 2}]


def polled(reader, max_rows=1 << 18, timeout=0.0):
    """The rows of the next poll that has some."""
    while (rows := reader.poll(max_rows, timeout).rows) is None:
        time.sleep(0.0001)
    return [row["n"] for row in rows.to_pylist()]


@pytest.mark.parametrize("timeout", [0.0, 0.05])
def test_a_slow_iterable_gives_what_it_has(timeout):
    def slow():
        for n in range(20):
            time.sleep(0.01)
            yield {"n": n}

    reader, found = IteratorSource(slow(), schema={"n": int}).open("0"), []
    while len(found) < 20:
        some = polled(reader, 1000, timeout)
        assert len(some) < 20
        found += some
    assert found == list(range(20))


@pytest.mark.parametrize("timeout", [0.0, 0.05])
def test_rows_come_in_batches(timeout):
    """Not one a poll, whatever the patience of who asks."""
    reader = IteratorSource(((n,) for n in range(20_000)), schema={"n": int}).open("0")
    found, polls = [], 0
    while len(found) < 20_000:
        found += polled(reader, timeout=timeout)
        polls += 1
    assert found == list(range(20_000)) and polls < 2000
    assert reader.poll(1, 1.0).ended


def test_rows_before_a_wait_are_given_and_those_behind_it_are_not_lost():
    arrived = threading.Event()

    def rows():
        yield {"n": 1}
        yield {"n": 2}
        assert arrived.wait(60)
        yield from ({"n": n} for n in range(3, 10))

    source = IteratorSource(rows())
    reader, found = source.open("0"), []
    while len(found) < 2:
        found += polled(reader)
    assert found == [1, 2]
    assert [reader.poll(10, 0.0) for _ in range(5)] == [Batch(None, 2)] * 5
    reader.close()
    arrived.set()
    again = source.open("0", start=2)
    while len(found) < 9:
        found += polled(again, 3)
    assert found == list(range(1, 10))
    assert again.poll(1, 1.0) == Batch(None, 9, ended=True)


def test_a_close_does_not_wait_for_the_iterable():
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def rows():
        try:
            yield {"n": 1}
            begun.set()
            assert go_on.wait(60)
            yield {"n": 2}
        finally:
            ended.set()

    source = IteratorSource(rows(), schema={"n": int})
    reader = source.open("0")
    assert polled(reader) == [1]
    reader.poll(1, 0.0)
    assert begun.wait(60)
    reader.close()
    source.close()
    assert not ended.is_set()
    go_on.set()
    assert ended.wait(60)


def test_no_more_is_taken_than_was_asked_for():
    taken = []

    def rows():
        for n in range(100):
            taken.append(n)
            yield {"n": n}

    reader = IteratorSource(rows(), schema={"n": int}).open("0")
    assert polled(reader, 3, 1.0) == [0, 1, 2]
    assert len(taken) <= 4


def test_close_ends_the_generator():
    ended = []

    def rows():
        try:
            yield from ({"n": n} for n in range(10))
        finally:
            ended.append(True)

    source = IteratorSource(rows())
    reader = source.open("0")
    reader.poll(1, 0.0)
    reader.close()
    assert (reader.poll(1, 0.0).rows, reader.poll(1, 0.0).ended) == (None, False)
    source.close()
    source.close()
    assert ended == [True]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "there is no first row to take the columns from; give schema="),
        ([(1, 2)], "the first row is a tuple, which has no names"),
        ([{"n": None}], "column 'n' of the first row is None, which tells no type"),
        ("text", "a str is not an iterable of dicts or tuples"),
        (5, "a int is not an iterable"),
        ({"n": [1]}, "a dict is not an iterable of dicts"),
    ],
)
def test_what_tells_no_schema(rows, message):
    with pytest.raises(DataError, match=message):
        IteratorSource(rows)


def test_a_new_column_is_not_lost_silently():
    reader = IteratorSource([{"n": 1}, {"n": 2, "m": 3}]).open("0")
    reader.poll(1, 1.0)
    with pytest.raises(DataError, match="row 1: column 'm' was not in the first row"):
        reader.poll(1, 1.0)


def test_it_says_that_it_cannot_be_read_again():
    assert str(IteratorSource({"n": n} for n in [1])) == "iterate <genexpr>, not replayable"
