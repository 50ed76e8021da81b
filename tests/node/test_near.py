"""The default scheduler: what a worker has begun goes on, but not for as long as others wait."""

import pytest
from tests.node.explore import planted

from headrace.node.free_list import NO_UNIT, put
from headrace.node.schedulers.hooks import AGAIN, ARRIVED, NEAR, Turn
from headrace.node.schedulers.near import PATIENCE_NS, Near, next_task
from headrace.stage.memory.atomics import pause
from headrace.stage.memory.records import interpreted

ON_READY, NEXT_TASK, ON_DONE, _, GIVE_BACK = (interpreted(hook) for hook in Near.hooks)
BEGUN, WAITS, READS = 3, 5, 7


class Seat:
    """A worker, as its scheduler sees it."""

    def __init__(self, near: Near, number: int = 0) -> None:
        self.near, self.turn = near, Turn.allocate()  # whose memory its hooks use
        self.turn.scheduler, self.turn.worker = near.memory, number

    def list(self, unit: int, how: int) -> None:
        self.turn.unit, self.turn.how = unit, how
        ON_READY(self.turn.address)

    def next(self) -> int:
        self.turn.more = 0
        return NEXT_TASK(self.turn.address)

    def done(self, ns: int, behind: int = 0) -> None:
        self.turn.ns, self.turn.behind = ns, behind
        ON_DONE(self.turn.address)


@pytest.fixture
def near():
    return Near(8, 2)


def test_what_was_begun_goes_on_where_nobody_waits(near):
    seat = Seat(near)
    for _ in range(5):
        seat.list(BEGUN, AGAIN)
        assert seat.next() == BEGUN
        seat.done(PATIENCE_NS, behind=1)
    assert seat.next() == NO_UNIT


def test_who_waits_in_the_list_comes_after_a_while(near):
    seat = Seat(near)
    seat.list(WAITS, ARRIVED)
    came = []
    for _ in range(4):
        seat.list(BEGUN, AGAIN)
        came.append(seat.next())
        if came[-1] == WAITS:
            break
        seat.done(PATIENCE_NS // 2)
    assert came == [BEGUN, BEGUN, WAITS] and seat.turn.more == 1
    seat.done(50 * PATIENCE_NS)  # a long run of another one
    assert (seat.next(), seat.next()) == (BEGUN, NO_UNIT)


def test_a_reader_that_is_behind_comes_before_its_writers(near):
    seat = Seat(near)
    seat.list(READS, ARRIVED)  # its bounded run was over, and rows are left
    seat.list(BEGUN, AGAIN)
    assert seat.next() == BEGUN
    seat.done(1, behind=1)
    seat.list(BEGUN, AGAIN)
    assert (seat.next(), seat.next()) == (READS, BEGUN)


def test_who_reads_what_was_just_written_comes_before_who_waits(near):
    seat = Seat(near)
    seat.list(WAITS, ARRIVED)
    seat.list(BEGUN, AGAIN)
    seat.list(READS, NEAR)
    seat.done(PATIENCE_NS)
    assert [seat.next() for _ in range(3)] == [READS, WAITS, BEGUN]


def test_what_a_worker_leaves_others_take(near):
    seat, other = Seat(near), Seat(near, 1)
    seat.list(WAITS, ARRIVED)
    seat.list(BEGUN, AGAIN)
    assert (other.next(), other.next()) == (WAITS, NO_UNIT)  # what was begun is kept
    other.list(WAITS, ARRIVED)
    seat.done(PATIENCE_NS)
    assert (seat.next(), other.next()) == (WAITS, BEGUN)
    seat.list(BEGUN, AGAIN)
    GIVE_BACK(seat.turn.address)
    assert (other.next(), seat.next()) == (BEGUN, NO_UNIT)


# ---- all interleavings ---------------------------------------------------------------------


def take_one(address):
    """The unit that a worker finds, sooner or later."""
    while True:
        unit = next_task(address)
        if unit != NO_UNIT:
            return unit
        pause()


def two_workers(**bugs):
    """One that has gone on for long with what it has begun, while another unit waits; and one that
    looks for something to do."""
    near = Near(2, 2)
    kept = near._kept[0]
    kept.begun[0], kept.depth, kept.went_on = 0, 1, PATIENCE_NS
    put(near._list, 1)
    seats = [Seat(near, number) for number in range(2)]
    taking = interpreted(take_one, **bugs)

    def check(results):
        assert sorted(results) == [0, 1], "a unit was lost, or is with two workers"
        assert kept.depth == 0 and near._list.head == near._list.tail, "one is there once more"

    first, second = seats
    return [lambda: taking(first.turn.address), lambda: taking(second.turn.address)], check


def test_each_unit_is_taken_once_where_one_is_left(explored):
    explored("a unit that is left to others", *two_workers())


def test_a_unit_that_is_left_and_kept_is_found(found):
    left = "put(FreeList(record.list), kept.begun[kept.depth - 1])"
    bug = planted(next_task, "leave_begun(record, kept)", left)
    assert set(found(*two_workers(next_task=bug))) >= {"sc"}
