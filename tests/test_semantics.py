"""One test for each line of docs/semantics.md, interpreted and compiled."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace import col, lit
from headrace.asked import planned
from headrace.connect.memory import MemorySource
from headrace.stage.stage import Stage
from headrace.testing.clock import VirtualClock

NAN, INF = math.nan, math.inf
TEXT = (Path(__file__).parent.parent / "docs" / "semantics.md").read_text(encoding="utf-8")
LINES = [line for line in TEXT.splitlines() if line.startswith("|") and not line.startswith("|-")]
STATEMENTS = [line for line in LINES if not line.startswith("| statement |")]


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.compiled)])
def run(request):
    """Rows of streams as dicts; of several, a list of them."""

    def run(*streams, **options):
        outputs = [stream.write.collect() for stream in streams]
        hr.run(*outputs, compiled=request.param, **options)
        found = [output.result().to_pylist() for output in outputs]
        return found[0] if len(found) == 1 else found

    return run


def column(rows, name):
    return [row[name] for row in rows]


def windowed(stream, size=10, bound=0, **aggregates):
    """Aggregates over windows of the column t; a count unless others are given."""
    timed = stream if stream.node.time else stream.with_watermark("t", bound)
    return timed.window(hr.tumbling(size)).agg(aggregates or {"n": hr.count()})


# ---- the document --------------------------------------------------------------------------


@pytest.mark.parametrize("line", STATEMENTS, ids=lambda line: line.split("|")[1].strip()[:40])
def test_every_line_names_its_test(line):
    *_, cell, _ = re.split(r"(?<!\\)\|", line)
    (name,) = re.findall(r"`(test_\w+)`", cell)
    assert callable(globals().get(name)), name


def test_every_test_is_named_once():
    named = re.findall(r"`(test_\w+)`", TEXT)
    own = {"test_every_line_names_its_test", "test_every_test_is_named_once"}
    there = [name for name in globals() if name.startswith("test_") and name not in own]
    assert sorted(named) == sorted(there)


# ---- null ----------------------------------------------------------------------------------


def test_null_in_arithmetic_and_comparisons(run):
    rows = hr.read.memory({"x": [None, 1]})
    made = rows.select(
        plus=col("x") + 1,
        same=col("x") == col("x"),
        more=col("x") > 0,
        zero=col("x") // (col("x") - col("x") + 1),
        length=lit(None, str).length(),
    )
    nothing = {"plus": None, "same": None, "more": None, "zero": None, "length": None}
    assert run(made) == [nothing, {**nothing, "plus": 2, "same": True, "more": True, "zero": 1}]


def test_null_in_logic(run):
    values = [True, False, None]
    rows = hr.read.memory(
        {"a": [a for a in values for _ in values], "b": [b for _ in values for b in values]}
    )
    found = run(rows.select(both=col("a") & col("b"), either=col("a") | col("b"), no=~col("a")))
    true, false, null = True, False, None
    assert column(found, "both") == [true, false, null, false, false, false, null, false, null]
    assert column(found, "either") == [true, true, true, true, false, null, true, null, null]
    assert column(found, "no") == [false] * 3 + [true] * 3 + [null] * 3


def test_null_in_filters(run):
    rows = hr.read.memory({"x": [None, 1, 2]})
    kept, rest, either = run(
        rows.filter(col("x") > 1),
        rows.filter(~(col("x") > 1)),
        rows.filter((col("x") > 1) | col("x").is_null()),
    )
    assert column(kept, "x") == [2]
    assert column(rest, "x") == [1]
    assert column(either, "x") == [None, 2]


def test_null_in_keys(run):
    rows = hr.read.memory({"user": ["b", None, "a", None], "t": [1, 2, 3, 4]})
    found = run(windowed(rows.with_watermark("t", 0).key_by("user")))
    assert [(row["user"], row["n"]) for row in found] == [(None, 2), ("a", 1), ("b", 1)]


def test_null_in_join_keys(run):
    table = hr.table({"id": [1, None], "name": ["one", "nobody"]})
    rows = hr.read.memory({"id": [1, None, 2]})
    inner, left = run(rows.join(table, on="id"), rows.join(table, on="id", how="left"))
    assert column(inner, "name") == ["one"]
    assert column(left, "name") == ["one", None, None]


def test_null_in_aggregates(run):
    rows = hr.read.memory({"x": [None, 3, None, 5, None], "t": [1, 2, 3, 4, 15]})
    of_x = {kind: getattr(hr, kind)("x") for kind in ("sum", "mean", "min", "max")}
    first, second = run(windowed(rows, **of_x))
    assert [first[kind] for kind in of_x] == [8, 4.0, 3, 5]
    assert [second[kind] for kind in of_x] == [None] * 4


def test_counts(run):
    rows = hr.read.memory({"x": [None, 3, 4], "t": [1, 2, 3]})
    (found,) = run(windowed(rows, rows=hr.count(), values=hr.count("x")))
    assert (found["rows"], found["values"]) == (3, 2)


def test_null_in_least_and_greatest(run):
    rows = hr.read.memory({"x": [None, 1, None], "y": [2, 3, None]})
    found = run(rows.select(low=hr.least(col("x"), col("y")), high=hr.greatest(col("x"), col("y"))))
    assert column(found, "low") == [2, 1, None]
    assert column(found, "high") == [2, 3, None]


def test_hash_of_null(run):
    rows = hr.read.memory({"x": [None, "a", "a"]})
    made = rows.select(hash=col("x").hash(), both=hr.hash(col("x"), 1))
    null, one, other = run(made)
    assert isinstance(null["hash"], int)
    assert one == other
    assert len({null["hash"], one["hash"], null["both"], one["both"]}) == 4


# ---- floats --------------------------------------------------------------------------------


def test_nan_and_zero_in_comparisons(run):
    rows = hr.read.memory({"x": [NAN, -0.0]})
    nan, zero = run(
        rows.select(
            same=col("x") == col("x"),
            other=col("x") != col("x"),
            less=col("x") < 1.0,
            is_zero=col("x") == 0.0,
            among=col("x").is_in([NAN, 0.0]),
        )
    )
    assert list(nan.values()) == [False, True, False, False, False]
    assert list(zero.values()) == [True, False, True, True, True]


def test_nan_and_zero_in_keys(run):
    rows = hr.read.memory({"x": [NAN, -0.0, 0.0, -NAN], "t": [1, 2, 3, 4]})
    table = hr.table({"x": [NAN, 0.0], "name": ["nan", "zero"]})
    groups, joined = run(
        windowed(rows.with_watermark("t", 0).key_by("x")), rows.join(table, on="x")
    )
    assert [(str(row["x"]), row["n"]) for row in groups] == [("0.0", 2), ("nan", 2)]
    assert column(joined, "name") == ["nan", "zero", "zero", "nan"]


def test_nan_in_min_and_max(run):
    rows = hr.read.memory({"x": [NAN, 1.0, NAN, -INF, INF], "t": [11, 12, 21, 31, 32]})
    found = run(windowed(rows, low=hr.min("x"), high=hr.max("x")))
    assert [str((row["low"], row["high"])) for row in found] == [
        "(1.0, nan)",
        "(nan, nan)",
        "(-inf, inf)",
    ]


def test_whole_numbers_beside_floats(run):
    rows = hr.read.memory({"n": [2**53 + 1], "x": pa.array([0.5], pa.float32())})
    made = rows.select(same=col("n") == 2.0**53, half=col("x") + 1, exact=col("n") == 2**53 + 1)
    assert made.schema == hr.Schema.of({"same": bool, "half": float, "exact": bool})
    assert run(made) == [{"same": True, "half": 1.5, "exact": True}]


def test_order_of_float_sums(run):
    values = [0.1, 1e16, 0.2, -1e16, 0.3]
    rows = hr.read.memory({"x": values, "t": [1, 2, 3, 4, 5]})
    (found,) = run(windowed(rows, total=hr.sum("x")))
    total = 0.0
    for value in values:
        total += value
    assert found["total"] == total
    loose = rows.with_watermark("t", 0).window(hr.tumbling(10))
    (found,) = run(loose.agg(total=hr.sum("x"), reproducible=False))
    assert math.isclose(found["total"], total, abs_tol=4.0)


def test_floats_without_errors(run):
    rows = hr.read.memory({"x": [-1.0, 0.0, 1e9]})
    found = run(
        rows.select(
            sqrt=col("x").sqrt(), log=col("x").log(), exp=col("x").exp(), power=col("x") ** -1.0
        )
    )
    assert math.isnan(found[0]["sqrt"])
    assert math.isnan(found[0]["log"])
    assert (found[1]["log"], found[1]["power"], found[2]["exp"]) == (-INF, INF, INF)


def test_rounding(run):
    rows = hr.read.memory({"x": [2.5, -1.5, 0.125], "n": [15, 25, 35]})
    found = run(rows.select(x=col("x").round(), y=col("x").round(2), n=col("n").round(-1)))
    assert column(found, "x") == [2.0, -2.0, 0.0]
    assert column(found, "y") == [2.5, -1.5, 0.12]
    assert column(found, "n") == [15, 25, 35]


def test_nan_in_least_and_clip(run):
    rows = hr.read.memory({"x": [NAN]})
    (found,) = run(
        rows.select(
            low=hr.least(col("x"), 1.0),
            high=hr.greatest(col("x"), 1.0),
            clip=col("x").clip(0, 1),
            sign=col("x").sign(),
        )
    )
    assert found["low"] == 1.0
    assert all(math.isnan(found[name]) for name in ("high", "clip", "sign"))


# ---- whole numbers -------------------------------------------------------------------------


def test_integer_overflow(run):
    small = hr.read.memory({"n": [127]}, schema={"n": "int8"}).select(twice=col("n") + col("n"))
    assert small.schema == hr.Schema.of({"twice": "int64"})
    assert run(small) == [{"twice": 254}]
    large = hr.read.memory({"n": [2**63 - 1, 1], "t": [1, 2]})
    for made in (
        large.select(more=col("n") + 1),
        large.select(more=col("n") * 2),
        large.select(less=-(col("n") * -1 - 1)),
        windowed(large, total=hr.sum("n")),
    ):
        with pytest.raises(OverflowError):
            run(made)


def test_casts_that_do_not_fit(run):
    def cast(value, target):
        return run(hr.read.memory({"x": [value]}).select(y=col("x").cast(target)))[0]["y"]

    assert (cast(100, "int8"), cast(-2.9, "int8"), cast(0.5, "bool")) == (100, -2, True)
    for value, target in ((300, "int8"), (1e300, "int64"), (INF, "int64")):
        with pytest.raises(OverflowError):
            cast(value, target)
    with pytest.raises(ValueError, match="NaN"):
        cast(NAN, "int64")


def test_division(run):
    rows = hr.read.memory({"a": [-7, 7], "b": [2, -2]})
    found = run(
        rows.select(over=col("a") / col("b"), floor=col("a") // col("b"), rest=col("a") % col("b"))
    )
    assert column(found, "over") == [-3.5, -3.5]
    assert column(found, "floor") == [-4, -4]
    assert column(found, "rest") == [1, -1]


def test_division_by_zero(run):
    rows = hr.read.memory({"n": [1], "x": [1.0], "zero": [0], "none": [-0.0]})
    for made in (
        col("n") // col("zero"),
        col("n") % col("zero"),
        col("n") / col("zero"),
        col("x") / col("none"),
        col("x") % col("zero"),
    ):
        with pytest.raises(ZeroDivisionError):
            run(rows.select(y=made))


def is_one(x):
    return x == 1


def is_surely_one(x):
    return x is not None and x == 1


@pytest.mark.compiled
def test_nulls_in_functions():
    rows = hr.read.memory([{"x": 1}, {"x": None}], schema={"x": hr.optional(int)})
    asked = rows.select(y=hr.udf(is_surely_one)(col("x"))).write.collect()
    hr.run(asked)
    assert asked.result()["y"].to_pylist() == [True, False]
    with pytest.raises(TypeError, match="expected int64, got None"):
        hr.run(rows.select(y=hr.udf(is_one)(col("x"))).write.collect())


def test_integers_in_functions(run):
    rows = hr.read.memory({"x": [3, 2**62]})
    assert run(rows.map(lambda x: x + x // 2, output="y").filter(col("y") < 9)) == [{"y": 4}]
    with pytest.raises(OverflowError, match="does not fit in int64"):
        run(rows.map(lambda x: x * x, output="y"))
    cut = rows.map(lambda x: hr.wrapping.multiply(x, x), output="y")
    assert column(run(cut), "y") == [9, 0]


def test_errors_in_unread_columns(run):
    rows = hr.read.memory({"x": [0]})
    assert run(rows.with_columns(y=1 // col("x")).drop("y")) == [{"x": 0}]
    with pytest.raises(ZeroDivisionError):
        run(rows.with_columns(y=1 // col("x")).filter(col("x") > 0))


def test_casts_that_give_null(run):
    rows = hr.read.memory({"n": [300, 5], "s": ["x", " 7 "], "x": [NAN, 2.5]})
    first, second = run(
        rows.select(
            n=col("n").cast("int8", strict=False),
            s=col("s").cast(int, strict=False),
            x=col("x").cast(int, strict=False),
        )
    )
    assert first == {"n": None, "s": None, "x": None}
    assert second == {"n": 5, "s": 7, "x": 2}
    for name in ("n", "s", "x"):
        with pytest.raises((OverflowError, ValueError)):
            run(rows.select(made=col(name).cast("int8")))


def test_powers(run):
    rows = hr.read.memory({"n": [3, -3]})
    found = run(rows.select(whole=col("n") ** 2, part=col("n") ** -1, mixed=col("n") ** col("n")))
    assert column(found, "whole") == [9, 9]
    assert column(found, "part") == [1 / 3, -1 / 3]
    assert column(found, "mixed") == [27.0, pytest.approx(-1 / 27)]
    with pytest.raises(OverflowError):
        run(rows.select(made=col("n") ** 40))


def test_handlers_in_functions(run):
    def read(s):
        try:
            return int(s)
        except ValueError:
            return -1

    rows = hr.read.memory({"s": ["5", "x"]})
    assert column(run(rows.map(read, output="n")), "n") == [5, -1]
    out = hr.read.memory({"s": ["9" * 20]}).map(read, output="n").write.collect()
    hr.run(out, engine="thread")  # compiled
    assert out.result().to_pydict() == {"n": [-1]}


# ---- strings -------------------------------------------------------------------------------


def test_lengths_of_strings(run):
    rows = hr.read.memory({"s": ["né", "日本語", "", "😀 and a long sentence"]})
    lengths, first = run(rows.select(n=col("s").length()), rows.map(lambda s: s[:2], output="s"))
    assert column(lengths, "n") == [2, 3, 0, 21]
    assert column(first, "s") == ["né", "日本", "", "😀 "]


def test_order_of_strings(run):
    words = ["é", "a", "", "Z", "😀", "日", "a long sentence, two", "a long sentence, one"]
    rows = hr.read.memory({"s": words, "t": list(range(8))}).with_watermark("t", 0)
    keys, extremes, less = run(
        windowed(rows.key_by("s")),
        windowed(rows, low=hr.min("s"), high=hr.max("s")),
        rows.select(less=col("s") < "a"),
    )
    assert column(keys, "s") == sorted(words) == sorted(words, key=str.encode)
    assert (extremes[0]["low"], extremes[0]["high"]) == ("", "😀")
    assert column(less, "less") == [word < "a" for word in words]


def test_case_of_strings(run):
    words = ["straße", "Éclusé", "plain", "ΣΑΣ", "ﬁn"]
    found = run(hr.read.memory({"s": words}).select(up=col("s").upper(), low=col("s").lower()))
    assert column(found, "up") == [word.upper() for word in words]
    assert column(found, "low") == [word.lower() for word in words]


def test_pieces_of_strings(run):
    rows = hr.read.memory({"s": ["a/b", "né"]})
    found = run(
        rows.select(
            part=col("s").str.split_part("/", 1),
            last=col("s").str.slice(-1),
            at=col("s").str.find("/"),
            beyond=col("s").str.slice(9),
        )
    )
    assert found[0] == {"part": "b", "last": "b", "at": 1, "beyond": ""}
    assert found[1] == {"part": None, "last": "é", "at": None, "beyond": ""}


def test_values_as_strings(run):
    moment = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    rows = hr.read.memory({"x": [0.1], "n": [-7], "b": [True], "t": [moment], "d": [moment.date()]})
    made = rows.select({name: col(name).cast(str) for name in ("x", "n", "b", "t", "d")})
    (found,) = run(made)
    assert list(found.values()) == [
        "0.1", "-7", "true", "2024-02-29T12:00:00.000000Z", "2024-02-29"
    ]  # fmt: skip
    kinds = {"x": float, "n": int, "b": bool, "t": hr.timestamp, "d": hr.date}
    (back,) = run(made.select({name: col(name).cast(kind) for name, kind in kinds.items()}))
    assert back == run(rows)[0]
    with pytest.raises(ValueError, match="not a whole number"):
        run(hr.read.memory({"s": ["1_000"]}).select(n=col("s").cast(int)))


def test_groups_of_patterns(run):
    rows = hr.read.memory({"s": ["b", "ab", "c", None]})
    found = run(
        rows.select(group=col("s").str.extract("(a)?b"), all=col("s").str.extract("a?b", 0))
    )
    assert column(found, "group") == ["", "a", None, None]
    assert column(found, "all") == ["b", "ab", None, None]


def test_functions_over_columns(run):
    rows = hr.read.memory({"s": ["2024", "x"], "ok": [True, False]})
    strict = hr.when(col("ok")).then(col("s").str.to_datetime("%Y"))
    with pytest.raises(ValueError, match="'x' is not a time"):
        run(rows.select(t=strict))
    lenient = hr.when(col("ok")).then(col("s").str.to_datetime("%Y", strict=False))
    assert column(run(rows.select(t=lenient.dt.year())), "t") == [2024, None]


# ---- time ----------------------------------------------------------------------------------


def test_time_zones(run):
    here = dt.timezone(dt.timedelta(hours=2))
    at = dt.datetime(2024, 5, 1, 12, tzinfo=here)
    rows = hr.read.memory({"at": pa.array([at], pa.timestamp("us", "Europe/Paris"))})
    naive = hr.read.memory({"at": [dt.datetime(2024, 5, 1, 10)]})
    found, same, hour = run(
        rows.filter(col("at") == dt.datetime(2024, 5, 1, 10)),
        naive.filter(col("at") == at),
        rows.map(lambda at: at // 3_600_000_000 % 24, output="hour"),
    )
    assert found == same == [{"at": at.astimezone(dt.UTC)}]
    assert hour == [{"hour": 10}]


def test_watermark_counts_all_rows(run):
    rows = hr.read.memory({"t": [5, 30, 6], "keep": [True, False, True]})
    made = windowed(rows.with_watermark("t", 0).filter(col("keep")))
    assert [run(made), run(made.late())] == [
        [{"window_start": 0, "n": 1}],
        [{"t": 6, "keep": True}],
    ]


def test_late_rows(run):
    for bound, late in ((0, [3, 8]), (2, [3, 8]), (3, [3]), (9, [])):
        rows = hr.read.memory({"t": [5, 12, 3, 9 if bound == 3 else 8]})
        found = column(run(windowed(rows, bound=bound).late()), "t")
        # the watermark before them is 12 - bound; their window [0, 10) ends at 10
        assert found == ([] if 12 - bound < 10 else late)


def test_late_rows_come_once(run):
    made = windowed(hr.read.memory({"t": [1, 50, 2, 51, 3, 52]}))
    for capacity in (1, 2, 100):
        counted, late = run(made, made.late(), capacity=capacity)
        assert column(late, "t") == [2, 3]
        assert sum(column(counted, "n")) == 4
    job = hr.run(made.write.collect(), compiled=False)
    assert job.progress().late_rows == 2


def test_rows_without_an_order(run):
    """The whole of a batch DataFrame is one batch; `tests/spark/test_frames.py` has several."""

    class Unordered(MemorySource):
        unordered = True

    made = windowed(hr.read.source(Unordered({"t": [5, 12, 3, 40, 8]})))
    counted, late = run(made, made.late(), capacity=1)
    assert late == []
    assert column(counted, "n") == [3, 1, 1]


def test_channels_have_their_own_watermarks(run):
    fast, slow = pa.table({"t": [1, 100, 2]}), pa.table({"t": [3, 4]})
    made = windowed(hr.read.memory([fast, slow]))
    counted, late = run(made, made.late())
    assert column(late, "t") == [2]
    assert counted == [{"window_start": 0, "n": 3}, {"window_start": 100, "n": 1}]


def test_times_of_arrival(run):
    clock = VirtualClock(5.0)
    rows = hr.read.memory({"x": [1, 2]}).with_arrival_time("came", clock=clock)
    made = rows.window(hr.tumbling("2s")).agg(n=hr.count())
    given, counted, late = run(rows, made, made.late())
    came = dt.datetime(1970, 1, 1, 0, 0, 5, tzinfo=dt.UTC)
    assert column(given, "came") == [came, came]
    assert counted == [{"window_start": came - dt.timedelta(seconds=1), "n": 2}] and not late


def test_null_times(run):
    made = windowed(hr.read.memory({"t": [None, 1, None, 2], "k": [1, 2, 3, 4]}))
    counted, late = run(made, made.late())
    assert counted == [{"window_start": 0, "n": 2}]
    assert column(late, "k") == [1, 3]


def test_windows_are_aligned(run):
    rows = hr.read.memory({"t": [-11, -10, -1, 0, 9, 10]}).with_watermark("t", 0)
    plain, moved = run(windowed(rows), rows.window(hr.tumbling(10, offset=3)).agg(n=hr.count()))
    assert [tuple(row.values()) for row in plain] == [(-20, 1), (-10, 2), (0, 2), (10, 1)]
    assert [tuple(row.values()) for row in moved] == [(-17, 2), (-7, 2), (3, 2)]


def test_window_after_window(run):
    rows = hr.read.memory({"t": [1, 2, 11, 31]})
    first = windowed(rows)
    longer, shorter = windowed(first, 20, n=hr.sum("n")), windowed(first, 5, n=hr.sum("n"))
    found, none, late = run(longer, shorter, shorter.late())
    assert [tuple(row.values()) for row in found] == [(0, 3), (20, 1)]
    assert (none, len(late)) == ([], 3)


def test_late_rows_of_sliding_windows(run):
    rows = hr.read.memory({"t": [5, 12, 7, 3]}).with_watermark("t", 2)
    made = rows.window(hr.sliding(10, every=5)).agg(n=hr.count())
    found, late = run(made, made.late())
    # the watermark before 7 and 3 is 10: [0, 10) and [-5, 5) have ended, [5, 15) has not
    assert [tuple(row.values()) for row in found] == [(0, 1), (5, 3), (10, 1)]
    assert column(late, "t") == [3]


def test_windows_that_are_kept(run):
    rows = hr.read.memory({"t": [1, 10, 3, 17, 4]}).with_watermark("t", 0)
    made = rows.window(hr.tumbling(10, lateness=7)).agg(n=hr.count())
    counted, late = run(made, made.late())
    assert [(row["window_start"], row["n"]) for row in counted] == [(0, 1), (0, 2), (10, 2)]
    assert column(late, "t") == [4]
    made = rows.window(hr.tumbling(10, lateness=10)).agg(n=hr.count())
    assert column(run(made), "window_given") == [10, 20, 21]


def test_windows_with_early_results(run):
    rows = hr.read.memory({"t": [1, 2, 3, 2, 9, 13]}).with_watermark("t", 0)
    made = rows.window(hr.tumbling(10, early=4)).agg(n=hr.count())
    found = [tuple(row.values()) for row in run(made)]
    assert found == [
        (0, 4, True, 4), (0, 10, False, 5), (10, 14, True, 1), (10, 20, False, 1),
    ]  # fmt: skip
    times = {"t": [1, 9, 2, 15], "k": ["a", "b", "a", "b"]}
    rows = hr.read.memory(times).with_watermark("t", 0).key_by("k")
    both = rows.window(hr.tumbling(10, early=4, lateness=7)).agg(n=hr.count())
    assert [row["window_updated"] for row in run(both)] == [False] * 5
    # 2 of "a" comes when the watermark is 9: it counts at 10
    assert [tuple(row.values())[:5] for row in run(both)] == [
        ("a", 0, 4, True, False),
        ("a", 0, 10, False, False),
        ("b", 0, 10, False, False),
        ("b", 10, 18, True, False),
        ("b", 10, 20, False, False),
    ]


def test_windows_with_early_results_by_rows(run):
    times = {"t": [1, 2, 3, 4, 12, 5], "k": ["a", "a", "b", "a", "b", "a"]}
    rows = hr.read.memory(times).with_watermark("t", 20).key_by("k")
    found = run(rows.window(hr.tumbling(10, early=hr.counting(2))).agg(n=hr.count()))
    early = [row for row in found if row["window_early"]]
    assert [(row["k"], row["window_start"], row["n"]) for row in early] == [
        ("a", 0, 2),
        ("a", 0, 4),
    ]
    last = [(row["k"], row["window_start"], row["n"]) for row in found if not row["window_early"]]
    assert last == [("a", 0, 4), ("b", 0, 1), ("b", 10, 1)]


def test_order_of_updated_results(run):
    times = {"t": [1, 2, 12, 5, 25, 3], "k": ["b", "a", "a", "b", "a", "a"]}
    rows = hr.read.memory(times).with_watermark("t", 0).key_by("k")
    found = run(rows.window(hr.tumbling(10, lateness=25)).agg(n=hr.count()))
    named = [(row["window_given"], row["k"], row["n"], row["window_updated"]) for row in found]
    first, second = [(10, "a", 1, False), (10, "b", 1, False)], [(20, "a", 1, False)]
    assert named == [*first, *second, (30, "a", 1, False), (35, "a", 2, True), (35, "b", 2, True)]


def test_sessions(run):
    rows = hr.read.memory({"t": [0, 4, 9, 14, 30, 29]}).with_watermark("t", 0)
    made = rows.window(hr.session(5)).agg(n=hr.count())
    found, late = run(made, made.late())
    assert [tuple(row.values()) for row in found] == [
        (0, 9, 2),
        (9, 14, 1),
        (14, 19, 1),
        (30, 35, 1),
    ]
    assert column(late, "t") == [29]


def test_order_of_sessions(run):
    rows = {"t": [0, 1, 2, 2, 3, 20], "k": ["b", "a", "c", "b", "a", "a"]}
    keyed = hr.read.memory(rows).with_watermark("t", 0).key_by("k")
    sessions = keyed.window(hr.session(5)).agg(n=hr.count())
    again = sessions.window(hr.tumbling(10)).agg(n=hr.count())
    found, behind = run(sessions, again)
    assert [(row["window_end"], row["k"]) for row in found] == [
        (7, "b"), (7, "c"), (8, "a"), (25, "a"),
    ]  # fmt: skip
    assert [tuple(row.values()) for row in behind] == [
        ("a", 0, 1), ("b", 0, 1), ("c", 0, 1), ("a", 20, 1),
    ]  # fmt: skip


def test_windows_of_the_calendar(run):
    spring = dt.datetime(2026, 3, 29, tzinfo=dt.UTC)  # with 23 hours in Berlin
    hours = [spring + dt.timedelta(hours=h) for h in range(-1, 47)]
    rows = hr.read.memory({"t": hours}).with_watermark("t", "0s")
    day, month = run(
        rows.window(hr.tumbling("1d", zone="Europe/Berlin")).agg(n=hr.count()),
        rows.window(hr.tumbling("1w")).agg(n=hr.count()),
    )
    assert column(day, "n") == [23, 24, 1]
    assert day[0]["window_start"] == spring - dt.timedelta(hours=1)
    assert column(month, "window_start") == [
        dt.datetime(2026, 3, 23, tzinfo=dt.UTC), dt.datetime(2026, 3, 30, tzinfo=dt.UTC),
    ]  # fmt: skip


def test_aggregates_of_everything(run):
    rows = hr.read.memory({"k": ["b", "a", "b"], "x": [1, 2, 3]})
    keyed, alone = run(rows.key_by("k").agg(s=hr.sum("x")), rows.agg(s=hr.sum("x"), n=hr.count()))
    assert keyed == [{"k": "a", "s": 2}, {"k": "b", "s": 4}]
    assert alone == [{"s": 6, "n": 3}]


def test_first_and_last(run):
    rows = {"t": [2, 1, 1, 2], "x": ["a", "b", "c", None]}
    made = windowed(hr.read.memory(rows), first=hr.first("x"), last=hr.last("x"))
    assert [(row["first"], row["last"]) for row in run(made)] == [("b", "a")]


def test_groups_of_two_streams(run):
    left = {"k": [1, 1, None, 2, 1], "t": [3, 1, 2, 5, 12], "x": [3, None, 2, 5, 12]}
    right = {"k": [1, None, 3], "u": [2, 2, 2], "y": [20, 30, 40]}
    left = hr.read.memory(left, name="left").with_watermark("t", 5)
    right = hr.read.memory(right, name="right").with_watermark("u", 5)

    def listed(x, y):
        for value in x:
            yield "x", value
        for value in y:
            yield "y", value

    inner, full = run(
        *(
            left.co_group(right, "k", hr.tumbling(10), listed, output=["side", "value"], how=how)
            for how in ("inner", "full")
        )
    )
    pairs = [tuple(row.values()) for row in full]
    assert pairs == [
        (None, 0, "x", 2), (None, 0, "y", 30),
        (1, 0, "x", None), (1, 0, "x", 3), (1, 0, "y", 20),
        (2, 0, "x", 5), (3, 0, "y", 40), (1, 10, "x", 12),
    ]  # fmt: skip
    assert [tuple(row.values()) for row in inner] == pairs[:5]


def test_lists_in_functions(run):
    rows = hr.read.memory({"xs": [[1, None, 5], []]})

    def last(xs):
        there = 0
        for x in xs:
            if x is not None:
                there += 1
        return len(xs), there, xs[-1] if len(xs) > 0 else None

    made = rows.map(last, output=["n", "there", "last"])
    assert run(made) == [{"n": 3, "there": 2, "last": 5}, {"n": 0, "there": 0, "last": None}]
    with pytest.raises(IndexError, match="list index out of range"):
        run(rows.map(lambda xs: xs[0], output="x"))


def test_limits_end_jobs(run):
    rows = hr.read.iterate(({"n": n} for n in itertools.count()), schema={"n": int})
    assert run(rows.limit(2)) == [{"n": 0}, {"n": 1}]


def test_lists_of_values(run):
    rows = hr.read.memory({"t": [2, 1, 1, 2, None], "x": ["a", "b", "c", None, "d"]})
    first = {"on_full": "first"}
    timed, few, untimed, failed = (
        rows.with_watermark("t", 5).agg(x=hr.collect("x", 3)),
        rows.with_watermark("t", 5).agg(x=hr.collect("x", 2, **first), n=hr.count("x")),
        rows.agg(x=hr.collect("x", 4)),
        rows.filter(col("x").is_null()).agg(x=hr.collect("x", 4)),
    )
    assert run(timed, few, untimed, failed) == [
        [{"x": ["b", "c", "a"]}],
        [{"x": ["b", "c"], "n": 4}],
        [{"x": ["a", "b", "c", "d"]}],
        [{"x": []}],
    ]
    with pytest.raises(ValueError, match="more values than the limit of the list"):
        run(rows.agg(x=hr.collect("x", 3)))


def test_largest_values(run):
    rows = hr.read.memory({"x": [3, 1, 3, 2, None], "s": ["a", "b", "c", "d", "e"]})
    made = rows.agg(
        x=hr.top_k("x", 3), s=hr.top_k("s", 3, by="x"), least=hr.top_k("x", 2, by=-col("x"))
    )
    assert run(made) == [{"x": [3, 3, 2], "s": ["c", "a", "d"], "least": [1, 2]}]


def test_order_of_float_sums_by_panes(run):
    rows = {"t": [0, 5, 1, 6], "x": [1e16, 1.0, -1e16, 1.0]}
    timed = hr.read.memory(rows).with_watermark("t", 9)
    slid, tumbled = run(
        timed.window(hr.sliding(10, every=5)).agg(s=hr.sum("x")),
        timed.window(hr.tumbling(10)).agg(s=hr.sum("x")),
    )
    assert {row["window_start"]: row["s"] for row in slid}[0] == (1e16 - 1e16) + (1.0 + 1.0)
    assert column(tumbled, "s") == [((1e16 + 1.0) - 1e16) + 1.0]


def test_variance(run):
    rows = hr.read.memory({"t": [0, 1, 2, 10], "x": [1, 2, 6, 5]})
    made = windowed(rows, v=hr.variance("x"), all=hr.variance("x", ddof=0), s=hr.stddev("x"))
    first, second = run(made)
    assert (first["v"], first["all"], first["s"]) == (7.0, 14 / 3, math.sqrt(7.0))
    assert (second["v"], second["all"], second["s"]) == (None, 0.0, None)


def test_means_of_integers(run):
    rows = hr.read.memory({"t": [0, 1, 2], "x": [2**63 - 1, 2**63 - 1, 2**63 - 1]})
    assert column(run(windowed(rows, m=hr.mean("x"))), "m") == [float(2**63 - 1)]


def test_parts_of_times(run):
    rows = hr.read.memory({"t": [dt.datetime(2024, 2, 29, 23, 30)]})  # a Thursday
    (found,) = run(
        rows.select(
            hour=col("t").dt.hour(),
            there=col("t").dt.hour(zone="Asia/Tokyo"),
            weekday=col("t").dt.weekday(),
            tomorrow=col("t").dt.weekday(zone="Asia/Tokyo"),
        )
    )
    assert found == {"hour": 23, "there": 8, "weekday": 4, "tomorrow": 5}


def test_days_in_zones(run):
    rows = hr.read.memory({"t": [dt.datetime(2024, 7, 1, 12), dt.datetime(2024, 1, 1, 12)]})
    found = run(rows.select(day=col("t").dt.truncate("1d", zone="Europe/Berlin")))
    assert [(row["day"].day, row["day"].hour) for row in found] == [(30, 22), (31, 23)]


def test_durations(run):
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    rows = hr.read.memory({"a": [start], "b": [start + dt.timedelta(hours=2)]})
    gap = col("b") - col("a")
    (found,) = run(
        rows.select(
            gap=gap, long=gap > dt.timedelta(hours=1), c=col("b") + hr.duration(minutes=gap * 0 + 5)
        )
    )
    assert found["gap"] == 7_200_000_000
    assert found["long"] is True
    assert found["c"] == start + dt.timedelta(hours=2, minutes=5)


# ---- rows ----------------------------------------------------------------------------------


def test_order_of_results(run):
    rows = hr.read.memory({"x": [2.0, NAN, None, -INF, 1.0], "t": [25, 24, 23, 22, 21]})
    timed = rows.with_watermark("t", 10)
    kept, keyed = run(
        timed.filter(col("t") > 21).with_columns(y=col("t") * 2), windowed(timed.key_by("x"), 2)
    )
    assert column(kept, "y") == [50, 48, 46, 44]
    assert [(row["window_start"], str(row["x"])) for row in keyed] == [
        (20, "1.0"),
        (22, "None"),
        (22, "-inf"),
        (24, "2.0"),
        (24, "nan"),
    ]


def _behind_an_exchange(rows):
    """Rows in the order of their windows, each a key of its own."""
    numbers = list(range(rows))
    stream = hr.read.memory({"n": numbers, "t": numbers}).with_watermark("t", 0).key_by("n")
    return stream.window(hr.tumbling(10)).agg(rows=hr.count())


def test_order_on_several_workers(run):
    def some(n):
        for k in range(n % 7):
            yield 10 * n + k

    stream = _behind_an_exchange(200).flat_map(some, output="m", columns=["n"])
    found = run(stream, engine="node", workers=3, capacity=16)
    assert column(found, "m") == [10 * n + k for n in range(200) for k in range(n % 7)]


def _several(stream, run, **options):
    return run(stream, engine="node", workers=3, capacity=4, **options)


def test_order_of_unions(run):
    rows, others = ({"n": list(range(start, start + 100))} for start in (0, 1000))
    found = column(_several(hr.read.memory(rows).union(hr.read.memory(others)), run), "n")
    assert [n for n in found if n < 1000] == rows["n"]
    assert [n for n in found if n >= 1000] == others["n"]


def test_order_of_branches(run):
    rows = hr.read.memory({"n": list(range(100)), "s": ["long enough for a heap"] * 100})
    odd = rows.select(n=-1 - col("n"), s=hr.concat(col("s"), "!")).filter(col("n") % 2 == 0)
    stream = rows.filter(col("n") % 3 != 1).union(odd).union(rows)
    expected = [
        made
        for n in range(100)
        for made, is_there in ((n, n % 3 != 1), (-1 - n, n % 2 == 1), (n, True))
        if is_there
    ]
    assert column(run(stream, engine="thread", capacity=4), "n") == expected
    for workers in (1, 2, 3, 4):
        assert column(run(stream, engine="node", workers=workers, capacity=4), "n") == expected
    behind = rows.limit(80).with_columns(n=col("n") * 2)  # which several workers share
    both = behind.union(behind.select(n=-1 - col("n"), s=col("s")))
    assert column(_several(both, run), "n") == [m for n in range(80) for m in (2 * n, -1 - 2 * n)]


def test_order_of_branches_that_yield_rows(run):
    def twice(n):
        yield n
        yield n

    rows = hr.read.memory({"n": list(range(50))})
    made = rows.flat_map(twice, output="n", columns=["n"]).select(n=-1 - col("n"))
    found = column(_several(rows.union(made), run), "n")
    assert [n for n in found if n >= 0] == list(range(50))
    assert [n for n in found if n < 0] == [-1 - n for n in range(50) for _ in range(2)]


def _totals():
    """What depends on the order of the rows of each key."""
    rows = hr.read.memory({"k": [n * n % 7 for n in range(200)], "n": list(range(200))})
    return rows.key_by("k").running(total=hr.sum("n"))


def test_orders_that_sinks_are_promised(run):
    expected = run(_totals(), engine="thread")
    assert _several(_totals(), run, ordering="total") == expected
    found = _several(_totals(), run, ordering="key")
    assert sorted(found, key=lambda row: row["k"]) == sorted(expected, key=lambda row: row["k"])
    found = _several(_totals(), run, ordering="none")
    assert sorted(found, key=lambda row: row["n"]) == expected


def test_orders_that_streams_declare(run):
    rows = hr.read.memory({"n": list(range(100))})
    assert column(_several(rows.with_ordering("total"), run, ordering="none"), "n") == [*range(100)]
    assert column(_several(rows, run, ordering="key"), "n") == [*range(100)]
    both = rows.with_ordering("none").union(rows.with_ordering("total")).write.collect()
    assert "sink_1: in any order on threads" in hr.explain(both, engine="node")


def test_order_for_state(run):
    found = _several(_totals(), run, ordering="none")
    sums = {}
    for row in sorted(found, key=lambda row: row["n"]):
        sums[row["k"]] = sums.get(row["k"], 0) + row["n"]
        assert row["total"] == sums[row["k"]]


def test_orders_on_spark():
    """What it sees there is compared in `tests/spark/test_sink_orders.py`."""
    said = hr.explain(_totals().write.collect(), hr.read.index(5).write.collect(), engine="spark")
    assert "sink_1: in order on threads, in order for each k on Spark" in said
    assert "sink_2: in order on threads, in order on Spark" in said
    with pytest.raises(hr.options.OptionError, match="in order for each k"):
        hr.run(_totals().write.null(), engine="spark", ordering="total")


def test_order_of_errors(run):
    stream = _behind_an_exchange(20).with_columns(x=1 // ((col("n") - 7) * (col("n") - 8)))
    with pytest.raises(ZeroDivisionError, match="7"):
        run(stream, engine="node", workers=3, capacity=4)


def test_rows_that_are_shared_anew(run):
    rows = hr.read.memory({"x": list(range(50))}).rebalance(2).select(y=col("x") * 2)
    for workers in (1, 3):
        assert column(run(rows, engine="node", workers=workers), "y") == list(range(0, 100, 2))
    with pytest.raises(hr.HeadraceError, match="needs the order of rows"):
        run(rows.key_by("y").running(n=hr.count()), engine="spark")


def test_duplicate_names_after_a_join(run):
    table = hr.table({"id": [1], "name": ["one"]})
    rows = hr.read.memory({"number": [1], "name": ["mine"]})
    with pytest.raises(hr.PipelineError, match="both the stream and the table"):
        rows.join(table, on={"number": "id"})
    found = run(rows.rename({"name": "own"}).join(table, on={"number": "id"}))
    assert found == [{"number": 1, "own": "mine", "name": "one"}]


def test_repeated_keys_of_a_table(run):
    table = hr.table({"id": [1, 2, 1], "name": ["one", "two", "uno"]})
    with pytest.raises(hr.DataError, match="more than once"):
        run(hr.read.memory({"id": [1]}).join(table, on="id"))


def running(state, x):
    state.total += x
    yield state.total


def test_process_gives_the_key(run):
    rows = hr.read.memory({"x": [1, 2, 3], "k": ["a", "b", "a"], "other": [0, 0, 0]})
    made = rows.key_by("k").process(running, state={"total": int}, output="total")
    assert made.node.key == ("k",)
    assert run(made) == [
        {"k": "a", "total": 1},
        {"k": "b", "total": 2},
        {"k": "a", "total": 4},
    ]


def test_lists_of_a_state_are_bounded(run):
    def note(state, x):
        state.last.append(x)
        for each in state.last:
            state.last.append(-each)
            yield each
        state.all.append(x)

    lists = {"last": hr.bounded_list(int, 2, on_full="last"), "all": hr.bounded_list(int, 2)}
    rows = hr.read.memory({"k": ["a"] * 4, "x": [1, 2, 3, 4]}).key_by("k")
    made = rows.process(note, state=lists, output="x", on_error="skip")
    assert column(run(made), "x") == [1, -1, 2, -2, 3, -2, 4]  # after 2 there is [1, -2], and stays


def test_asides_are_streams_of_their_own(run):
    def watch(state, x):
        state.n += 1
        if x > 5:
            yield hr.aside("big", x)
            yield hr.aside("big", -x)
        yield state.n

    rows = hr.read.memory({"k": ["a", "b", "a"], "x": [7, 1, 9]}).key_by("k")
    made = rows.process(watch, state={"n": int}, output="n", asides={"big": "x"})
    itself, big = run(made, made.aside("big"))
    assert [(row["k"], row["n"]) for row in itself] == [("a", 1), ("b", 1), ("a", 2)]
    assert [(row["k"], row["x"]) for row in big] == [("a", 7), ("a", -7), ("a", 9), ("a", -9)]


def sign(x):
    return 0 if math.copysign(1.0, x) < 0 else 1


def test_partitions_change_no_result(run):
    rows = hr.read.memory({"x": [1, 2, 3, 4], "k": [7, 200, 7, 50], "t": [1, 2, 3, 14]})
    expected = [{"k": 7, "total": 1}, {"k": 200, "total": 2}, {"k": 7, "total": 4}]
    for partition in (None, hr.by_range([10, 100]), hr.by_function(lambda k: k % 2, parts=2)):
        keyed = rows.key_by("k", partition=partition)
        totals = keyed.process(running, state={"total": int}, output="total")
        for options in ({"engine": "thread"}, {"engine": "node", "workers": 2}):
            states, windows = run(totals, windowed(keyed), **options)
            assert states == [*expected, {"k": 50, "total": 4}]
            assert column(windows, "k") == [7, 200, 50] and column(windows, "n") == [2, 1, 1]


def groups(stream):
    """The key group of each key of a stream's state."""
    stage = Stage(planned([stream.dedup(name="keys").write.null()]).whole, compiled=False)
    (source,) = stage.plan.inputs
    stage.declare(source.name, "0")
    stage.push(source.name, source.connector.open("0").poll(99, 0.0).rows, "0")
    list(stage.pull())
    rows = stage.snapshot().operators["keys"].rows
    stage.close()
    return dict(zip(map(repr, rows.column(2).to_pylist()), column(rows.to_pylist(), "__group")))


