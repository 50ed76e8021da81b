"""Permits for long runs: a worker is always left for units whose rows take little time.

A run is bounded in rows, and takes at least one. Where a single row takes longer than a run should
(a user's function of milliseconds), workers would all be inside such rows sooner or later, and
everybody else would wait for them. So a unit with rows like that needs a permit, and there is one
less than there are workers. A unit that gets none waits in a list of its own, and is listed again
when a permit is given back.

Both sides write first and then look at what the other wrote (as `parking` does): either who was
refused sees the permit, or who gives it back sees the unit.
"""

from __future__ import annotations

from headrace.node.free_list import NO_UNIT, FreeList, has_work, pick, put
from headrace.stage.memory.atomics import cas, fetch_add, load_sc, pause
from headrace.stage.memory.records import compiled, i64, line, record

TRIES = 64
NOBODY = NO_UNIT


@record
class Permits:
    """How many are left; written by everybody."""

    left: i64 = line()
    waiting: i64 = line()  # fixed: the FreeList of units that wait for one


@compiled
def take_permit(permits):
    """Is there one, and so now one less?"""
    for _ in range(TRIES):
        left = load_sc(permits, "left")
        if left <= 0:
            return False
        taken = cas(permits, "left", left, left - 1)
        if taken:
            return True
        pause()
    return False


@compiled
def wait_for_permit(permits, unit):
    """A unit that is listed, and was refused, waits; gives a unit that is to be listed after all,
    since there is a permit by now."""
    put(FreeList(permits.waiting), unit)
    return who_is_next(permits)


@compiled
def give_permit(permits):
    """One is back; gives the unit that is to be listed for it."""
    fetch_add(permits, "left", 1)
    return who_is_next(permits)


@compiled
def who_is_next(permits):
    """A unit that waits, if there is a permit."""
    left = load_sc(permits, "left")
    if left <= 0:
        return NOBODY
    waiting = FreeList(permits.waiting)
    for _ in range(TRIES):
        there = has_work(waiting)
        if not there:
            return NOBODY
        unit = pick(waiting)
        if unit != NO_UNIT:
            return unit
        pause()
    return NOBODY
