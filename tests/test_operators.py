"""Every operator by itself against the naive reference, and the smallest cases of past mistakes."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.choices import Seeded, choices
from tests.counts import count
from tests.naive import naive, rows_of
from tests.pipelines import OPERATORS, Builder, Shape
from tests.random_expressions import ANY_KIND, Expressions
from tests.random_rows import schema, tables
from tests.running import CAPACITIES, assert_same, check, run_staged

import headrace as hr
from headrace import col
from headrace.plan.build import PlainPythonWarning
from headrace.testing.stages import run_stages

MODES = pytest.mark.parametrize(
    "compiled",
    [False, pytest.param(True, marks=pytest.mark.compiled)],
    ids=["interpreted", "compiled"],
)
DISTINCT = list(dict.fromkeys(OPERATORS))


@pytest.mark.parametrize("operator", DISTINCT, ids=lambda operator: operator.__name__)
@pytest.mark.filterwarnings(
    f"ignore::{PlainPythonWarning.__module__}.{PlainPythonWarning.__name__}"
)
@given(choose=choices())
def test_operator(operator, choose):
    """One operator behind a source, over all types, in random cuts."""
    shape = Shape.of(choose, channels=1)
    rows = tables(choose, shape.schema, most=20, disorder=shape.disorder)
    source = hr.read.memory(rows, schema=shape.schema)
    builder = Builder(choose, [source], shape.bound)
    made = operator(builder, builder.streams[0])
    outputs = [stream.write.collect() for stream in (made, *builder.streams[:1])]
    whole = check(outputs, capacity=choose.pick(CAPACITIES), cuts=choose)
    count("operators by themselves, interpreted", whole)


@pytest.mark.parametrize("kind", ANY_KIND)
@given(choose=choices())
def test_expression(kind, choose):
    """One expression of each type, nested deeper than pipelines have it."""
    of = schema(choose)
    stream = hr.read.memory(tables(choose, of, most=10), schema=of)
    expressions = Expressions(choose, of)
    made = expressions.column() if kind == "column" else getattr(expressions, f"{kind}_")(3)
    output = stream.select({"made": made}).write.collect()
    count("expressions, interpreted", _same_outcome(output, compiled=False))


def _same_outcome(output, *, compiled: bool) -> bool:
    """The same rows, or an error of the same type."""
    try:
        (expected,) = naive([output])
    except (ArithmeticError, ValueError) as error:
        with pytest.raises(type(error)):
            run_staged([output], compiled=compiled)
        return False
    (found,) = run_staged([output], compiled=compiled)
    assert_same(found, expected, ordered=True)
    return True


# ---- arithmetic, with errors ---------------------------------------------------------------

WHOLE = [0, 1, -1, 2, -3, 7, 2**31, -(2**31), 2**53 + 1, 2**62, -(2**62), 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 1e300, -1e300, 5e-324, math.inf, -math.inf, math.nan]
BINARY = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
COLUMNS = {"i": WHOLE, "j": WHOLE, "x": FLOATS, "y": FLOATS}


@MODES
@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("names", ["ij", "ix", "xi", "xy"])
def test_arithmetic_of_every_pair(op, names, compiled):
    """All pairs of difficult numbers: rows that succeed together, those that fail one by one."""
    left, right = names
    pairs = [(a, b) for a in COLUMNS[left] for b in COLUMNS[right]]
    kinds = {
        "a": "int64" if left in "ij" else "float64",
        "b": "int64" if right in "ij" else "float64",
    }

    def output_of(some):
        rows = [{"a": a, "b": b} for a, b in some]
        made = BINARY[op](col("a"), col("b"))
        return hr.read.memory(rows, schema=kinds).select(made=made).write.collect()

    good, bad = [], []
    for pair in pairs:
        try:
            naive([output_of([pair])])
            good.append(pair)
        except ArithmeticError:
            bad.append(pair)
    assert _same_outcome(output_of(good), compiled=compiled)
    for pair in bad[:6]:
        assert not _same_outcome(output_of([pair]), compiled=compiled)


CASTS = [
    ("float64", FLOATS, ["bool", "int8", "int64", "float32"]),
    ("int64", WHOLE, ["bool", "int8", "int16", "int32", "float32", "float64", "timestamp", "date"]),
    ("bool", [True, False], ["int8", "int64", "float64"]),
    ("timestamp", [0, -1, 86_400_000_000, -86_400_000_001], ["int64", "date"]),
    ("date", [0, -1, 2**31 - 1, -(2**31)], ["int64", "timestamp"]),
]


@MODES
@pytest.mark.parametrize(
    ("source", "target"), [(source, t) for source, _, targets in CASTS for t in targets]
)
def test_casts(source, target, compiled):
    values = next(values for name, values, _ in CASTS if name == source)
    stored = pa.array(values, {"timestamp": pa.int64(), "date": pa.int32()}.get(source))

    def output_of(array):
        kind = hr.Schema.of({"a": source}).to_arrow().field("a").type
        stream = hr.read.memory(pa.table({"a": array.cast(kind)}), schema={"a": source})
        return stream.select(made=col("a").cast(target)).write.collect()

    good = []
    for k in range(len(values)):
        output = output_of(stored.slice(k, 1))
        try:
            naive([output])
            good.append(k)
        except (ArithmeticError, ValueError):
            assert not _same_outcome(output, compiled=compiled)
    assert _same_outcome(output_of(stored.take(good)), compiled=compiled)


# ---- floats added up in any order ----------------------------------------------------------


@given(
    st.lists(st.floats(-1e6, 1e6, width=32), max_size=60),
    st.integers(0, 1000),
    st.sampled_from([1, 3, 7]),
)
def test_sums_that_need_not_be_reproducible(values, seed, shards):
    """Partial sums cross exchanges: equal but for the last digits."""
    rows = {"x": values, "t": list(range(len(values))), "k": [n % 3 for n in range(len(values))]}
    stream = hr.read.memory(rows, schema={"x": float, "t": int, "k": int})
    windows = stream.with_watermark("t", 0).key_by("k").window(hr.tumbling(20))
    made = windows.agg(total=hr.sum("x"), mean=hr.mean("x"), n=hr.count(), reproducible=False)
    output = made.write.collect(name="out")
    (expected,) = naive([output])
    found = rows_of(run_stages(output, shards=shards, batch=9, seed=seed)["out"])
    found.sort(key=lambda row: (row["window_start"], row["k"]))
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        size = sum(abs(x) for x in values) + 1.0
        for name, value in one.items():
            assert math.isclose(value, other[name], rel_tol=1e-9, abs_tol=1e-12 * size)


# ---- keys that come from a static table ----------------------------------------------------


def campaign_views(ids, filtered, how, kind, seed):
    """Rows whose window key stands in a table: most ids are there, 0 and others are not."""
    random = Seeded(seed)
    rows = [
        {"t": n + random.number(0, 6), "ad": random.pick(ids), "view": random.chance(60)}
        for n in range(200)
    ]
    table = hr.table({"ad": ids[2:], "campaign": [kind(ad % 3) for ad in ids[2:]]})
    stream = hr.read.memory(rows, schema={"t": int, "ad": int, "view": bool})
    stream = stream.with_watermark("t", 4)
    if filtered:
        stream = stream.filter(col("view"))
    joined = stream.join(table, on="ad", how=how).select("t", key=col("campaign"))
    return joined.key_by("key").window(hr.tumbling(10)).agg(n=hr.count(), last=hr.max("t"))


@given(
    st.lists(st.sampled_from([0, 64, 128, -1, 4096, 2**62]), min_size=3, max_size=6, unique=True),
    st.booleans(),
    st.sampled_from(["inner", "left"]),
    st.sampled_from([int, str]),
    st.integers(0, 1000),
    st.sampled_from([1, 7, 64]),
)
def test_windows_keyed_by_a_table(ids, filtered, how, kind, seed, capacity):
    """The record of a key is remembered under its table's record, for one window at a time."""
    windowed = campaign_views(ids, filtered, how, kind, seed)
    outputs = [windowed.write.collect(), windowed.late().write.collect()]
    assert check(outputs, capacity=capacity, cuts=Seeded(seed))


