"""Columns that are read from the pages of Parquet files, against Arrow's reader."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.connect.data import read_all

from headrace.connect import files, parquet_pages
from headrace.connect.parquet import ParquetSource
from headrace.connect.parquet_files import ParquetContent
from headrace.plan.errors import DataError

KINDS = {"i": pa.int64(), "j": pa.int32(), "x": pa.float64(), "y": pa.float32()}
PLAIN = {"compression": "snappy", "use_dictionary": False}


@pytest.fixture(autouse=True)
def small_chunks_too(monkeypatch):
    monkeypatch.setattr(parquet_pages, "LEAST_BYTES", 0)


def numbers(rows, seed=0, nullable=True):
    random = np.random.default_rng(seed)
    columns = [pa.array(random.integers(0, 1000, rows)).cast(kind) for kind in KINDS.values()]
    fields = [pa.field(name, kind, nullable) for name, kind in KINDS.items()]
    return pa.table(columns, schema=pa.schema(fields))


def plain_in(path, table):
    content = ParquetContent(path, path.name)
    try:
        return set(content.plain_columns(0, table.schema.names))
    finally:
        content.close()


@given(
    rows=st.integers(1, 3000),
    seed=st.integers(0, 100),
    nullable=st.booleans(),
    group=st.integers(1, 3000),
    page=st.integers(1, 5000),
    version=st.sampled_from(["1.0", "2.0"]),
    pieces=st.integers(1, 700),
)
def test_the_same_rows(tmp_path_factory, rows, seed, nullable, group, page, version, pieces):
    table, path = numbers(rows, seed, nullable), tmp_path_factory.mktemp("pages") / "a.parquet"
    group = max(group, rows // 10)
    options = {"data_page_size": page, "data_page_version": version, "write_batch_size": 64}
    pq.write_table(table, path, row_group_size=group, **options, **PLAIN)
    assert plain_in(path, table) == set(KINDS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "DECODED_ROWS", pieces)
        found, _ = read_all(ParquetSource(path).open("files"), max_rows=pieces)
    assert found == table.to_pylist()


def test_beside_columns_that_arrow_reads(tmp_path):
    table = numbers(5000)
    table = table.append_column("s", pa.array([f"text {n % 7}" for n in range(5000)]))
    table = table.append_column("n", pa.array([None if n % 3 else n for n in range(5000)]))
    pq.write_table(table, tmp_path / "a.parquet", data_page_size=1000, **PLAIN)
    assert plain_in(tmp_path / "a.parquet", table) == set(KINDS)
    found, _ = read_all(ParquetSource(tmp_path).open("files"))
    assert found == table.to_pylist()


@pytest.mark.parametrize(
    ("column", "options"),
    [
        (pa.array([1, 2]), {"compression": "zstd"}),
        (pa.array([1, 2]), {"use_dictionary": True}),
        (pa.array([1, 2]), {"write_statistics": False}),
        (pa.array([1, 2]), {"column_encoding": {"c": "DELTA_BINARY_PACKED"}}),
        (pa.array([1, None]), {}),
        (pa.array([[1], [2]]), {}),
        (pa.array([1, 2], pa.uint32()), {}),
        (pa.array([1, 2], pa.timestamp("us")), {}),
        (pa.array([True, False]), {}),
    ],
)
def test_what_is_left_to_arrow(tmp_path, column, options):
    table = pa.table({"c": column})
    pq.write_table(table, tmp_path / "a.parquet", **{**PLAIN, **options})
    assert plain_in(tmp_path / "a.parquet", table) == set()


def test_small_chunks_are_left_to_arrow(tmp_path, monkeypatch):
    monkeypatch.undo()
    for rows, wanted in ((1000, set()), (300_000, set(KINDS))):
        pq.write_table(numbers(rows), tmp_path / "a.parquet", **PLAIN)
        assert plain_in(tmp_path / "a.parquet", numbers(0)) == wanted


@given(
    place=st.integers(0, 10**6), byte=st.integers(0, 255), version=st.sampled_from(["1.0", "2.0"])
)
def test_a_damaged_page_is_an_error_or_other_numbers(tmp_path_factory, place, byte, version):
    """There is no sum to check by, as with Arrow; but nothing breaks, and no row is lost."""
    path = tmp_path_factory.mktemp("damaged") / "a.parquet"
    table = numbers(300).select(["i"])
    pq.write_table(table, path, data_page_size=500, data_page_version=version, **PLAIN)
    chunk = pq.read_metadata(path).row_group(0).column(0)
    content = bytearray(path.read_bytes())
    content[chunk.data_page_offset + place % chunk.total_compressed_size] = byte
    path.write_bytes(content)
    try:
        found, _ = read_all(ParquetSource(path).open("files"))
    except DataError as error:
        assert "a.parquet cannot be read as Parquet: " in str(error)
    else:
        assert len(found) == 300


def test_a_page_that_ends_too_early(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(numbers(300).select(["i"]), path, **PLAIN)
    chunk = pq.read_metadata(path).row_group(0).column(0)
    content = path.read_bytes()[chunk.data_page_offset :]
    buffer = pa.py_buffer(content[: chunk.total_compressed_size - 10])
    column = parquet_pages.PlainColumn(buffer, pa.int64(), True, "a.parquet")
    with pytest.raises(DataError, match="a page is not what its header says"):
        column.take(300)
    with pytest.raises(DataError, match="it ends too early"):
        parquet_pages.PlainColumn(pa.py_buffer(b""), pa.int64(), True, "a.parquet").take(1)
