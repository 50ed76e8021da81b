"""In-memory tables in all their forms."""

import datetime as dt
import pickle

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.connect.data import read_all, tables

from headrace.connect.memory import MemorySource
from headrace.plan.connector import Source, Statistics, is_replayable
from headrace.plan.errors import DataError
from headrace.plan.schema import Schema
from headrace.plan.types import optional

ROWS = [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
ARROW = pa.Table.from_pylist(ROWS)
SCHEMA = Schema.of({"a": int, "b": optional(str)})


class Capsule:
    """A frame of a library we do not know."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


FORMS = {
    "table": ARROW,
    "batch": pa.RecordBatch.from_pylist(ROWS),
    "batches": [pa.RecordBatch.from_pylist([row], ARROW.schema) for row in ROWS],
    "dict of lists": {"a": [1, 2], "b": ["x", None]},
    "dict of arrays": {"a": np.array([1, 2]), "b": pa.array(["x", None])},
    "list of dicts": ROWS,
    "polars": pl.DataFrame(ROWS),
    "dict of series": {"a": pl.Series([1, 2]), "b": pl.Series(["x", None])},
    "arrow stream": Capsule(ARROW),
    "dictionary": pa.table({"a": [1, 2], "b": pa.array(["x", None]).dictionary_encode()}),
    "large": pa.table({"a": [1, 2], "b": pa.array(["x", None], pa.large_string())}),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_rows(form):
    source = MemorySource(FORMS[form])
    assert isinstance(source, Source) and isinstance(source, Statistics) and is_replayable(source)
    assert source.schema() == SCHEMA
    assert source.channels() == ["0"]
    assert source.latest() == {"0": 2}
    assert read_all(source.open("0"))[0] == ROWS
    assert source.table().to_pylist() == ROWS


@given(tables(), st.data())
def test_any_range_can_be_read_again(drawn, data):
    schema, table = drawn
    source = MemorySource(table, schema=schema)
    rows, positions = read_all(
        source.open("0"), data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=5))
    )
    assert rows == table.to_pylist()
    assert [position for _, position in positions] == [count for count, _ in positions]
    ends = sorted([data.draw(st.sampled_from([p for _, p in positions])) for _ in range(2)])
    again, _ = read_all(source.open("0", *ends), data.draw(st.integers(1, 40)))
    assert again == rows[ends[0] : ends[1]]


def test_a_column_is_nullable_if_it_has_a_null_and_only_then():
    table = pa.table({"a": [1, 2], "b": [1, None]})
    assert MemorySource(table).schema() == Schema.of({"a": int, "b": optional(int)})
    hidden = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x", None]))
    assert MemorySource(pa.table({"a": hidden})).schema() == Schema.of({"a": optional(str)})


def test_a_schema_decides_types_and_columns():
    source = MemorySource({"a": [1, 2], "b": [3, 4]}, schema={"b": optional("int8")})
    assert source.schema() == Schema.of({"b": optional("int8")})
    assert read_all(source.open("0"))[0] == [{"b": 3}, {"b": 4}]


def test_columns_are_pruned_in_the_order_asked_for():
    source = MemorySource({"a": [1], "b": [2], "c": [3]})
    rows = source.open("0", columns=["c", "a"]).poll(10, 0.0).rows
    assert rows.schema.names == ["c", "a"]
    assert source.open("0", columns=[]).poll(10, 0.0).rows.num_rows == 1


def test_slices_share_memory_with_the_table():
    table = pa.table({"a": [1, 2, 3]})
    rows = MemorySource(table).open("0", start=1).poll(1, 0.0).rows
    assert rows["a"].buffers()[1].address == table["a"].chunk(0).buffers()[1].address


def test_columns_without_a_type_stay_unread():
    tags = pa.array([[("x", 1)]], pa.map_(pa.string(), pa.int8()))
    source = MemorySource({"a": [1], "tags": tags, "big": np.array([1], np.uint64)})
    assert source.schema().names == ("a", "big")
    assert "unread: tags (map<" in str(source)
    widened = MemorySource({"big": np.array([1], np.uint64)}, schema={"big": int})
    assert read_all(widened.open("0"))[0] == [{"big": 1}]


def test_a_list_of_tables_makes_channels():
    source = MemorySource([pa.table({"a": [1, 2]}), pl.DataFrame({"a": [None, 4]})])
    assert source.channels() == ["0", "1"]
    assert source.schema() == Schema.of({"a": optional(int)})
    assert source.latest() == {"0": 2, "1": 2}
    assert read_all(source.open("1"))[0] == [{"a": None}, {"a": 4}]
    assert [row["a"] for row in source.table().to_pylist()] == [1, 2, None, 4]
    assert str(source) == "memory, 4 rows in 2 channels"


def test_no_rows_are_rows_too():
    source = MemorySource([], schema={"a": int})
    assert source.open("0").poll(1, 0.0).ended
    assert source.latest() == {"0": 0}
    assert read_all(MemorySource(pa.table({"a": pa.array([], pa.int8())})).open("0"))[0] == []


def test_python_values_of_each_type():
    day, moment = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    row = {"a": True, "b": 1, "c": 0.5, "d": day, "e": moment, "f": "x", "g": b"y"}
    source = MemorySource([row])
    assert [f.type.name for f in source.schema()] == [
        *("bool", "int64", "float64", "date", "timestamp", "string", "binary")
    ]
    assert read_all(source.open("0"))[0] == [row]


def test_naive_times_are_utc():
    source = MemorySource([{"t": dt.datetime(1970, 1, 1, 0, 0, 1)}], schema={"t": "timestamp"})
    assert source.maximum("t", "0", None) == 1_000_000


def test_the_maximum_before_a_position():
    times = pa.array([5, None, 3, 9], pa.timestamp("ms"))
    source = MemorySource(pa.table({"t": times, "f": [0.5, float("nan"), 2.0, 1.0]}))
    assert [source.maximum("t", "0", n) for n in (0, 1, 2, 3, 4)] == [None, 5000, 5000, 5000, 9000]
    assert source.maximum("f", "0", 4) == 2.0
    before_1970 = MemorySource(pa.table({"t": pa.array([-1], pa.timestamp("ns"))}))
    assert before_1970.maximum("t", "0", 1) == -1


def test_after_close_there_are_no_rows_and_no_end():
    reader = MemorySource({"a": [1, 2]}).open("0")
    reader.poll(1, 0.0)
    reader.close()
    reader.close()
    batch = reader.poll(1, 0.0)
    assert (batch.rows, batch.position, batch.ended) == (None, 1, False)


def test_it_travels():
    source = pickle.loads(pickle.dumps(MemorySource({"a": [1, 2]})))
    assert read_all(source.open("0"))[0] == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("data", "schema", "message"),
    [
        (5, None, "a int is not data that can be read"),
        ([], None, "give schema="),
        ({"a": [1], "b": [1, 2]}, None, "not equally long: 'a' has 1, 'b' has 2"),
        ({"a": 5}, None, "column 'a' is 5, and should be a list"),
        ({"a": "text"}, None, "column 'a' is 'text', and should be a list"),
        ({"a": [1, "x"]}, None, "column 'a': "),
        ({"a": [1, 2**70]}, None, "column 'a': "),
        ({"a": [1, 1.5]}, {"a": int}, "column 'a', row 1: 1.5 is not a value of int64"),
        ({"a": [1, True]}, {"a": int}, "column 'a', row 1: True is not a value of int64"),
        ({"a": [1, 300]}, {"a": "int8"}, "column 'a', row 1: 300 does not fit int8"),
        ({"a": ["1"]}, {"a": int}, "column 'a', row 0: '1' is not a value of int64"),
        ({"a": ["\ud800"]}, {"a": str}, "column 'a', row 0:"),
        ({"a": [1, None]}, {"a": int}, "column 'a', row 1: None is not a value of int64"),
        (pa.table({"a": [1, None]}), {"a": int}, "column 'a' is null in row 1"),
        (pa.table({"a": ["1"]}), {"a": int}, "column 'a' is string and not int64"),
        (pa.table({"a": [1.5]}), {"a": int}, "column 'a' as int64: "),
        (pa.table({"a": [1]}), {"b": int}, "there is no column 'b'; there are: a"),
        (pa.table([pa.array([1])] * 2, names=["a", "a"]), None, "several columns named 'a'"),
        ([pa.table({"a": [1]}), pa.table({"b": [1]})], None, "which table 1 lacks"),
        ([pa.table({"a": [1]}), pa.table({"a": ["x"]})], None, "int64 in table 0 and string in"),
    ],
)
def test_what_cannot_be_read_is_said(data, schema, message):
    with pytest.raises(DataError) as raised:
        MemorySource(data, schema=schema)
    assert message in str(raised.value)


def test_positions_and_channels_that_are_not_there():
    source = MemorySource({"a": [1]})
    with pytest.raises(DataError, match="channel 0 has no row 2"):
        source.open("0", start=2)
    with pytest.raises(DataError, match="no channel '1'"):
        source.open("1")
