"""The gate: planners and batches ask, places come back, and nobody waits for one who is gone."""

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from itertools import groupby
from types import SimpleNamespace

import pytest
from tests.spark.small_spark import SmallSpark, on_small_spark

import headrace as hr
from headrace import col
from headrace.connect.memory import MemorySource
from headrace.spark.gate import Gatekeeper
from headrace.spark.permits import Permits

SECONDS = 120.0


class Asking(threading.Thread):
    """A planner that asks once."""

    def __init__(self, place, pending=10, waited=0.0):
        super().__init__(daemon=True)
        self.stopped = threading.Event()
        self.permits = Permits(place.address, self.stopped.is_set)
        self._said = pending, waited
        self.permit = "none yet"
        self.start()

    def run(self):
        self.permit = self.permits.ask(*self._said)


def until(condition):
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.005)


def states(keeper):
    return {line.query: line.state for line in keeper.standings()}


@pytest.fixture
def keeper():
    made = Gatekeeper(running=1)
    yield made
    made.close()


def nothing():
    return SimpleNamespace(rows_in=0, rows_out=0, state_bytes=0)


def test_planners_wait_for_their_turn(keeper):
    low, other, high = (
        keeper.enter(name, float(name == "high"), 2) for name in ("low", "other", "high")
    )
    first = Asking(low)
    first.join(SECONDS)
    assert first.permit.rows is None and states(keeper) == {
        "low": "runs",
        "other": "idle",
        "high": "idle",
    }
    second = Asking(other)
    until(lambda: states(keeper)["other"] == "waits")
    counted = iter([nothing(), SimpleNamespace(rows_in=5, rows_out=1, state_bytes=8)])
    with low.batch(lambda: next(counted)):  # the one that its planner has asked for
        third = Asking(high)  # a less important query does not hold it up
        third.join(SECONDS)
        assert states(keeper) == {"low": "runs", "other": "waits", "high": "runs"}
    assert states(keeper)["other"] == "waits"  # as the other one is more important
    third.permits.give_back()
    second.join(SECONDS)
    assert states(keeper) == {"low": "idle", "other": "runs", "high": "idle"}


def test_a_batch_that_no_planner_asked_for_asks_itself(keeper):
    one, other = keeper.enter("one", 0.0, 2), keeper.enter("other", 0.0, 2)
    began = threading.Event()

    def run():
        with other.batch(nothing):
            began.set()

    with one.batch(nothing):
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        until(lambda: states(keeper)["other"] == "waits")
        assert not began.is_set()
    assert began.wait(SECONDS)
    thread.join(SECONDS)


@pytest.mark.parametrize("end", ["withdraw", "planner", "query", "failure"])
def test_a_place_comes_back(keeper, end):
    one, other = keeper.enter("one", 0.0, 2), keeper.enter("other", 0.0, 2)
    first = Asking(one)
    first.join(SECONDS)
    second = Asking(other)
    until(lambda: states(keeper)["other"] == "waits")
    if end == "withdraw":
        first.permits.give_back()
    elif end == "planner":
        first.permits.close()
    elif end == "query":
        one.leave()
    else:
        with pytest.raises(ZeroDivisionError), one.batch(nothing):
            1 / 0
    second.join(SECONDS)
    assert second.permit.rows is None and states(keeper)["other"] == "runs"


def test_who_waits_is_let_go_when_the_query_stops_or_ends(keeper):
    one, other, last = (keeper.enter(name, 0.0, 2) for name in ("one", "other", "last"))
    first = Asking(one)
    first.join(SECONDS)
    stopping, ending = Asking(other), Asking(last)
    until(lambda: list(states(keeper).values()).count("waits") == 2)
    stopping.stopped.set()
    stopping.join(SECONDS)
    assert stopping.permit is None  # nothing more is read
    last.leave()
    ending.join(SECONDS)
    assert ending.permit.rows is None  # without a gate, nobody waits
    until(lambda: states(keeper) == {"one": "runs", "other": "idle"})  # its thread hears of it


