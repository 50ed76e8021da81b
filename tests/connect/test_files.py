"""Files as sources, in every format: any range can be read again, in bounded memory."""

import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.connect.data import read_all, tables
from tests.connect.file_formats import KINDS, numbers

from headrace.connect import files, text_format
from headrace.connect.arrow_files import ArrowSource
from headrace.connect.json_lines import JsonSource
from headrace.plan.connector import Source, is_replayable
from headrace.plan.errors import DataError
from headrace.plan.expressions import Binary, Column
from headrace.plan.literals import to_literal
from headrace.plan.schema import Schema

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def at(kind, number, row):
    return {"file": kind.file(number), "row": row}


@every_kind
@given(drawn=st.lists(tables(), min_size=1, max_size=3), size=st.integers(1, 12), data=st.data())
def test_round_trips_and_any_range_can_be_read_again(tmp_path_factory, kind, drawn, size, data):
    schema = drawn[0][0]
    parts = [table for other, table in drawn if other == schema]
    source = kind.fill(tmp_path_factory.mktemp("rows"), *parts, size=size)
    assert isinstance(source, Source) and is_replayable(source)
    assert source.schema() == schema
    sizes = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=5))
    rows, positions = read_all(source.open("files"), sizes)
    assert rows == [row for part in parts for row in part.to_pylist()]
    assert positions[-1][1] == source.latest()["files"]
    ends = [data.draw(st.sampled_from(positions)) for _ in range(2)]
    (low, start), (high, stop) = sorted(ends, key=lambda end: (end[0], end[1]["file"]))
    columns = data.draw(st.lists(st.sampled_from(schema.names), unique=True))
    reader = source.open("files", start, stop, columns)
    again, _ = read_all(reader, data.draw(st.integers(1, 40)))
    assert again == [{name: row[name] for name in columns} for row in rows[low:high]]


@every_kind
@given(
    parts=st.lists(st.lists(st.integers(-5, 5), max_size=12), min_size=1, max_size=3),
    op=st.sampled_from(["==", "<"]),
    value=st.integers(-6, 6),
    data=st.data(),
)
def test_a_predicate_loses_no_row_and_keeps_positions(
    tmp_path_factory, kind, parts, op, value, data
):
    source = kind.fill(tmp_path_factory.mktemp("rows"), *parts)
    predicate = Binary(op, Column("n"), to_literal(value))

    def kept(*ends):
        found, _ = read_all(source.open("files", *ends, predicate=predicate), max_rows=2)
        return [r["n"] for r in found if (r["n"] == value if op == "==" else r["n"] < value)]

    everything = [n for part in parts for n in part]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "WORTH_COPYING", data.draw(st.sampled_from([1, 2, 16])))
        assert kept() == [n for n in everything if (n == value if op == "==" else n < value)]
        _, positions = read_all(source.open("files", predicate=predicate), max_rows=2)
        _, middle = data.draw(st.sampled_from(positions))
        assert kept(None, middle) + kept(middle, None) == kept()


@every_kind
def test_a_schema_comes_from_the_first_file_or_must_be_given(tmp_path, kind):
    if kind.name == "json":
        with pytest.raises(TypeError):
            JsonSource(tmp_path)
        return
    if kind.name == "csv":  # its types are guessed: tests/connect/test_csv.py
        return
    with pytest.raises(DataError, match=r"there are no \w+ files in .*; give schema="):
        kind.source(tmp_path)
    kind.fill(tmp_path, pa.table({"n": [1]}))
    odd = pa.array([[("x", 1)]], pa.map_(pa.string(), pa.int8()))
    kind.write(tmp_path / kind.file(0), pa.table({"odd": odd, "n": [1]}), 5)
    source = kind.source(tmp_path)
    assert source.schema().names == ("n",) and "unread: odd (map<" in str(source)
    assert source.table().to_pylist() == [{"n": 1}]


@every_kind
def test_columns_are_pruned_in_the_order_asked_for(tmp_path, kind):
    source = kind.fill(tmp_path, pa.table({"a": [1, 2], "b": ["x", "y"], "c": [True, None]}))
    rows = source.open("files", columns=["c", "a"]).poll(10, 0.0).rows
    assert rows.to_pydict() == {"c": [True, None], "a": [1, 2]}
    assert rows.schema.names == ["c", "a"]
    assert source.open("files", columns=[]).poll(10, 0.0).rows.num_rows == 2


