"""Parking over all interleavings, with time-outs that never come: a lost wake-up is a deadlock."""

import threading
import time

import pytest
from tests.node.explore import planted
from tests.node.test_free_list import Mailbox, empty

from headrace.node import futex
from headrace.node.free_list import LISTED, NO_UNIT, new_free_list, next_task, on_done, on_ready
from headrace.node.parking import (
    Lot,
    await_work,
    park,
    prepare,
    ring,
    stop_all,
    wake_all,
    wake_one,
)
from headrace.stage.memory.atomics import load_acquire, load_relaxed, store_release
from headrace.stage.memory.records import compiled, interpreted

SECOND = futex.SECOND


def send(lot, units, box, letters):
    for i in range(letters):
        store_release(box, "letters", i + 1)
        listed = on_ready(units, 0, 0)
        if listed == LISTED:
            wake_one(lot)


def work(lot, units, boxes, spins):
    """A worker, until it is told to stop."""
    while True:
        stop = load_relaxed(units, "stop")
        if stop != 0:
            return
        unit, _ = next_task(units, 0)
        if unit == NO_UNIT:
            await_work(lot, units, spins, SECOND)
        else:
            empty(boxes[unit])
            listed = on_done(units, unit, 0, 0, 0)
            if listed == LISTED:
                wake_one(lot)


def work_until(lot, units, box, letters):
    """A worker, until all is read; then it tells the others to stop."""
    while True:
        done = load_acquire(box, "all")
        if done == letters:
            stop_all(lot, units)
            return
        unit, _ = next_task(units, 0)
        if unit == NO_UNIT:
            await_work(lot, units, 0, SECOND)
        else:
            empty(box)
            listed = on_done(units, unit, 0, 0, 0)
            if listed == LISTED:
                wake_one(lot)


def one_worker(letters, **bugs):
    lot, (units, states), box = Lot.allocate(), new_free_list(1), Mailbox.allocate()
    bugs = {"TRIES": 2, **bugs}
    sender, worker = interpreted(send, **bugs), interpreted(work_until, **bugs)

    def check(results):
        assert box.read == letters and lot.sleepers == 0 and states is not None

    return [
        lambda: sender(lot, units, box, letters),
        lambda: worker(lot, units, box, letters),
    ], check


def stopping(workers, **bugs):
    """Workers without work, and a stop."""
    lot, (units, states), boxes = Lot.allocate(), new_free_list(1), Mailbox.allocate()
    worker, stop = interpreted(work, **bugs), interpreted(stop_all, **bugs)
    bodies = [lambda: worker(lot, units, boxes, 0)] * workers
    bodies.append(lambda: stop(lot, units))

    def check(results):
        assert lot.sleepers == 0 and states is not None

    return bodies, check


@pytest.mark.parametrize("letters", [1, 2])
def test_no_wake_up_is_lost(explored, letters):
    explored(f"parking, {letters} letters", *one_worker(letters))


def test_all_workers_are_told_to_stop(explored):
    explored("stopping 1 worker", *stopping(1))
    explored("stopping 2 workers", *stopping(2), models=("tso", "sc"))


def test_two_workers_and_a_sender(explored):
    lot, (units, _), box = Lot.allocate(), new_free_list(1), Mailbox.allocate()
    sender, worker = interpreted(send, TRIES=2), interpreted(work_until, TRIES=2)
    bodies = [lambda: sender(lot, units, box, 1)]
    bodies += [lambda: worker(lot, units, box, 1)] * 2
    explored("parking, 2 workers", bodies, models=("tso", "sc"))


# ---- planted bugs --------------------------------------------------------------------------


def lost(failures, *models):
    assert set(failures) == set(models)
    return all(failure.startswith("deadlock") for failure in failures.values())


def test_parking_without_the_last_scan_is_found(found):
    bug = planted(
        await_work,
        "    ticket = prepare(lot)\n    found = worth_a_look(list)\n",
        "    ticket = prepare(lot)\n    found = False\n",
    )
    assert lost(found(*one_worker(1, await_work=bug)), "sc", "tso", "weak")


def test_scanning_before_the_announcement_is_found(found):
    bug = planted(
        await_work,
        "    ticket = prepare(lot)\n    found = worth_a_look(list)\n",
        "    found = worth_a_look(list)\n    ticket = prepare(lot)\n",
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


def test_waking_before_ringing_is_found(found):
    bug = planted(
        ring,
        '    fetch_add(lot.bell, "value", 1)\n    wake(lot.bell.address, count)',
        '    wake(lot.bell.address, count)\n    fetch_add(lot.bell, "value", 1)',
    )
    assert lost(found(*one_worker(1, ring=bug)), "sc", "tso", "weak")


def test_stopping_without_a_barrier_is_found(found):
    old, new = 'store_sc(list, "stop", 1)', 'store_release(list, "stop", 1)'
    bug = planted(stop_all, old, new, store_release=store_release)
    assert lost(found(*stopping(1, stop_all=bug)), "tso", "weak")


# ---- real threads --------------------------------------------------------------------------


@pytest.mark.parametrize("life", [lambda f: f, interpreted])
def test_a_thread_sleeps_and_is_woken(life):
    lot, (units, _) = Lot.allocate(), new_free_list(1)
    sleep, wake = life(await_work), life(wake_one)
    started = time.perf_counter()
    assert sleep(lot, units, 3, SECOND // 20)  # nobody comes
    assert 0.04 < time.perf_counter() - started < 5
    assert not wake(lot)
    thread = threading.Thread(target=sleep, args=(lot, units, 3, 20 * SECOND))
    started = time.perf_counter()
    thread.start()
    while load_acquire(lot, "sleepers") == 0 and time.perf_counter() - started < 5:
        time.sleep(0.001)
    assert wake(lot)
    thread.join(5)
    assert not thread.is_alive() and time.perf_counter() - started < 5 and lot.sleepers == 0


def test_all_threads_are_woken_and_idle_ones_use_no_cpu():
    lot, (units, _) = Lot.allocate(), new_free_list(1)

    @compiled
    def sleep_until_stopped(lot, units, rounds):
        for _ in range(rounds):
            stop = load_acquire(units, "stop")
            if stop != 0:
                return True
            await_work(lot, units, 100, 100_000_000)
        return False

    sleep_until_stopped(lot, units, 0)
    stop_all(Lot.allocate(), new_free_list(1)[0])  # compiled now
    wake_all(lot)
    threads = [
        threading.Thread(target=sleep_until_stopped, args=(lot, units, 200)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    used = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - used < 0.1
    started = time.perf_counter()
    stop_all(lot, units)
    for thread in threads:
        thread.join(5)
    assert not any(thread.is_alive() for thread in threads)
    assert time.perf_counter() - started < 0.09  # not by the time-out
