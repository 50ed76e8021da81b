"""Claims over all interleavings: a unit runs on one worker at a time, and none is forgotten.

A unit here is a mailbox: who puts something in announces it; a worker that runs the unit empties
it. Workers pause when they find nothing, so a forgotten unit is a deadlock.
"""

from tests.node.explore import planted

from headrace.node.claims import (
    IDLE,
    LISTED,
    NOTIFIED,
    RUNNING,
    UnitState,
    announce,
    claim,
    release,
    release_listed,
)
from headrace.node.free_list import NO_UNIT, new_free_list, pick, put
from headrace.stage.memory.atomics import load_acquire, pause, store_release
from headrace.stage.memory.records import compiled, i64, interpreted, line, record


@record
class Letters:
    sent: i64 = line()  # written by their one sender
    read: i64 = line()  # written by who runs the unit, without atomics: runs do not overlap
    all: i64 = line()  # as read, for others to see


# ---- one thread ----------------------------------------------------------------------------


def test_a_unit_is_listed_once_and_told_while_it_runs():
    state = UnitState.allocate()
    assert [announce(state) for _ in range(3)] == [True, False, False] and state.state == LISTED
    assert claim(state) and state.state == RUNNING
    assert not announce(state) and not announce(state) and state.state == RUNNING | NOTIFIED
    assert release(state) and state.state == LISTED
    assert claim(state) and not release(state) and state.state == IDLE


def test_a_unit_that_is_proposed_while_it_runs_comes_back():
    state = UnitState.allocate()
    announce(state)
    assert claim(state) and not claim(state) and state.state == RUNNING | NOTIFIED
    assert release(state)


def test_a_unit_with_more_to_do_stays_listed():
    state = UnitState.allocate()
    announce(state)
    claim(state)
    release_listed(state)
    assert state.state == LISTED and not announce(state)


# ---- all interleavings ---------------------------------------------------------------------


def send_letters(units, state, box, unit, count):
    for i in range(count):
        store_release(box, "sent", i + 1)
        listed = announce(state)
        if listed:
            put(units, unit)


@compiled
def empty(box, most):
    """Run the unit: overlapping runs would be a race of `read`. Gives what is left."""
    sent = load_acquire(box, "sent")
    read = min(sent, box.read + most)
    box.read = read
    store_release(box, "all", read)
    return sent - read


@compiled
def run(units, state, box, unit, most):
    left = empty(box, most)
    if left > 0:
        release_listed(state)
        put(units, unit)
        return
    listed = release(state)
    if listed:
        put(units, unit)


def work(units, states, boxes, count, total, most):
    """A worker, until the units have read all letters."""
    while True:
        done = 0
        for unit in range(count):
            done += load_acquire(boxes[unit], "all")
        if done == total:
            return
        unit = pick(units)
        ours = claim(states[unit]) if unit != NO_UNIT else False
        if ours:
            run(units, states[unit], boxes[unit], unit, most)
        else:
            pause()


def work_out_of_turn(units, states, boxes, count, total, most):
    """A worker of a scheduler that proposes unit 0 whether it was listed or not."""
    while True:
        done = load_acquire(boxes[0], "all")
        if done == total:
            return
        ours = claim(states[0])
        if ours:
            run(units, states[0], boxes[0], 0, most)
        else:
            pause()


def try_out_of_turn(units, states, boxes, count, total, most):
    """The same, once, and the run takes nothing."""
    ours = claim(states[0])
    if ours:
        listed = release(states[0])
        if listed:
            put(units, 0)


def mailboxes(count, letters, workers, most=9, tidy=True, **bugs):
    """One sender for each unit. tidy: a unit is in the queue exactly if it is listed."""
    units, states, boxes = new_free_list(count), UnitState.allocate(count), Letters.allocate(count)
    total = count * letters
    send = interpreted(send_letters, **bugs)
    bodies = [lambda u=u: send(units, states[u], boxes[u], u, letters) for u in range(count)]
    for body in workers:
        twin = interpreted(body, **bugs)
        bodies.append(lambda twin=twin: twin(units, states, boxes, count, total, most))

    def check(results):
        assert [boxes[unit].read for unit in range(count)] == [letters] * count
        assert states[0].state in (IDLE, LISTED), f"the unit is left in state {states[0].state}"
        in_queue = units.tail - units.head
        listed = sum(states[unit].state == LISTED for unit in range(count))
        assert in_queue == listed or not tidy, f"{in_queue} units in the queue, {listed} listed"

    return bodies, check


