"""Types besides numbers and texts: unsigned integers, durations, times of the day; odd names."""

import datetime as dt

import pyarrow as pa
import pytest

import headrace as hr
from headrace import col

ROWS = pa.table(
    {
        "small": pa.array([0, 255, None], pa.uint8()),
        "middle": pa.array([0, 2**16 - 1, 1], pa.uint16()),
        "large": pa.array([0, 2**32 - 1, 1], pa.uint32()),
        "huge": pa.array([0, 2**64 - 1, 2**63], pa.uint64()),
        "long": pa.array([dt.timedelta(days=-1), dt.timedelta(microseconds=1), None]),
        "at": pa.array([dt.time(0), dt.time(23, 59, 59, 999_999), None]),
        "__index_level_0__": [7, 8, 9],
    }
)
both = pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "compiled"])


def result(stream, compiled=False, engine="thread"):
    out = stream.write.collect()
    hr.run(out, engine=engine, compiled=compiled)
    return out.result()


def values(stream, name, compiled=False):
    return result(stream, compiled)[name].to_pylist()


@pytest.mark.parametrize("engine", ["thread", "node"])
def test_columns_are_carried_as_they_are(engine):
    rows = hr.read.memory(ROWS)
    assert rows.schema.unread == ()
    kept = result(rows.filter(col("middle") >= 0).select(*ROWS.schema.names), engine=engine)
    assert kept.to_pylist() == ROWS.to_pylist()
    kinds = {field.name: field.type for field in kept.schema}
    assert kinds["huge"] == pa.uint64() and kinds["small"] == pa.uint8()
    assert kinds["long"] == pa.duration("us") and kinds["at"] == pa.time64("us")


@both
def test_unsigned_integers_are_integers(compiled):
    rows = hr.read.memory(ROWS)
    assert values(rows.select(n=col("small") - 1), "n", compiled) == [-1, 254, None]
    assert values(rows.select(n=col("large") * 2), "n", compiled) == [0, 2**33 - 2, 2]
    assert values(rows.select(n=col("large").cast("uint64")), "n", compiled) == [0, 2**32 - 1, 1]
    down = col("large").cast("uint8", strict=False)
    assert values(rows.select(n=down), "n", compiled) == [0, None, 1]
    with pytest.raises(OverflowError, match="does not fit in the narrower type"):
        result(rows.select(n=(col("small") - 1).cast("uint8")), compiled)


@both
def test_uint64_is_compared_and_cast(compiled):
    rows = hr.read.memory(ROWS)
    big = hr.lit(2**63, "uint64")
    assert values(rows.filter(col("huge") >= big), "middle", compiled) == [2**16 - 1, 1]
    assert values(rows.filter(col("huge") == big), "middle", compiled) == [1]
    small = col("huge").cast("int64", strict=False)
    assert values(rows.select(n=small), "n", compiled) == [0, None, None]
    with pytest.raises(OverflowError, match="does not fit in int64"):
        result(rows.select(n=col("huge").cast("int64")), compiled)
    with pytest.raises(OverflowError, match="a negative value does not fit in uint64"):
        result(rows.select(n=(col("middle") - 1).cast("uint64")), compiled)
    with pytest.raises(hr.PipelineError, match="cannot be compared"):
        rows.filter(col("huge") > 5)
    with pytest.raises(hr.PipelineError, match="has no meaning"):
        rows.select(n=col("huge") + 1)


@both
def test_keys_and_extremes(compiled):
    times = pa.array([0, 1, 2], pa.timestamp("us", "UTC"))
    windows = (
        hr.read.memory(ROWS.append_column("t", times))
        .with_watermark("t", "1s")
        .key_by("huge")
        .window(hr.tumbling("1s"))
        .agg(least=hr.min("at"), most=hr.max("long"), n=hr.count())
    )
    found = result(windows, compiled)
    assert found["huge"].to_pylist() == [0, 2**63, 2**64 - 1]  # in their own order
    assert found["most"].to_pylist() == [dt.timedelta(days=-1), None, dt.timedelta(microseconds=1)]
    assert found["least"].to_pylist() == [dt.time(0), None, dt.time(23, 59, 59, 999_999)]


def test_in_functions_they_are_whole_numbers():
    rows = hr.read.memory(ROWS.slice(0, 1))

    def sums(small, huge, long, at):
        return small + 1, huge + 1, (0 if long is None else long), (0 if at is None else at)

    made = rows.map(
        sums,
        columns=["middle", "huge", "long", "at"],
        output={"n": "uint8", "big": "uint64", "long": dt.timedelta, "at": dt.time},
    )
    expected = {"n": 1, "big": 1, "long": dt.timedelta(days=-1), "at": dt.time(0)}
    assert result(made).to_pylist() == [expected]


def test_durations_and_times_in_expressions():
    rows = hr.read.memory(ROWS)
    late = rows.filter(col("at") > dt.time(12))
    assert values(late, "middle") == [2**16 - 1]
    longer = rows.select(d=col("long") + dt.timedelta(seconds=1), n=col("at").cast("int64"))
    assert values(longer, "d") == [
        dt.timedelta(days=-1, seconds=1), dt.timedelta(seconds=1, microseconds=1), None
    ]  # fmt: skip
    assert values(longer, "n") == [0, 86_399_999_999, None]
    with pytest.raises(OverflowError):
        result(rows.select(t=(col("at").cast("int64") + 1).cast("time")))


def test_names_that_begin_with_underscores():
    rows = hr.read.memory({"__n": [1, 2], "__watermark": [3, 4], "__hash": [5, 6]})
    made = rows.with_columns(__place=col("__n") + 1, at=hr.from_millis(col("__n")))
    assert values(made, "__place") == [2, 3]
    windows = made.with_watermark("at", "1s").key_by("__hash").window(hr.tumbling("1s"))
    assert values(windows.agg(__total=hr.sum("__watermark")), "__total") == [3, 4]