@pytest.mark.compiled
@pytest.mark.parametrize("filtered", [False, True])
def test_windows_keyed_by_a_table_compiled(filtered):
    windowed = campaign_views([0, 5, 64, 128, -1, 4096], filtered, "inner", int, 7)
    assert check([windowed.write.collect()], capacity=64, compiled=True)


# ---- what random pipelines have found ------------------------------------------------------


@MODES
def test_columns_first_read_by_late_rows(compiled):
    """What the branch of late rows loads is not known to rows that are on time."""
    table = hr.table({"k": [1], "v": ["a string that is long"]})
    source = hr.read.memory({"t": [9, 1, 9, 2, 30], "k": [1, 1, 2, 1, 1]})
    joined = source.with_watermark("t", 0).join(table, on="k", how="left")
    windowed = joined.window(hr.tumbling(4)).agg(n=hr.count("v"))
    assert check([windowed.write.collect(), windowed.late().write.collect()], compiled=compiled)


def remember(state, s):
    before = state.last
    state.last = s
    yield before, 1
    yield s, 2


@MODES
def test_strings_of_a_suspended_row(compiled):
    """A row that stops in a full block keeps the strings that were made in that block."""
    words = [f"{n} is the number of this sentence" for n in range(40)]
    source = hr.read.memory({"s": words, "k": [n % 2 for n in range(40)]})
    louder = source.with_columns(s=hr.concat(col("s").upper(), "!"))
    kept = louder.key_by("k").process(remember, state={"last": str}, output=["s", "n"])
    for capacity in (1, 2, 3):
        assert check([kept.write.collect()], capacity=capacity, compiled=compiled)


