"""Files that are damaged, crafted or strange: a DataError that names them, never a crash."""

import codecs
import importlib
import io
import os
import struct
import subprocess
import sys
import zipfile

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.connect.data import read_all, schemas, tables
from tests.connect.file_formats import KINDS

import headrace as hr
from headrace.connect import files, parquet_footer
from headrace.connect.json_lines import JsonSource
from headrace.connect.memory import MemorySource
from headrace.connect.parquet import ParquetSource
from headrace.connect.parquet_footer import footer_statistics
from headrace.plan.errors import DataError
from headrace.plan.expressions import Binary, Column
from headrace.plan.literals import to_literal
from headrace.plan.types import SCALARS
from headrace.stage.blocks.validation import validated


def ipc(column, patch):
    """A stream of one column n, with some of its bytes replaced by others of the same length."""
    sink = io.BytesIO()
    batch = pa.record_batch({"n": column})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    made = sink.getvalue()
    for old, new in patch:
        assert made.count(old) == 1 and len(old) == len(new)
        made = made.replace(old, new)
    return made


def codes(*numbers):
    return struct.pack(f"<{len(numbers)}i", *numbers)


VIEW = "a text too long for a view"
CRAFTED = {
    "an offset behind the text": ipc(
        pa.array(["abc", "defg", "hi"]), [(codes(0, 3, 7, 9), codes(0, 3, 7, 1 << 20))]
    ),
    "offsets that go back": ipc(
        pa.array(["abc", "defg", "hi"]), [(codes(0, 3, 7, 9), codes(0, 7, 3, 9))]
    ),
    "a negative offset": ipc(
        pa.array(["abc", "defg", "hi"]), [(codes(0, 3, 7, 9), codes(-4096, 3, 7, 9))]
    ),
    "a large offset": ipc(
        pa.array(["abc", "defg", "hi"], pa.large_string()),
        [(struct.pack("<4q", 0, 3, 7, 9), struct.pack("<4q", 0, 3, 7, 1 << 40))],
    ),
    "a code without a value": ipc(
        pa.array(["x", "y", "x"]).dictionary_encode(), [(codes(0, 1, 0), codes(0, 1 << 20, 0))]
    ),
    "a negative code": ipc(
        pa.array(["x", "y", "x"]).dictionary_encode(), [(codes(0, 1, 0), codes(0, -1, 0))]
    ),
    "a view of a buffer that is not there": ipc(
        pa.array([VIEW, VIEW + "!"], pa.string_view()),
        [(b"a te" + struct.pack("<ii", 0, 26), b"a te" + struct.pack("<ii", 7, 26))],
    ),
    "a view behind its buffer": ipc(
        pa.array([VIEW, VIEW + "!"], pa.string_view()),
        [(b"a te" + struct.pack("<ii", 0, 26), b"a te" + struct.pack("<ii", 0, 1 << 30))],
    ),
    "bytes that are no text": ipc(pa.array(["abc", "defg"]), [(b"abcdefg", b"ab\xffdefg")]),
}


@pytest.mark.parametrize("crafted", CRAFTED)
def test_arrow_files_are_validated_before_anything_follows_them(tmp_path, crafted):
    (tmp_path / "a.arrow").write_bytes(CRAFTED[crafted])
    rows = hr.read.arrow(tmp_path, schema={"n": hr.optional(str)}).filter(hr.col("n") != "x")
    with pytest.raises(DataError, match=rf"{tmp_path}/a.arrow: column 'n' is damaged"):
        hr.run(rows.write.collect(), engine="thread")


@pytest.mark.parametrize("crafted", CRAFTED)
def test_tables_in_memory_and_results_of_functions_are_validated(crafted):
    table = pa.ipc.open_stream(CRAFTED[crafted]).read_all()
    with pytest.raises(DataError, match="the table: column 'n' is damaged"):
        MemorySource(table)
    given = hr.read.memory({"k": [1]})
    made = given.map_batches(lambda batch: table, schema={"n": hr.optional(str)})
    with pytest.raises(DataError, match=r"map_batches.*: column 'n' is damaged"):
        hr.run(made.write.collect(), engine="thread")


