"""Batches of sources that end: cut evenly, without a small rest, counted ahead."""

import pytest
from tests.spark.shards import Engine

import headrace as hr
from headrace import col
from headrace.connect.memory import MemorySource
from headrace.plan.errors import Unreachable
from headrace.spark.ahead import Ahead, Beside


def planned(rows, folder, batch_rows, most_rows):
    """The rows of every task, batch after batch."""
    (folder / "job").mkdir()
    stream = hr.read.source(MemorySource({"n": list(range(rows))})).filter(col("n") >= 0)
    engine = Engine([stream], folder / "job", batch_rows, 1, most_rows=most_rows)
    planner, offset, batches = engine.reader._planning(), engine.offset, []
    while True:
        after = planner.next_offset(offset)
        if after == offset:
            break
        if planner._beside._thread is not None:
            planner._beside._thread.join()  # as if the batch took its time
        tasks = engine.reader.partitions(offset, after)
        ends = [(task.start or {"row": 0}, task.stop) for task in tasks]
        batches.append([_row(stop) - _row(start) for start, stop in ends])
        offset = after
    planner.close()
    return batches


def _row(position):
    return position["row"] if isinstance(position, dict) else position


@pytest.mark.parametrize("rows", [1, 999, 1000, 1400, 1600, 5000])
def test_no_row_is_lost_and_none_is_read_twice(rows, tmp_path):
    batches = planned(rows, tmp_path, 1000, 4000)
    assert sum(map(sum, batches)) == rows
    for batch in batches:
        if sum(batch) >= 1000:  # a full batch is cut for two tasks
            assert len(batch) == 2 and max(batch) - min(batch) <= sum(batch) / 10


def test_a_small_rest_goes_along(tmp_path):
    (only,) = planned(1400, tmp_path, 1000, 4000)
    assert sum(only) == 1400


def test_a_large_rest_does_not(tmp_path):
    first, *_ = planned(1600, tmp_path, 1000, 4000)
    assert 990 <= sum(first) <= 1000


def test_where_batches_do_not_grow_they_are_as_large_as_said(tmp_path):
    assert [sum(batch) for batch in planned(1400, tmp_path, 1000, 1000) if sum(batch)] == [
        1000,
        400,
    ]


class Failing:
    """A channel that cannot be reached at first."""

    def __init__(self):
        self._source = MemorySource({"n": list(range(10))})
        self.opened = 0

    def open(self, *asked):
        self.opened += 1
        reader = self._source.open(*asked)
        if self.opened == 1:
            reader.poll = self._fail
        return reader

    def _fail(self, most, wait):
        raise Unreachable("not now")


def test_what_fails_beside_is_left_to_who_goes_on():
    connector = Failing()
    beside = Beside()
    (channel,) = MemorySource({"n": [1]}).channels()
    ahead = Ahead(connector, channel, None)
    beside.begin([ahead], 5, 100)
    beside._thread.join()
    beside.pause()
    assert (connector.opened, ahead.rows) == (1, 0)
    while not ahead.ended:
        assert ahead.go_on(5, 0.0)
    assert (connector.opened, ahead.rows) == (2, 10)
