"""Claims on channels over all interleavings: rows in the order of serials, each row once.

The replicas call `splits.claim` as it is; the host offers batches. Who has nothing to do waits
until it is told, as a unit does; the clock stands still.
"""

import pytest
from tests.node.explore import planted
from tests.node.small import no_clock

from headrace.node.blocks import FeedUsers
from headrace.node.pace import Rate, new_pace
from headrace.node.running import GO_ON
from headrace.node.splits import (
    LATER,
    SOON,
    ChannelFeed,
    MarkerClock,
    Offer,
    SplitRecord,
    SplitsRecord,
    claim,
    lock,
    make_offer,
    take_offer,
    take_rows,
    unlock,
)
from headrace.node.unit import FINISHED, QueryRecord, Unit
from headrace.stage.clock import NEVER
from headrace.stage.memory.atomics import (
    fetch_add,
    load_acquire,
    load_relaxed,
    pause,
    store_relaxed,
)
from headrace.stage.memory.records import compiled, i64, interpreted, line, record

READER = 7


@record
class Bells:
    """Who was told: in the place of a worker."""

    replicas: i64 = line()
    reader: i64 = line()


@record
class Shelf:
    """A batch: is it still there?"""

    gone: i64 = line()


def tell_reader(bells, unit):
    """In the place of `hooks.ready`."""
    assert unit == READER
    fetch_add(bells, "reader", 1)


def claim_all(bells, unit, split, channel):
    """A replica, until its channel is over: (serial, feed, first row, behind the last one) of each
    of its splits."""
    found, heard = [], 0
    while True:
        answer = claim(bells, unit, split, 0)
        if answer == FINISHED:
            return found
        if answer == GO_ON:
            request = split.request
            rows = (split.serial, request.feed, split.first, split.end)
            end_split(split, request.feed)
            found.append(rows)
        elif unit.wake_at != SOON:  # else another replica was at it, and it has waited for that
            told = load_acquire(bells, "replicas")
            while told == heard:
                over = load_acquire(channel, "over")
                if over != 0:
                    return found
                pause()
                told = load_acquire(bells, "replicas")
            heard = told


@compiled
def end_split(split, feed):
    """Read the rows, then let go of the batch, as `run_source` does."""
    if split.users != 0:
        gone = load_relaxed(Shelf(feed), "gone")
        if gone != 0:
            raise ValueError("the batch is gone before its split was read")
        fetch_add(FeedUsers(split.users), "count", -1)
        split.users = 0


def offer_all(bells, channel, offers, count):
    """The host: the next batch is offered when the one before was taken."""
    heard = 0
    for i in range(count):
        make_offer(channel, offers[i].address)
        fetch_add(bells, "replicas", 1)
        if i + 1 < count:
            told = load_acquire(bells, "reader")
            while told == heard:
                pause()
                told = load_acquire(bells, "reader")
            heard = told


class SmallChannel:
    """One channel with batches of some rows, in splits of one row."""

    def __init__(self, batches, replicas):
        count = len(batches)
        self.shelves, self.users = Shelf.allocate(count), FeedUsers.allocate(count)
        self.offers, self.bells = Offer.allocate(count), Bells.allocate()
        self.channel, self.shared = ChannelFeed.allocate(), SplitsRecord.allocate()
        self.markers = MarkerClock.allocate()
        self.batches, self.count = batches, count
        for k, rows in enumerate(batches):
            offer = self.offers[k]
            offer.feed, offer.rows = self.shelves[k].address, rows
            offer.users, offer.ended = self.users[k].address, k + 1 == count
        channel, shared = self.channel, self.shared
        channel.reader, channel.time, channel.largest = READER, -1, NEVER
        channel.markers, self.markers.at = self.markers.address, LATER
        shared.count, shared.channels, shared.rows = 1, channel.address, 1
        shared.replicas = replicas
        self.units, self.splits = Unit.allocate(replicas), SplitRecord.allocate(replicas)
        for replica in range(replicas):
            self.splits[replica].shared = shared.address

    def check(self, results):
        """Serials are in the order of rows, and each row was claimed once."""
        splits = sorted(split for found in results[:-1] for split in found)
        assert [serial for serial, *_ in splits] == list(range(len(splits)))
        feeds = [self.shelves[k].address for k in range(self.count)]
        rows = [(feeds.index(f), r) for _, f, first, end in splits for r in range(first, end)]
        expected = [(k, row) for k, rows in enumerate(self.batches) for row in range(rows)]
        assert rows == expected, f"claimed were {rows}"
        assert [self.users[k].count for k in range(self.count)] == [0] * self.count


def claiming(batches, replicas, **bugs):
    small = SmallChannel(batches, replicas)
    given = {"now": no_clock, "ready": tell_reader, "SPINS": 2, **bugs}
    claims, offers = interpreted(claim_all, **given), interpreted(offer_all, **given)
    bodies = [
        lambda u=small.units[replica], s=small.splits[replica]: claims(
            small.bells, u, s, small.channel
        )
        for replica in range(replicas)
    ]
    bodies.append(lambda: offers(small.bells, small.channel, small.offers, small.count))
    return bodies, small.check


def test_a_slot_claims_all_rows(explored):
    explored("1 replica, 2 batches", *claiming([2, 1], 1))


def test_two_slots_claim_in_the_order_of_serials(explored):
    explored("2 replicas, 1 row", *claiming([1], 2), models=("tso", "sc"))
    explored("2 replicas, 2 rows", *claiming([2], 2), models=("tso", "sc"))


