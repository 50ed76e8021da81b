"""Several calls of plain Python at a time (`map_batches`): results in order, never too many."""

import threading
import time

import pyarrow as pa
import pytest
from tests.choices import Seeded
from tests.naive import naive, rows_of
from tests.node.sizes import any_sizes
from tests.running import assert_same

import headrace as hr
from headrace import col

SECONDS = 120.0
ROWS = 400
SCHEMA = {"n": int, "s": str}

pytestmark = [
    pytest.mark.usefixtures("no_thread_is_left"),
    pytest.mark.filterwarnings("ignore:map_batches"),
]


def text(n):
    return f"{n} " + "long enough for a heap " * (n % 3)


def rows(count=ROWS):
    return hr.read.memory({"n": list(range(count)), "s": [text(n) for n in range(count)]})


def behind_an_exchange(count=ROWS):
    return rows(count).limit(count)


class Calls:
    """A function that takes some time, gives each row up to three times, and counts how many of its
    calls overlap."""

    def __init__(self, random=None, seconds=0.002):
        self._random, self._seconds = random or Seeded(0), seconds
        self._lock = threading.Lock()
        self.now = self.most = self.all = 0

    def __call__(self, batch):
        with self._lock:
            self.now += 1
            self.all += 1
            self.most = max(self.most, self.now)
            seconds = self._seconds * self._random.number(0, 5)
        time.sleep(seconds)
        with self._lock:
            self.now -= 1
        numbers = batch["n"].to_pylist()
        taken = [k for k, n in enumerate(numbers) for _ in range(n % 4)]
        return batch.take(pa.array(taken, pa.int64()))


def run(output, **options):
    job = hr.start(output, engine="node", **options)
    assert job.await_termination(SECONDS), "it does not end"
    return job


@pytest.mark.parametrize("seed", range(8))
def test_rows_are_those_of_one_call_at_a_time_in_order(seed):
    """With random sizes of everything, windows behind and functions that stall."""
    random = Seeded(seed)
    calls = Calls(random)
    stream = random.pick([rows, behind_an_exchange])(random.number(1, ROWS))
    made = stream.map_batches(calls, schema=SCHEMA, max_in_flight=random.number(2, 6))
    kept = made.filter(col("n") % 3 != 1).key_by("s").running(k=hr.count()).write.collect()
    with any_sizes(random):
        run(kept, workers=random.number(1, 4), capacity=16, compiled=False)
    (expected,) = naive([kept])
    assert_same(rows_of(kept.result()), expected, ordered=True)


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.compiled)])
@pytest.mark.parametrize("source", [rows, behind_an_exchange])
def test_so_many_calls_are_under_way(source, compiled):
    calls = Calls(seconds=0.01)

    def same(batch):
        calls(batch)
        return batch

    output = source().map_batches(same, schema=SCHEMA, max_in_flight=4).write.collect()
    run(output, workers=2, capacity=16, compiled=compiled)
    assert output.result()["n"].to_pylist() == list(range(ROWS))
    assert output.result()["s"].to_pylist() == [text(n) for n in range(ROWS)]
    assert 2 < calls.most <= 4


def test_by_default_there_is_one_call_at_a_time_and_one_for_each_worker_if_stateless():
    for options, most in (({}, 1), ({"stateless": True}, 3)):
        calls = Calls(seconds=0.005)
        stream = behind_an_exchange().map_batches(calls, schema=SCHEMA, **options)
        run(stream.write.null(), workers=3, capacity=16, compiled=False)
        assert calls.most == most


def test_calls_get_many_rows_each():
    """A call is for a block of rows where they are there, however many may be made."""
    calls = Calls(seconds=0.002)
    stream = behind_an_exchange(2_000).map_batches(calls, schema=SCHEMA, max_in_flight=4)
    run(stream.write.null(), workers=2, capacity=64, compiled=False)
    assert calls.all < 2_000 / 3  # on a busy machine rows come slowly


def test_the_first_error_in_order_is_the_one_that_is_reported():
    def fails(batch):
        first = batch["n"][0].as_py()
        if first < 64:
            time.sleep(0.2)  # what comes behind fails sooner
        if first >= 32:
            raise ValueError(f"row {first} is wrong")
        return batch

    output = behind_an_exchange().map_batches(fails, schema=SCHEMA, max_in_flight=4).write.collect()
    with pytest.raises(ValueError, match=r"row (32|3\d|4\d|5\d|6[0-3]) is wrong"):
        hr.run(output, engine="node", workers=2, capacity=16, compiled=False)


def test_it_can_be_cancelled_while_calls_are_under_way():
    begun = threading.Event()

    def slow(batch):
        begun.set()
        time.sleep(0.5)
        return batch

    output = behind_an_exchange().map_batches(slow, schema=SCHEMA, max_in_flight=4).write.collect()
    job = hr.start(output, engine="node", workers=2, capacity=16, compiled=False)
    assert begun.wait(SECONDS)
    job.cancel()
    assert job.await_termination(SECONDS) and job.status == "cancelled"


def test_no_calls_at_a_time_are_an_error():
    with pytest.raises(hr.PipelineError, match="max_in_flight=0: there is at least one call"):
        rows().map_batches(Calls(), schema=SCHEMA, max_in_flight=0)


def test_a_function_without_state_needs_no_order():
    stream = rows().map_batches(Calls(), schema=SCHEMA, stateless=True)
    assert "as it comes" in hr.explain(stream.write.null(), engine="node", ordering="none")
