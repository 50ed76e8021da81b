"""The free list over all interleavings: a unit runs on one worker at a time, and none is forgotten.

A unit here is a mailbox: who puts something in calls on_ready; a worker that runs the unit empties
it. Workers pause when they find nothing, so a forgotten unit is a deadlock.
"""

import pytest
from tests.node.explore import planted

from headrace.node.free_list import (
    DRAIN,
    IDLE,
    LISTED,
    NO_UNIT,
    NOTHING_TO_DO,
    NOTIFIED,
    QUEUED,
    RUNNING,
    has_work,
    new_free_list,
    next_task,
    on_done,
    on_ready,
    pick,
    put,
    start_picked,
    try_unit,
)
from headrace.stage.memory.atomics import (
    load_acquire,
    load_relaxed,
    pause,
    store_relaxed,
    store_release,
)
from headrace.stage.memory.records import compiled, i64, interpreted, line, record


@record
class Mailbox:
    letters: i64 = line()  # written by its one sender
    read: i64 = line()  # written by who runs the unit, without atomics: runs do not overlap
    all: i64 = line()  # as read, for others to see


# ---- one thread ----------------------------------------------------------------------------


def test_units_run_in_the_order_in_which_they_became_ready():
    units, states = new_free_list(5)
    assert [on_ready(units, unit, 0) for unit in (3, 1, 4, 1)] == [LISTED] * 3 + [NOTHING_TO_DO]
    assert next_task(units, 0) == (3, DRAIN) and states[3].state == RUNNING
    assert on_ready(units, 3, 0) == NOTHING_TO_DO and states[3].state == RUNNING | NOTIFIED
    assert on_done(units, 3, 0, 10, 10) == LISTED  # to the back
    assert [next_task(units, 0)[0] for _ in range(4)] == [1, 4, 3, NO_UNIT]
    assert on_done(units, 1, 0, 0, 0) == NOTHING_TO_DO and states[1].state == IDLE
    assert not has_work(units)


def test_a_unit_can_be_taken_out_of_turn():
    """Streams fig. 6: the worker that found its port full."""
    units, states = new_free_list(2)
    on_ready(units, 0, 0)
    assert try_unit(units, 0, 0) and not try_unit(units, 0, 1)
    assert states[0].state == QUEUED | RUNNING
    assert next_task(units, 1) == (NO_UNIT, 0)  # it is in the queue, but runs: told to come back
    assert states[0].state == RUNNING | NOTIFIED
    assert on_done(units, 0, 0, 0, 0) == LISTED and next_task(units, 1)[0] == 0
    assert on_done(units, 0, 1, 0, 0) == NOTHING_TO_DO
    assert try_unit(units, 1, 0) and on_done(units, 1, 0, 0, 0) == NOTHING_TO_DO


def test_the_queue_goes_round():
    units, _ = new_free_list(3)
    for turn in range(50):
        on_ready(units, turn % 3, 0)
        on_ready(units, (turn + 1) % 3, 0)
        assert [next_task(units, 0)[0], next_task(units, 0)[0]] == [turn % 3, (turn + 1) % 3]
        on_done(units, turn % 3, 0, 0, 0)
        on_done(units, (turn + 1) % 3, 0, 0, 0)


def test_a_stopped_list_takes_nothing_it_cannot_place():
    units, _ = new_free_list(1)
    units.entries[0].turn = 7  # as if a worker were stopped in the middle of pick
    units.stop = 1
    assert on_ready(units, 0, 0) == -1


# ---- all interleavings ---------------------------------------------------------------------


def send_letters(units, box, unit, count):
    for i in range(count):
        store_release(box, "letters", i + 1)
        on_ready(units, unit, 0)


@compiled
def empty(box):
    """Run the unit: overlapping runs would be a race of `read`."""
    letters = load_acquire(box, "letters")
    before = box.read
    box.read = letters
    store_release(box, "all", letters)
    return letters - before


def work(units, boxes, count, total):
    """A worker, until the units have read all letters."""
    while True:
        done = 0
        for unit in range(count):
            done += load_acquire(boxes[unit], "all")
        if done == total:
            return
        unit, _ = next_task(units, 0)
        if unit == NO_UNIT:
            pause()
        else:
            empty(boxes[unit])
            on_done(units, unit, 0, 0, 0)


def work_out_of_turn(units, boxes, count, total):
    """A worker that wants unit 0, in the queue or not."""
    while True:
        done = load_acquire(boxes[0], "all")
        if done == total:
            return
        letters = load_acquire(boxes[0], "letters")
        ours = try_unit(units, 0, 0) if letters != done else False
        if ours:
            empty(boxes[0])
            on_done(units, 0, 0, 0, 0)
        else:
            pause()


