"""Filters behind DataFrames are handed to Spark where they mean the same there: no row is lost."""

import math
import operator
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import col
from headrace.plan.planner import plan

LARGEST, SMALLEST = (1 << 63) - 1, -(1 << 63)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WHOLE = [0, 1, -1, 7, 127, -128, LARGEST, SMALLEST, (1 << 53) + 1, None]
SMALL = [0, 1, -1, 7, 127, -128, None]
FLOATS = [0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 1e300, 2.0**53, 5e-324, None]
TEXTS = ["", "a", "A", "é", "z", "ab", "a ", "\U0001f600", "￿", None]
TIMES = [
    EPOCH + timedelta(microseconds=n)
    for n in (0, 1, -1, 1_793_000_000_000_000, 1_774_747_800_000_000, -60_000_000_000_000_000)
] + [None]
DATES = [date(1970, 1, 1), date(1969, 12, 31), date(2026, 3, 29), date(1582, 10, 10), None]
VALUES = {
    "whole": (pa.int64(), WHOLE),
    "small": (pa.int8(), SMALL),
    "number": (pa.float64(), FLOATS),
    "short": (pa.float32(), [0.0, -0.0, 0.1, math.nan, math.inf, None]),
    "text": (pa.string(), TEXTS),
    "time": (pa.timestamp("us", tz="UTC"), TIMES),
    "day": (pa.date32(), DATES),
    "truth": (pa.bool_(), [True, False, None]),
}
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


def constants(name):
    values = [value for value in VALUES[name][1] if value is not None]
    if name in ("number", "short"):
        values += [0, 3, 1 << 53]
    if name in ("whole", "small"):
        values += [300]
    return st.sampled_from(values)


@st.composite
def comparisons(draw):
    name = draw(st.sampled_from(list(VALUES)))
    column = col(name)
    if name == "truth":
        return draw(st.sampled_from([column, column.is_null(), column == True]))  # noqa: E712
    match draw(st.integers(0, 5)):
        case 0:
            return column.is_null()
        case 1:
            return column.is_not_null()
        case 2:
            return column.is_in(draw(st.lists(constants(name), min_size=1, max_size=12)))
    return draw(st.sampled_from(COMPARISONS))(column, draw(constants(name)))


PREDICATES = st.recursive(
    comparisons(),
    lambda inner: (
        st.builds(lambda a, b: a & b, inner, inner)
        | st.builds(lambda a, b: a | b, inner, inner)
        | st.builds(lambda a: ~a, inner)
    ),
    max_leaves=4,
)