@MODES
def test_hidden_columns_stay_hidden(compiled):
    """A branch without a window reads rows that carry watermarks for another branch."""
    source = hr.read.memory({"t": [1, 2, 30], "k": [1, 1, 2]}).with_watermark("t", 0)
    rows = source.key_by("k").process(numbered, state={"n": int}, output=["t", "n"])
    table = hr.table({"k": [1]})
    plain = [rows.filter(col("n") > 0), rows.union(rows), rows.join(table, on="k"), rows]
    windowed = rows.window(hr.tumbling(10)).agg(n=hr.count())
    outputs = [stream.write.collect() for stream in (*plain, windowed)]
    assert check(outputs, compiled=compiled)
    for output in outputs[:-1]:
        hr.run(output, outputs[-1], compiled=compiled)
        assert output.result().column_names == ["k", "t", "n"]


def numbered(state, t):
    state.n += 1
    yield t, state.n


@MODES
def test_late_rows_with_strings_made_in_the_kernel(compiled):
    source = hr.read.memory({"t": [1, 50, 2, 3] * 30, "s": ["a sentence, which is long"] * 120})
    louder = source.with_watermark("t", 0).with_columns(s=hr.concat(col("s").upper(), "!"))
    windowed = louder.window(hr.tumbling(10)).agg(n=hr.count(), most=hr.max("s"))
    outputs = [windowed.late().write.collect(), windowed.write.collect()]
    for capacity in (1, 7, 1000):
        assert check(outputs, capacity=capacity, compiled=compiled, cuts=Seeded(capacity))


def shout(s):
    if s is None:
        return None
    return s.upper()


@pytest.mark.compiled
def test_optional_strings_of_functions_are_counted_right():
    """A string out of an optional has one owner more: it was freed twice."""
    source = hr.read.memory({"s": ["some words", None, "a long sentence of words", "\u00e9"] * 50})
    output = source.map(shout, output=["s"]).write.collect()
    for _ in range(20):
        assert check([output], capacity=7, compiled=True)


@pytest.mark.parametrize("shards", [1, 3, 7])
def test_unions_of_rows_from_different_stages(shards):
    """They meet behind an exchange: hidden columns stay hidden, no stage waits for itself."""
    source = hr.read.memory({"k": [1, 2, 1, 3], "n": [5, 6, 7, 8]})
    once = source.key_by("k").process(tally, state={"n": int}, output="n")
    again = once.key_by("n").process(tally, state={"n": int}, output="k")
    third = again.key_by("k").process(tally, state={"n": int}, output="n")
    for other in (source, again, third):
        both = once.union(other)
        key = "n" if "n" in both.schema else "k"
        streams = [
            both,
            both.filter(col(key) > 1),
            both.key_by(key).process(tally, state={"n": int}, output="m"),
        ]
        outputs = [stream.write.collect() for stream in streams]
        found = run_stages(*outputs, shards=shards, capacity=2, batch=3)
        for one, expected in zip(found.values(), naive(outputs), strict=True):
            assert_same(rows_of(one), expected, ordered=False)


def tally(state):
    state.n += 1
    yield state.n


def test_a_block_that_is_too_large_is_refused():
    from headrace.asked import planned
    from headrace.stage.stage import Stage

    output = hr.read.memory({"n": [1, 2, 3]}, name="numbers").write.collect()
    small, large = (Stage(planned([output]).whole, capacity=c, compiled=False) for c in (2, 3))
    large.push("numbers", pa.record_batch({"n": [1, 2, 3]}))
    ((_, block),) = large.pull()
    with pytest.raises(ValueError, match="3 rows in a block, and capacity=2"):
        small.push("numbers", block)
