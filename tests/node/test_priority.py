"""The scheduler `priority`: its order, and all interleavings of those who list, pick and rank."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.node.explore import planted
from tests.node.small import AWAKE, SmallEngine

from headrace.node.free_list import NO_UNIT
from headrace.node.schedulers import priority
from headrace.node.schedulers.hooks import AGAIN, ARRIVED, NEAR, Turn
from headrace.node.schedulers.priority import (
    BITS,
    Order,
    Priority,
    is_ready,
    list_bit,
    next_task,
    on_ready,
    take_bit,
)
from headrace.stage.memory.atomics import load_relaxed, store_relaxed, store_release
from headrace.stage.memory.records import i64s, interpreted

UNITS = 3 * BITS


# ---- one thread ----------------------------------------------------------------------------


class Asked:
    """A scheduler and the turns of its workers, interpreted."""

    def __init__(self, units=UNITS, workers=2):
        self.scheduler = Priority(units, workers)
        self._hooks = [interpreted(hook) for hook in (on_ready, next_task, is_ready)]
        self.turn = Turn.allocate()
        self.turn.scheduler = self.scheduler.memory

    def ready(self, unit, how=ARRIVED, worker=-1):
        self.turn.worker, self.turn.unit, self.turn.how = worker, unit, how
        return self._hooks[0](self.turn.address)

    def next(self, worker=-1):
        self.turn.worker, self.turn.more = worker, 0
        return self._hooks[1](self.turn.address)

    def has_work(self):
        return self._hooks[2](self.turn.address) == 1

    def rank(self, ranks, limits=None):
        units = np.array(list(ranks), np.int64)
        limits = np.zeros(len(units), np.int64) if limits is None else limits
        self.scheduler.rank(units, np.array(list(ranks.values())), limits)


@given(
    listed=st.lists(st.integers(0, UNITS - 1), unique=True),
    orders=st.lists(st.lists(st.integers(0, 5), min_size=UNITS, max_size=UNITS), max_size=4),
)
def test_units_come_in_the_order_that_is_in_force(listed, orders):
    """Against sorting; a new order is about what is listed already, too."""
    asked, waiting = Asked(), set(listed)
    ranks = [0] * UNITS
    for unit in listed:
        asked.ready(unit)
    while waiting:
        if orders:
            ranks = orders.pop()
            asked.rank(dict(enumerate(ranks)))
        assert asked.has_work()
        unit = asked.next()
        assert unit in waiting and ranks[unit] == min(ranks[each] for each in waiting)
        waiting.remove(unit)
    assert asked.next() == NO_UNIT and not asked.has_work()


def test_equals_take_turns():
    asked, seen = Asked(), []
    for unit in range(3):
        asked.ready(unit)
    for _ in range(6):
        unit = asked.next(worker=0)
        seen.append(unit)
        asked.ready(unit)  # it has more to do
    assert sorted(seen[:3]) == [0, 1, 2] and seen[:3] == seen[3:]


def test_of_equals_a_worker_takes_what_is_near():
    asked = Asked()
    asked.ready(0, NEAR, worker=1)
    asked.ready(40, NEAR, worker=0)
    assert asked.next(worker=0) == 40
    asked.rank({0: 1, 41: 0})  # what comes first is more than what is near
    asked.ready(41)
    asked.ready(0, NEAR, worker=1)
    assert asked.next(worker=1) == 41


def test_a_worker_is_woken_for_what_the_one_that_wrote_it_leaves():
    asked = Asked()
    assert asked.ready(5) == 1
    assert asked.ready(6, NEAR, worker=0) == 0  # it takes it next
    assert asked.ready(7, NEAR, worker=0) == 1
    assert asked.ready(8, AGAIN, worker=0) == 0
    asked.rank({5: 0, 6: 1, 7: 2, 8: 3})
    assert (asked.next(worker=0), asked.turn.more) == (5, 1)
    assert (asked.next(worker=0), asked.turn.more) == (6, 0)


def test_limits_belong_to_units():
    asked = Asked()
    asked.rank({0: 1, 1: 0}, limits=np.array([7, 0]))
    asked.ready(0)
    asked.ready(1)
    assert [(asked.next(), asked.turn.limit) for _ in range(2)] == [(1, 0), (0, 7)]


# ---- all interleavings ---------------------------------------------------------------------


def small(units=1, workers=1, letters=1, step=0, **bugs):
    made = SmallEngine(
        units, workers, letters, step, scheduler=Priority(units, workers), **{"PICKS": 2, **bugs}
    )
    return made.bodies(), made.check


def test_a_worker_forgets_nothing(explored):
    explored("priority, 1 unit", *small(letters=2))
    explored("priority, 1 unit that takes a letter a run", *small(letters=2, step=1))


def test_two_units_share_a_word(explored):
    explored("priority, 2 units", *small(units=2, **AWAKE), models=("tso", "sc"))


def test_two_workers(explored):
    explored("priority, 2 workers", *small(workers=2, **AWAKE), models=("tso", "sc"))


def reordered(**bugs):
    """Two units in one word, and a control thread that ranks them anew all the time."""
    made = SmallEngine(2, 1, scheduler=Priority(2, 1), PICKS=2, **{**AWAKE, **bugs})
    scheduler = made.scheduler
    record, orders = scheduler._record, scheduler._orders

    def rank():
        for number in range(2):
            order = orders[1 - number]
            for unit in range(2):
                store_relaxed(i64s(Order(order.address).ranks), unit, unit ^ number)
            store_release(record, "order", order.address)

    return [*made.bodies(), rank], made.check


def test_ranks_change_meanwhile(explored):
    explored("priority, another order meanwhile", *reordered(), models=("sc",))


def lost(failures, *models):
    assert set(failures) == set(models)
    return all(failure.startswith("deadlock") for failure in failures.values())


def test_a_bit_that_is_stored_is_found(found):
    """What another thread has set in the same word is lost."""
    bug = planted(
        list_bit,
        "changed = cas(i64s(record.listed), place, bits, bits | bit)",
        "changed = store_relaxed(i64s(record.listed), place, bits | bit) is None",
        store_relaxed=store_relaxed,
    )
    failures = found(*small(units=2, **AWAKE, list_bit=bug), models=("tso", "sc"))
    assert lost(failures, "tso", "sc")


def test_words_that_grow_behind_the_bit_are_found(found):
    """A last scan of the words before sees nothing, and who lists saw nobody sleep."""
    growing = "    for _ in range(ROUNDS):\n        words = load_relaxed"
    bug = planted(
        list_bit,
        growing,
        "    bits = load_relaxed(i64s(record.listed), place)\n"
        "    cas(i64s(record.listed), place, bits, bits | bit)\n"
        "    if load_relaxed(record, 'words') > place:\n        return\n"
        "    store_relaxed(record, 'words', place + 1)\n    return\n" + growing,
        store_relaxed=store_relaxed,
    )
    assert lost(found(*small(list_bit=bug), models=("tso", "weak")), "tso", "weak")


def test_a_last_scan_without_order_is_found(found):
    bug = planted(
        is_ready, "load_sc(i64s(record.listed)", "load_relaxed(i64s(record.listed)",
        load_relaxed=load_relaxed,
    )  # fmt: skip
    words = planted(
        bug, 'load_sc(record, "words")', 'load_relaxed(record, "words")', load_relaxed=load_relaxed
    )
    made = SmallEngine(scheduler=_with(Priority(1, 1), 3, words), PICKS=2)
    assert lost(found(made.bodies(), made.check), "weak")


def test_not_waking_for_what_arrives_is_found(found):
    bug = planted(on_ready, "    useful = 1\n", "    useful = 0\n")
    made = SmallEngine(scheduler=_with(Priority(1, 1), 0, bug), PICKS=2)
    assert lost(found(made.bodies(), made.check), "sc", "tso", "weak")


def test_a_pick_that_clears_the_whole_word_is_found(found):
    bug = planted(take_bit, "bits & ~bit)", "0)")
    failures = found(*small(units=2, **AWAKE, take_bit=bug), models=("tso", "sc"))
    assert lost(failures, "tso", "sc")


def _with(scheduler, place, hook):
    """A scheduler one of whose hooks is another function."""
    scheduler.hooks = (*scheduler.hooks[:place], hook, *scheduler.hooks[place + 1 :])
    return scheduler


@pytest.mark.compiled
def test_the_hooks_are_compiled():
    assert [hook.load(int).result for hook in Priority.hooks] == ["integer"] * 5
    assert priority.has_seat.py_func.__doc__
