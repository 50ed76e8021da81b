"""Decimals, lists and structs: carried as they are, taken apart, and refused where they must be."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.choices import fewer
from tests.connect.data import COMPOSITES, tables, values_of

import headrace as hr
from headrace import col
from headrace.stage.blocks.packed import pack, unpack

LONG = "a text of more than twelve bytes"
AT = pa.array([1, 2, 3, 4], pa.timestamp("us", "UTC"))
ROWS = pa.table(
    {
        "n": [1, 2, 3, 4],
        "tags": pa.array([["a", LONG], [], None, ["a", None, "b"]]),
        "price": pa.array([Decimal("1.50"), Decimal("-2.25"), None, Decimal("10.00")]),
        "place": pa.array(
            [{"x": 1, "more": [{"s": LONG}]}, None, {"x": None, "more": None}, {"x": 4, "more": []}]
        ),
        "at": AT,
    }
)


def result(stream, compiled=False, **options):
    out = stream.write.collect()
    hr.run(out, **{"engine": "thread", "compiled": compiled, **options})
    return out.result()


def column(made, compiled=False):
    return result(hr.read.memory(ROWS).select(made=made), compiled)["made"].to_pylist()


# ---- as they are ---------------------------------------------------------------------------------


@given(st.sampled_from(COMPOSITES), st.data())
def test_packed_values_come_back_and_decimals_keep_their_order(kind, data):
    values = data.draw(st.lists(st.none() | values_of(kind), max_size=8))
    start, behind = sorted(data.draw(st.integers(0, len(values))) for _ in range(2))
    packed = pack(pa.array(values, kind.arrow).slice(start, behind - start))
    found = unpack(packed, kind.arrow)
    found.validate(full=True)
    assert found.to_pylist() == values[start:behind]
    assert unpack(packed.slice(1), kind.arrow).to_pylist() == values[start:behind][1:]
    if kind.is_decimal:
        there = [value for value in found.to_pylist() if value is not None]
        assert sorted(there) == unpack(packed.drop_null().sort(), kind.arrow).to_pylist()


@fewer
@given(drawn=tables(max_rows=12), capacity=st.sampled_from([1, 3, 64]))
def test_tables_go_through_a_stage(drawn, capacity):
    schema, table = drawn
    rows = hr.read.memory(table, schema=schema).with_columns(one=1).filter(col("one") == 1)
    found = result(rows.drop("one"), capacity=capacity)
    assert found.schema == schema.to_arrow() and found.to_pylist() == table.to_pylist()


def test_other_lists_are_lists_too():
    numbers = [[1, 2], None]
    given = {
        "large": pa.array(numbers, pa.large_list(pa.int32())),
        "fixed": pa.array(numbers, pa.list_(pa.int32(), 2)),
        "texts": pa.array([["a"], [None]], pa.list_(pa.large_string())),
        "times": pa.array([[1000], []], pa.list_(pa.timestamp("ms"))),
        "small": pa.array([Decimal("1.5"), None], pa.decimal64(5, 1)),
    }
    stream = hr.read.memory(pa.table(given))
    assert [str(field.type.required) for field in stream.schema] == [
        "list<int32>", "list<int32>", "list<string>", "list<timestamp>", "decimal(5, 1)"
    ]  # fmt: skip
    found = result(stream)
    assert found["fixed"].to_pylist() == found["large"].to_pylist() == numbers
    assert found["times"].to_pylist() == [[dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)], []]
    assert found["small"].to_pylist() == [Decimal("1.5"), None]


@pytest.mark.parametrize("options", [{"engine": "thread"}, {"engine": "node", "workers": 2}])
def test_through_keys_windows_and_joins(options):
    """As keys, first and last values, and the columns of a table, compiled."""
    names = hr.table({"price": ROWS["price"].drop_null(), "as_list": [["x"], [], [LONG]]})
    made = (
        hr.read.memory(ROWS)
        .with_watermark("at", "1s")
        .explode("tags")
        .join(names, on="price", how="left")
        .key_by("tags", "place")
        .window(hr.tumbling("1s"))
        .agg(n=hr.count(), most=hr.max("price"), last=hr.last("as_list"))
    )
    found = result(made, compiled=True, **options).drop_columns("window_start").to_pylist()
    first, second, third, fourth = ROWS["place"].to_pylist()
    expected = [
        (None, second, 1, Decimal("-2.25"), []),
        (None, third, 1, None, None),
        (None, fourth, 1, Decimal("10.00"), [LONG]),
        ("a", first, 1, Decimal("1.50"), ["x"]),
        ("a", fourth, 1, Decimal("10.00"), [LONG]),
        (LONG, first, 1, Decimal("1.50"), ["x"]),
        ("b", fourth, 1, Decimal("10.00"), [LONG]),
    ]
    assert sorted(map(repr, map(tuple, map(dict.values, found)))) == sorted(map(repr, expected))


# ---- taken apart ---------------------------------------------------------------------------------


def test_fields_and_items():
    assert column(col("place").struct.field("x")) == [1, None, None, 4]
    inner = col("place").struct.field("more").list.get(0, null_on_oob=True).struct.field("s")
    assert column(inner.str.len_chars()) == [len(LONG), None, None, None]
    assert column(col("tags").list.len()) == [2, 0, None, 3]
    assert column(col("tags").list.get(-1, null_on_oob=True)) == [LONG, None, None, "b"]
    with pytest.raises(ValueError, match="there is no item 1 in a list of 0") as caught:
        column(col("tags").list.get(1))
    assert "in operator select" in "".join(caught.value.__notes__)


def test_explode_and_unnest():
    rows = hr.read.memory(ROWS)
    exploded = result(rows.explode("tags").select("n", "tags")).to_pylist()
    pairs = [(1, "a"), (1, LONG), (2, None), (3, None), (4, "a"), (4, None), (4, "b")]
    assert exploded == [{"n": n, "tags": tag} for n, tag in pairs]
    assert rows.key_by("tags").explode("tags").node.key == ()
    flat = rows.unnest("place")
    assert flat.schema.names == ("n", "tags", "price", "x", "more", "at")
    assert result(flat)["x"].to_pylist() == [1, None, None, 4]
    assert "tags (whole columns, by Arrow)" in rows.explode("tags").explain()


@given(st.lists(st.none() | st.lists(st.none() | st.integers(0, 9), max_size=4)), st.data())
@fewer
def test_explode_is_a_loop(lists, data):
    table = pa.table(
        {"n": pa.array(range(len(lists)), pa.int8()), "l": pa.array(lists, pa.list_(pa.int64()))}
    )
    expected = [{"n": n, "l": item} for n, items in enumerate(lists) for item in (items or [None])]
    rows = hr.read.memory(table).filter(col("n") >= 0).explode("l")
    assert result(rows, capacity=data.draw(st.integers(1, 5))).to_pylist() == expected


def test_decimals_are_compared_and_cast():
    price = col("price")
    for compiled in (False, True):
        assert column(price > Decimal("1.5"), compiled) == [False, False, None, True]
    assert column(price.is_in([Decimal("-2.25"), 10])) == [False, True, None, True]
    assert column(price.fill_null(0)) == [Decimal(t) for t in ("1.50", "-2.25", "0.00", "10.00")]
    assert column(hr.greatest(price, hr.lit(Decimal("2.00"), pa.decimal128(4, 2)))) == [
        Decimal("2.00"), Decimal("2.00"), Decimal("2.00"), Decimal("10.00")
    ]  # fmt: skip
    assert column(price.cast(float)) == [1.5, -2.25, None, 10.0]
    assert column(price.cast(int)) == [1, -2, None, 10]
    assert column(price.cast(str)) == ["1.50", "-2.25", None, "10.00"]
    wider, narrow = pa.decimal128(10, 3), pa.decimal128(3, 1)
    assert column(price.cast(wider)) == ROWS["price"].cast(wider).to_pylist()
    tenths = [Decimal("1.5"), None, None, Decimal("10.0")]
    assert column(price.cast(narrow, strict=False)) == tenths
    assert column(col("n").cast(str).cast(wider)) == [Decimal(n) for n in range(1, 5)]
    with pytest.raises(ValueError, match="would cause data loss"):
        column(price.cast(narrow))


# ---- refused -------------------------------------------------------------------------------------

TAGS, PLACE, PRICE = col("tags"), col("place"), col("price")
MISTAKES = {
    "compared": (lambda rows: rows.filter(TAGS == TAGS), "cannot be compared", ".list.get(0)"),
    "ordered": (lambda rows: rows.agg(m=hr.max("place")), "has no order", ".struct.field('x')"),
    "least": (lambda rows: rows.select(m=hr.least(TAGS, TAGS)), "has no order", "explode"),
    "added": (lambda rows: rows.select(m=PRICE + 1), "has no meaning", ".cast(float)"),
    "summed": (lambda rows: rows.agg(m=hr.sum("price")), "needs numbers", ".cast(float)"),
    "text": (lambda rows: rows.select(m=PLACE.str.len_chars()), "works on strings", ".struct"),
    "cast": (lambda rows: rows.select(m=TAGS.cast(str)), "cannot be cast", ".list.get(0)"),
    "to a time": (lambda rows: rows.select(m=PRICE.cast("date")), "cannot be cast", "numbers"),
    "constant": (lambda rows: rows.filter(PRICE == Decimal("1.555")), "does not fit", "digits"),
    "float": (lambda rows: rows.filter(PRICE == 1.5), "cannot be compared", "cast one side"),
    "list": (lambda rows: rows.select(m=hr.lit([1], list[int])), "no constants", "a column"),
    "function": (lambda rows: rows.map(lambda place: 1, output="m"), "compiled", "map_batches"),
    "result": (lambda rows: rows.map(lambda n: n, output={"m": list[int]}), "compiled", "explode"),
    "field": (lambda rows: rows.select(m=PLACE.struct.field("y")), "no field 'y'", "x, more"),
    "no struct": (lambda rows: rows.select(m=TAGS.struct.field("x")), "works on structs", ""),
    "no list": (lambda rows: rows.explode("place"), "not a list", ".struct.field('x')"),
    "no fields": (lambda rows: rows.unnest("tags"), "not a struct", ""),
    "twice": (lambda rows: rows.rename(n="x").unnest("place"), "two columns", "rename"),
    "skipped": (
        lambda rows: rows.select(m=TAGS.list.get(1), on_error="skip"),
        "whole columns",
        "null_on_oob",
    ),
    "index": (lambda rows: rows.select(m=TAGS.list.get(col("n"))), "not the place", "get(0)"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_cannot_be_done_says_the_way_out(mistake):
    make, what, fix = MISTAKES[mistake]
    with pytest.raises(hr.PipelineError) as caught:
        make(hr.read.memory(ROWS))
    assert what in str(caught.value) and fix in caught.value.fix
    assert "test_nested.py" in str(caught.value)


@pytest.mark.parametrize(
    ("value", "kind", "what"),
    [
        (["x"], list[int], "'x' is not a value of optional(int64)"),
        ({"y": 1}, {"x": int}, "has a field 'y'"),
        (Decimal("1.234"), pa.decimal128(5, 2), "1.234 does not fit decimal(5, 2)"),
        (Decimal("NaN"), pa.decimal128(5, 2), "NaN does not fit decimal(5, 2)"),
        (1.5, pa.decimal128(5, 2), "1.5 is not a value of decimal(5, 2)"),
        ("x", list[str], "'x' is not a value of list<string>"),
    ],
)
def test_values_that_do_not_fit_are_named(value, kind, what):
    with pytest.raises(hr.PipelineError) as caught:
        hr.read.memory({"a": [value]}, schema={"a": kind})
    assert f"column 'a', row 0: {what}" in str(caught.value).replace("{'y': 1} ", "")
