"""Channels that bring nothing: windows wait for them, but not for ever."""

import pytest
from tests.running import assert_same
from tests.spark import pipelines
from tests.spark.shards import Engine

import headrace as hr
from headrace.connect.memory import MemorySource
from headrace.plan.connector import Batch
from headrace.spark.idling import companies


class Stalling(MemorySource):
    """Of its last channel only some rows are there, until a file appears."""

    def __init__(self, data, gate, first):
        super().__init__(data)
        self._gate, self._first = gate, first

    def open(self, channel, start=None, stop=None, columns=None, predicate=None):
        reader = super().open(channel, start, stop, columns, predicate)
        if channel != self.channels()[-1] or stop is not None:
            return reader
        return _Stalled(reader, self._gate, start, self._first - (start or 0))


class WithoutStatistics(Stalling):
    maximum = None  # so tasks tell the times


class _Stalled:
    def __init__(self, reader, gate, position, left):
        self._reader, self._gate, self._position, self._left = reader, gate, position, left

    def poll(self, max_rows, timeout):
        if not self._gate.exists():
            max_rows = min(max_rows, self._left)
            if not max_rows:
                return Batch(None, self._position)
        batch = self._reader.poll(max_rows, timeout)
        self._left -= 0 if batch.rows is None else batch.rows.num_rows
        self._position = batch.position
        return batch

    def close(self):
        self._reader.close()


ROWS, FIRST = 200, 50


def engine_over(source, folder, **more):
    folder.mkdir()
    counted = pipelines.counted(hr.read.source(source))
    return Engine([counted, counted.late()], folder, 40, 2, **more)


def go_on(engine, ends):
    """Batch after batch, as long as there are any."""
    while not engine.has_ended:
        end, tasks = engine.plan()
        if end is engine.offset:
            return
        ends.append((end, tasks))
        engine.commit(*engine.batch((end, tasks)))


@pytest.mark.parametrize("kind", [Stalling, WithoutStatistics])
def test_a_silent_channel(tmp_path, kind):
    gate = tmp_path / "gate"
    source = kind(pipelines.tables(ROWS, 2, disorder=20), gate, FIRST)
    waiting = engine_over(source, tmp_path / "waiting")
    go_on(waiting, [])
    held_back = max(row["window_start"] for row in waiting.rows[0])
    assert held_back <= FIRST * pipelines.SPAN // ROWS

    idling, ends = engine_over(source, tmp_path / "idling", idle=0.0), []
    go_on(idling, ends)
    assert max(row["window_start"] for row in idling.rows[0]) > held_back + 400
    assert idling.rows[1] == []
    gate.touch()  # what comes now is late, for the most part
    go_on(idling, ends)
    assert idling.has_ended
    users = set(pipelines.CITIES["user"])
    known = sum(name in users for t in source._tables for name in t["user"].to_pylist())
    assert sum(row["n"] for row in idling.rows[0]) + len(idling.rows[1]) == known
    assert len(idling.rows[1]) > 50

    again = engine_over(source, tmp_path / "again", idle=1e9)
    for each in ends:  # the offsets say it all
        again.commit(*again.batch(each))
    for one, other in zip(again.rows, idling.rows, strict=True):
        assert_same(one, other, ordered=False)


def test_sources_that_meet(tmp_path):
    """Only those wait for each other."""
    one, two, three = (hr.read.index(5, channels=2, name=name) for name in ("a", "b", "c"))
    both = one.union(two).with_watermark("index", 0).window(hr.tumbling(5)).agg(n=hr.count())
    alone = three.with_watermark("index", 0).window(hr.tumbling(5)).agg(n=hr.count())
    found = companies(Engine([both, alone], tmp_path, 10).shipment)
    assert found["a"] == found["b"] != found["c"]


def test_rows_that_come_all_the_time(tmp_path):
    """A batch does not wait until it is full."""
    engine = Engine([hr.read.index(rate=2000)], tmp_path, 4_000_000)
    for _ in range(2):
        engine.commit(*engine.batch())
    found = [row["index"] for row in engine.rows[0]]
    assert 0 < len(found) < 4_000_000
    assert found == list(range(len(found)))
