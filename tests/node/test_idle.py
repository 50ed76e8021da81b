"""Channels that bring nothing, on the node engine: `idle=` means what it means on Spark."""

import time

import pytest
from tests.node.fed import SECONDS, Fed, reached

import headrace as hr

pytestmark = pytest.mark.usefixtures("no_thread_is_left")
IDLE = 0.3  # seconds
LONG = 3.0  # also on a busy machine


def counted(source):
    """Windows of ten, and what came too late for them; both are filled while the job runs."""
    windows = hr.read.source(source).with_watermark("t", 0).window(hr.tumbling(10))
    counts = windows.agg(n=hr.count())
    found, late = [], []
    outputs = [
        counts.write.callback(lambda batch: found.extend(batch.to_pylist())),
        counts.late().write.callback(lambda batch: late.extend(batch.to_pylist())),
    ]
    return outputs, found, late


def started(outputs, workers, idle):
    return hr.start(*outputs, engine="node", workers=workers, compiled=False, idle=idle)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_silent_channel_is_carried_along(workers):
    source = Fed("a", "b")
    outputs, found, late = counted(source)
    job = started(outputs, workers, f"{IDLE}s")
    given = [5, 3]
    source.give("a", 5)
    source.give("b", 3)

    def fed_further():
        given.append(given[-1] + 10 if len(given) > 2 else 15)
        source.give("a", given[-1])
        time.sleep(IDLE / 10)
        return found

    assert reached(fed_further)
    assert (found[0]["window_start"], found[0]["n"]) == (0, 2)
    assert not late
    source.give("b", 4)  # its window was given out
    assert reached(lambda: late)
    assert [row["t"] for row in late] == [4]
    given.append(given[-1] + 1000)
    source.give("b", given[-1])  # it is heard of again: time is its own
    source.end()
    assert job.await_termination(SECONDS) and job.status == "finished"
    expected = {}
    for t in given:
        expected[t // 10 * 10] = expected.get(t // 10 * 10, 0) + 1
    assert {row["window_start"]: row["n"] for row in found} == expected
    assert len(late) == 1


def test_without_idle_windows_wait():
    source = Fed("a", "b")
    outputs, found, _ = counted(source)
    job = started(outputs, 2, None)
    source.give("b", 3)
    for k in range(20):
        source.give("a", 5 + 10 * k)
        time.sleep(IDLE / 10)
    assert reached(lambda: job.progress().rows_in == 21)
    time.sleep(2 * IDLE)
    assert not found
    source.end()
    assert job.await_termination(SECONDS)
    assert sum(row["n"] for row in found) == 21


def test_where_all_are_silent_nothing_moves():
    source = Fed("a", "b")
    outputs, found, late = counted(source)
    job = started(outputs, 2, f"{LONG}s")
    source.give("a", 5, 115)
    assert reached(lambda: job.progress().rows_in == 2)
    source.give("b", 3)  # the one behind is silent last, but comes in time
    assert reached(lambda: job.progress().rows_in == 3)
    time.sleep(1.5 * LONG)
    assert not found and not late
    source.give("b", 4)
    source.end()
    assert job.await_termination(SECONDS)
    assert {row["window_start"]: row["n"] for row in found} == {0: 3, 110: 1} and not late


def test_a_channel_that_never_brought_anything():
    source = Fed("a", "b")
    outputs, found, _ = counted(source)
    job = started(outputs, 1, f"{IDLE}s")
    times = iter(range(5, 1_000_000, 10))

    def fed_further():
        source.give("a", next(times))
        time.sleep(IDLE / 10)
        return found

    assert reached(fed_further)
    assert job.cancel(SECONDS) and job.status == "cancelled"


def test_sources_that_meet_behind_an_exchange():
    """The silent one is in another stage."""
    sources, found = (Fed("a"), Fed("b")), []
    one, two = (
        hr.read.source(source).with_watermark("t", 0).window(hr.tumbling(1)).agg(n=hr.count())
        for source in sources
    )
    sums = one.union(two).window(hr.tumbling(10)).agg(n=hr.sum("n"))
    output = sums.write.callback(lambda batch: found.extend(batch.to_pylist()))
    job = started([output], 2, f"{IDLE}s")
    sources[1].give("b", 3)
    times = iter(range(5, 1_000_000, 10))

    def fed_further():
        sources[0].give("a", next(times))
        time.sleep(IDLE / 10)
        return found

    assert reached(fed_further)
    assert (found[0]["window_start"], found[0]["n"]) == (0, 2)
    assert job.cancel(SECONDS)
