"""As many workers as are worth it: what the controller says is done, while queries run."""

import json
import time

import pytest

import headrace as hr
from headrace.asked import planned
from headrace.cli import main
from headrace.node import elastic
from headrace.node.elastic import Elastic
from headrace.node.engine import NodeEngine
from headrace.node.unit import SOURCE

pytestmark = pytest.mark.usefixtures("no_thread_is_left")
SECONDS = 120.0


class Workers:
    """An engine that does as it is told, or that has a worker in a long run."""

    workers, queries = 8, ()

    def __init__(self, held=0):
        self.level, self.levels, self.held = 0, [], held

    @property
    def running(self):
        return self.level + self.held

    def suspend(self, level):
        self.level = level
        self.levels.append(level)


def controlled(workers):
    made = Elastic(workers)
    workers.suspend(made.level)
    return made


def test_it_climbs_to_the_best_level_and_stays():
    workers = Workers()
    made = controlled(workers)
    for _ in range(400):
        made.note(1e6 * min(workers.level, 3), cpu=0.1)
    assert workers.level == 3
    assert max(workers.levels) <= 5


def test_a_machine_that_others_use_gets_no_more_workers():
    workers = Workers()
    made = controlled(workers)
    for _ in range(100):
        made.note(1e6 * workers.level, cpu=0.95)
    assert workers.levels == [1]


def test_nothing_is_learnt_while_a_worker_cannot_be_suspended():
    workers = Workers(held=1)
    made = controlled(workers)
    for _ in range(100):
        made.note(1e6, cpu=0.1)
    assert workers.levels == [1]


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "interpreted"])
def test_rows_are_the_same_while_workers_come_and_go(compiled, monkeypatch):
    monkeypatch.setattr(elastic, "PERIOD", 0.002)
    rows = hr.read.memory({"t": list(range(20_000)), "k": [n % 7 for n in range(20_000)]})
    windows = rows.with_watermark("t", 5).key_by("k").window(hr.tumbling(50)).agg(n=hr.count())
    found = windows.write.collect()
    job = hr.start(found, engine="node", workers="auto", compiled=compiled, capacity=64)
    assert job.await_termination(SECONDS), "it does not end"
    assert sum(found.result()["n"].to_pylist()) == 20_000


def test_more_workers_run_when_more_is_read(monkeypatch):
    """The thread itself: what queries read is what the controller is told."""
    monkeypatch.setattr(elastic, "PERIOD", 0.005)
    monkeypatch.setattr(elastic.psutil, "cpu_percent", lambda: 10.0)
    told = []
    monkeypatch.setattr(Elastic, "note", lambda self, rate, cpu: told.append((rate, cpu)))
    with NodeEngine(workers=3, elastic=True) as engine:
        made = hr.read.replay({"n": [1, 2, 3]}, rate=50_000).write.null()
        query = engine.query(planned([made]), 64)
        deadline = time.monotonic() + SECONDS
        query.run(lambda: len(told) > 5 or time.monotonic() > deadline)
        assert engine.active == 1
    assert len(told) > 5
    assert all(rate > 0 and cpu == 0.1 for rate, cpu in told)


def test_replicas_rest_while_there_are_fewer_workers():
    """One worker has the rows of one replica; both have some when there are two workers."""
    none = hr.read.replay({"n": list(range(256))}, name="numbers").filter(hr.col("n") < 0)
    alone, both = [], []
    deadline = time.monotonic() + SECONDS

    with NodeEngine(workers=2) as engine:
        engine.suspend(1)
        query = engine.query(planned([none.write.null()]), 256)

        def watch():
            read = sorted(o.unit.rows_in for o in query.operators.values() if o.kind == SOURCE)
            if not alone and sum(read) > 100_000:
                alone.extend(read)
                engine.suspend(2)
            elif alone and read[0] > 0:
                both.extend(read)
            return bool(both) or time.monotonic() > deadline

        query.run(watch)
    assert alone[0] == 0 and len(both) == 2


def test_the_benchmark(capsys):
    main(["bench", "elastic", "--quick", "--json", "--only", "pipeline,wide,mesh"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["figure"] for each in found] == ["pipeline", "wide", "mesh"]
    assert all(each["correct"] and each["value"] > 0 for each in found)


def test_what_is_no_number_of_workers():
    out = hr.read.memory({"n": [1]}).write.collect()
    for wrong in ("two", 0, 1.5, True):
        with pytest.raises(ValueError, match=f"workers={wrong!r}"):
            hr.run(out, engine="node", workers=wrong)
    for wrong in ("lots", -1, "0 GB"):
        with pytest.raises(ValueError, match=f"memory={wrong!r}: this is not a number of bytes"):
            hr.run(out, engine="node", memory=wrong)
    hr.run(out, engine="node", workers=1, memory="64 MiB")
    assert out.result()["n"].to_pylist() == [1]