@pytest.mark.soak
def test_two_slots_claim_where_memory_is_weak(explored):
    explored("2 replicas, 1 row", *claiming([1], 2), models=("weak",))


# ---- rows that come at a rate -------------------------------------------------------------


@pytest.mark.parametrize(
    ("transit", "idle", "claims"),
    [
        (0, 0, [(k, 1) for k in range(1, 9)]),  # nothing was late: at once
        (4_000_000, 0, [(3, 3), (6, 3)]),  # half of it, since the first was due
        (1_000_000_000, 0, [(6, 6)]),  # never longer than LONGEST_WAIT
        (1_000_000_000, 2_500_000, [(3, 3), (6, 3)]),  # not until it seems silent
    ],
)
def test_rows_wait_for_others_while_those_before_are_on_their_way(transit, idle, claims):
    """A row in each millisecond, and a look: how many rows are claimed when."""
    small, query, pace = SmallChannel([100], 1), QueryRecord.allocate(), new_pace(Rate.of(1000), 0)
    channel, unit, split = small.channel, small.units[0], small.splits[0]
    channel.end, channel.users, channel.idle = 100, small.users.address, idle
    channel.pace, channel.silent_at, small.shared.rows = pace.address, idle or LATER, 1000
    unit.query, query.transit = query.address, transit
    found = []
    for millisecond in range(1, 9):
        moment = 1_000_000 * millisecond
        if channel.wake_at <= moment and take_rows(unit, channel, split, 0, moment):
            found.append((millisecond, split.end - split.first))
    assert found == claims


def test_a_block_of_rows_waits_for_no_others():
    small, query, pace = SmallChannel([100], 1), QueryRecord.allocate(), new_pace(Rate.of(1000), 0)
    channel, unit, split = small.channel, small.units[0], small.splits[0]
    channel.end, channel.users = 100, small.users.address
    channel.pace, channel.silent_at, small.shared.rows = pace.address, LATER, 32
    unit.query, query.transit = query.address, 1_000_000_000
    assert take_rows(unit, channel, split, 0, 1_000_000) == 0
    assert take_rows(unit, channel, split, 0, 2_000_000) == 1 and split.end == 2


# ---- planted bugs --------------------------------------------------------------------------


def test_a_lock_without_an_update_is_found(found):
    bug = planted(
        lock,
        'if locked == 0 and cas(channel, "locked", 0, 1):',
        'if locked == 0 and store_relaxed(channel, "locked", 1) is None:',
    )
    failures = found(*claiming([2], 2, lock=bug))
    assert set(failures) == {"sc", "tso", "weak"} and "races" in failures["weak"]


def test_a_relaxed_unlock_is_found(found):
    bug = planted(unlock, "store_release", "store_relaxed")
    assert "races" in found(*claiming([2], 2, unlock=bug), models=("weak",))["weak"]


def test_a_serial_that_is_taken_after_the_unlock_is_found(found):
    number = 'split.serial = fetch_add(shared, "serial", 1)\n'
    without = planted(take_rows, f"    {number}", "")
    late = planted(
        claim,
        "        if taken > 0:\n            unlock(channel)\n",
        f"        if taken > 0:\n            unlock(channel)\n            {number}",
    )
    failures = found(*claiming([2], 2, take_rows=without, claim=late), models=("tso", "sc"))
    assert set(failures) == {"sc", "tso"} and "claimed were" in failures["sc"]


def test_no_second_look_at_the_offer_is_found(found):
    bug = planted(take_offer, '        address = load_sc(channel, "offer")\n', "")
    failures = found(*claiming([1], 1, take_offer=bug))
    assert set(failures) == {"sc", "tso", "weak"} and failures["sc"].startswith("deadlock")


@pytest.mark.parametrize(
    ("function", "old", "new", "models"),
    [
        (take_offer, 'store_sc(channel, "wake_at"', 'store_relaxed(channel, "wake_at"', {"tso"}),
        (take_offer, 'load_sc(channel, "offer")', 'load_acquire(channel, "offer")', {"weak"}),
        (make_offer, 'store_sc(channel, "offer"', 'store_relaxed(channel, "offer"', {"weak"}),
    ],
)
def test_looks_at_the_offer_without_a_barrier_are_found(found, function, old, new, models):
    source = planted(function, old, new, store_relaxed=store_relaxed)
    assert models <= set(found(*claiming([1], 1, **{function.__name__: source})))


def test_an_offer_that_is_told_before_it_is_there_is_found(found):
    bug = planted(
        make_offer,
        '    store_sc(channel, "offer", offer)\n    store_sc(channel, "wake_at", 0)\n',
        '    store_sc(channel, "wake_at", 0)\n    store_sc(channel, "offer", offer)\n',
    )
    failures = found(*claiming([1], 1, make_offer=bug))
    assert set(failures) == {"sc", "tso", "weak"} and failures["sc"].startswith("deadlock")


def test_reading_on_before_the_batch_was_taken_is_found(found):
    """The reader is told while the offer still lies there, so what it brings is overwritten."""
    bug = planted(
        take_offer,
        '    store_release(channel, "offer", 0)\n    if channel.ended == 0:\n'
        "        ready(worker, channel.reader)\n",
        "    if channel.ended == 0:\n        ready(worker, channel.reader)\n"
        '    store_release(channel, "offer", 0)\n',
    )
    assert set(found(*claiming([1, 1], 1, take_offer=bug))) == {"sc", "tso", "weak"}