def test_parts_of_keys():
    whole = hr.read.memory({"k": [-1, 0, 9, 10, None]})
    found = groups(whole.key_by("k", partition=hr.by_range([0, 10])))
    assert found == {"-1": 0, "0": 43, "9": 43, "10": 86, "None": 86}
    floats = hr.read.memory({"k": [-1.0, -0.0, 5.0, NAN]})
    assert groups(floats.key_by("k", partition=hr.by_range([0.0, 6.0]))) == {
        "-1.0": 0, "0.0": 43, "5.0": 43, "nan": 86
    }  # fmt: skip
    zeros = hr.read.memory({"k": [-2.0, -0.0]})
    assert groups(zeros.key_by("k", partition=hr.by_function(sign, 2))) == {"-2.0": 0, "0.0": 64}


def test_parts_that_are_not_there(run):
    rows = hr.read.memory({"x": [1, 2, 3], "k": [0, 1, 2]})
    keyed = rows.key_by("k", partition=hr.by_function(lambda k: k, parts=2))
    totals = keyed.process(running, state={"total": int}, output="total", on_error="skip")
    with pytest.raises(ValueError, match="in a part that is not there") as caught:
        run(totals)
    assert any("in operator key_by" in note for note in caught.value.__notes__)


def counts(state, t, later):
    state.n += 1
    if later is not None:
        state.due = t + later
    yield t, state.n