def test_one_worker_forgets_nothing(explored):
    explored("claims on 1 unit", *mailboxes(1, 2, [work]))
    explored("claims on 1 unit that takes a letter a run", *mailboxes(1, 2, [work], most=1))


def test_two_workers_run_a_unit_one_at_a_time(explored):
    explored("claims on 1 unit, 2 workers", *mailboxes(1, 1, [work, work]))
    explored("the same, 2 letters", *mailboxes(1, 2, [work, work]), models=("sc",))


def test_a_worker_serves_two_units(explored):
    explored("claims on 2 units", *mailboxes(2, 1, [work]), models=("tso", "sc"))


def test_units_are_proposed_out_of_turn(explored):
    """A scheduler may propose what it likes: claims see to the rest."""
    for body in (work_out_of_turn, try_out_of_turn):
        bodies = mailboxes(1, 1, [work, body], tidy=False)
        explored(f"a unit out of turn, {body.__name__}", *bodies, models=("tso", "sc"))
    explored("a unit tried out of turn", *mailboxes(1, 1, [work, try_out_of_turn], tidy=False))


# ---- planted bugs --------------------------------------------------------------------------


def test_not_telling_a_running_unit_is_found(found):
    bug = planted(announce, "after = RUNNING | NOTIFIED", "after = RUNNING")
    failures = found(*mailboxes(1, 2, [work], announce=bug))
    assert set(failures) == {"sc", "tso", "weak"}
    assert failures["sc"].startswith("deadlock")


def test_a_look_instead_of_an_update_is_found(found):
    """`announce` sees LISTED and goes; its letter is in the store buffer when the run looks."""
    bug = planted(
        announce,
        '        changed = cas(state, "state", before, after)',
        "        if before == after:\n            return False\n"
        '        changed = cas(state, "state", before, after)',
    )
    assert set(found(*mailboxes(1, 2, [work], announce=bug))) == {"tso", "weak"}


def test_forgetting_to_unlock_is_found(found):
    bug = planted(release, "LISTED if before & NOTIFIED else IDLE", "before")
    assert set(found(*mailboxes(1, 2, [work], release=bug))) == {"sc", "tso", "weak"}


def test_a_release_that_forgets_what_arrived_is_found(found):
    bug = planted(release, "LISTED if before & NOTIFIED else IDLE", "IDLE")
    failures = found(*mailboxes(1, 2, [work], release=bug))
    assert set(failures) == {"sc", "tso", "weak"} and failures["sc"].startswith("deadlock")


def test_listing_before_the_release_is_found(found):
    """Another worker picks the unit while it still runs, and it is listed twice."""
    bug = planted(
        run,
        "        release_listed(state)\n        put(units, unit)\n",
        "        put(units, unit)\n        release_listed(state)\n",
    )
    bodies = mailboxes(1, 2, [work, work], most=1, run=bug)
    assert set(found(*bodies, models=("tso", "sc"))) == {"sc", "tso"}


def test_running_a_unit_twice_at_once_is_found(found):
    bug = planted(claim, "free = before & RUNNING == 0", "free = True")
    failures = found(*mailboxes(1, 1, [work, work_out_of_turn], tidy=False, claim=bug))
    assert "races" in failures["weak"]


def test_dropping_a_picked_unit_that_runs_is_found(found):
    bug = planted(claim, "RUNNING if free else RUNNING | NOTIFIED", "RUNNING")
    failures = found(*mailboxes(1, 1, [work, try_out_of_turn], tidy=False, claim=bug))
    assert set(failures) == {"sc", "tso", "weak"}
    assert failures["sc"].startswith("deadlock")
