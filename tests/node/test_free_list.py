"""The queue of ready units over all interleavings: each unit that is put is picked once."""

import pytest
from tests.node.explore import planted

from headrace.node.free_list import NO_UNIT, has_work, new_free_list, pick, put
from headrace.stage.memory.atomics import load_relaxed, pause, store_relaxed
from headrace.stage.memory.records import interpreted

# ---- one thread ----------------------------------------------------------------------------


def test_units_come_in_the_order_in_which_they_were_put():
    units = new_free_list(5)
    assert not has_work(units)
    assert [put(units, unit) for unit in (3, 1, 4)] == [True] * 3 and has_work(units)
    assert pick(units) == 3 and put(units, 3)  # to the back
    assert [pick(units) for _ in range(4)] == [1, 4, 3, NO_UNIT] and not has_work(units)


def test_the_queue_goes_round():
    units = new_free_list(3)
    for turn in range(50):
        put(units, turn % 3)
        put(units, (turn + 1) % 3)
        assert [pick(units), pick(units)] == [turn % 3, (turn + 1) % 3]


def test_a_place_that_is_never_left_is_not_waited_for_without_end():
    units = new_free_list(1)
    units.entries[0].turn = 7  # as if a worker were stopped in the middle of pick
    assert not interpreted(put, ROUNDS=3)(units, 0)


# ---- all interleavings ---------------------------------------------------------------------


def put_one(units, unit):
    put(units, unit)


def pick_until(units, count):
    picked = []
    while len(picked) < count:
        unit = pick(units)
        if unit == NO_UNIT:
            pause()
        else:
            picked.append(unit)
    return picked


def test_the_queue_alone(explored):
    units = new_free_list(2)
    putting, picking = interpreted(put_one), interpreted(pick_until)

    def check(results):
        assert sorted(results[2] + results[3]) == [0, 1]

    bodies = [lambda: putting(units, 0), lambda: putting(units, 1)]
    bodies += [lambda: picking(units, 1)] * 2
    explored("the queue, 2 put and 2 pick", bodies, check, models=("tso", "sc"))
    explored("the queue, 1 puts and 1 picks", [bodies[0], bodies[2]])


def put_and_look(units):
    put(units, 0)
    return has_work(units)


def test_has_work_misses_nothing_that_was_put(explored):
    units = new_free_list(2)
    putting, looking = interpreted(put_one), interpreted(put_and_look)

    def check(results):
        assert results[1], "what was put before was missed"

    explored("a look at the queue", [lambda: putting(units, 1), lambda: looking(units)], check)


# ---- planted bugs --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "old", "new"),
    [
        (put, 'store_release(entry, "turn"', 'store_relaxed(entry, "turn"'),
        (pick, 'load_acquire(entry, "turn")', 'load_relaxed(entry, "turn")'),
    ],
)
def test_a_relaxed_turn_is_found(found, function, old, new):
    bug = planted(function, old, new, store_relaxed=store_relaxed)
    units = new_free_list(1)
    bugs = {function.__name__: bug}
    putting, picking = interpreted(put_one, **bugs), interpreted(pick_until, **bugs)
    failures = found([lambda: putting(units, 0), lambda: picking(units, 1)])
    assert set(failures) == {"weak"} and "races" in failures["weak"]
    assert load_relaxed(units, "tail") == 0