def goes_off(state, t):
    yield t, -state.n if state.due is None else 0


def timed(rows, **options):
    """(t, n) of rows (t, when a timer is to go off behind it): the number of a row of its state;
    of a timer, the number of rows before it, negative."""
    columns = dict(zip(("t", "later"), map(list, zip(*rows, strict=True)), strict=True))
    stream = hr.read.memory(
        columns | {"k": ["a"] * len(rows)},
        schema={
            "t": hr.int64,
            "later": hr.optional(hr.int64),
            "k": hr.string,
        },
    ).with_watermark("t", 9)
    state = {"n": int, "due": hr.optional(int)}
    given = {"state": state, "output": ["t", "n"], "timers": {"due": goes_off}, "ttl": 5}
    return stream.key_by("k").process(counts, **given | options)


def test_order_of_timers(run):
    made = timed([(11, None), (3, 8), (2, None), (30, None), (20, None)], ttl=100)
    found, late = run(made, made.late())
    assert [(row["t"], row["n"]) for row in found] == [
        (2, 1), (3, 2), (11, -2), (11, 3), (30, 4),
    ]  # fmt: skip
    assert column(late, "t") == [20]


def test_timers_that_are_set(run):
    found = run(timed([(3, -5), (6, 1000)], ttl=100))
    assert [(row["t"], row["n"]) for row in found] == [(3, 1), (4, -1), (6, 2), (1006, -2)]


