"""Parquet files as a source."""

import datetime as dt
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.connect.data import read_all, tables

import headrace as hr
from headrace import col
from headrace.connect import files
from headrace.connect.parquet import ParquetSource
from headrace.connect.parquet_format import ParquetRows
from headrace.plan.connector import Source, Statistics, is_replayable
from headrace.plan.errors import DataError
from headrace.plan.expressions import Binary, Column
from headrace.plan.literals import to_literal
from headrace.plan.schema import Schema
from headrace.plan.types import optional


def write(folder, *parts, group=3, **options):
    """A file for each list of numbers, in a column n."""
    folder.mkdir(exist_ok=True)
    for number, part in enumerate(parts):
        table = part if isinstance(part, pa.Table) else pa.table({"n": pa.array(part, pa.int64())})
        pq.write_table(table, folder / f"part-{number}.parquet", row_group_size=group, **options)
    return ParquetSource(folder)


def numbers(source, *ends, **options):
    return [row["n"] for row in read_all(source.open("files", *ends, **options))[0]]


def at(number, row):
    return {"file": f"part-{number}.parquet", "row": row}


@given(st.lists(tables(), min_size=1, max_size=3), st.integers(1, 12), st.data())
def test_round_trips_and_any_range_can_be_read_again(tmp_path_factory, drawn, group, data):
    schema = drawn[0][0]
    parts = [table for other, table in drawn if other == schema]
    folder = tmp_path_factory.mktemp("rows")
    source = write(folder, *parts, group=group)
    assert isinstance(source, Source) and isinstance(source, Statistics) and is_replayable(source)
    assert source.schema() == schema
    sizes = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=5))
    rows, positions = read_all(source.open("files"), sizes)
    assert rows == [row for part in parts for row in part.to_pylist()]
    assert positions[-1][1] == source.latest()["files"]
    ends = [data.draw(st.sampled_from(positions)) for _ in range(2)]
    (low, start), (high, stop) = sorted(ends, key=lambda end: (end[0], end[1]["file"]))
    again, _ = read_all(source.open("files", start, stop), data.draw(st.integers(1, 40)))
    assert again == rows[low:high]
    for field in schema:
        if field.type.is_nested:
            continue  # these have no order
        count, position = data.draw(st.sampled_from(positions))
        values = [row[field.name] for row in rows[:count] if row[field.name] is not None]
        found = source.maximum(field.name, "files", position)
        expected = max(values, default=None)
        if expected is not None:
            expected = to_literal(expected, field.type).value
        assert found == expected


@given(
    st.lists(st.lists(st.none() | st.integers(-5, 5), max_size=12), min_size=1, max_size=3),
    st.sampled_from(["==", "!=", "<", ">="]),
    st.integers(-6, 6),
    st.integers(1, 5),
    st.data(),
)
def test_a_predicate_loses_no_row_and_keeps_positions(
    tmp_path_factory, parts, op, value, group, data
):
    source = write(tmp_path_factory.mktemp("rows"), *parts, group=group)
    everything = [number for part in parts for number in part]
    predicate = Binary(op, Column("n"), to_literal(value))
    compare = {"==": int.__eq__, "!=": int.__ne__, "<": int.__lt__, ">=": int.__ge__}[op]

    def kept(found):
        return [n for n in found if n is not None and compare(n, value)]

    options = {"predicate": predicate}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "WORTH_COPYING", data.draw(st.sampled_from([1, 2, 16])))
        reader = source.open("files", **options)
        found, positions = read_all(reader, data.draw(st.integers(1, 6)))
        assert kept([row["n"] for row in found]) == kept(everything)
        _, middle = data.draw(st.sampled_from(positions))
        ranges = (None, middle), (middle, None)
        before, after = (numbers(source, *ends, **options) for ends in ranges)
    assert kept(before) + kept(after) == kept(everything)
    assert kept(numbers(source, None, middle)) == kept(before)


