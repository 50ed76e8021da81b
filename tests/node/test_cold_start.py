"""Cold starts: workers begin with the interpreted loop, and go over to the compiled one."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest

import headrace as hr
from headrace.node import engine
from headrace.node.loop import loop
from headrace.workloads import ysb

pytestmark = pytest.mark.compiled

ROWS = 40_000
ENOUGH = 60  # seconds


class Later:
    """Stands for the loop that another process compiles, until the test says that it is done."""

    is_there = False

    def __init__(self):
        self.done, self.given_up = threading.Event(), threading.Event()

    def await_machine_code(self, give_up):
        while not self.done.wait(0.001):
            if give_up():
                self.given_up.set()
                return False
        self.load()
        return True

    def load(self):
        loop().load()


@pytest.fixture
def later(monkeypatch):
    made = Later()
    monkeypatch.setattr(engine, "loop", lambda: made)
    return made


@pytest.mark.parametrize("workers", [1, 2, 4, "auto"])
def test_workers_go_over_to_the_compiled_loop(later, workers):
    data, rounds = ysb.make(ROWS), 100
    out = ysb.pipeline(ysb.replayed(data, rows=rounds * ROWS), data.campaigns).write.collect()
    job = hr.start(out, engine="node", workers=workers, capacity=512)
    mode = job._execution._engine.mode
    while not job.progress().rows_in:
        time.sleep(0.001)
    assert not mode.is_compiled and mode.compiles
    later.done.set()
    assert job.await_termination(ENOUGH)
    assert mode.is_compiled
    assert data.is_right(out.result(), rounds * ROWS, ended=True)


def test_a_query_may_end_before_the_loop_is_compiled(later):
    data = ysb.make(1000)
    out = ysb.pipeline(hr.read.memory(data.events), data.campaigns).write.collect()
    hr.run(out, engine="node", workers=2)
    assert data.is_right(out.result(), 1000, ended=True)
    assert later.given_up.wait(ENOUGH)


def test_queries_that_come_and_go_meanwhile(later):
    data = ysb.make(ROWS)
    with hr.Engine(workers=2) as shared:
        jobs = []
        for number in range(6):
            events = ysb.replayed(data, rows=20 * ROWS)
            out = ysb.pipeline(events, data.campaigns).write.collect()
            jobs.append((shared.submit(out, capacity=1024), out))
            if number == 2:
                later.done.set()
        jobs[0][0].cancel(ENOUGH)
        for job, out in jobs[1:]:
            assert job.await_termination(ENOUGH)
            assert data.is_right(out.result(), 20 * ROWS, ended=True)


PROGRAM = """
import json, sys
import headrace as hr
from headrace.node.loop import loop
began_with_it = loop().is_there
out = hr.read.memory({"n": [1, 2, 3]}).filter(hr.col("n") > 1).write.collect()
hr.run(out, engine="node", workers=2)
print(json.dumps([began_with_it, out.result()["n"].to_pylist(), "numba" in sys.modules]))
"""


def test_another_process_compiles_the_loop(tmp_path):
    """The first start has no compiled loop; later ones find what was made beside the first, and
    do not load the compiler at all."""
    cold = {"HEADRACE_CACHE": str(tmp_path / "a"), "NUMBA_CACHE_DIR": str(tmp_path / "b")}

    def started():
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, **cold},
            capture_output=True,
            text=True,
            check=True,
            timeout=2 * ENOUGH,
        )
        return json.loads(done.stdout)

    assert started() == [False, [2, 3], True]
    deadline = time.monotonic() + 5 * ENOUGH
    while (later := started()) != [True, [2, 3], False]:  # what was begun beside the first one
        assert later[1] == [2, 3] and time.monotonic() < deadline, later