def test_states_that_are_forgotten(run):
    found = run(timed([(0, None), (4, None), (9, 7), (15, None), (20, None)]))
    assert [(row["t"], row["n"]) for row in found] == [
        (0, 1), (4, 2), (9, 1), (15, 2), (16, -2), (20, 3),
    ]  # fmt: skip


def careful(state, x):
    state.total += x
    yield state.total
    yield 10 // (x - 3)


def test_a_row_that_fails(run, request):
    from headrace.asked import planned
    from headrace.stage.blocks.arrow import to_arrow
    from headrace.stage.stage import Stage
    from headrace.stage.units import KernelUnit

    rows = hr.read.memory({"x": [1, 3, 5]}, name="rows").with_columns(k=lit(0))
    output = rows.key_by("k").process(careful, state={"total": int}, output="y").write.collect()
    with pytest.raises(ZeroDivisionError) as failed:
        run(rows.key_by("k").process(careful, state={"total": int}, output="y"))
    said = str(failed.value) + "".join(getattr(failed.value, "__notes__", []))
    assert "process" in said and "x=3" in said and "test_semantics.py" in said
    stage = Stage(planned([output]).whole, compiled="True" in request.node.name)

    def given(x):
        stage.push("rows", pa.record_batch({"x": [x]}))
        return [y for _, block in stage.pull() for y in to_arrow(block).column("y").to_pylist()]

    assert given(1) == [1, -5]
    with pytest.raises(ZeroDivisionError):
        given(3)
    (kernel,) = (unit.kernel for unit in stage._units if isinstance(unit, KernelUnit))
    columns = kernel.functions.numbered_columns()
    saved, _ = kernel.functions.save(kernel.store, columns, np.arange(kernel.store.count))
    assert (saved.to_pylist(), kernel.outputs[0].rows) == ([{"key_0": 0, "field_0": 1}], 0)