def test_an_answer_to_an_earlier_question_does_not_count(keeper):
    one, other = keeper.enter("one", 0.0, 2), keeper.enter("other", 0.0, 2)
    first = Asking(other)
    first.join(SECONDS)
    asking = Asking(one)
    until(lambda: states(keeper)["one"] == "waits")
    asking.stopped.set()
    asking.join(SECONDS)
    asking.stopped.clear()
    other.leave()  # the place is free: had it waited on, it would be told now
    assert asking.permits.ask(1, 0.0).rows is None
    assert states(keeper) == {"one": "runs"}


def test_a_closed_gate_holds_nobody_up(keeper):
    one, other = keeper.enter("one", 0.0, 2), keeper.enter("other", 0.0, 2)
    first = Asking(one)
    first.join(SECONDS)
    waiting = Asking(other)
    until(lambda: states(keeper)["other"] == "waits")
    keeper.close()
    waiting.join(SECONDS)
    assert waiting.permit.rows is None
    with other.batch(nothing):
        pass
    with pytest.raises(hr.HeadraceError, match="this gate is closed"):
        keeper.enter("another", 0.0, 2)


DRIVER = """
from headrace.spark.gate import Gatekeeper
from headrace.spark.permits import Permits
keeper = Gatekeeper(running=1)
one, other = keeper.enter("one", 0.0, 2), keeper.enter("other", 0.0, 2)
permits = Permits(one.address, lambda: False)
permits.ask(1, 0.0)
print(other.address, flush=True)
input()
"""


def test_a_driver_that_dies_holds_nobody_up():
    command = [sys.executable, "-c", DRIVER]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as driver:
        place = SimpleNamespace(address=driver.stdout.readline().strip())
        waiting = Asking(place)
        waiting.join(0.5)
        assert waiting.is_alive()
        driver.send_signal(signal.SIGKILL)
        waiting.join(SECONDS)
    assert waiting.permit.rows is None
    Asking(place).join(SECONDS)  # nor whoever comes later


# ---- planning ----------------------------------------------------------------------------------


class Always:
    """Allows batches of so many rows; says what it was told."""

    def __init__(self, *rows):
        self._rows, self.told, self.backs = iter(rows), [], 0

    def ask(self, pending, waited):
        self.told.append(pending)
        return SimpleNamespace(rows=next(self._rows))

    def used(self):
        self.backs -= 1

    def give_back(self):
        self.backs += 1


@pytest.mark.parametrize("kind", ["numbered", "read"])
def test_a_planner_asks_before_it_fixes_the_range(kind, tmp_path):
    from tests.spark.shards import Engine

    connector = MemorySource({"n": list(range(100))})
    if kind == "numbered":
        connector.first = lambda: {"0": 0}  # as Kafka has it: positions are numbers
    source = hr.read.source(connector)
    (tmp_path / "job").mkdir()
    engine = Engine([source.filter(col("n") >= 0)], tmp_path / "job", 1000, 1)
    planner = engine.reader._planning()
    planner._permits = permits = Always(30, 50, None)
    sizes, offset = [], engine.offset
    while True:
        after = planner.next_offset(offset)
        if after == offset:
            break
        sizes.append(planner._planned_rows)
        offset = after
    assert [size for size in sizes if size] == [30, 50, 20]
    assert permits.told == ([100, 70, 20] if kind == "numbered" else [1, 30, 50])
    assert planner._backlog.waited() == 0.0


# ---- jobs --------------------------------------------------------------------------------------


def rows_of(count, start=0):
    return hr.read.memory({"n": list(range(start, start + count))}, name="numbers")


def waiting_at(gate):
    return sum(line.state == "waits" for line in gate.standings())


def started(output, gate, **more):
    more = {"batch_rows": 10, "session": SmallSpark(), "compiled": False, **more}
    return hr.start(output, engine="spark", gate=gate, **more)


