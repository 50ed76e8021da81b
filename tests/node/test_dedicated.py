"""The threading models `dedicated` and `manual` (Streams §2.2)."""

import threading

import pytest
from tests.node.endless import SECONDS, Endless, await_that, engine_of
from tests.node.explore import planted
from tests.node.small import SmallEngine

from headrace.node import engine as node_engine
from headrace.node.mode import Mode
from headrace.node.schedulers.dedicated import Dedicated, on_ready
from headrace.node.worker import run_unit
from headrace.stage.memory.atomics import store_release
from headrace.stage.memory.records import interpreted

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


def small(hook=None, **bugs):
    """A unit, its worker, which sleeps on its own bell, and who sends letters."""
    scheduler = Dedicated(1)
    if hook is not None:
        scheduler.hooks = (hook, *scheduler.hooks[1:])
    made = SmallEngine(letters=2, scheduler=scheduler, **bugs)
    made.workers[0].lot = scheduler.lot(0)
    made.workers[0].turn.units = made.units.address
    return made.bodies(), made.check


def test_a_worker_hears_its_bell(explored):
    explored("dedicated, 1 unit", *small(stop_all=ringing_all))


def ringing_all(engine):
    """The worker stops by itself here: it has read the last letter."""
    store_release(engine.workers, "stop", 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [("    wake_one(Bed(record.beds)[turn.unit].lot)\n", ""), ("store_sc(", "store_release(")],
)
def test_a_bell_that_is_not_heard_is_found(found, old, new):
    bug = planted(on_ready, old, new, store_release=store_release)
    failures = found(*small(bug, stop_all=ringing_all))
    assert failures and all(failure.startswith("deadlock") for failure in failures.values())


def watched(monkeypatch, scheduler, workers):
    """Run a query operator by operator: the threads that ran each unit."""
    ran, run = {}, interpreted(run_unit)

    def noted(worker, unit):
        if worker.number >= 0:
            ran.setdefault(unit.number, set()).add(threading.get_ident())
        return run(worker, unit)

    monkeypatch.setattr(node_engine, "_mode", lambda compiled: Mode(False, run_unit=noted))
    query = Endless()
    with engine_of(workers=workers, scheduler=scheduler) as engine:
        assert engine.scheduling() == f"scheduler {scheduler!r}"
        job = engine.submit(query.output, fuse="none")
        await_that(lambda: len(query.batches) > 3)
        assert job.stop(timeout=SECONDS)
    query.check(job)
    return ran


def test_every_unit_has_a_thread_of_its_own(monkeypatch):
    ran = watched(monkeypatch, "dedicated", 2)
    threads = [thread for of_one in ran.values() for thread in of_one]
    assert len(ran) > 4 and len(set(threads)) == len(threads)  # none runs two, none runs on two


def test_no_other_scheduler_takes_over():
    with engine_of(scheduler="dedicated") as engine:
        with pytest.raises(node_engine.EngineError, match=r"thread of its own here.*\n  fix: make"):
            engine.use("fcfs")
        assert engine.scheduling() == "scheduler 'dedicated'"


def test_one_thread_runs_everything(monkeypatch):
    ran = watched(monkeypatch, "manual", None)
    assert len(ran) > 2 and len(set.union(*ran.values())) == 1


@pytest.mark.compiled
def test_the_hooks_are_compiled():
    assert [hook.load(int).result for hook in Dedicated.hooks] == ["integer"] * 5