def test_limit(run):
    assert column(run(hr.read.memory({"x": [5, 6, 7]}).limit(2)), "x") == [5, 6]
    several = hr.read.memory([pa.table({"x": [1, 2, 3]}), pa.table({"x": [4, 5, 6]})])
    found = column(run(several.limit(4)), "x")
    assert len(found) == len(set(found)) == 4


def test_dedup(run):
    rows = {"t": [0, 4, 5, 1, None, 20, 9, 15, None], "k": ["a"] * 8 + ["b"]}
    stream = hr.read.memory(rows).with_watermark("t", 0)
    once, within = run(stream.dedup("k"), stream.dedup("k", within=5))
    assert column(once, "t") == [0, None]
    assert column(within, "t") == [0, 5, None, 20, 15, None]


def test_distinct_values(run):
    rows = hr.read.memory({"x": [1, 1, None, 2], "f": [NAN, -NAN, 0.0, -0.0]})
    assert run(rows.agg(x=hr.count_distinct("x"), f=hr.count_distinct("f"))) == [{"x": 2, "f": 2}]


def test_approximate_counts(run):
    values = [k * k for k in range(1000)]
    made = (
        hr.read.memory({"x": given}).agg(n=hr.approx_count_distinct("x", error=0.02))
        for given in (values, values[::-1] + values)
    )
    one, other = run(*made)
    assert one == other
    assert 900 < one[0]["n"] < 1100