def test_jobs_share_a_gate():
    """One place for queries of each priority: never two at once, and every row arrives once."""
    running, most, begun = [], [], []

    def seen(name):
        def see(batch):
            running.append(name)
            most.append(max(Counter(k % 2 for k in list(running)).values()))
            begun.append(name)
            time.sleep(0.002)
            running.remove(name)

        return see

    with on_small_spark(), hr.Gate(running=1, patience="1h") as gate:
        outputs = [rows_of(100, 100 * k) for k in range(4)]
        blocker = gate._keeper.enter("blocker", 2.0, 2)
        with blocker.batch(nothing):  # all of them wait before one begins
            jobs = [
                started(rows.write.callback(seen(k)), gate, priority=k % 2)
                for k, rows in enumerate(outputs)
            ]
            until(lambda: waiting_at(gate) == 4)
            assert "in_turns; 1 may run: blocker" in " ".join(gate.table().split())
        blocker.leave()
        assert all(job.await_termination(SECONDS) for job in jobs)
        assert [job.progress().rows_in for job in jobs] == [100] * 4
        assert "gate: policy 'in_turns', 1 at once" in jobs[0].explain()
        with pytest.raises(hr.HeadraceError, match='run the pipeline with engine="node"'):
            jobs[0].profile()
        assert gate.standings() == []
    assert max(most) == 1 and begun[0] in (1, 3)
    assert sorted(begun) == sorted([k for k in range(4) for _ in range(begun.count(k))])
    assert len(list(groupby(begun))) > 4  # they take turns


def test_a_job_that_fails_or_is_cancelled_gives_its_place_back():
    def fail(batch):
        raise ZeroDivisionError("no good")

    with on_small_spark(), hr.Gate(running=1) as gate:
        failing = started(rows_of(50).write.callback(fail), gate)
        with pytest.raises(ZeroDivisionError):
            failing.await_termination(SECONDS)
        hold = gate._keeper.enter("hold", 9.0, 2)
        with hold.batch(nothing):
            waiting = started(rows_of(50).write.collect(), gate)
            draining = started(rows_of(50).write.collect(), gate)
            until(lambda: waiting_at(gate) == 2)
            assert waiting.cancel(SECONDS) and waiting.status == "cancelled"
            assert draining.stop(timeout=SECONDS) and draining.status == "stopped"
        hold.leave()
        collected = rows_of(50).write.collect()
        assert started(collected, gate).await_termination(SECONDS)
        assert collected.result()["n"].to_pylist() == list(range(50))


def test_a_gate_is_closed_while_jobs_run():
    gate = hr.Gate(running=1)
    with on_small_spark():
        hold = gate._keeper.enter("hold", 9.0, 2)
        with hold.batch(nothing):
            collected = rows_of(50).write.collect()
            job = started(collected, gate)
            until(lambda: "waits" in states(gate._keeper).values())
            gate.close()
        assert job.await_termination(SECONDS)
    assert collected.result()["n"].to_pylist() == list(range(50))


# ---- on Spark itself ---------------------------------------------------------------------------


def test_queries_of_a_session_share_a_gate(session):
    """Our sources ask in their planner, a DataFrame of Spark's own in foreachBatch."""
    frame = session.range(0, 500, numPartitions=2).toDF("n")
    outputs = [rows_of(300).write.collect(), rows_of(300, 300).write.collect()]
    outputs.append(hr.read.spark(frame).write.collect())
    with hr.Gate(running=1) as gate:
        hold = gate._keeper.enter("hold", 9.0, 2)
        with hold.batch(nothing):
            jobs = [
                started(output, gate, session=session, batch_rows=100, priority=k)
                for k, output in enumerate(outputs)
            ]
            until(lambda: waiting_at(gate) == 3)
            assert [job.progress().rows_in for job in jobs] == [0, 0, 0]
        hold.leave()
        assert all(job.await_termination(5 * SECONDS) for job in jobs)
    found = [sorted(output.result()["n"].to_pylist()) for output in outputs]
    assert found == [list(range(300)), list(range(300, 600)), list(range(500))]