def mailboxes(count, letters, workers, **bugs):
    """One sender for each unit."""
    units, states = new_free_list(count)
    boxes = Mailbox.allocate(count)
    total = count * letters
    send = interpreted(send_letters, **bugs)
    bodies = [lambda u=u: send(units, boxes[u], u, letters) for u in range(count)]
    for body in workers:
        twin = interpreted(body, TRIES=2, **bugs)
        bodies.append(lambda twin=twin: twin(units, boxes, count, total))

    def check(results):
        assert [boxes[unit].read for unit in range(count)] == [letters] * count
        assert states[0].state in (IDLE, QUEUED), f"the unit is left in state {states[0].state}"
        in_queue = units.tail - units.head
        listed = sum(states[unit].state & QUEUED for unit in range(count))
        assert in_queue == listed, f"{in_queue} units in the queue, {listed} think they are"

    return bodies, check


def test_one_worker_forgets_nothing(explored):
    explored("a free list of 1 unit", *mailboxes(1, 2, [work]))


def test_two_workers_run_a_unit_one_at_a_time(explored):
    explored("a free list of 1 unit, 2 workers", *mailboxes(1, 1, [work, work]))
    explored("the same, 2 letters", *mailboxes(1, 2, [work, work]), models=("sc",))


def test_a_worker_serves_two_units(explored):
    explored("a free list of 2 units", *mailboxes(2, 1, [work]))


def test_units_taken_out_of_turn(explored):
    bodies = mailboxes(1, 1, [work, work_out_of_turn])
    explored("a unit out of turn", *bodies)


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
    units, _ = new_free_list(2)
    putting, picking = interpreted(put_one), interpreted(pick_until)

    def check(results):
        assert sorted(results[2] + results[3]) == [0, 1]

    bodies = [lambda: putting(units, 0), lambda: putting(units, 1)]
    bodies += [lambda: picking(units, 1)] * 2
    explored("the queue, 2 put and 2 pick", bodies, check, models=("tso", "sc"))
    explored("the queue, 1 puts and 1 picks", [bodies[0], bodies[2]])


# ---- planted bugs --------------------------------------------------------------------------


def test_not_telling_a_running_unit_is_found(found):
    bug = planted(on_ready, "after = RUNNING | NOTIFIED", "after = RUNNING")
    failures = found(*mailboxes(1, 2, [work], on_ready=bug))
    assert set(failures) == {"sc", "tso", "weak"}
    assert failures["sc"].startswith("deadlock")


def test_a_look_instead_of_an_update_is_found(found):
    """`on_ready` sees QUEUED and goes; its letter is in the store buffer when the run looks."""
    bug = planted(
        on_ready,
        '        changed = cas(state, "state", before, after)',
        "        if before == after:\n            return NOTHING_TO_DO\n"
        '        changed = cas(state, "state", before, after)',
    )
    assert set(found(*mailboxes(1, 2, [work], on_ready=bug))) == {"tso", "weak"}


def test_forgetting_to_unlock_is_found(found):
    bug = planted(on_done, "after = before & QUEUED\n", "after = before\n")
    assert set(found(*mailboxes(1, 2, [work], on_done=bug))) == {"sc", "tso", "weak"}


def test_running_a_unit_twice_at_once_is_found(found):
    bug = planted(start_picked, "free = before & RUNNING == 0", "free = True")
    failures = found(*mailboxes(1, 1, [work, work_out_of_turn], start_picked=bug))
    assert "races" in failures["weak"]


def work_out_of_turn_once(units, boxes, count, total):
    """A worker that tries unit 0 once and runs it without looking into the mailbox: as one that
    stops at the limit of a reschedule, with letters left."""
    ours = try_unit(units, 0, 0)
    if ours:
        on_done(units, 0, 0, 0, 0)


def test_a_unit_that_was_run_in_part_comes_back(explored):
    explored("a unit run in part", *mailboxes(1, 1, [work, work_out_of_turn_once]))


def test_dropping_a_picked_unit_that_runs_is_found(found):
    bug = planted(start_picked, "RUNNING if free else RUNNING | NOTIFIED", "RUNNING")
    failures = found(*mailboxes(1, 1, [work, work_out_of_turn_once], start_picked=bug))
    assert set(failures) == {"sc", "tso", "weak"}
    assert failures["sc"].startswith("deadlock")


@pytest.mark.parametrize(
    ("function", "old", "new"),
    [
        (put, 'store_release(entry, "turn"', 'store_relaxed(entry, "turn"'),
        (pick, 'load_acquire(entry, "turn")', 'load_relaxed(entry, "turn")'),
    ],
)
def test_a_relaxed_turn_is_found(found, function, old, new):
    bug = planted(function, old, new, store_relaxed=store_relaxed)
    units, _ = new_free_list(1)
    bugs = {function.__name__: bug}
    putting, picking = interpreted(put_one, **bugs), interpreted(pick_until, **bugs)
    failures = found([lambda: putting(units, 0), lambda: picking(units, 1)])
    assert set(failures) == {"weak"} and "races" in failures["weak"]
    assert load_relaxed(units, "tail") == 0
