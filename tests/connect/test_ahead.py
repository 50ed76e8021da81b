"""What threads read ahead comes as if nobody had: the same rows, positions and errors."""

import gc
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.connect.data import read_all, tables

import headrace as hr
from headrace import col
from headrace.connect import files
from headrace.connect.ahead import Ahead
from headrace.connect.parquet import ParquetSource
from headrace.connect.parquet_format import ParquetRows
from headrace.plan.errors import DataError

WAIT = 60.0


def making(items, fails=False):
    def iterate():
        yield from items
        if fails:
            raise ValueError(items)

    return iterate


def taken(found):
    """What comes, and the error behind it."""
    items = []
    try:
        items.extend(found)
    except ValueError as error:
        return items, str(error)
    return items, None


def one_after_the_other(makings):
    for each in makings:
        yield from each()


def wait_until(is_so):
    for _ in range(round(WAIT / 0.01)):
        if is_so():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not come")


def threads():
    return [t for t in threading.enumerate() if t.name == "headrace-ahead"]


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 9), max_size=9), st.booleans()), max_size=6),
    st.integers(1, 4),
    st.integers(1, 12),
    st.integers(0, 7),
)
def test_as_one_after_the_other(lists, count, most, broken):
    """An error of an iterator, or of what makes the next one, comes at its place."""
    makings = [
        making(items, fails and place % 2 == 1) for place, (items, fails) in enumerate(lists)
    ]

    def made():
        for place, each in enumerate(makings):
            if place == broken:
                raise ValueError("not made")
            yield each

    ahead = Ahead(made(), threads=count, most=most, size=lambda item: item)
    assert taken(ahead) == taken(one_after_the_other(made()))
    ahead.close()


def test_memory_is_bounded_and_closing_ends_the_threads():
    given_out = [0, 0, 0, 0]

    def endless(place):
        while True:
            given_out[place] += 1
            yield place

    makings = iter([lambda place=place: endless(place) for place in range(4)])
    ahead = Ahead(makings, threads=2, most=10, size=lambda item: 1)
    wait_until(lambda: given_out[:2] == [11, 11])  # the last one of each waits for room
    assert [next(ahead) for _ in range(5)] == [0] * 5
    wait_until(lambda: given_out[0] == 16)
    assert given_out[1:] == [11, 0, 0]
    ahead.close()
    assert not threads()  # at once: whoever closes may be the last to do anything
    assert list(ahead) == []


def test_who_waits_is_told_that_it_is_closed():
    hold, found = threading.Event(), []

    def slow():
        hold.wait(WAIT)
        yield 1

    ahead = Ahead(iter([slow]), threads=2, most=10, size=lambda item: 1)
    waiting = threading.Thread(target=lambda: found.append(list(ahead)))
    waiting.start()
    ahead.close()
    waiting.join(WAIT)
    assert found == [[]]
    hold.set()
    wait_until(lambda: not threads())


# ---- files ---------------------------------------------------------------------------------------


def write(folder, parts, group):
    for number, part in enumerate(parts):
        pq.write_table(part, folder / f"part-{number}.parquet", row_group_size=group)
    return ParquetSource(folder)


def read_on(source, count, *ends, sizes=100):
    reader = source.open("files", *ends)
    reader.read_on(count)
    try:
        return read_all(reader, sizes)
    finally:
        reader.close()


@given(
    st.lists(tables(), min_size=1, max_size=3),
    st.integers(1, 12),
    st.integers(2, 4),
    st.integers(1, 20),
    st.data(),
)
def test_the_rows_and_positions_of_files(tmp_path_factory, drawn, group, count, most, data):
    parts = [table for schema, table in drawn if schema == drawn[0][0]]
    source = write(tmp_path_factory.mktemp("rows"), parts, group)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "DECODED_ROWS", most)
        rows, positions = read_all(source.open("files"), 1)
        found, others = read_on(source, count, sizes=1)
        assert (found, others[-1]) == (rows, positions[-1])
        assert {str(p) for _, p in others} >= {str(p) for n, p in positions if n < len(rows)}
        ends = [data.draw(st.sampled_from(positions)) for _ in range(2)]
        (low, start), (high, stop) = sorted(ends, key=lambda end: (end[0], end[1]["file"]))
        assert read_on(source, count, start, stop)[0] == rows[low:high]


def test_row_groups_are_read_by_several_threads(tmp_path, monkeypatch):
    """Two of them meet in the decoder: neither could go on alone."""
    monkeypatch.setattr(files, "DECODED_ROWS", 10)
    source = write(tmp_path, [pa.table({"n": range(40), "s": ["x"] * 40})], 10)
    both, real = threading.Barrier(2, timeout=WAIT), ParquetRows._decode

    def spy(self, selection, group):
        both.wait()
        return real(self, selection, group)

    monkeypatch.setattr(ParquetRows, "_decode", spy)
    found = hr.read.parquet(tmp_path).filter(col("n") >= 0).write.collect()
    hr.run(found, engine="node", workers=2, compiled=False)
    assert found.result()["n"].to_pylist() == list(range(40))
    wait_until(lambda: not threads())
    del source


def test_a_damaged_file_is_an_error_behind_the_rows_before_it(tmp_path):
    source = write(tmp_path, [pa.table({"n": [1, 2]}), pa.table({"n": [3]})], 2)
    (tmp_path / "part-1.parquet").write_bytes(b"PAR1")
    reader = source.open("files")
    reader.read_on(2)
    assert reader.poll(10, WAIT).rows.to_pydict() == {"n": [1, 2]}
    with pytest.raises(DataError, match=r"part-1.parquet cannot be read as Parquet"):
        reader.poll(10, WAIT)
    reader.close()


def test_files_are_closed_behind_their_last_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "DECODED_ROWS", 3)
    source = write(tmp_path, [pa.table({"n": range(9)})] * 3, 3)
    closed, real = [], ParquetRows.close

    def spy(self):
        closed.append(self.name)
        real(self)

    monkeypatch.setattr(ParquetRows, "close", spy)
    assert len(read_on(source, 2)[0]) == 27
    gc.collect()
    wait_until(lambda: not threads())
    assert sorted(closed) == [f"part-{number}.parquet" for number in range(3)]
