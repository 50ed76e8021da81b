"""Processing time: rows have the time at which they were read, by a clock that tests move."""

from __future__ import annotations

import pytest
from tests.node.fed import SECONDS, Fed, reached
from tests.running import assert_same
from tests.spark.shards import Engine
from tests.spark.test_idle import Stalling, go_on

import headrace as hr
from headrace import PipelineError
from headrace.connect.arrival import ArrivalSource
from headrace.connect.memory import MemorySource
from headrace.testing.clock import VirtualClock

SECOND = 1_000_000
ENGINES = [{"engine": "thread"}, *({"engine": "node", "workers": n} for n in (1, 2))]
engines = pytest.mark.parametrize("engine", ENGINES, ids=lambda e: str(list(e.values())))


def started(stream, engine):
    """A job, and the rows that it has given so far."""
    found = []
    output = stream.write.callback(lambda batch: found.extend(batch.to_pylist()))
    return hr.start(output, compiled=False, **engine), found


@engines
def test_windows_end_by_the_clock(engine):
    """Also where no row comes any more."""
    source, clock = Fed("a", "b"), VirtualClock(100.0)
    rows = hr.read.source(source).with_arrival_time(clock=clock).key_by("t")
    job, found = started(rows.window(hr.tumbling("10s")).agg(n=hr.count()), engine)
    source.give("a", 1, 2, 1)
    source.give("b", 1)
    assert reached(lambda: job.progress().rows_in == 4) and not found
    clock.advance(9.0)
    source.give("a", 2)
    assert reached(lambda: job.progress().rows_in == 5)
    clock.advance(1.5)
    assert reached(lambda: len(found) == 2)
    assert [(row["t"], row["window_start"].second, row["n"]) for row in found] == [
        (1, 40, 3),
        (2, 40, 2),
    ]
    source.give("b", 7)
    assert reached(lambda: job.progress().rows_in == 6)
    source.end()
    assert job.await_termination(SECONDS) and job.status == "finished"
    assert [(row["t"], row["window_start"].second) for row in found[2:]] == [(7, 50)]
    assert job.progress().late_rows == 0


@engines
def test_timers_go_by_the_clock(engine):
    def seen(state, arrived):
        state.due = arrived + 5_000_000

    def silent(state, arrived):
        yield arrived

    source, clock = Fed("a"), VirtualClock()
    rows = hr.read.source(source).with_arrival_time(clock=clock).key_by("t")
    made = rows.process(
        seen, state={"due": hr.optional(int)}, output={"at": int}, timers={"due": silent}
    )
    job, found = started(made, engine)
    source.give("a", 3)
    assert reached(lambda: job.progress().rows_in == 1)
    clock.advance(4.0)
    source.give("a", 4)
    assert reached(lambda: job.progress().rows_in == 2) and not found
    clock.advance(4.0)
    assert reached(lambda: found)
    assert found == [{"t": 3, "at": 5 * SECOND}]
    assert job.cancel(SECONDS)


def test_joins_go_by_the_clock():
    clock = VirtualClock(10.0)
    left, right = (
        hr.read.memory({"k": [1, 2], name: [0, 0]}).with_arrival_time(f"{name}_at", clock=clock)
        for name in ("a", "b")
    )
    made = left.interval_join(right, "k", after="1s")
    (first, second) = made.head(5).to_pylist()
    assert first["a_at"] == first["b_at"] and (first["k"], second["k"]) == (1, 2)


def test_a_range_that_is_read_again_has_its_times():
    clock = VirtualClock(5.0)
    source = ArrivalSource(MemorySource({"n": [1, 2, 3]}), "came", SECOND, clock)
    reader, found, places = source.open("0"), [], [None]
    for _ in range(3):
        batch = reader.poll(1, 0.0)
        found.append(batch.rows.to_pylist())
        places.append(batch.position)
        clock.advance(2.0)
    assert [rows[0]["came"].second for rows in found] == [5, 7, 9]
    for one, other, rows in zip(places, places[1:], found):
        again = source.open("0", one, other).poll(10, 0.0)
        assert (again.rows.to_pylist(), again.position) == (rows, other)
        assert source.maximum("came", "0", other) == other["at"]
    later = {**places[2], "at": 8 * SECOND}  # nothing came
    passed = source.open("0", places[2], later).poll(10, 0.0)
    assert (passed.rows, passed.reached, passed.position) == (None, 8 * SECOND, later)


def test_time_does_not_go_back():
    """A clock that was set back before a restart stands still for a while."""
    source = ArrivalSource(MemorySource({"n": [1]}), "came", SECOND, VirtualClock(5.0))
    start = {"at": 50 * SECOND, "position": 0}
    assert source.open("0", start).poll(10, 0.0).position["at"] == 50 * SECOND


class Shown:
    """A clock that shows what stands in a file."""

    def __init__(self, path):
        self._path = path

    def now(self):
        return float(self._path.read_text())

    def wait(self, until, timeout, stop):
        stop.wait(timeout)


def test_on_spark_the_offsets_know_the_times(tmp_path):
    """Batches without rows let time go on, and a batch that is run again gives the same rows."""
    hand, gate = tmp_path / "hand", tmp_path / "gate"
    source = Stalling({"k": [1, 2, 1, 2]}, gate, 3)

    def engine(name, clock):
        (tmp_path / name).mkdir()
        rows = hr.read.source(source).with_arrival_time(clock=clock).key_by("k")
        counted = rows.window(hr.tumbling("10s")).agg(n=hr.count())
        return Engine([counted], tmp_path / name, 2, 2)

    hand.write_text("100")
    made, ends = engine("made", Shown(hand)), []
    go_on(made, ends)
    assert len(ends) == 2 and made.rows == [[]]
    hand.write_text("100.5")
    assert made.plan()[0] is made.offset  # not yet
    hand.write_text("111")
    go_on(made, ends)
    expected = [{"k": k, "window_start": 100 * SECOND, "n": n} for k, n in ((1, 2), (2, 1))]
    assert_same(made.rows[0], expected, ordered=False)
    hand.write_text("120")
    gate.touch()
    go_on(made, ends)
    assert made.has_ended
    assert made.rows[0][2:] == [{"k": 2, "window_start": 120 * SECOND, "n": 1}]

    hand.write_text("999")
    again = engine("again", Shown(hand))
    for each in ends:
        again.commit(*again.batch(each))
    assert_same(again.rows[0], made.rows[0], ordered=False)


def test_mistakes_say_what_to_do():
    rows = hr.read.memory({"x": [1]})
    for make, said in (
        (lambda: rows.filter(hr.col("x") > 0).with_arrival_time(), "right behind hr.read"),
        (lambda: rows.with_arrival_time("x"), "there is a column 'x'"),
        (lambda: rows.with_arrival_time(""), "is not the column of arrival"),
        (lambda: rows.with_arrival_time(every="0s"), "every '0s' is not positive"),
        (lambda: rows.with_arrival_time().with_watermark("arrived", "1s"), "declared already"),
    ):
        with pytest.raises(PipelineError, match=said):
            make()