def test_row_groups_that_cannot_match_are_not_decoded(tmp_path, monkeypatch):
    source = write(tmp_path, range(9), range(9, 18))
    decoded = []
    real = ParquetRows._decode

    def spy(self, selection, group):
        decoded.append((self.name, group))
        return real(self, selection, group)

    monkeypatch.setattr(ParquetRows, "_decode", spy)
    monkeypatch.setattr(files, "WORTH_COPYING", 2)
    predicate = Binary("==", Column("n"), to_literal(10))
    reader = source.open("files", predicate=predicate)
    rows, positions = read_all(reader, timeout=1.0)
    assert rows == [{"n": 10}]
    assert decoded == [("part-1.parquet", 0)]
    assert positions[-1][1] == at(1, 9)


@pytest.mark.parametrize(("kept", "given"), [(1, 1), (2, 2), (3, 32)])
def test_rows_are_left_out_where_few_of_them_match(tmp_path, kept, given):
    source = write(tmp_path, range(32), group=32)
    predicate = Binary("<", Column("n"), to_literal(kept))
    assert numbers(source, predicate=predicate) == list(range(given))


def test_files_are_read_by_name_without_what_is_hidden(tmp_path):
    write(tmp_path, [1], [2])
    (tmp_path / "b").mkdir()
    (tmp_path / "_staging").mkdir()
    pq.write_table(pa.table({"n": [0]}), tmp_path / "b" / "x.parquet")
    for hidden in ("_staging/x.parquet", "_x.parquet", ".x.parquet"):
        pq.write_table(pa.table({"n": [99]}), tmp_path / hidden)
    (tmp_path / "notes.txt").write_text("no rows")
    assert numbers(ParquetSource(tmp_path)) == [0, 1, 2]
    assert numbers(ParquetSource(tmp_path / "part-1.parquet")) == [2]
    assert numbers(ParquetSource(f"{tmp_path}/part-*.parquet")) == [1, 2]
    assert numbers(ParquetSource(f"{tmp_path}/**/x.parquet")) == [0]


def test_a_reader_sees_the_files_that_were_there_and_a_later_one_goes_on(tmp_path):
    source = write(tmp_path, [1, 2], [3])
    reader = source.open("files")
    reader.poll(1, 0.0)
    pq.write_table(pa.table({"n": [4]}), tmp_path / "part-2.parquet")
    rows, positions = read_all(reader)
    assert [row["n"] for row in rows] == [2, 3]
    assert numbers(source, positions[-1][1]) == [4]
    assert source.latest() == {"files": at(2, 1)}
    assert numbers(source, at(0, 2), at(1, 1)) == [3]


def test_columns_are_pruned_in_the_order_asked_for(tmp_path):
    odd = pa.array([[("x", 1)], None], pa.map_(pa.string(), pa.int8()))
    table = pa.table({"a": [1, 2], "b": ["x", "y"], "c": odd, "d.e": [5, 6]})
    source = write(tmp_path, table)
    assert source.schema().names == ("a", "b", "d.e")
    assert "unread: c (map<" in str(source)
    rows = source.open("files", columns=["d.e", "a"]).poll(10, 0.0).rows
    assert rows.schema.names == ["d.e", "a"] and rows.num_rows == 2
    assert source.open("files", columns=[]).poll(10, 0.0).rows.num_rows == 2


def test_a_schema_may_be_wider_or_stricter_than_the_file(tmp_path):
    table = pa.table({"a": pa.array([1, 2], pa.uint32()), "b": pa.array([0.5, 1.5], pa.float32())})
    write(tmp_path, table)
    source = ParquetSource(tmp_path, schema={"a": int, "b": float})
    assert read_all(source.open("files"))[0] == [{"a": 1, "b": 0.5}, {"a": 2, "b": 1.5}]
    assert source.maximum("a", "files", None) == 2


def test_times_of_any_unit(tmp_path):
    table = pa.table(
        {
            "ms": pa.array([1, 3, 2], pa.timestamp("ms")),
            "ns": pa.array([-1, -3000, None], pa.timestamp("ns", "UTC")),
            "day": pa.array([dt.date(1970, 1, 2)] * 3),
        }
    )
    source = write(tmp_path, table, group=2)
    assert [f.type.name for f in source.schema()] == ["timestamp", "timestamp", "date"]
    assert source.maximum("ms", "files", at(0, 1)) == 1000
    assert source.maximum("ms", "files", None) == 3000
    assert source.maximum("ns", "files", at(0, 1)) == source.maximum("ns", "files", None) == -1
    assert source.maximum("day", "files", None) == 1
    for name, value in (("ms", 3000), ("ns", -1), ("ns", -3)):
        moment = to_literal(value, optional("timestamp"))
        predicate = Binary("==", Column(name), moment)
        found = source.open("files", predicate=predicate, columns=[name]).poll(10, 1.0).rows
        assert value in [
            stamp.value * 1000 if name == "ms" else stamp.value // 1000
            for stamp in found[name]
            if stamp.is_valid
        ]


