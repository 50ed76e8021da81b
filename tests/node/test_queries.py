"""Many queries in one engine: they come and go, fail and are cancelled, and leave nothing."""

import gc
import os
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from tests.choices import Seeded
from tests.counts import count

import headrace as hr
from headrace import col
from headrace.node.engine import EngineError
from headrace.node.hosts import MOST_WAITING

SECONDS = 60.0
ROWS = 5000
EVENTS = pa.table({"t": np.arange(ROWS), "k": np.arange(ROWS) % 7, "n": np.arange(ROWS)})


def counted(rows=None, rate=None):
    """A window per key over a table that is replayed, for ever or to the end."""
    events = hr.read.replay(EVENTS, time="t", rows=rows, rate=rate).with_watermark("t", 0)
    kept = events.filter(col("n") % 2 == 0).key_by("k").window(hr.tumbling(1000))
    return kept.agg(n=hr.count(), total=hr.sum("n"))


def failing(rows=None):
    """A row in the middle divides by zero."""
    events = hr.read.replay(EVENTS, time="t", rows=rows)
    return events.with_columns(bad=col("n") // (col("n") - 4000))


def files():
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def total(collected):
    return sum(collected.result()["n"].to_pylist())


@pytest.mark.compiled
def test_queries_come_and_go():
    """200 random sequences; each job ends as it was told to, and within seconds."""
    random = Seeded(5)
    with hr.Engine(workers=2) as engine:
        warm = counted(rows=ROWS).write.collect()
        assert engine.submit(warm, capacity=512).await_termination(SECONDS)
        files_before, threads_before = files(), threading.active_count()
        for _ in range(200):
            _one_sequence(engine, random)
        gc.collect()
        assert threading.active_count() <= threads_before + MOST_WAITING  # of the host
        assert files() <= files_before
        assert not engine.jobs or all(job.is_over for job in engine.jobs)
    left = [thread for thread in threading.enumerate() if thread.name.startswith("headrace")]
    assert not left


def _one_sequence(engine, random):
    count("sequences of submit, cancel, drain and stop")
    jobs = []
    for _ in range(random.number(1, 3)):
        bounded = random.chance(50)
        rows = random.pick([1, ROWS, 3 * ROWS + 17]) if bounded else None
        collected = counted(rows).write.collect()
        job = engine.submit(collected, capacity=512, fuse=random.pick(["auto", "none"]))
        jobs.append((job, collected, rows))
        if random.chance(30):
            time.sleep(random.number(0, 3) / 1000)
    for job, collected, rows in jobs:
        _end(job, collected, rows, random.pick(["cancel", "drain", "stop at once", "wait"]))


def _end(job, collected, rows, how):
    begun = time.monotonic()
    if how == "wait" and rows is not None:
        assert job.await_termination(SECONDS)
        assert job.status == "finished"
        assert total(collected) == sum(n % ROWS % 2 == 0 for n in range(rows))
    elif how in ("cancel", "stop at once"):
        over = job.cancel(SECONDS) if how == "cancel" else job.stop(drain=False, timeout=SECONDS)
        assert over and job.status in ("cancelled", "finished")
    else:
        assert job.stop(timeout=SECONDS)
        assert job.status in ("stopped", "finished")
        assert set(collected.result()["n"].to_pylist()) <= {500 // 7, 500 // 7 + 1, 1, 2}
    assert job.is_over and time.monotonic() - begun < SECONDS


@pytest.mark.compiled
def test_the_error_of_one_query_leaves_the_others_alone():
    with hr.Engine(workers=2) as engine:
        good = counted(rows=40 * ROWS).write.collect()
        running = engine.submit(good, capacity=512)
        bad = engine.submit(failing(rows=2 * ROWS).write.null(), capacity=512)
        with pytest.raises(ZeroDivisionError):
            bad.await_termination(SECONDS)
        assert bad.status == "failed"
        assert running.await_termination(SECONDS)
        assert total(good) == 20 * ROWS


@pytest.mark.compiled
def test_a_budget_that_is_too_small_names_the_operator():
    with hr.Engine(workers=1) as engine:
        job = engine.submit(counted(rows=ROWS).write.collect(), memory=10_000)
        with pytest.raises(hr.MemoryBudgetError, match=r"source_1: .*budget of sink_1"):
            job.await_termination(SECONDS)


@pytest.mark.compiled
def test_a_small_budget_is_enough_for_small_blocks():
    with hr.Engine(workers=1) as engine:
        collected = counted(rows=ROWS).write.collect()
        job = engine.submit(collected, memory=4_000_000, capacity=64, fuse="none")
        assert job.await_termination(SECONDS)
        assert total(collected) == ROWS // 2


@pytest.mark.compiled
def test_a_closed_engine_and_a_forked_one_are_refused():
    engine = hr.Engine(workers=1)
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        engine.submit(counted(rows=1).write.null())
    engine = hr.Engine(workers=1)
    assert engine.submit(counted(rows=1).write.null()).await_termination(SECONDS)
    child = os.fork()
    if child == 0:
        try:
            engine.submit(counted(rows=1).write.null())
        except EngineError as error:
            os._exit(0 if "forked" in str(error) else 1)
        os._exit(2)
    _, status = os.waitpid(child, 0)
    engine.close()
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.compiled
def test_paced_rows_are_measured_from_when_they_were_due():
    with hr.Engine(workers=1) as engine:
        collected = counted(rows=20_000, rate=100_000).write.collect()
        job = engine.submit(collected, capacity=512)
        assert job.await_termination(SECONDS)
        latency = job.latency()["block"]
        assert latency.count > 0 and job.latency()["window"].count > 0
        assert total(collected) == 10_000


def test_markers_go_from_source_to_sink_also_without_rows():
    """One row in all, one marker every 50 ms, to each sink and no matter what is filtered out."""
    numbers = hr.read.index(rate=[(1, "1s"), (0.01, "1000s")])
    kept = numbers.filter(col("index") > 10).write.collect(name="kept")
    every = numbers.write.collect(name="every")
    begun = time.monotonic()
    job = hr.start(kept, every, engine="node", workers=2, compiled=False)
    _await(lambda: job.latency()["marker"].count >= 12)
    periods = (time.monotonic() - begun) / 0.05
    splits = job.latency()["block"].count
    assert job.stop(timeout=SECONDS)
    latency = job.latency()
    for sink in ("kept", "every"):
        assert 6 <= latency[f"marker to {sink}"].count <= periods + 10
    each = [latency[f"marker to {sink}"].count for sink in ("kept", "every")]
    assert latency["marker"].count == sum(each)
    # splits that exist for a marker alone are not counted as results
    assert splits <= 2 * every.result().num_rows
    assert kept.result().num_rows == 0


@pytest.mark.compiled
def test_markers_go_between_the_blocks_of_a_long_split():
    """One split of sixteen blocks at a time, each of which takes a while."""

    def slowly(n: int) -> int:
        total = n
        for k in range(2000):
            total = (total * 31 + k) % 1_000_003
        return total

    slow = hr.udf(slowly)
    with hr.Engine(workers=1) as engine:
        counted = hr.read.index(16 * 16_384).with_columns(m=slow(col("index")))
        job = engine.submit(counted.write.null(), capacity=16_384)
        assert job.await_termination(SECONDS)
        latency = job.latency()
        assert latency["block"].count <= 2  # the split, and maybe its end
        assert latency["marker"].count > 2
        assert set(latency) == {"block", "window", "marker"}


def _await(reached):
    deadline = time.monotonic() + SECONDS
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"workers": -3}, {"capacity": 0}])
def test_sizes_that_cannot_be(wrong):
    with pytest.raises(ValueError, match="at least one"):
        hr.start(counted(rows=1).write.null(), engine="node", **wrong)
    if "workers" in wrong:
        with pytest.raises(ValueError, match="at least one"):
            hr.Engine(**wrong)
