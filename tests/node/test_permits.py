"""Permits for long runs over all interleavings: a unit that waits is not forgotten."""

from tests.node.explore import planted

from headrace.node.free_list import has_work, new_free_list
from headrace.node.permits import (
    NOBODY,
    Permits,
    give_permit,
    take_permit,
    wait_for_permit,
    who_is_next,
)
from headrace.node.schedulers.hooks import COST_UNIT
from headrace.node.unit import Unit
from headrace.node.worker import WATCHED_RUNS, is_watched, note_cost
from headrace.stage.memory.records import interpreted

RUN_NS = 200_000
TAKEN = 100  # besides the numbers of units


def run_long(permits, unit):
    """A worker that has claimed a unit with long rows; gives the unit that is to be listed."""
    allowed = take_permit(permits)
    if allowed:
        return TAKEN
    return wait_for_permit(permits, unit)


def give_back(permits):
    """A worker whose long run is over."""
    return give_permit(permits)


def permits_for(count, workers):
    waiting, permits = new_free_list(workers), Permits.allocate()
    permits.left, permits.waiting = count, waiting.address
    return permits, waiting


def one_gives_others_want(wanting, **bugs):
    """All permits are taken; one comes back while others want one."""
    permits, waiting = permits_for(0, wanting)
    want, give = interpreted(run_long, **bugs), interpreted(give_back, **bugs)
    bodies = [lambda: give(permits)]
    bodies += [lambda unit=unit: want(permits, unit) for unit in range(wanting)]

    def check(results):
        taken = results.count(TAKEN)
        listed = [unit for unit in results if unit not in (TAKEN, NOBODY)]
        assert len(listed) == len(set(listed)), "a unit was listed twice"
        assert taken <= 1
        assert listed or taken or not has_work(waiting), "a unit waits beside a permit"

    return bodies, check


def test_a_permit_that_comes_back_finds_who_waits(explored):
    explored("a permit and a unit", *one_gives_others_want(1))
    explored("a permit and two units", *one_gives_others_want(2), models=("tso", "sc"))


def test_permits_are_counted():
    permits, waiting = permits_for(2, 3)
    assert [take_permit(permits) for _ in range(3)] == [True, True, False]
    assert wait_for_permit(permits, 1) == NOBODY and has_work(waiting)
    assert give_permit(permits) == 1 and permits.left == 1
    assert give_permit(permits) == NOBODY and permits.left == 2


def ran(unit, rows, ns, full=True):
    """A run of a unit that should take 200 µs at most."""
    unit.rows_in += rows
    note_cost(RUN_NS, unit, rows, ns, full)


def test_a_row_is_long_only_if_it_was_on_a_core_for_long():
    unit = Unit.allocate()
    ran(unit, 1, 1_000)
    assert unit.cost == 1_000 * COST_UNIT and unit.watched == 0
    ran(unit, 1, 4_000_000)  # its thread may have waited for a core
    assert unit.cost == 1_000 * COST_UNIT and unit.watched == WATCHED_RUNS
    for _ in range(WATCHED_RUNS):
        ran(unit, 1, 1_000)
    assert unit.cost == 1_000 * COST_UNIT and unit.watched == 0


def test_a_first_row_that_takes_long_is_believed():
    unit = Unit.allocate()
    assert is_watched(unit)  # so the time that it has a core counts
    ran(unit, 1, 10_000_000)
    assert unit.cost == 10_000_000 * COST_UNIT and unit.watched == WATCHED_RUNS


def test_rows_that_take_long_now_and_then_stay_watched():
    unit = Unit.allocate()
    for ns in (10_000_000, 10_000_000, 1_000, 1_000, 10_000_000):
        ran(unit, 1, ns)
    assert unit.cost > RUN_NS * COST_UNIT and unit.watched == WATCHED_RUNS


def test_a_run_is_long_only_if_it_was_on_a_core_for_long():
    unit = Unit.allocate()
    ran(unit, 10_000, 50_000)
    ran(unit, 10_000, 4_000_000)  # its thread may have waited for a core
    assert unit.cost == 5 * COST_UNIT and unit.watched == WATCHED_RUNS
    ran(unit, 10_000, 4_000_000)  # it did not
    assert unit.cost == 400 * COST_UNIT and unit.watched == WATCHED_RUNS


def test_many_rows_are_believed_rather_than_the_few_before():
    unit = Unit.allocate()
    ran(unit, 1, 1_000)
    ran(unit, 200, 1_200, full=False)
    assert unit.cost < 30 * COST_UNIT


def test_the_last_rows_of_a_split_tell_little_of_what_a_row_costs():
    unit = Unit.allocate()
    ran(unit, 10_000, 100_000, full=False)
    for _ in range(10):
        ran(unit, 1, 1_000, full=False)
    assert unit.cost < 30 * COST_UNIT
    ran(unit, 1, 100_000, full=False)
    assert unit.cost > 1_000 * COST_UNIT
    for _ in range(40):
        ran(unit, 100, 1_000)  # as many as it was allowed
    assert unit.cost < 30 * COST_UNIT


def test_waiting_without_a_second_look_is_found(found):
    bug = planted(wait_for_permit, "return who_is_next(permits)", "return NOBODY", NOBODY=NOBODY)
    assert set(found(*one_gives_others_want(1, wait_for_permit=bug))) == {"sc", "tso", "weak"}


def test_giving_without_a_look_is_found(found):
    bug = planted(give_permit, "return who_is_next(permits)", "return NOBODY", NOBODY=NOBODY)
    assert set(found(*one_gives_others_want(1, give_permit=bug))) == {"sc", "tso", "weak"}


def test_looking_before_the_permit_is_back_is_found(found):
    bug = planted(
        give_permit,
        'fetch_add(permits, "left", 1)\n    return who_is_next(permits)',
        'unit = who_is_next(permits)\n    fetch_add(permits, "left", 1)\n    return unit',
        who_is_next=who_is_next,
    )
    assert set(found(*one_gives_others_want(1, give_permit=bug))) == {"sc", "tso", "weak"}