def test_statistics_say_nothing_of_nan(tmp_path):
    source = write(tmp_path, pa.table({"n": [5.0, float("nan"), 5.0]}))
    predicate = Binary("!=", Column("n"), to_literal(5.0))
    assert any(n != n for n in numbers(source, predicate=predicate))
    assert source.maximum("n", "files", None) == 5.0


def test_a_maximum_without_statistics_is_read(tmp_path):
    source = write(tmp_path, [3, 7, None, 5, 1], write_statistics=False)
    assert [source.maximum("n", "files", at(0, n)) for n in range(6)] == [None, 3, 7, 7, 7, 7]
    # no row of the first group; of the second, one of two: the filter behind is quicker
    assert numbers(source, predicate=Binary("==", Column("n"), to_literal(5))) == [5, 1]


def test_a_file_that_has_changed_is_asked_again(tmp_path):
    """What footers say is kept, but only as long as the file stays as it is."""
    source = write(tmp_path, [3, 7], [5])
    assert source.maximum("n", "files", None) == source.maximum("n", "files", None) == 7
    write(tmp_path, [3, 70, 8], [5])
    assert source.maximum("n", "files", None) == 70


def test_memory_is_bounded_by_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "DECODED_ROWS", 10)
    source = write(tmp_path, range(100), group=50)
    reader = source.open("files", at(0, 45))
    sizes = []
    while not (batch := reader.poll(1000, 0.0)).ended:
        if batch.rows is not None:
            sizes.append(batch.rows.num_rows)
    assert sum(sizes) == 55 and max(sizes) <= 10


def test_a_folder_without_files(tmp_path):
    with pytest.raises(DataError, match=r"there are no parquet files in .*; give schema="):
        ParquetSource(tmp_path)
    source = ParquetSource(tmp_path, schema={"n": int})
    assert source.latest() == {"files": None}
    assert source.open("files").poll(1, 0.0).ended
    assert source.table().schema == Schema.of({"n": int}).to_arrow()
    assert source.maximum("n", "files", None) is None


def test_a_file_of_another_schema_is_named(tmp_path):
    source = write(tmp_path, [1], pa.table({"n": ["x"]}))
    with pytest.raises(DataError, match=r"part-1.parquet: column 'n' is string, and should be opt"):
        read_all(source.open("files"))
    source = write(tmp_path, [1], pa.table({"m": [1]}))
    with pytest.raises(DataError, match=r"part-1.parquet has no column 'n' \(optional\(int64\)\)"):
        read_all(source.open("files"))


def test_a_null_where_the_schema_has_none_is_named(tmp_path):
    write(tmp_path, [1, 2, 3, 4, None])
    source = ParquetSource(tmp_path, schema={"n": int})
    with pytest.raises(DataError, match=r"part-0.parquet: column 'n' is null in row 4"):
        read_all(source.open("files"))


