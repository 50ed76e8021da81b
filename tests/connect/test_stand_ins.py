"""Row groups that statistics rule out move the watermark as their rows would."""

import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.connect.data import read_all
from tests.connect.test_pushdown import conditions
from tests.counts import count
from tests.naive import rows_of
from tests.running import assert_same

import headrace as hr
from headrace import col
from headrace.connect import parquet_format
from headrace.connect.parquet import ParquetSource
from headrace.connect.parquet_format import ParquetRows
from headrace.connect.stand_ins import stand_ins
from headrace.expr.values import Expr
from headrace.plan.expressions import Binary, Column, IsNull
from headrace.plan.literals import to_literal

SCHEMA = pa.schema(
    [
        ("at", pa.int64()),
        ("i", pa.int64()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("t", pa.timestamp("us", "UTC")),
        ("l", pa.list_(pa.int64())),
    ]
)
NAN = math.nan
OTHERS = st.fixed_dictionaries(
    {
        "f": st.none() | st.sampled_from([-1.0, -0.0, 0.5, 1.0, NAN, math.inf]),
        "s": st.none() | st.sampled_from(["", "a", "ab", "é"]),
        "t": st.none() | st.integers(-2, 2),
        "l": st.none() | st.lists(st.integers(0, 2), max_size=2),
    }
)
# Most groups are of one kind, so that they can be ruled out, and somewhere in time.
KINDS = st.sampled_from([1, 2, 3, None])
GROUPS = st.tuples(KINDS, OTHERS, st.integers(0, 4), st.lists(st.integers(-4, 40), min_size=2))


@st.composite
def files(draw):
    """Rows of some groups, for some files."""
    size, rows = draw(st.integers(1, 5)), []
    for kind, others, about, times in draw(st.lists(GROUPS, min_size=2, max_size=8)):
        for k in range(size):
            at = None if times[k % len(times)] == -4 else 10 * about + times[k % len(times)]
            rows.append({"at": at, "i": kind, **others})
    for row in draw(st.lists(st.sampled_from(rows), max_size=2)):
        row["i"] = draw(KINDS)
    whole = {"at": pa.int64(), "t": pa.int64()}
    columns = [
        pa.array([row[f.name] for row in rows], whole.get(f.name, f.type)).cast(f.type)
        for f in SCHEMA
    ]
    table, at = (
        pa.table(columns, schema=SCHEMA),
        draw(st.sampled_from([0, len(rows) // 2 // size * size])),
    )
    return [table.slice(0, at), table.slice(at)], size


def write(folder, parts, group):
    for number, part in enumerate(parts):
        pq.write_table(part, folder / f"part-{number}.parquet", row_group_size=group)


def pipelines(rows, condition, bound):
    """What depends on every single watermark: counts, sessions, what is late, what comes twice."""
    kept = rows.with_watermark("at", bound).filter(Expr(condition))
    counts = kept.key_by("i").window(hr.tumbling(10)).agg(n=hr.count(), total=hr.sum("at"))
    sessions = kept.key_by("s").window(hr.session(3)).agg(n=hr.count(), last=hr.max("at"))
    late = counts.late().select("at", "i", "l")
    once = kept.dedup("i", within=10).select("at", "i")
    return [stream.write.collect() for stream in (counts, late, sessions, once)]


def results(rows, condition, bound, **options):
    outputs = pipelines(rows, condition, bound)
    hr.run(*outputs, compiled=False, **options)
    return [rows_of(output.result()) for output in outputs]


@pytest.fixture
def decoded(monkeypatch):
    """The row groups that were read."""
    found, real = [], ParquetRows._decode

    def spy(self, selection, group):
        found.append((self.name, group))
        return real(self, selection, group)

    monkeypatch.setattr(ParquetRows, "_decode", spy)
    return found


def counted(real):
    def spy(*given):
        made = real(*given)
        count(f"row groups not read, {'nothing' if made is None else made.num_rows} instead")
        return made

    return spy


def plain_conditions():
    """Those that rule most groups out, so that others are late for what they said."""
    equal = [Binary("==", Column("i"), to_literal(n)) for n in (1, 2)]
    return st.sampled_from([*equal, IsNull(Column("i")), Binary("<", Column("s"), to_literal("a"))])


@given(files(), plain_conditions() | conditions(), st.sampled_from([0, 3]))
def test_the_same_rows_as_when_all_is_read(tmp_path_factory, given_files, condition, bound):
    (parts, group), folder = given_files, tmp_path_factory.mktemp("rows")
    write(folder, parts, group)
    source = hr.read.parquet(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_format, "stand_ins", counted(stand_ins))
        found = results(source, condition, bound, engine="thread")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ParquetSource, "keeps_times", False)
        expected = results(source, condition, bound, engine="thread")
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other, ordered=True)


def sorted_rows(folder):
    """Three groups of rows; only the last one has n == 3, and some of its rows are late."""
    at = [*range(100, 110), *range(500, 510), *range(395, 405)]
    table = pa.table({"at": at, "n": [1] * 10 + [2] * 10 + [3] * 10})
    pq.write_table(table, folder / "part-0.parquet", row_group_size=10)
    return hr.read.parquet(folder)


@pytest.mark.parametrize(
    ("engine", "options"), [("thread", {}), ("node", {"workers": 1}), ("node", {"workers": 2})]
)
def test_groups_are_not_read_and_what_they_make_late_is(tmp_path, decoded, engine, options):
    rows = sorted_rows(tmp_path).with_watermark("at", 105).filter(col("n") == 3)
    counts = rows.window(hr.tumbling(10)).agg(n=hr.count())
    outputs = counts.write.collect(), counts.late().select("at").write.collect()
    hr.run(*outputs, engine=engine, compiled=False, **options)
    assert decoded == [("part-0.parquet", 2)]
    found, late = (rows_of(output.result()) for output in outputs)
    assert [(row["window_start"], row["n"]) for row in found] == [(400, 5)]
    assert [row["at"] for row in late] == [395, 396, 397, 398, 399]


def test_a_time_out_of_range_is_found_in_a_group_that_is_not_read(tmp_path):
    table = pa.table({"at": [-(1 << 62) - 1, 5, 7], "n": [1, 1, 3]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    rows = hr.read.parquet(tmp_path).with_watermark("at", 0).filter(col("n") == 3)
    output = rows.window(hr.tumbling(10)).agg(n=hr.count()).write.collect()
    with pytest.raises(hr.DataError, match="a time in at is out of range"):
        hr.run(output, engine="thread", compiled=False)


@pytest.mark.parametrize(
    "stream",
    [
        lambda rows: rows.with_columns(later=col("at") + 1).with_watermark("later", 5),
        lambda rows: rows.with_watermark("at", 5, latest=10_000),
    ],
    ids=["computed", "latest"],
)
def test_where_the_largest_time_is_not_known_all_is_read(tmp_path, decoded, stream):
    rows = stream(sorted_rows(tmp_path)).filter(col("n") == 3)
    hr.run(rows.window(hr.tumbling(10)).agg(n=hr.count()).write.null(), compiled=False)
    assert [group for _, group in decoded] == [0, 1, 2]


def test_a_part_of_a_group_is_read(tmp_path, decoded):
    source = sorted_rows(tmp_path).node.connector
    hints = {"predicate": Binary("==", Column("n"), to_literal(3)), "time": "at"}
    start, stop = ({"file": "part-0.parquet", "row": row} for row in (5, 25))
    found, _ = read_all(source.open("files", start, stop, **hints))
    assert [group for _, group in decoded] == [0, 2]
    assert [row["at"] for row in found] == [*range(105, 110), 500, 509, *range(395, 400)]


def test_columns_of_any_type_stand_in(tmp_path, decoded):
    """Columns that are not asked for: null where they may be, plain where not."""
    rows = {"at": [1, 2, 3], "n": [1, 1, 3], "b": [True] * 3, "s": ["x"] * 3, "d": [1.5] * 3}
    pq.write_table(pa.table(rows), tmp_path / "a.parquet", row_group_size=2)
    schema = {"at": int, "n": int, "b": bool, "s": hr.optional(str), "d": float}
    source = hr.read.parquet(tmp_path, schema=schema).node.connector
    hints = {"predicate": Binary("==", Column("n"), to_literal(3)), "time": "at"}
    found, _ = read_all(source.open("files", **hints))
    assert [group for _, group in decoded] == [1]
    stand_in = {"n": 1, "b": False, "s": None, "d": 0.0}
    assert found[:2] == [{"at": 1, **stand_in}, {"at": 2, **stand_in}]


def test_a_required_list_has_no_plain_value(tmp_path, decoded):
    pq.write_table(pa.table({"at": [1, 2], "l": [[1], []]}), tmp_path / "a.parquet")
    schema = {"at": int, "l": list[int]}
    source = hr.read.parquet(tmp_path, schema=schema).node.connector
    hints = {"predicate": Binary(">", Column("at"), to_literal(3)), "time": "at"}
    found, _ = read_all(source.open("files", **hints))
    assert found == [{"at": 1, "l": [1]}, {"at": 2, "l": []}]
