"""What a running engine must not do: allocate, grow, or burn time when there is nothing to do."""

import os
import resource
import time

import numpy as np
import pyarrow as pa
import pytest
from numba.core.runtime import _nrt_python, rtsys
from tests.choices import Seeded
from tests.counts import count

import headrace as hr
from headrace import col

SECONDS = 60.0
ROWS = 100_000
BLOCKS, BLOCK_ROWS = 5_000, 4_096
EVENTS = pa.table({"t": np.arange(ROWS) // 10, "k": np.arange(ROWS) % 100, "n": np.arange(ROWS)})


def counted(rows=None, rate=None):
    events = hr.read.replay(EVENTS, time="t", rows=rows, rate=rate).with_watermark("t", 0)
    windows = events.filter(col("n") % 3 == 0).key_by("k").window(hr.tumbling(5000))
    return windows.agg(n=hr.count(), total=hr.sum("n"))


@pytest.mark.compiled
def test_workers_allocate_nothing():
    """Once it runs, nothing is allocated by compiled code, and hardly a page is touched anew."""
    _nrt_python.memsys_enable_stats()
    with hr.Engine(workers=2) as engine:
        job = engine.submit(counted().write.null(), capacity=BLOCK_ROWS)
        _await(lambda: engine.is_warm, job)
        rows = job.progress().rows_in + 20 * ROWS
        _await(lambda: job.progress().rows_in > rows, job)  # nothing new happens any more
        before = rtsys.get_allocation_stats(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        _await(lambda: job.progress().rows_in > rows + BLOCKS * BLOCK_ROWS, job)
        after = rtsys.get_allocation_stats(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        assert after[0] == before[0]
        # some are of Python and Arrow; blocks that are touched anew have dozens of pages each
        assert after[1] - before[1] < BLOCKS
        assert job.cancel(SECONDS)


def _await(what, job):
    deadline = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < deadline and not job.is_over
        time.sleep(0.05)


@pytest.mark.soak
@pytest.mark.compiled
def test_queries_come_and_go_for_long():
    """Memory stays flat while queries come and go; minutes by HEADRACE_SOAK_MINUTES."""
    random, sizes = Seeded(1), []
    deadline = time.monotonic() + 60 * float(os.environ.get("HEADRACE_SOAK_MINUTES", "30"))
    with hr.Engine(workers=2) as engine:
        while time.monotonic() < deadline:
            for _ in range(50):
                jobs = [
                    engine.submit(
                        counted(random.pick([None, ROWS])).write.null(),
                        fuse=random.pick(["auto", "none"]),
                        capacity=random.pick([512, 4096]),
                    )
                    for _ in range(random.number(1, 4))
                ]
                time.sleep(random.number(0, 20) / 1000)
                assert all(job.cancel(SECONDS) for job in jobs)
                for _ in jobs:
                    count("queries that came and went")
            sizes.append(_resident())
    shown = [f"{sizes[at] >> 20} MiB" for at in (0, len(sizes) // 2, -1)]
    print("resident at first, in the middle, at last:", ", ".join(shown))
    half = sizes[len(sizes) // 2 :]
    assert max(half) < 1.15 * min(half), sizes


def _resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