@pytest.mark.parametrize("cut", [1, 40, 2000])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_file_that_shrinks_while_it_is_read(tmp_path, kind, cut):
    rows = pa.table({"n": pa.array([str(n) * 20 for n in range(3000)])})
    source = kind.fill(tmp_path, rows, size=1000)
    path = tmp_path / kind.file(0)
    reader = source.open("files")
    reader.poll(10, 0.0)
    os.truncate(path, path.stat().st_size // 4 + cut)
    try:
        found, _ = read_all(reader, 500)
    except DataError as error:
        assert str(path) in str(error)
    else:
        assert kind.name in ("json", "csv") and len(found) < 3000  # to be read again by lines


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_only_regular_files_are_read(tmp_path, kind):
    source = kind.fill(tmp_path, [1, 2])
    os.mkfifo(tmp_path / kind.file(1))
    (tmp_path / kind.file(2)).symlink_to(tmp_path / kind.file(1))
    rows, _ = read_all(source.open("files"))
    assert [row["n"] for row in rows] == [1, 2]
    with pytest.raises(DataError, match="is not a regular file"):
        kind.source(tmp_path / kind.file(1), schema=source.schema())
    with pytest.raises(DataError, match="is not a regular file"):
        kind.form().open(tmp_path / kind.file(1), kind.file(1))


def packed(kind):
    """A file of three numbers that is no text, whatever its name says."""
    text = b"n\n1\n2\n3\n"
    if kind in ("gzip", "bz2", "lzma"):
        return importlib.import_module(kind).compress(text)
    if kind in ("utf-16", "utf-16-be"):
        return codecs.BOM_UTF16_BE * kind.endswith("be") + text.decode().encode(kind)
    file = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("a.csv", text)
    elif kind == "parquet":
        pq.write_table(pa.table({"n": [1, 2, 3]}), file)
    elif kind == "arrow":
        pa.feather.write_feather(pa.table({"n": [1, 2, 3]}), file)
    else:
        file.write(pa.compress(text, kind, asbytes=True))
    return file.getvalue()


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("gzip", "compressed by gzip; unpack it"),
        ("bz2", "compressed by bzip2"),
        ("lzma", "compressed by xz"),
        ("zstd", "compressed by Zstandard"),
        ("zip", "an archive"),
        ("parquet", "a Parquet file: read.parquet"),
        ("arrow", "an Arrow file: read.arrow"),
        ("utf-16", "in UTF-16"),
        ("utf-16-be", "in UTF-16"),
    ],
)
def test_files_that_are_no_text(tmp_path, kind, what):
    """Not even with on_error="skip": there is no line to leave out."""
    path = tmp_path / "rows.csv"
    path.write_bytes(packed(kind))
    said = rf"rows.csv is {what}"
    with pytest.raises(hr.PipelineError, match=said):
        hr.read.csv(path)
    for read in (hr.read.csv, hr.read.json):
        rows = read(path, schema={"n": int}, on_error="skip")
        with pytest.raises(DataError, match=said):
            hr.run(rows.write.null(), engine="thread", compiled=False)
    with pytest.raises(DataError, match=said):
        hr.run(hr.read.text(path).write.null(), engine="thread", compiled=False)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("pattern", ["", "/*/*.json", "/**/*.json"])
def test_a_folder_that_cannot_be_read_is_named(tmp_path, pattern):
    _check_unreadable(tmp_path, pattern)


@pytest.mark.parametrize("pattern", ["", "/*/*.json", "/**/*.json"])
def test_a_folder_that_nobody_can_read_is_named(tmp_path, pattern, monkeypatch):
    """The same where the tests run as root, who may read everything."""
    real = os.scandir

    def scandir(path):
        if os.fspath(path).rstrip("/").endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    _check_unreadable(tmp_path, pattern)


def _check_unreadable(folder, pattern):
    closed = folder / "closed"
    closed.mkdir(mode=0)
    (folder / "open").mkdir()
    (folder / "open" / "a.json").write_text('{"n": 1}\n')
    try:
        with pytest.raises(DataError, match=f"{closed}.* cannot be read: Permission denied"):
            JsonSource(f"{folder}{pattern}", schema={"n": int})
    finally:
        closed.chmod(0o700)


def test_globs_find_what_they_name(tmp_path):
    for name in ("a.json", "b/c.json", "b/d/e.json", "b/_d/f.json", "b/.g.json", "b/h.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('{"n": 1}\n')
    (tmp_path / "b" / "loop").symlink_to(tmp_path / "b")

    def found(pattern):
        source = JsonSource(f"{tmp_path}/{pattern}", schema={"n": int})
        return source._between(None, None)[1]

    assert found("*.json") == ["a.json"]
    assert found("*/*.json") == ["b/c.json"]
    assert found("**/*.json") == ["a.json", "b/c.json", "b/d/e.json"]
    assert found("b/**") == ["c.json", "d/e.json", "h.txt"]
    assert found("*/d/[a-e].json") == ["b/d/e.json"]
    assert found("**/**/e.json") == ["b/d/e.json"]


# ---- Parquet -------------------------------------------------------------------------------------


@given(tables(schemas=schemas(tuple(SCALARS.values()))), st.integers(1, 9))
def test_statistics_are_those_that_arrow_finds(drawn, size):
    schema, table = drawn
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=size)
    metadata = pq.ParquetFile(file).metadata
    groups = footer_statistics(file)
    assert [g.rows for g in groups] == [
        metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)
    ]
    for number, group in enumerate(groups):
        for leaf, field in enumerate(schema):
            theirs = metadata.row_group(number).column(leaf).statistics
            ours = group.chunks[leaf]
            assert ours.nulls == (theirs and theirs.null_count)
            if theirs and field.type.name != "bool" and theirs.has_min_max:
                raw = theirs.min_raw, theirs.max_raw
                known = raw[0] <= raw[1]  # large unsigned numbers look like negative ones
                assert (ours.low, ours.high) == (raw if known else (None, None))


