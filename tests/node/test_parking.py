"""Parking over all interleavings, with time-outs that never come: a lost wake-up is a deadlock.

Workers are those of `small`: the compiled loop, its hooks, and toy units.
"""

import threading
import time

import pytest
from tests.node.explore import planted
from tests.node.small import SmallEngine

from headrace.node import futex
from headrace.node.free_list import has_work
from headrace.node.parking import park, prepare, ring, wake_all, wake_one
from headrace.node.schedulers.hooks import tell
from headrace.node.schedulers.near import is_ready
from headrace.node.worker import await_work, stop_all
from headrace.stage.memory.atomics import load_acquire, store_release
from headrace.stage.memory.records import compiled, interpreted

SECOND = futex.SECOND


def one_worker(letters, **bugs):
    engine = SmallEngine(letters=letters, **bugs)
    return engine.bodies(), engine.check


def stopping(workers, **bugs):
    """Workers without work, and a stop."""
    engine = SmallEngine(workers=workers, **bugs)
    stop = engine.mode.of(stop_all)
    bodies = [engine.worker(number) for number in range(workers)]

    def check(results):
        assert engine.record.workers.lot.sleepers == 0

    return [*bodies, lambda: stop(engine.record)], check


@pytest.mark.parametrize("letters", [1, 2])
def test_no_wake_up_is_lost(explored, letters):
    explored(f"parking, {letters} letters", *one_worker(letters))


def test_a_unit_that_goes_on_is_not_slept_over(explored):
    engine = SmallEngine(letters=2, step=1)
    explored("a unit that takes a letter a run", engine.bodies(), engine.check)


def test_all_workers_are_told_to_stop(explored):
    explored("stopping 1 worker", *stopping(1))
    explored("stopping 2 workers", *stopping(2), models=("tso", "sc"))


def test_two_workers_and_a_sender(explored):
    engine = SmallEngine(workers=2)
    explored("parking, 2 workers", engine.bodies(), engine.check, models=("tso", "sc"))


# ---- planted bugs --------------------------------------------------------------------------


def lost(failures, *models):
    assert set(failures) == set(models)
    return all(failure.startswith("deadlock") for failure in failures.values())


LAST_SCAN = "    ticket = prepare(lot)\n    found = worth_a_look(worker)\n"


def test_parking_without_the_last_scan_is_found(found):
    bug = planted(await_work, LAST_SCAN, "    ticket = prepare(lot)\n    found = False\n")
    assert lost(found(*one_worker(1, await_work=bug)), "sc", "tso", "weak")


def test_scanning_before_the_announcement_is_found(found):
    bug = planted(
        await_work, LAST_SCAN, "    found = worth_a_look(worker)\n    ticket = prepare(lot)\n"
    )
    assert lost(found(*one_worker(1, await_work=bug)), "sc", "tso", "weak")


def test_reading_the_bell_after_the_scan_is_found(found):
    bug = planted(park, "address, ticket", 'address, load_acquire(lot.bell, "value")')
    assert lost(found(*one_worker(1, park=bug)), "sc", "tso", "weak")


def test_announcing_without_an_update_is_found(found):
    bug = planted(
        prepare,
        'fetch_add(lot, "sleepers", 1)',
        'store_release(lot, "sleepers", load_acquire(lot, "sleepers") + 1)',
        store_release=store_release,
    )
    assert lost(found(*one_worker(1, prepare=bug)), "tso", "weak")


def test_a_relaxed_look_at_the_sleepers_is_found(found):
    bug = planted(wake_one, 'load_sc(lot, "sleepers")', 'load_acquire(lot, "sleepers")')
    # On x86 the update before it is a barrier for any load; elsewhere it is not.
    assert lost(found(*one_worker(1, wake_one=bug)), "weak")


def test_a_relaxed_last_scan_is_found(found):
    bug = planted(has_work, 'tail = load_sc(list, "tail")', 'tail = load_acquire(list, "tail")',
                  load_acquire=load_acquire)  # fmt: skip
    assert lost(found(*one_worker(1, has_work=bug)), "weak")


def test_waking_before_ringing_is_found(found):
    bug = planted(
        ring,
        '    fetch_add(lot.bell, "value", 1)\n    wake(lot.bell.address, count)',
        '    wake(lot.bell.address, count)\n    fetch_add(lot.bell, "value", 1)',
    )
    assert lost(found(*one_worker(1, ring=bug)), "sc", "tso", "weak")


def test_stopping_without_a_barrier_is_found(found):
    bug = stop_all
    for desk in ("workers", "hosts"):  # the second stop is a barrier for the first one
        old = f'store_sc(engine.{desk}, "stop", 1)'
        new = old.replace("store_sc", "store_release")
        bug = planted(bug, old, new, store_release=store_release)
    assert lost(found(*stopping(1, stop_all=bug)), "tso", "weak")


def test_a_scan_that_does_not_see_the_queue_is_found(found):
    bug = planted(is_ready, "there = has_work(FreeList(record.list))", "there = False")
    assert lost(found(*one_worker(1, is_ready=bug)), "sc", "tso", "weak")


def test_listing_without_waking_is_found(found):
    bug = planted(tell, "if useful == 1:", "if useful == 2:")
    assert lost(found(*one_worker(1, tell=bug)), "sc", "tso", "weak")


# ---- real threads --------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [lambda f: f, interpreted])
def test_a_thread_sleeps_and_is_woken(mode):
    engine = SmallEngine()
    worker, lot = engine.workers[0], engine.record.workers.lot
    if mode is not interpreted:
        compile_hooks(engine)
    sleep, wake = mode(await_work), mode(wake_one)
    started = time.perf_counter()
    assert sleep(worker, 3, SECOND // 20)  # nobody comes
    assert 0.04 < time.perf_counter() - started < 5
    assert not wake(lot)
    thread = threading.Thread(target=sleep, args=(worker, 3, 20 * SECOND))
    started = time.perf_counter()
    thread.start()
    while load_acquire(lot, "sleepers") == 0 and time.perf_counter() - started < 5:
        time.sleep(0.001)
    assert wake(lot)
    thread.join(5)
    assert not thread.is_alive() and time.perf_counter() - started < 5 and lot.sleepers == 0


def compile_hooks(engine):
    """Let compiled workers find compiled hooks."""
    engine.mode.become_compiled()
    hooks = engine.hooks = engine.new_hooks(engine.scheduler)
    engine.record.workers.hooks = hooks.address
    for worker in engine.workers:
        worker.hooks = hooks.address


def test_all_threads_are_woken_and_idle_ones_use_no_cpu():
    engine = SmallEngine(workers=4)
    compile_hooks(engine)

    @compiled
    def sleep_until_stopped(worker, engine, rounds):
        for _ in range(rounds):
            stop = load_acquire(engine.workers, "stop")
            if stop != 0:
                return True
            await_work(worker, 100, 60 * SECOND)  # only a ring ends it
        return False

    sleep_until_stopped(engine.workers[0], engine.record, 0)
    stop_all(SmallEngine().record)  # compiled now
    wake_all(engine.record.workers.lot)
    threads = [
        threading.Thread(target=sleep_until_stopped, args=(worker, engine.record, 200))
        for worker in engine.workers
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    used = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - used < 0.1
    stop_all(engine.record)
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    assert engine.record.workers.lot.sleepers == 0