def rows() -> pa.Table:
    """All values of each column, one beside the others, sorted in part so that groups differ."""
    count = 120
    columns = {
        name: pa.array([values[(k // 7 + k) % len(values)] for k in range(count)], kind)
        for name, (kind, values) in VALUES.items()
    }
    return pa.table({"id": list(range(count)), **columns})


@pytest.fixture(scope="module")
def frame(session, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    table = rows()
    pq.write_table(table.slice(0, 60), folder / "a.parquet", row_group_size=5)
    plain = {"use_dictionary": False, "data_page_size": 64}
    pq.write_table(table.slice(60), folder / "b.parquet", row_group_size=10, **plain)
    zone = session.conf.get("spark.sql.session.timeZone")
    session.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    yield session.read.parquet(str(folder))
    session.conf.set("spark.sql.session.timeZone", zone)


def ids(stream, predicate, **options) -> list[int]:
    kept = stream.filter(predicate).select("id").write.collect()
    hr.run(kept, engine="thread", compiled=False, **options)
    return sorted(kept.result().column("id").to_pylist())


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(predicate=PREDICATES)
def test_no_row_is_lost(frame, predicate):
    assert ids(hr.read.spark(frame), predicate) == ids(hr.read.memory(rows()), predicate)


def handed(frame, predicate):
    """The words for what Spark gets of a filter."""
    output = hr.read.spark(frame).filter(predicate).write.null()
    (source,) = plan([output.node]).stages()[0].inputs
    return str(source.connector.handed(source.predicate))


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (col("whole") > 3, "(whole > 3)"),
        ((col("whole") > 3) & (col("number") == 0.5), "(whole > 3)"),
        ((col("whole") > 3) | (col("number") == 0.5), "None"),
        (col("number") < 0.0, "None"),
        (col("number") < 0.5, "(number < 0.5)"),
        (col("short") < 0.5, "None"),
        (col("text") >= "é", "(text >= 'é')"),
        (col("whole") + 1 > 3, "None"),
        (col("day").is_null() | col("truth"), "(is_null(day) | truth)"),
    ],
)
def test_what_is_handed_over(frame, predicate, expected):
    assert handed(frame, predicate) == expected


def test_types_that_compare_otherwise_are_kept(session):
    made = session.range(1).selectExpr(
        "cast('a' as string collate UTF8_LCASE) c", "timestamp_ntz'2026-01-01 00:00:00' n", "'a' s"
    )
    assert handed(made, col("n") < EPOCH) == "None"
    assert handed(made, col("s") < "b") == "(s < 'b')"
    if "c" in hr.read.spark(made).schema.names:
        assert handed(made, col("c") < "b") == "None"


def test_readers_of_spark_get_it(session, frame):
    """Constants are such that its reader of Parquet can use them, of times and days, too."""
    predicate = (col("time") > EPOCH) & (col("day") < DATES[2]) & (col("small") == 7)
    stream = hr.read.spark(frame).filter(predicate)
    (source,) = plan([stream.write.null().node]).stages()[0].inputs
    session.conf.set("spark.sql.maxMetadataStringLength", 1000)  # all of it is shown
    read = source.connector.selected(["id"], source.predicate)._jdf.queryExecution().toString()
    pushed = read.partition("PushedFilters: [")[2].partition("]")[0]
    for expected in ("GreaterThan(time,", "LessThan(day,2026-03-29)", "EqualTo(small,7)"):
        assert expected in pushed, pushed


@pytest.mark.parametrize("streams", [False, True], ids=["batch", "stream"])
def test_on_spark(session, tmp_path, streams):
    """Spark's reader gets the filter, and the rows are those of other engines."""
    pq.write_table(rows(), tmp_path / "a.parquet", row_group_size=10)
    reader = session.readStream.schema(session.read.parquet(str(tmp_path)).schema)
    frame = (reader if streams else session.read).parquet(str(tmp_path))
    predicate = (col("whole") > 3) & col("text").is_in(["a", "z"])
    stream = hr.read.spark(frame).filter(predicate).select("id")
    kept = stream.write.collect()
    said = hr.explain(kept, engine="spark")
    assert "Spark reads id: " in said and "where ((whole > 3) & text in ('a', 'z'))" in said
    job = hr.start(kept, engine="spark", session=session, compiled=False)
    if streams:
        job.stop()
    job.await_termination()
    expected = ids(hr.read.memory(rows()), predicate)
    assert sorted(kept.result().column("id").to_pylist()) == expected and expected


@pytest.mark.parametrize("engine", ["thread", "node", "spark"])
def test_row_groups_are_left_out(session, tmp_path, engine):
    """By the statistics of files, wherever a filter follows the source."""
    table = pa.table({"n": list(range(10_000))})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=100)
    kept = hr.read.parquet(tmp_path).filter(col("n") >= 9950).write.collect()
    options = {"session": session} if engine == "spark" else {}
    job = hr.run(kept, engine=engine, compiled=False, **options)
    assert kept.result().column("n").to_pylist() == list(range(9950, 10_000))
    assert job.progress().rows_in <= 100


def test_a_window_sees_all_times(session, tmp_path):
    """A watermark counts all rows, also those that a filter drops: nothing is handed over."""
    made = session.createDataFrame([(1, 5), (2, 50)], "id long, t long")
    stream = hr.read.spark(made).with_watermark("t", 0).filter(col("id") == 1)
    counted = stream.key_by("id").window(hr.tumbling(10)).agg(n=hr.count()).write.null()
    assert "where" not in hr.explain(counted, engine="spark").partition("On Spark")[2]
