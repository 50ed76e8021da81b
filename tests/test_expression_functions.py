"""Functions of expressions on random columns: in both modes against the naive reference, and where
Polars has the same function, against Polars; and one pipeline of all families on the engines."""

from __future__ import annotations

import datetime as dt
import json
import math
import struct
from zoneinfo import ZoneInfo

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive import batch_of, naive
from tests.naive_functions import json_path
from tests.running import ROW_ERRORS, assert_same, run_staged

import headrace as hr
from headrace import col
from headrace.plan.schema import Schema
from headrace.plan.types import optional

both_lives = pytest.mark.parametrize(
    "compiled", [False, pytest.param(True, marks=pytest.mark.compiled)]
)

LOWEST, HIGHEST = -(2**63), 2**63 - 1
FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 0.5, 1.5, 2.5, -2.5, 1e300, 5e-324, 1e22, 123456.789]),
    st.floats(width=64),
)
INTS = st.one_of(
    st.sampled_from([0, 1, -1, LOWEST, HIGHEST, 2**53 + 1]), st.integers(LOWEST, HIGHEST)
)
NUMERALS = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.floats().map(repr),
    st.from_regex(r"\A[ \t]?[+-]?[0-9]{0,20}(\.[0-9]{0,25})?([eE][+-]?[0-9]{1,3})?[ ]?\Z"),
    st.sampled_from(["nan", "-inf", "Infinity", "1_0", "٣", "0x10", "", " ", ".", "1e", "true"]),
)
DAYS = st.one_of(st.integers(-719_162, 2_932_896), st.sampled_from([0, -1, 59, 19_782]))
TIMES = st.one_of(
    st.datetimes(timezones=st.just(dt.UTC)).map(
        lambda t: (t - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
    ),
    st.sampled_from([0, -1, 1, 86_400_000_000 - 1]),
)
TEXTS = st.text(
    st.one_of(
        st.sampled_from("aAbBeE,-+09 .%_\\\t\u3000\x1f\0éß一😀"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=30,
)
MOMENTS = st.one_of(
    st.datetimes(timezones=st.just(dt.UTC)).map(lambda t: t.isoformat()),
    st.datetimes().map(str),
    st.dates().map(str),
    st.from_regex(r"\A[0-2][0-9]{3}-[01][0-9]-[0-3][0-9]([T ][0-2][0-9]:[0-5][0-9])?Z?\Z"),
    st.sampled_from(["2024-02-30", "2024-01-31T24:00", "2024-01-31T12:00+0200", "0000-01-01"]),
)


def rows_for(kind, values, **columns):
    """A stream over one nullable column `x`, and others."""
    kinds = {"x": optional(kind), **{name: optional(each[0]) for name, each in columns.items()}}
    schema = Schema.of(kinds)
    named = {"x": values, **{name: each[1] for name, each in columns.items()}}
    rows = [dict(zip(named, row, strict=True)) for row in zip(*named.values(), strict=True)]
    table = pa.Table.from_batches([batch_of(rows, schema)])
    return hr.read.memory(table, schema=schema)


def columns_of(values, *more, size=12):
    """A strategy for columns of one length, with nulls."""
    parts = [st.none() | each for each in (values, *more)]
    return st.lists(st.tuples(*parts), min_size=1, max_size=size).map(
        lambda rows: [list(column) for column in zip(*rows, strict=True)]
    )


def check(stream, compiled):
    """The rows of a stream are those of the reference; or both fail."""
    out = stream.write.collect()
    try:
        (expected,) = naive([out])
    except ROW_ERRORS as error:
        kind = next(kind for kind in ROW_ERRORS if isinstance(error, kind))
        with pytest.raises(kind):
            run_staged([out], compiled=compiled)
        return
    (found,) = run_staged([out], compiled=compiled)
    assert_same(found, expected, ordered=True)


# ---- against the reference -----------------------------------------------------------------


@both_lives
@given(data=columns_of(FLOATS, FLOATS, INTS))
def test_mathematics(compiled, data):
    x, y, n = data
    stream = rows_for(hr.float64, x, y=(hr.float64, y), n=(hr.int64, n))
    made = {
        f"round_{k}": col("x").round(k) for k in (-3, 0, 2, 300)
    } | {
        "floor": col("x").floor(), "ceil": col("x").ceil(), "sqrt": col("x").sqrt(),
        "sign": col("x").sign(), "clip": col("x").clip(-1, 2.5), "clip_by": col("x").clip(col("y")),
        "nan": col("x").is_nan(), "finite": col("x").is_finite(), "nan_int": col("n").is_nan(),
        "least": hr.least(col("x"), col("n"), 0.5), "greatest": hr.greatest(col("x"), col("y")),
        "floor_int": col("n").floor(), "sign_int": col("n").sign(),
        "small": (col("n") % 100) ** 3, "coalesce": hr.coalesce(col("x"), col("n"), 7),
        "between": col("x").between(col("y"), 10, "none"),
        "ints": hr.least(col("n"), 5), "abs": col("x").abs(),
    }  # fmt: skip
    check(stream.select(made), compiled)


@both_lives
@given(data=columns_of(FLOATS, FLOATS))
def test_powers_and_logarithms(compiled, data):
    """Of the C library here, and of NumPy, which may differ in the last place, there."""
    x, y = data
    stream = rows_for(hr.float64, x, y=(hr.float64, y))
    made = {
        "exp": col("x").exp(), "log": col("x").log(), "log10": col("x").log(10),
        "log2": col("x").log(2), "power": col("x") ** col("y"), "square": col("x") ** 2,
    }  # fmt: skip
    out = stream.select(made).write.collect()
    (found,) = run_staged([out], compiled=compiled)
    (expected,) = naive([out])
    for one, other in zip(found, expected, strict=True):
        for name in made:
            a, b = one[name], other[name]
            same = a == b or (a is not None and b is not None and math.isnan(a) and math.isnan(b))
            assert same or math.isclose(a, b, rel_tol=1e-14), (name, one, other)


@both_lives
@given(data=columns_of(INTS))
def test_powers_of_whole_numbers(compiled, data):
    check(rows_for(hr.int64, data[0]).select(cube=col("x") ** 3), compiled)


@both_lives
@given(data=columns_of(TEXTS, TEXTS, st.integers(-40, 40)))
def test_strings(compiled, data):
    x, y, n = data
    stream = rows_for(hr.string, x, y=(hr.string, y), n=(hr.int64, n))
    s = col("x").str
    made = {
        "slice": s.slice(col("n"), 5), "tail": s.slice(col("n")), "head": s.head(3),
        "last": s.tail(13), "part": s.split_part(",", col("n")), "by": s.split_part(col("y"), 0),
        "strip": s.strip_chars(), "start": s.strip_chars_start(col("y")),
        "end": s.strip_chars_end(" a"), "prefix": s.strip_prefix(col("y")),
        "suffix": s.strip_suffix("e"), "pad": s.pad_start(col("n"), "é"), "zfill": s.zfill(14),
        "pad_end": s.pad_end(14, "-"), "replace": s.replace_all("a", col("y"), literal=True),
        "once": s.replace(col("y"), "<>", literal=True),
        "all": s.replace_all(col("y"), "", literal=True),
        "find": s.find(col("y")), "count": s.count_matches(col("y")), "bytes": s.len_bytes(),
        "like": s.like("%a_%"), "like_by": s.like(col("y")), "exact": s.like("a\\%"),
        "contains": s.contains("a.", literal=True), "plain": s.contains("e"),
    }  # fmt: skip
    check(stream.select(made), compiled)


@both_lives
@given(data=columns_of(NUMERALS | TEXTS | MOMENTS))
def test_strings_become_other_types(compiled, data):
    kinds = ["int8", "int64", "float32", "float64", "bool", "date", "timestamp"]
    stream = rows_for(hr.string, data[0])
    check(stream.select({kind: col("x").cast(kind, strict=False) for kind in kinds}), compiled)


@both_lives
@pytest.mark.parametrize("kind", ["int64", "float64", "timestamp"])
@given(data=columns_of(NUMERALS | MOMENTS, size=2))
def test_strict_casts_fail_as_the_reference_does(compiled, kind, data):
    check(rows_for(hr.string, data[0]).select(made=col("x").cast(kind)), compiled)


@both_lives
@given(data=columns_of(FLOATS, INTS, TIMES, st.integers(-(2**31), 2**31 - 1)))
def test_other_types_become_strings(compiled, data):
    x, n, t, d = data
    stream = rows_for(hr.float64, x, n=(hr.int64, n), t=(hr.timestamp, t), d=(hr.date, d))
    made = {
        "float": col("x").cast(str), "float32": col("x").cast("float32").cast(str),
        "int": col("n").cast(str), "bool": (col("n") > 0).cast(str), "time": col("t").cast(str),
        "date": col("d").cast(str), "back": col("x").cast(str).cast(float),
        "length": col("n").cast(str).str.len_chars(),
    }  # fmt: skip
    check(stream.select(made), compiled)


@both_lives
@given(data=columns_of(FLOATS, INTS))
def test_casts_that_give_null(compiled, data):
    x, n = data
    stream = rows_for(hr.float64, x, n=(hr.int64, n))
    kinds = ["int8", "int32", "int64", "float32", "bool"]
    made = {f"{c}_{kind}": col(c).cast(kind, strict=False) for c in "xn" for kind in kinds}
    made["date"] = col("n").cast("date", strict=False)
    made["time"] = col("n").cast("date", strict=False).cast("timestamp", strict=False)
    check(stream.select(made), compiled)


def test_powers_of_two_have_the_fewest_digits():
    """They have more room above than below: the nearest short number may be the wrong one."""
    from headrace.stage.strings.heap import new_heap
    from headrace.stage.strings.numerals import write_float
    from headrace.stage.strings.text import text

    for exponent in range(-1074, 1024):
        x = 2.0**exponent
        assert text(*write_float(x, new_heap(64))) == repr(x)


@given(x=st.floats(width=64))
def test_floats_come_back_from_their_strings(x):
    from headrace.stage.strings.heap import new_heap
    from headrace.stage.strings.numerals import read_float, write_float
    from headrace.stage.strings.text import text

    written = write_float(x, new_heap(64))
    assert text(*written) == repr(x)
    status, back = read_float(*written)
    assert status == 0
    assert struct.pack("d", back) == struct.pack("d", x) or (math.isnan(x) and math.isnan(back))


ZONES = ("Europe/Berlin", "America/Havana", "Australia/Lord_Howe", "America/Sao_Paulo")


@both_lives
@given(data=columns_of(TIMES, DAYS))
def test_parts_of_times(compiled, data):
    t, d = data
    stream = rows_for(hr.timestamp, t, d=(hr.date, d))
    parts = ["year", "quarter", "month", "week", "day", "ordinal_day", "weekday"]
    clock = ["hour", "minute", "second", "millisecond", "microsecond"]
    made = {part: getattr(col("x").dt, part)() for part in parts + clock}
    made |= {f"date_{part}": getattr(col("d").dt, part)() for part in parts}
    made |= {"date": col("x").dt.date(), "ms": col("x").dt.epoch("ms")}
    for every in ("1ms", "7s", "15m", "1h", "1d", "1w", "2w", "1mo", "5mo", "1q", "1y"):
        made[f"to_{every}"] = col("x").dt.truncate(every)
    for every in ("1d", "3d", "1w", "1mo", "1y"):
        made[f"date_to_{every}"] = col("d").dt.truncate(every)
    check(stream.select(made), compiled)


@both_lives
@given(data=columns_of(st.datetimes(dt.datetime(1, 1, 3), dt.datetime(9999, 12, 29)).map(
    lambda t: (t - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
) | st.integers(1_698_000_000, 1_702_000_000).map(lambda s: s * 1_000_000)))  # fmt: skip
def test_times_in_zones(compiled, data):
    stream = rows_for(hr.timestamp, data[0])
    made = {}
    for k, zone in enumerate(ZONES):
        made |= {
            f"hour_{k}": col("x").dt.hour(zone=zone), f"date_{k}": col("x").dt.date(zone=zone),
            f"day_{k}": col("x").dt.truncate("1d", zone=zone),
            f"month_{k}": col("x").dt.truncate("1mo", zone=zone),
            f"quarter_{k}": col("x").dt.truncate("15m", zone=zone),
        }  # fmt: skip
    check(stream.select(made), compiled)


def test_every_zone_has_the_offsets_of_python():
    from zoneinfo import available_timezones

    from headrace.stage.strings.heap import new_heap
    from headrace.stage.strings.text import words
    from headrace.stage.zones import zone_offset, zone_table

    for name in sorted(available_timezones() - {"localtime", "Factory"})[::12]:
        table = zone_table(name)
        view = words(table, new_heap(len(table)))
        for year in (2, 1850, *range(1901, 2060, 3), 2500, 9990):
            for month in (1, 4, 7, 11):
                moment = dt.datetime(year, month, 3, 1, 30, tzinfo=dt.UTC)
                micros = (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(
                    microseconds=1
                )
                expected = moment.astimezone(ZoneInfo(name)).utcoffset()
                found = dt.timedelta(microseconds=zone_offset(micros, *view))
                assert found == expected, (name, moment)


def test_the_start_of_days_that_begin_late_or_twice():
    """Clocks in São Paulo jumped over midnight; those in Havana showed it twice."""
    moments = [
        dt.datetime(2018, 11, 4, 15, tzinfo=dt.UTC),
        dt.datetime(2023, 11, 5, 15, tzinfo=dt.UTC),
    ]
    stream = hr.read.memory({"t": moments}).select(
        sao=col("t").dt.truncate("1d", zone="America/Sao_Paulo"),
        havana=col("t").dt.truncate("1d", zone="America/Havana"),
    )
    found = stream.head(2).to_pylist()
    assert found[0]["sao"] == dt.datetime(2018, 11, 4, 3, tzinfo=dt.UTC)  # 01:00, the first time
    assert found[1]["havana"] == dt.datetime(2023, 11, 5, 4, tzinfo=dt.UTC)  # the first midnight


@both_lives
def test_durations(compiled):
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    stream = hr.read.memory({"a": [start, start], "b": [start, start + dt.timedelta(hours=36)],
                             "n": [2, -3], "d": [start.date(), start.date()]})  # fmt: skip
    gap = col("b") - col("a")
    made = stream.select(
        long=gap > dt.timedelta(hours=1),
        hours=gap.dt.total_hours(),
        days=gap.dt.total_days(),
        minus=(-gap).dt.total_days(),
        later=col("a") + hr.duration(hours=col("n"), minutes=30),
        twice=col("a") + 2 * hr.lit(dt.timedelta(hours=1)),
        share=(gap + hr.duration(hours=0)) / hr.lit(dt.timedelta(days=1)),
        next=col("d") + dt.timedelta(days=1),
    )
    out = made.write.collect()
    hr.run(out, engine="thread", compiled=compiled)
    first, second = out.result().to_pylist()
    assert (first["long"], second["long"]) == (False, True)
    assert (second["hours"], second["days"], second["minus"]) == (36, 1, -1)
    assert second["later"] == start + dt.timedelta(hours=-2, minutes=-30)
    assert second["twice"] == start + dt.timedelta(hours=2)
    assert (second["share"], second["next"]) == (1.5, dt.date(2024, 1, 2))


# ---- against Polars ------------------------------------------------------------------------


def polars_and_ours(columns, made, compiled):
    """The columns that both give for pairs of expressions (ours, that of Polars)."""
    frame = pl.DataFrame(columns)
    expected = frame.select(**{name: pair[1] for name, pair in made.items()}).to_dict(
        as_series=False
    )
    stream = hr.read.memory(frame.to_arrow())
    out = stream.select({name: pair[0] for name, pair in made.items()}).write.collect()
    hr.run(out, engine="thread", compiled=compiled)
    return out.result().to_pydict(), expected


@both_lives
@settings(max_examples=max(10, settings().max_examples // 2))
@given(data=columns_of(TEXTS, st.floats(-1e9, 1e9)))
def test_the_same_as_polars(compiled, data):
    columns = {"s": pl.Series(data[0], dtype=pl.String), "x": pl.Series(data[1], dtype=pl.Float64)}
    ours, theirs = col("s").str, pl.col("s").str
    x, y = col("x"), pl.col("x")
    made = {
        "slice": (ours.slice(1, 3), theirs.slice(1, 3)),
        "back": (ours.slice(-3, 2), theirs.slice(-3, 2)),
        "all": (ours.replace_all("a", "<>"), theirs.replace_all("a", "<>")),
        "once": (ours.replace("[ab]+", "<>"), theirs.replace("[ab]+", "<>")),
        "match": (ours.contains("^[aA].*[0-9]"), theirs.contains("^[aA].*[0-9]")),
        "extract": (ours.extract("([0-9]+)"), theirs.extract("([0-9]+)")),
        "group": (ours.extract("(a)(e|b)?", 1), theirs.extract("(a)(e|b)?", 1)),
        "length": (ours.len_chars(), theirs.len_chars()),
        "bytes": (ours.len_bytes(), theirs.len_bytes()),
        "prefix": (ours.strip_prefix("a"), theirs.strip_prefix("a")),
        "chars": (ours.strip_chars("aA "), theirs.strip_chars("aA ")),
        "pad": (ours.pad_start(9, "*"), theirs.pad_start(9, "*")),
        "starts": (ours.starts_with("a"), theirs.starts_with("a")),
        "round": (x.round(2), y.round(2, mode="half_to_even")),
        "floor": (x.floor(), y.floor()),
        "sqrt": (x.abs().sqrt(), y.abs().sqrt()),
        "clip": (x.clip(-1, 5), y.clip(-1, 5)),
        "sign": (x.sign(), y.sign()),
        "least": (hr.least(x, 3.0), pl.min_horizontal(y, 3.0)),
    }
    found, expected = polars_and_ours(columns, made, compiled)
    for name in made:
        assert len(found[name]) == len(expected[name])
        for one, other in zip(found[name], expected[name], strict=True):
            close = isinstance(one, float) and isinstance(other, float)
            assert one == other or (close and math.isclose(one, other, rel_tol=1e-12)), name


@both_lives
@given(data=columns_of(st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))))
def test_the_same_times_as_polars(compiled, data):
    columns = {"t": pl.Series(data[0], dtype=pl.Datetime("us", "UTC"))}
    ours, theirs = col("t").dt, pl.col("t").dt
    local = theirs.convert_time_zone("Europe/Berlin").dt
    parts = ["year", "quarter", "month", "week", "day", "weekday", "ordinal_day", "hour", "minute"]
    made = {part: (getattr(ours, part)(), getattr(theirs, part)()) for part in parts}
    for part in parts:
        made[f"{part}_there"] = getattr(ours, part)(zone="Europe/Berlin"), getattr(local, part)()
    for every in ("15m", "1h", "1d", "1w", "1mo", "1q", "1y"):
        made[f"to_{every}"] = ours.truncate(every), theirs.truncate(every)
    made["format"] = ours.strftime("%d.%m.%Y %H:%M"), theirs.strftime("%d.%m.%Y %H:%M")
    found, expected = polars_and_ours(columns, made, compiled)
    for name in made:
        assert found[name] == expected[name], name


# ---- functions over whole columns ----------------------------------------------------------


def test_functions_over_columns_inside_one_another():
    rows = hr.read.memory({"s": ["Id=12;x", "id=7", None, "none"], "n": [1, 2, 3, 4]})
    lower = col("s").str.to_lowercase()
    inner = lower.str.replace_all("[0-9]", "#$0")
    stream = rows.filter(inner.str.contains("#[0-9]|^none") | (col("n") == 3)).with_columns(
        id=inner.str.extract(r"id=([#0-9]+)").str.replace_all("#", "").cast(int),
        kept=hr.when(col("n") > 1).then(col("s").str.extract("([a-z]+)$")).otherwise("first"),
    )
    found = stream.head(10).to_pylist()
    assert [row["id"] for row in found] == [12, 7, None, None]
    assert [row["kept"] for row in found] == ["first", None, None, "none"]
    assert stream.schema.names == ("s", "n", "id", "kept")


def test_functions_over_columns_keep_event_time():
    rows = hr.read.memory({"t": [1, 2, 15, 3, 22], "s": ["a1", "b2", "a3", "a4", "a5"]})
    windows = (
        rows.with_watermark("t", 0)
        .filter(col("s").str.contains("^a"))
        .with_columns(kind=col("s").str.extract("^([a-z])"))
        .key_by("kind")
        .window(hr.tumbling(10))
        .agg(n=hr.count(), top=hr.max(col("s").str.extract("([0-9])").cast(int)))
    )
    outputs = [windows.write.collect(), windows.late().write.collect()]
    hr.run(*outputs, engine="thread")
    assert [(r["window_start"], r["n"], r["top"]) for r in outputs[0].result().to_pylist()] == [
        (0, 1, 1), (10, 1, 3), (20, 1, 5)
    ]  # fmt: skip
    assert outputs[1].result().to_pylist() == [{"t": 3, "s": "a4", "kind": "a"}]


NAMES = st.sampled_from(["a", "b", "é"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
)
STEPS = st.lists(NAMES.map(".{}".format) | st.integers(0, 3).map("[{}]".format), max_size=3)


@given(documents=st.lists(JSON, min_size=1, max_size=5), steps=STEPS)
def test_paths_into_json(documents, steps):
    texts, path = [*map(json.dumps, documents), None], "".join(["$", *steps])
    made = hr.read.memory({"s": texts}).select(found=col("s").str.json_path_match(path))
    found = made.head(10)["found"].to_pylist()
    assert found == [None if text is None else json_path(text, path) for text in texts]


def test_paths_into_json_as_polars_has_them():
    texts = ['{"a": {"b": [1, "x", true]}}', '{"a": null}', "{}", None, '{"a": {"b": "y z"}}']
    rows = hr.read.memory({"s": texts})
    for path in ("$.a.b[0]", "$.a.b[1]", "$['a'].b[2]", '$["a"]["b"]', "$.a.b[7]", "$.c"):
        expected = pl.Series(texts).str.json_path_match(path).to_list()
        assert rows.select(x=col("s").str.json_path_match(path)).head()["x"].to_pylist() == expected


@pytest.mark.parametrize("text", ["{", "x", "", "NaN", "[" * 100_000, "1" * 5_000])
def test_what_is_no_json(text):
    rows = hr.read.memory({"s": [text]})
    with pytest.raises(ValueError, match="is not JSON") as caught:
        rows.select(x=col("s").str.json_path_match("$")).head()
    assert "json_path_match" in "\n".join(caught.value.__notes__)
    loose = rows.select(x=col("s").str.json_path_match("$", strict=False))
    assert loose.head()["x"].to_pylist() == [None]


def test_strict_times_of_a_format_name_the_string_and_the_line():
    rows = hr.read.memory({"s": ["31.01.2024", "x"]})
    out = rows.with_columns(t=col("s").str.to_datetime("%d.%m.%Y")).write.collect()
    with pytest.raises(ValueError, match="'x' is not a time of the format") as caught:
        hr.run(out, engine="thread")
    assert "to_datetime" in "\n".join(caught.value.__notes__)


def test_times_that_arrow_cannot_format_name_the_line():
    rows = hr.read.memory({"d": [2**31 - 1]}).select(s=col("d").cast("date").dt.strftime("%Y"))
    with pytest.raises(ValueError, match="out of bounds") as caught:
        rows.head()
    assert "strftime" in "\n".join(caught.value.__notes__)


def test_explain_says_what_is_computed_over_columns():
    said = hr.read.memory({"s": ["a"]}).filter(col("s").str.contains("a+")).explain()
    assert "matches(s, 'a+') (whole columns, by Arrow)" in said
    plain = hr.read.memory({"s": ["a"]}).filter(col("s").str.contains("a")).explain()
    assert "by Arrow" not in plain


# ---- engines -------------------------------------------------------------------------------


def everything():
    """A pipeline with functions of all families."""
    start = dt.datetime(2024, 3, 30, tzinfo=dt.UTC)
    rows = [
        {"s": s, "n": k, "x": k / 7, "t": start + dt.timedelta(minutes=47 * k)}
        for k, s in enumerate(
            ["id=1; Ä b", "id=22", None, "", "x;y;z", "2024-01-31T12:00:00Z"] * 40
        )
    ]
    stream = hr.read.memory(rows)
    return stream.with_columns(
        rounded=col("x").round(2), root=col("x").sqrt(), power=col("n") ** 2,
        low=hr.least(col("n"), 100), text=col("x").cast(str), part=col("s").str.split_part(";", 1),
        id=col("s").str.extract("id=([0-9]+)").cast(int),
        upper=col("s").str.replace_all("[a-z]", "."),
        hour=col("t").dt.hour(zone="Europe/Berlin"),
        day=col("t").dt.truncate("1d", zone="Asia/Tokyo"),
        read=col("s").cast("timestamp", strict=False), hash=hr.hash(col("s"), col("n")),
        padded=col("n").cast(str).str.zfill(5), like=col("s").str.like("id%"),
        json=col("s").str.json_path_match("$", strict=False),
    ).filter(~col("s").str.contains("^x") | col("s").is_null())  # fmt: skip


def rows_on(engine, **options):
    out = everything().write.collect()
    hr.run(out, engine=engine, **options)
    return sorted(out.result().to_pylist(), key=lambda row: row["n"])


def test_the_same_on_thread_and_node():
    expected = rows_on("thread", compiled=False)
    assert len(expected) == 200
    assert rows_on("thread") == expected
    assert rows_on("node", workers=2) == expected


def test_strings_made_between_numbers_on_the_node_engine():
    """Their bytes must be kept somewhere, though no column holds them."""
    rows = hr.read.memory({"n": list(range(100))})
    long = (col("n") * 10**15).cast(str).str.len_chars() > 16
    out = rows.filter(long).write.collect()
    hr.run(out, engine="node", workers=2)
    assert out.result().num_rows == 90
