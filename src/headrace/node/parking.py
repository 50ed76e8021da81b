"""Parking: what a worker does that finds no work, and how a publish wakes one.

Streams fig. 5 blocks for a time when find-work fails, which it may though there is work (§4.1.3).
Here the time-out is only the last resort. A worker

1. spins for a moment, since work mostly comes at once;
2. *prepares*: counts itself among the sleepers and remembers the bell's value;
3. scans once more, with a scan that never misses what was put before;
4. sleeps while the bell has that value.

Who has put a unit in the list looks whether anybody sleeps, and only then rings the bell and calls
the system. Both sides write first and then look at what the other wrote, with sequentially
consistent accesses; so either the last scan sees the unit, or the publisher sees the sleeper.
"""

from __future__ import annotations

from headrace.node.futex import ALL, Word, wait, wake
from headrace.stage.memory.atomics import fetch_add, load_acquire, load_sc
from headrace.stage.memory.records import compiled, i64, line, record


@record
class Lot:
    """Where the workers of an engine sleep. `Lot.allocate()` makes one."""

    bell: Word = line()  # changes with every wake-up
    sleepers: i64 = line()  # workers that have prepared and not left


@compiled
def prepare(lot):
    """Announce that this worker is about to sleep; gives the ticket for `park`. Scan after it, then
    park or leave."""
    fetch_add(lot, "sleepers", 1)
    return load_acquire(lot.bell, "value")  # before the scan: a ring after it cuts the sleep short


@compiled
def leave(lot):
    """Stop being a sleeper: after `park`, or instead of it."""
    fetch_add(lot, "sleepers", -1)


@compiled
def park(lot, ticket, ns):
    """Sleep until the bell rings, or rang since `prepare`, or the time is over."""
    wait(lot.bell.address, ticket, ns)


@compiled
def wake_one(lot):
    """Call after publishing; cheap where nobody sleeps. Was there a sleeper?"""
    sleepers = load_sc(lot, "sleepers")
    if sleepers == 0:
        return False
    ring(lot, 1)
    return True


@compiled
def wake_all(lot):
    """As wake_one, for all sleepers."""
    sleepers = load_sc(lot, "sleepers")
    if sleepers != 0:
        ring(lot, ALL)


@compiled
def ring(lot, count):
    """The bell changes first, so that who is just falling asleep does not."""
    fetch_add(lot.bell, "value", 1)
    wake(lot.bell.address, count)
