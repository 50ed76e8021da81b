"""Claims on units: each runs on one worker at a time, and none with something to do is forgotten.

Each unit has a word of three bits. LISTED: a scheduler has it somewhere, and will propose it.
RUNNING: a worker has it, which is Streams' consumer lock (fig. 3) for the whole unit. NOTIFIED:
something arrived while it ran, so it is listed again after the run. Every change, also "nothing to
change", is an atomic update of the word: what was published before `announce` is seen by the run
that `announce` relied on.

Claims do not belong to a scheduler. It keeps units in whatever order it likes, and proposes one
after the other; who may run is decided here.
"""

from __future__ import annotations

from headrace.stage.memory.atomics import cas, load_relaxed, pause
from headrace.stage.memory.records import compiled, i64, line, record

IDLE, LISTED, RUNNING, NOTIFIED = 0, 1, 2, 4
ROUNDS = 1 << 24  # of what must be done; each lost round is one that another worker won


@record
class UnitState:
    """LISTED | RUNNING | NOTIFIED of one unit; written by everybody."""

    state: i64 = line()


@compiled
def announce(state):
    """The unit may have something to do. True: the caller has to list it.

    >>> state = UnitState.allocate()
    >>> announce(state), announce(state), claim(state), announce(state), release(state)
    (True, False, True, False, True)
    """
    for _ in range(ROUNDS):
        before = load_relaxed(state, "state")
        after = before
        if before == IDLE:
            after = LISTED
        elif before == RUNNING:
            after = RUNNING | NOTIFIED
        changed = cas(state, "state", before, after)  # also when after == before, see above
        if changed:
            return before == IDLE
        pause()
    return False


@compiled
def is_running(state):
    """Has a worker the unit? True only for a moment."""
    return load_relaxed(state, "state") & RUNNING != 0


@compiled
def claim(state):
    """Take a unit that was listed and no longer is. False: another worker runs it, and will list
    it again."""
    for _ in range(ROUNDS):
        before = load_relaxed(state, "state")
        free = before & RUNNING == 0
        after = RUNNING if free else RUNNING | NOTIFIED
        changed = cas(state, "state", before, after)
        if changed:
            return free
        pause()
    return False


@compiled
def release(state):
    """The run is over. True: the unit was announced meanwhile, and the caller has to list it."""
    for _ in range(ROUNDS):
        before = load_relaxed(state, "state")
        after = LISTED if before & NOTIFIED else IDLE
        changed = cas(state, "state", before, after)
        if changed:
            return after == LISTED
        pause()
    return False


@compiled
def release_listed(state):
    """The run is over, and the unit has more to do: the caller lists it."""
    for _ in range(ROUNDS):
        before = load_relaxed(state, "state")
        changed = cas(state, "state", before, LISTED)
        if changed:
            return
        pause()
