"""Watched folders: files are read once, as they come; positions mean the same ones for ever."""

import json
import os
import pickle
import threading
import time

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.connect.data import read_all
from tests.connect.file_formats import KINDS, numbers

import headrace as hr
from headrace.connect import watch as watching
from headrace.connect.file_log import _checksum
from headrace.connect.json_lines import JsonFormat
from headrace.connect.parquet_format import ParquetFormat
from headrace.connect.parquet_sink import ParquetSink
from headrace.connect.watch import LOG, Watch, WatchedSource
from headrace.plan.connector import Source, is_replayable
from headrace.plan.errors import DataError
from headrace.plan.schema import Schema
from headrace.testing import VirtualClock

SCHEMA = {"n": int}
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def watched(folder, kind, clock=None, **options):
    how = Watch(clock=clock or VirtualClock(), **options)
    return WatchedSource(folder, kind.form(), schema=SCHEMA, watch=how)


@every_kind
def test_files_are_read_as_they_appear_in_the_order_of_discovery(tmp_path, kind):
    clock = VirtualClock()
    source = watched(tmp_path, kind, clock)
    assert isinstance(source, Source) and is_replayable(source)
    reader = source.open("files")
    assert numbers(reader) == ([], None)
    kind.add(tmp_path, 5, [50, 51])
    kind.add(tmp_path, 7, [70])
    assert numbers(reader)[0] == []  # it is not yet time to look again
    clock.advance(1.0)
    found, place = numbers(reader)
    assert found == [50, 51, 70] and place["file"] is None
    kind.add(tmp_path, 1, [10])  # by its name it would come first
    clock.advance(1.0)
    assert numbers(reader)[0] == [10]
    clock.advance(1.0)
    assert numbers(reader)[0] == []
    # Who comes later reads in the same order.
    assert numbers(watched(tmp_path, kind).open("files"))[0] == [50, 51, 70, 10]


@every_kind
def test_a_restart_reads_the_same_files_whatever_has_arrived_since(tmp_path, kind):
    for number in (3, 4):
        kind.add(tmp_path, number, [number * 10, number * 10 + 1])
    first = watched(tmp_path, kind).open("files")
    start, _, middle = (first.poll(1, 0.05).position for _ in range(3))
    assert (start["row"], middle["row"]) == (1, 1)
    for number in (0, 9):
        kind.add(tmp_path, number, [number * 10])
    # Another process, later: positions came through JSON.
    again = WatchedSource(tmp_path, kind.form(), schema=SCHEMA)
    again.latest()
    again = pickle.loads(pickle.dumps(again))
    start, middle = json.loads(json.dumps([start, middle]))
    assert [r["n"] for r in read_all(again.open("files", None, start))[0]] == [30]
    rows, positions = read_all(again.open("files", start, middle))
    assert [r["n"] for r in rows] == [31, 40] and positions[-1][1] == middle
    assert numbers(again.open("files", middle))[0] == [41, 0, 90]


@given(
    rounds=st.lists(st.lists(st.integers(0, 4), max_size=3), min_size=1, max_size=4),
    size=st.integers(1, 6),
    data=st.data(),
)
def test_any_range_can_be_read_again(tmp_path_factory, rounds, size, data):
    folder, kind = tmp_path_factory.mktemp("watched"), KINDS[0]
    clock = VirtualClock()
    reader = watched(folder, kind, clock).open("files")
    rows, places, number = [], [(0, None)], 0
    names = data.draw(st.permutations(range(100, 100 + sum(map(len, rounds)))))
    for files in rounds:
        for count in files:
            kind.add(folder, names[number], [number * 10 + i for i in range(count)])
            number += 1
        clock.advance(1.0)
        while (batch := reader.poll(size, 0.0)).rows is not None:
            rows += batch.rows["n"].to_pylist()
            places.append((len(rows), batch.position))
        places.append((len(rows), batch.position))
    source = watched(folder, kind)
    ends = sorted(data.draw(st.integers(0, len(places) - 1)) for _ in range(2))
    (low, start), (high, stop) = (places[end] for end in ends)
    if stop is None:
        assert low == high == 0
        return
    again, _ = read_all(source.open("files", start, stop), data.draw(st.integers(1, 6)))
    assert [row["n"] for row in again] == rows[low:high]
    assert source.latest()["files"]["file"] is None
    assert len(json.dumps(stop)) < 120