@every_kind
def test_memory_is_bounded_by_pieces(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(files, "DECODED_ROWS", 10)
    monkeypatch.setattr(text_format, "CHUNK_BYTES", 48)
    source = kind.fill(tmp_path, range(100), size=50)
    reader = source.open("files", at(kind, 0, 45))
    sizes = []
    while not (batch := reader.poll(1000, 0.0)).ended:
        if batch.rows is not None:
            sizes.append(batch.rows.num_rows)
    assert sum(sizes) == 55 and max(sizes) <= 20


@every_kind
def test_files_that_are_gone_or_changed(tmp_path, kind):
    source = kind.fill(tmp_path, [1, 2], [3])
    with pytest.raises(DataError, match=r"part-7.* is gone, and was read up to before"):
        source.open("files", at(kind, 7, 0))
    for ends in [(at(kind, 0, 5),), (None, at(kind, 0, 5))]:
        with pytest.raises(DataError, match=r"part-0.* has 2 rows, not 5; it has changed"):
            read_all(source.open("files", *ends))
    reader = source.open("files")
    (tmp_path / kind.file(1)).unlink()
    with pytest.raises(DataError, match=r"part-1.* is gone"):
        read_all(reader)
    with pytest.raises(DataError, match="no channel 'x'"):
        source.open("x")
    with pytest.raises(DataError, match="there is no file or folder"):
        kind.source(tmp_path / "nowhere", schema={"n": int})
    with pytest.raises(DataError, match="s3://bucket/rows: a URL with a password") as raised:
        kind.source("s3://key:secret@bucket/rows", schema={"n": int})
    assert "secret" not in str(raised.value)


@every_kind
def test_a_folder_without_files(tmp_path, kind):
    source = kind.source(tmp_path, schema={"n": int})
    assert source.latest() == {"files": None}
    assert source.open("files").poll(1, 0.0).ended
    assert source.table().schema == Schema.of({"n": int}).to_arrow()


@every_kind
def test_after_close_there_are_no_rows_and_no_end(tmp_path, kind):
    reader = kind.fill(tmp_path, range(5)).open("files")
    reader.poll(1, 0.0)
    reader.close()
    reader.close()
    batch = reader.poll(1, 0.0)
    assert (batch.rows, batch.ended, batch.position) == (None, False, at(kind, 0, 1))


@every_kind
def test_it_travels(tmp_path, kind):
    source = pickle.loads(pickle.dumps(kind.fill(tmp_path, [1, 2])))
    assert numbers(source.open("files"))[0] == [1, 2]


def test_an_arrow_file_of_another_schema_is_named(tmp_path):
    arrow = KINDS[1]
    source = arrow.fill(tmp_path, [1], pa.table({"n": ["x"]}))
    with pytest.raises(DataError, match=r"part-1.arrow: column 'n' is string, and should be"):
        read_all(source.open("files"))
    arrow.add(tmp_path, 1, pa.table({"m": [1]}))
    with pytest.raises(DataError, match=r"part-1.arrow has no column 'n' \(int64\)"):
        read_all(source.open("files"))
    arrow.add(tmp_path, 1, pa.table({"n": [1, None]}))
    with pytest.raises(DataError, match=r"part-1.arrow: column 'n' is null in row 1"):
        read_all(ArrowSource(tmp_path, schema={"n": int}).open("files"))


def test_both_arrow_formats_in_one_folder_compressed_and_with_dictionaries(tmp_path):
    table = pa.table({"n": [1, 2], "s": pa.array(["x", None]).dictionary_encode()})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(tmp_path / "a.feather", table.schema, options=options) as writer:
        writer.write_table(table)
    with pa.ipc.new_stream(tmp_path / "b.ipc", table.schema) as writer:
        writer.write_table(table)
    (tmp_path / "c.arrow.tmp").write_bytes(b"half")
    assert ArrowSource(tmp_path).table().to_pylist() == table.to_pylist() * 2
    (tmp_path / "d.arrow").write_bytes(b"no Arrow at all")
    with pytest.raises(DataError, match=r"d.arrow cannot be read as Arrow"):
        ArrowSource(tmp_path).table()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_small_files_are_given_together(tmp_path, kind):
    source = kind.fill(tmp_path, [1, 2], [], [3], [4, 5, 6])
    first = source.open("files").poll(100, 1.0)
    assert first.rows["n"].to_pylist() == [1, 2, 3, 4, 5, 6]
    reader = source.open("files")
    found = [reader.poll(4, 1.0) for _ in range(2)]
    assert [batch.rows["n"].to_pylist() for batch in found] == [[1, 2, 3], [4, 5, 6]]
    again = source.open("files", found[0].position).poll(100, 1.0)
    assert again.rows["n"].to_pylist() == [4, 5, 6]
    assert again.position == found[1].position


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_rows_before_a_bad_file_are_given_first(tmp_path, kind):
    source = kind.fill(tmp_path, [1, 2], [3])
    (tmp_path / kind.file(2)).write_bytes(b"no rows at all")
    reader = source.open("files")
    assert reader.poll(100, 0.0).rows["n"].to_pylist() == [1, 2, 3]
    for _ in range(2):
        with pytest.raises(DataError, match=kind.file(2)):
            reader.poll(100, 0.0)


def test_small_files_of_other_types_are_given_apart(tmp_path):
    kind, texts = KINDS[0], ["a", "b"]
    kind.add(tmp_path, 0, pa.table({"s": texts}))
    kind.add(tmp_path, 1, pa.table({"s": pa.array(texts, pa.large_string())}))
    reader = kind.source(tmp_path).open("files")
    assert [reader.poll(9, 0.0).rows["s"].to_pylist() for _ in range(2)] == [texts, texts]