def test_files_that_are_gone_changed_or_no_parquet(tmp_path):
    source = write(tmp_path, [1, 2], [3])
    with pytest.raises(DataError, match=r"part-7.parquet is gone"):
        source.open("files", at(7, 0))
    with pytest.raises(DataError, match=r"part-0.parquet has 2 rows, not 5; it has changed"):
        read_all(source.open("files", at(0, 5)))
    reader = source.open("files")
    (tmp_path / "part-1.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(DataError, match=r"part-1.parquet cannot be read as Parquet"):
        read_all(reader)
    with pytest.raises(DataError, match="there is no file or folder"):
        ParquetSource(tmp_path / "nowhere")
    with pytest.raises(DataError, match="no channel 'x'"):
        source.open("x")


def test_credentials_are_never_shown():
    with pytest.raises(DataError) as raised:
        ParquetSource("s3://key:secret@bucket/rows")
    assert "secret" not in str(raised.value) and "s3://bucket/rows" in str(raised.value)


def test_after_close_there_are_no_rows_and_no_end(tmp_path):
    reader = write(tmp_path, range(5)).open("files")
    reader.poll(1, 0.0)
    reader.close()
    reader.close()
    batch = reader.poll(1, 0.0)
    assert (batch.rows, batch.ended, batch.position) == (None, False, at(0, 1))


def test_it_travels(tmp_path):
    assert numbers(pickle.loads(pickle.dumps(write(tmp_path, [1, 2])))) == [1, 2]


def test_who_does_not_wait_gets_the_rows_of_the_next_file(tmp_path, monkeypatch):
    """The end of a small file is not taken for a silence, after which engines would pause."""
    monkeypatch.setattr(files, "GATHER_SECONDS", 60.0)
    for number in range(5):
        pq.write_table(pa.table({"n": [number, number]}), tmp_path / f"{number}.parquet")
    reader = ParquetSource(tmp_path).open("files")
    polled = [reader.poll(2, 0.0) for _ in range(6)]
    assert [batch.rows is not None for batch in polled] == [True] * 5 + [False]
    assert polled[-1].ended


def test_large_unsigned_numbers_are_not_taken_for_negative_ones(tmp_path):
    large = pa.table({"n": pa.array([3 * 10**9], pa.uint32()), "m": pa.array([2**63], pa.uint64())})
    write(tmp_path, large)
    rows = hr.read.parquet(tmp_path)
    for condition in (col("n") > 5, col("m") > hr.lit(5, "uint64")):
        assert rows.filter(condition).head(5).to_pylist() == large.to_pylist()


def test_texts_that_repeat_stay_codes(tmp_path):
    """Where the file has codes of them, in all groups; a filter by one, and any range, work."""
    few = [None if n % 7 == 0 else f"a text that repeats {n % 3}" for n in range(1000)]
    many = [f"a text of its own {n}" for n in range(1000)]
    table = pa.table({"n": range(1000), "few": few, "many": many})
    source = write(tmp_path / "in", table, group=400)
    batch = source.open("files").poll(10, 0.0).rows
    kinds = [str(kind).partition("<")[0] for kind in batch.schema.types]
    assert kinds == ["int64", "dictionary", "string"]
    assert source.table().to_pylist() == table.to_pylist()
    rows, _ = read_all(source.open("files", at(0, 399), at(0, 801), columns=["few"]))
    assert [row["few"] for row in rows] == few[399:801]
    stream = hr.read.parquet(tmp_path / "in").filter(col("few") == few[1])
    output = stream.select(few=col("few"), size=col("few").str.len_chars()).write.collect()
    hr.run(output, engine="thread", compiled=False)
    kept = [text for text in few if text == few[1]]
    assert output.result().to_pylist() == [{"few": text, "size": len(text)} for text in kept]
    plain = write(tmp_path / "plain", table, use_dictionary=False).open("files").poll(10, 0.0).rows
    assert plain.schema.field("few").type == pa.string()


UNITS = ("s", "ms", "us", "ns")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *((pa.duration(unit), dt.timedelta(seconds=5)) for unit in UNITS),
        *((pa.time32(unit), dt.time(0, 0, 5)) for unit in ("s", "ms")),
        *((pa.time64(unit), dt.time(0, 0, 5)) for unit in ("us", "ns")),
        *((pa.timestamp(unit, "UTC"), dt.datetime(1970, 1, 1, 0, 0, 5)) for unit in UNITS),
        (pa.date64(), dt.date(1970, 1, 6)),
    ],
    ids=str,
)
def test_statistics_are_in_the_units_of_the_file(tmp_path, kind, value):
    """A row is not ruled out because its file counts in other units."""
    write(tmp_path, pa.table({"n": pa.array([value], kind)}))
    source = ParquetSource(tmp_path)
    predicate = Binary("==", Column("n"), to_literal(value))
    assert len(numbers(source, predicate=predicate)) == 1
    assert source.maximum("n", "files", None) == to_literal(value).value