@every_kind
def test_half_written_files_are_read_when_they_are_whole(tmp_path, kind):
    clock = VirtualClock()
    whole = kind.add(tmp_path, 0, range(20))
    data = whole.read_bytes()
    whole.unlink()
    reader = watched(tmp_path, kind, clock, patience=60.0).open("files")
    for end in [0, 1, 9, len(data) // 2, len(data) - 9, len(data) - 1]:
        if kind.name in ("json", "csv") and data[:end][-1:] in (b"", b"\n"):
            continue  # such a file could be whole
        whole.write_bytes(data[:end])
        clock.advance(50.0)  # it grows, so nobody loses patience
        assert numbers(reader)[0] == [], end
    whole.write_bytes(data)
    clock.advance(1.0)
    assert numbers(reader)[0] == list(range(20))


@every_kind
def test_a_file_that_stays_half_written_is_reported_and_can_be_moved_away(tmp_path, kind):
    clock = VirtualClock()
    kind.add(tmp_path, 0, [1])
    half = kind.add(tmp_path, 1, [2])
    half.write_bytes(half.read_bytes()[:-1])
    source = watched(tmp_path, kind, clock, patience=60.0)
    reader = source.open("files")
    found, place = numbers(reader)
    assert found == [1]
    clock.advance(61.0)
    with pytest.raises(DataError, match=r"part-1.* lacks .*, and has not grown for 61 seconds"):
        reader.poll(1, 0.0)
    half.rename(tmp_path / "_half")
    kind.add(tmp_path, 2, [3])
    assert numbers(source.open("files", place))[0] == [3]


@every_kind
def test_names_of_files_that_others_write_are_left_out(tmp_path, kind):
    for name in (".x", "_x", "_staging/x", ".tmp/x"):
        path = tmp_path / f"{name}{kind.ending}"
        path.parent.mkdir(exist_ok=True)
        kind.add(tmp_path, 0, [9]).rename(path)
    for name in (f"x{kind.ending}.tmp", f"x{kind.ending}.part"):
        kind.add(tmp_path, 0, [9]).rename(tmp_path / name)
    (tmp_path / "below").mkdir()
    kind.add(tmp_path / "below", 0, [1])
    assert numbers(watched(tmp_path, kind).open("files"))[0] == [1]


def test_a_file_of_another_schema_is_named_before_it_is_in_the_way(tmp_path):
    kind = KINDS[0]
    kind.add(tmp_path, 0, [1])
    source = watched(tmp_path, kind, VirtualClock())
    reader = source.open("files")
    place = numbers(reader)[1]
    for other, what in [
        ({"n": ["x"]}, r"part-1.parquet: column 'n' is string, and should be int64"),
        ({"m": [1]}, r"part-1.parquet has no column 'n' \(int64\)"),
    ]:
        wrong = kind.add(tmp_path, 1, pa.table(other))
        with pytest.raises(DataError, match=what):
            source.latest()
    wrong.unlink()
    kind.add(tmp_path, 2, [2])
    assert numbers(watched(tmp_path, kind).open("files", place))[0] == [2]


@every_kind
def test_files_that_changed_or_are_gone(tmp_path, kind):
    paths = [kind.add(tmp_path, number, [number]) for number in range(3)]
    source = watched(tmp_path, kind)
    reader = source.open("files")
    places = [reader.poll(1, 0.05).position for _ in range(3)]
    paths[0].unlink()  # was read; nobody needs it any more
    assert numbers(watched(tmp_path, kind).open("files"))[0] == [1, 2]
    with pytest.raises(DataError, match=r"part-0.* is gone, and was to be read"):
        numbers(watched(tmp_path, kind).open("files", places[0]))
    with open(paths[2], "ab") as file:
        file.write(b'{"n": 5}\n')
    with pytest.raises(DataError, match=r"part-2.* had \d+ bytes when it was found, and has \d+"):
        numbers(watched(tmp_path, kind).open("files", places[1]))


def test_behind_the_last_file_it_may_be_removed(tmp_path):
    kind = KINDS[3]
    path = kind.add(tmp_path, 0, [1])
    place = numbers(watched(tmp_path, kind).open("files"))[1]
    path.unlink()
    kind.add(tmp_path, 1, [2])
    assert numbers(watched(tmp_path, kind).open("files", place))[0] == [2]


def test_the_log_is_what_positions_stand_on(tmp_path):
    kind, log = KINDS[0], tmp_path / LOG
    kind.add(tmp_path, 0, [1])
    reader = watched(tmp_path, kind).open("files")
    place = reader.poll(1, 0.0).position
    lines = log.read_bytes().splitlines(keepends=True)
    assert json.loads(lines[0]) == {"log": place["log"]}
    assert place["at"] == len(lines[0]) and place["file"] == json.loads(lines[1])[0]
    log.write_bytes(b"".join(lines) + b'["half a li')  # a process died here
    kind.add(tmp_path, 1, [2])
    assert numbers(watched(tmp_path, kind).open("files", place))[0] == [2]
    assert len(log.read_bytes().splitlines()) == 3
    log.unlink()
    with pytest.raises(DataError, match=r"the position is one of log \w+, and .* is log \w+"):
        watched(tmp_path, kind).open("files", place)
    with pytest.raises(DataError, match="is not a position in a watched folder"):
        watched(tmp_path, kind).open("files", {"file": "part-0.parquet", "row": 1})
    log.write_bytes(b"something else\n")
    with pytest.raises(DataError, match="is not the log of a watched folder; name another"):
        watched(tmp_path, kind).open("files")


def test_the_log_may_lie_elsewhere(tmp_path):
    kind, folder = KINDS[0], tmp_path / "rows"
    folder.mkdir()
    kind.add(folder, 0, [1])
    source = watched(folder, kind, log=tmp_path / "elsewhere.log")
    assert numbers(source.open("files"))[0] == [1]
    assert [path.name for path in folder.iterdir()] == [kind.file(0)]
    with pytest.raises(DataError, match=r"cannot be written: .*; name another with watch=read.Wat"):
        watched(folder, kind, log=tmp_path / "no folder" / "log").latest()


def test_several_who_watch_share_one_order(tmp_path):
    kind = KINDS[3]
    for number in range(10, 50):
        kind.add(tmp_path, number, [number])
    found = []

    def watch():
        found.append(numbers(watched(tmp_path, kind).open("files"))[0])

    threads = [threading.Thread(target=watch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [list(range(10, 50))] * 4
    assert len((tmp_path / LOG).read_text().splitlines()) == 41


def test_many_files_are_taken_some_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "MOST_FILES", 3)
    kind = KINDS[3]
    for number in range(8):
        kind.add(tmp_path, number, [number])
    source = watched(tmp_path, kind)
    reader = source.open("files")
    assert reader.poll(1, 0.0).rows["n"].to_pylist() == [0]
    assert len((tmp_path / LOG).read_text().splitlines()) == 4
    assert numbers(reader)[0] == list(range(1, 8))
    assert source.latest() == {"files": numbers(source.open("files"))[1]}


def test_a_poll_that_waits_comes_back_when_it_is_closed(tmp_path):
    source = WatchedSource(tmp_path, JsonFormat(), schema=SCHEMA, watch=Watch(interval=30.0))
    reader = source.open("files")
    assert reader.poll(1, 0.0).rows is None
    threading.Timer(0.05, reader.close).start()
    began = time.monotonic()
    batch = reader.poll(1, 20.0)
    assert time.monotonic() - began < 10
    assert (batch.rows, batch.ended) == (None, False)


def test_what_a_sink_commits_is_read_once(tmp_path):
    schema = Schema.of(SCHEMA)
    sink = ParquetSink(tmp_path)
    sink.open(schema)
    clock = VirtualClock()
    reader = watched(tmp_path, KINDS[0], clock).open("files")
    for batch in ("b", "a"):
        rows = pa.record_batch([pa.array([ord(batch)])], schema=schema.to_arrow())
        messages = [sink.write(rows, batch, attempt) for attempt in ("0", "1")]
        clock.advance(1.0)
        assert numbers(reader)[0] == []
        sink.commit(batch, messages)
        clock.advance(1.0)
        assert numbers(reader)[0] == [ord(batch)] * 2


def test_what_can_be_watched(tmp_path):
    with pytest.raises(DataError, match="is not a folder, and only folders can be watched"):
        WatchedSource(tmp_path / "x", ParquetFormat(), schema=SCHEMA)
    with pytest.raises(DataError, match=r"there are no parquet files in .*; give schema="):
        WatchedSource(tmp_path, ParquetFormat())
    (tmp_path / "a.parquet").write_bytes(b"half")
    KINDS[0].add(tmp_path, 1, [1])
    source = WatchedSource(tmp_path, ParquetFormat())
    assert source.schema() == Schema.of(SCHEMA)
    assert str(source) == f"parquet {tmp_path}, watched"
    with pytest.raises(DataError, match="no channel 'x'"):
        source.open("x")
    with pytest.raises(DataError, match="interval and patience are seconds"):
        Watch(interval=0.0)
    with pytest.raises(hr.PipelineError, match=r"watch='x': use True, or read.Watch"):
        hr.read.parquet(tmp_path, watch="x")


@pytest.mark.parametrize("content", [b"", b"not to be lost", b'{"log": "'])
def test_the_log_is_never_a_link(tmp_path, content):
    """A link in a folder that others can write must not make us overwrite what it leads to."""
    kind, folder, other = KINDS[3], tmp_path / "rows", tmp_path / "other"
    folder.mkdir()
    other.write_bytes(content)
    (folder / LOG).symlink_to(other)
    kind.add(folder, 0, [1])
    with pytest.raises(DataError, match=rf"{LOG}.* cannot be written: it is a link; name another"):
        watched(folder, kind).latest()
    assert other.read_bytes() == content


@pytest.mark.parametrize("content", [b"not to be lost", b"[1, 2", b"{"])
def test_what_is_no_log_is_not_overwritten(tmp_path, content):
    (tmp_path / LOG).write_bytes(content)
    KINDS[3].add(tmp_path, 0, [1])
    if content == b"{":  # a process may have died behind it
        assert numbers(watched(tmp_path, KINDS[3]).open("files"))[0] == [1]
        return
    with pytest.raises(DataError, match="is not the log of a watched folder"):
        watched(tmp_path, KINDS[3]).latest()
    assert (tmp_path / LOG).read_bytes() == content


def test_a_pipe_is_no_log(tmp_path):
    os.mkfifo(tmp_path / LOG)
    with pytest.raises(DataError, match="is not the log of a watched folder"):
        watched(tmp_path, KINDS[3]).latest()


@pytest.mark.parametrize(
    "entry",
    [["../secret.json", 9], ["a/../../b.json", 9], ["/etc/passwd", 9], ["", 9], ["a//b", 9]],
)
def test_the_log_names_nothing_outside_of_the_folder(tmp_path, entry):
    kind, folder = KINDS[3], tmp_path / "rows"
    folder.mkdir()
    (tmp_path / "secret.json").write_text('{"n": 7}\n')
    kind.add(folder, 0, [1])
    source = watched(folder, kind)
    place = source.latest()["files"]
    with (folder / LOG).open("a") as log:
        log.write(json.dumps([*entry, _checksum(*entry)]) + "\n")
    with pytest.raises(DataError, match="names a file outside of the folder at byte"):
        numbers(source.open("files", place))
    with pytest.raises(DataError, match="names a file outside of the folder at byte"):
        watched(folder, kind).latest()


@pytest.mark.parametrize("line", ["[]", "{}", '["a.json", "9"]', '["a.json", -1]', "[1, 2]", "7"])
def test_lines_of_the_log_that_make_no_sense(tmp_path, line):
    source = watched(tmp_path, KINDS[3])
    source.latest()
    with (tmp_path / LOG).open("a") as log:
        log.write(f"{line}\n")
    with pytest.raises(DataError, match="has no file at byte"):
        source.latest()