MANY_FOOTERS = """
import sys
from pathlib import Path
from headrace.connect.parquet import ParquetSource
from headrace.plan.errors import DataError
from headrace.plan.expressions import Binary, Column
from headrace.plan.literals import to_literal
from headrace.stage.blocks.validation import validated

path = Path(sys.argv[1])
good = path.read_bytes()
footer = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
source = ParquetSource(path)
predicate = Binary("<", Column("n"), to_literal(40))
read = refused = 0
for at in range(footer, len(good)):
    for value in {0, 255, good[at] ^ 1, good[at] ^ 4, (good[at] + 7) % 256} - {good[at]}:
        path.write_bytes(good[:at] + bytes([value]) + good[at + 1 :])
        for step in (lambda: source.maximum("n", "files", None), source.table):
            try:
                step()
                read += 1
            except DataError as error:
                assert str(path) in str(error), error
                refused += 1
        reader = source.open("files", None, None, ["n"], predicate)
        try:
            while not reader.poll(100, 0.0).ended:
                pass
        except DataError:
            pass
print(read, refused)
"""


def test_no_byte_of_a_footer_ends_the_process(tmp_path):
    """Arrow does for some of them, where it looks at statistics."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": range(99), "s": map(str, range(99))}), path, row_group_size=50)
    command = [sys.executable, "-c", MANY_FOOTERS, path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    read, refused = map(int, done.stdout.split())
    assert read > 100 and refused > 1000


def test_a_footer_without_sense_tells_nothing():
    for content in (b"", b"PAR1", b"x" * 50 + b"\xff\xff\xff\xff" + b"PAR1"):
        assert footer_statistics(io.BytesIO(content)) == []
    deep = bytes([0x1C]) * 100_000  # a struct in a struct in ...
    with pytest.raises(ValueError, match="without end"):
        parquet_footer.read_struct(deep, 0)


def test_footers_that_do_not_agree_with_themselves_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": range(9)}), path)
    source = ParquetSource(path)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *given, **named: iter(()))
    with pytest.raises(DataError, match=rf"{path} cannot be read as Parquet: row group 0 lacks 9"):
        source.table()


def test_memory_is_bounded_by_bytes(tmp_path, monkeypatch):
    """One value of 40 kB, stored once and repeated 50,000 times, is 2 GB of text."""
    path = tmp_path / "a.parquet"
    codes = pa.array([0] * 50_000, pa.int32())
    table = pa.table({"s": pa.DictionaryArray.from_arrays(codes, ["x" * 40_000])})
    pq.write_table(table, path)
    assert path.stat().st_size < 100_000
    pa.default_memory_pool().release_unused()
    before = pa.total_allocated_bytes()
    reader, most, rows = ParquetSource(path, schema={"s": str}).open("files"), 0, 0
    while not (batch := reader.poll(1 << 18, 0.0)).ended:
        rows += 0 if batch.rows is None else batch.rows.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
        del batch
    assert rows == 50_000 and most < 4 * files.DECODED_BYTES


def test_wide_rows_are_read_in_fewer_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "DECODED_BYTES", 8 * 10 * 100)
    table = pa.table({f"c{k}": range(1000) for k in range(10)})
    pq.write_table(table, tmp_path / "a.parquet")
    rows = ParquetSource(tmp_path).open("files").poll(1 << 18, 0.0).rows
    assert rows.num_rows == 100


def test_predicates_use_bounds_of_all_types(tmp_path):
    """A predicate that is true of one row finds it, whatever the bounds of its group are."""
    table = pa.table(
        {"s": ["b", "\U0001f600", "c"], "x": [1.5, -0.0, float("nan")], "b": [b"a", b"", b"\xff"]}
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1)
    source = ParquetSource(tmp_path)
    for name, values in table.to_pydict().items():
        for value in values:
            for op in ("==", "<=", ">="):
                predicate = Binary(op, Column(name), to_literal(value))
                found = read_all(source.open("files", predicate=predicate))[0]
                assert value != value or value in [row[name] for row in found]


@pytest.mark.parametrize("op", ["==", "!=", "<", "in"])
@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view(), pa.large_string()])
def test_predicates_over_texts_of_every_layout(tmp_path, kind, op):
    """Arrow has no kernels that compare views."""
    texts = ["a", None, "a text that is too long for a view", "x"]
    values = [text if text is None or kind != pa.binary_view() else text.encode() for text in texts]
    table = pa.table({"n": pa.array(values, kind)})
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    column, one = hr.col("n"), values[3]
    kept = {
        "==": (column == one, [values[3]]),
        "!=": (column != one, [values[0], values[2]]),
        "<": (column < one, [values[0], values[2]]),
        "in": (column.is_in([one]), [values[3]]),
    }
    predicate, expected = kept[op]
    out = hr.read.arrow(tmp_path).filter(predicate).write.collect()
    hr.run(out, engine="thread", compiled=False)
    assert out.result()["n"].to_pylist() == expected


def test_rows_whose_shape_makes_no_sense_are_refused():
    class Rows:
        """As an IPC message may say; Arrow itself makes none."""

        num_rows = -7
        schema = pa.schema({})
        columns = ()

    with pytest.raises(DataError, match="it has -7 rows"):
        validated(Rows(), "a message")