def test_quantiles(run):
    made = hr.read.memory({"x": [3.0, 1.0, 2.0, NAN, 1e-301]}).agg(
        low=hr.quantile("x", 0), middle=hr.quantile("x", 0.5), top=hr.quantile("x", 1)
    )
    (row,) = run(made)
    assert row["low"] == 0.0
    assert row["middle"] == pytest.approx(2.0, rel=0.01)
    assert math.isnan(row["top"])


def test_rows_that_are_left_out(run):
    rows = hr.read.memory({"x": [1, 0, 2], "s": ["a", "b", "c"]})
    skipped = rows.with_columns(y=6 // col("x"), on_error="skip").select("s")
    made = rows.filter(6 // col("x") > 3, on_error="dead_letter", name="large")
    some, large, letters = run(skipped, made, made.dead_letters())
    assert column(some, "s") == ["a", "c"]
    assert column(large, "s") == ["a"]
    said = {"error_operator": "large", "error_message": "ZeroDivisionError: division by zero"}
    assert letters == [{"x": 0, "s": "b", **said}]


def test_functions_that_fail_half_way(run):
    def counted(state, x):
        state.n += 1
        yield state.n
        if x == 0:
            raise ValueError("zero")

    rows = hr.read.memory({"k": [1, 1, 1], "x": [5, 0, 6]}).key_by("k")
    made = rows.process(counted, state={"n": int}, output="n", on_error="skip")
    for capacity in (1, 100):
        assert column(run(made, capacity=capacity), "n") == [1, 2, 2]


def test_times_that_cannot_be_read(run):
    rows = hr.read.memory({"s": ["1", "x", "3", "12", "?", "2"]})
    made = windowed(rows.select(t=col("s").cast(int), on_error="skip"))
    counted, late = run(made, made.late())
    assert (column(counted, "n"), column(late, "t")) == ([2, 1], [2])


def test_running_aggregates(run):
    rows = hr.read.memory({"k": ["a", "a", "b", "a"], "x": [1, 2, 5, 3]}).key_by("k")
    found = run(rows.running(total=hr.sum("x"), most=hr.max("x")))
    assert [(r["k"], r["x"], r["total"], r["most"]) for r in found] == [
        ("a", 1, 1, 1), ("a", 2, 3, 2), ("b", 5, 5, 5), ("a", 3, 6, 3),
    ]  # fmt: skip


def test_windows_by_count(run):
    rows = hr.read.memory({"k": ["a", "a", "b", "a", "a", "a"], "x": [1, 2, 5, 3, 4, 9]})
    made = rows.key_by("k").window(hr.counting(2)).agg(total=hr.sum("x"))
    assert run(made) == [{"k": "a", "total": 3}, {"k": "a", "total": 7}]


def sides(left, right, bound=0):
    """Two streams of keys and times."""
    one = {"k": [k for k, _ in left], "t": [t for _, t in left]}
    other = {"k": [k for k, _ in right], "u": [u for _, u in right]}
    return (
        hr.read.memory(one, schema={"k": hr.optional(str), "t": int}).with_watermark("t", bound),
        hr.read.memory(other, schema={"k": hr.optional(str), "u": int}).with_watermark("u", bound),
    )


def test_window_joins(run):
    left, right = sides([("b", 1), ("a", 2), ("a", 11)], [("a", 3), ("b", 9), ("b", 10), ("a", 12)])
    made = left.window_join(right, "k", hr.tumbling(10))
    assert made.node.time == "window_start"
    assert [(r["window_start"], r["k"], r["t"], r["u"]) for r in run(made)] == [
        (0, "a", 2, 3), (0, "b", 1, 9), (10, "a", 11, 12),
    ]  # fmt: skip


def test_interval_joins(run):
    left, right = sides([("a", 10)], [("a", u) for u in range(7, 16)])
    made = left.interval_join(right, "k", before=2, after=3)
    assert made.node.time is None
    assert sorted(column(run(made), "u")) == [8, 9, 10, 11, 12, 13]


def test_asof_joins(run):
    left, right = sides(
        [("a", 1), ("b", 1), ("a", 5), ("a", 5), ("a", 20), (None, 21), ("a", 19)],
        [("b", 0), ("a", 2), (None, 3), ("a", 5), ("a", 6), ("c", 22)],
    )
    made = left.asof_join(right, "k")
    assert made.node.time == "t"
    inner, near, every = run(
        made,
        left.asof_join(right, "k", tolerance=3),
        left.asof_join(right, "k", tolerance=14, how="left"),
    )
    assert [(r["k"], r["t"], r["u"]) for r in inner] == [
        ("b", 1, 0), ("a", 5, 5), ("a", 5, 5), ("a", 20, 6),
    ]  # fmt: skip
    assert [(r["k"], r["t"], r["u"]) for r in near] == [("b", 1, 0), ("a", 5, 5), ("a", 5, 5)]
    assert [(r["k"], r["t"], r["u"]) for r in every] == [
        ("a", 1, None), ("b", 1, 0), ("a", 5, 5), ("a", 5, 5), ("a", 20, 6), (None, 21, None),
    ]  # fmt: skip


def test_streams_by_time(run):
    one, two = (
        hr.read.memory({"t": times, "s": [name] * len(times)}).with_watermark("t", 0)
        for times, name in (([1, 5, 3], "one"), ([1, 4], "two"))
    )
    merged, three = one.merge(two), two.merge(one, two)
    assert merged.node.time == "t"
    expected = [(1, "one"), (1, "two"), (4, "two"), (5, "one")]
    for workers in (1, 3):
        options = {"engine": "node", "workers": workers, "ordering": "none"}
        found, late, others, alone = run(
            merged, merged.late(), three, two.sort_by_time(), **options | {"ordering": "total"}
        )
        assert [tuple(row.values()) for row in found] == expected
        assert [tuple(row.values()) for row in late] == [(3, "one")]
        assert column(others, "s") == ["two", "one", "two", "two", "two", "one"]
        assert column(alone, "t") == [1, 4]
        seen = run(merged.running(n=hr.count()), **options)
        assert sorted((row["n"], row["t"]) for row in seen) == [(1, 1), (2, 1), (3, 4), (4, 5)]


def test_joins_of_streams_with_nulls_and_late_rows(run):
    left, right = sides([(None, 1), ("a", 12), ("a", 2)], [(None, 1), ("a", 3), ("b", 14)])
    window = hr.tumbling(10)
    pairs, most, every, near = run(
        left.window_join(right, "k", window),
        left.window_join(right, "k", window, how="left"),
        left.window_join(right, "k", window, how="full"),
        left.interval_join(right, "k", before=10, after=10, how="left"),
    )
    assert pairs == []  # ("a", 2) is late
    assert [(r["k"], r["t"], r["u"]) for r in most] == [(None, 1, None), ("a", 12, None)]
    assert Counter((r["k"], r["t"], r["u"]) for r in every) == Counter(
        [(None, 1, None), (None, None, 1), ("a", 12, None), ("a", None, 3), ("b", None, 14)]
    )
    assert Counter((r["k"], r["t"], r["u"]) for r in near) == Counter(
        [(None, 1, None), ("a", 12, 3)]
    )


def test_times_that_are_mistakes(run):
    rows = hr.read.memory({"t": [1, 9999, 2, 11]})
    made = windowed(rows.with_watermark("t", 0, latest=100))
    results, late = run(made, made.late())
    assert [(row["window_start"], row["n"]) for row in results] == [(0, 2), (10, 1)]
    assert column(late, "t") == [9999]
    year = dt.datetime(2100, 1, 1)
    times = {"t": [dt.datetime(2026, 1, 1), dt.datetime(9999, 1, 1), dt.datetime(2026, 1, 2)]}
    timed = hr.read.memory(times).with_watermark("t", "0s", latest=year)
    assert column(run(timed.window(hr.tumbling("7d")).agg(n=hr.count())), "n") == [2]
