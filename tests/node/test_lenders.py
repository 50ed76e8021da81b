"""Batches of the host that replicas and blocks still need, over all interleavings: none is dropped.

The host's side is `Channel._forget` as it is; a batch that it drops is marked as gone, which must
not be seen by whoever reads rows or strings of it.
"""

from collections import deque
from types import SimpleNamespace

from tests.node.explore import planted
from tests.node.small import Atomic, no_clock
from tests.node.test_channels import Shelf, SmallChannel, end_split, tell_reader

from headrace.node.blocks import FeedUsers, NodeBlock
from headrace.node.channels import Channel
from headrace.node.pool import adopt, available, new_pool, take
from headrace.node.port import Slice, consume, new_port, open_rows, peek
from headrace.node.readers import borrow, release, retain
from headrace.node.running import GO_ON
from headrace.node.splits import claim, make_offer, take_rows
from headrace.stage.memory.atomics import (
    fetch_add,
    load_acquire,
    load_relaxed,
    pause,
    store_relaxed,
)
from headrace.stage.memory.records import interpreted


class Host:
    """What `Channel._forget` needs of a channel."""

    def __init__(self, small, forget=Channel._forget):
        self.record, self._held = Atomic(small.channel), deque()
        self.shelves, self.forgetting = small.shelves, interpreted(forget)
        self.all = [
            SimpleNamespace(
                number=k,
                users=Atomic(small.users[k]),
                offer=SimpleNamespace(address=small.offers[k].address),
                feed=SimpleNamespace(address=small.shelves[k].address),
            )
            for k in range(small.count)
        ]

    def forget(self, held):
        """Drop what is not needed of the batches that are held; gives those that are."""
        self._held = deque(self.all[k] for k in held)
        self.forgetting(self)
        kept = tuple(each.number for each in self._held)
        gone = tuple(k for k in held if k not in kept)
        for at in range(len(gone)):
            store_relaxed(self.shelves[gone[at]], "gone", 1)
        return kept


# ---- batches and splits --------------------------------------------------------------------


def claim_one(bells, unit, split):
    """A replica that claims a split and reads its rows."""
    answer = claim(bells, unit, split, 0)
    if answer == GO_ON:
        end_split(split, split.request.feed)
    return answer == GO_ON


def offer_and_forget(bells, channel, offers, host):
    """The host offers the second batch and looks which ones are needed, at any time."""
    make_offer(channel, offers[1].address)
    held = host.forget((0, 1))
    held = host.forget(held)
    return held


def splits(replicas, forget=Channel._forget, **bugs):
    """Replicas on a channel whose first batch has a row left; the second one is on its way."""
    small = SmallChannel([1, 1], replicas)
    channel, first = small.channel, small.offers[0]
    channel.feed, channel.end, channel.users = first.feed, first.rows, first.users
    host = Host(small, forget)
    given = {"now": no_clock, "ready": tell_reader, "SPINS": 2, **bugs}
    claims, offers = interpreted(claim_one, **given), interpreted(offer_and_forget, **given)
    bodies = [
        lambda u=small.units[replica], s=small.splits[replica]: claims(small.bells, u, s)
        for replica in range(replicas)
    ]
    bodies.append(lambda: offers(small.bells, channel, small.offers, host))

    def check(results):
        assert [small.users[k].count for k in range(2)] == [0, 0]
        assert 1 in results[-1], "the batch that is not read yet is forgotten"

    return bodies, check


def test_a_batch_is_kept_for_its_splits(explored):
    explored("2 splits and the host", *splits(2), models=("tso", "sc"))
    explored("a split and the host", *splits(1))


def test_a_batch_that_is_not_held_by_its_split_is_found(found):
    bug = planted(take_rows, '        fetch_add(FeedUsers(channel.users), "count", 1)\n', "")
    keeping = planted(end_split, '        fetch_add(FeedUsers(split.users), "count", -1)\n', "")
    failures = found(*splits(2, take_rows=bug, end_split=keeping), models=("tso", "sc"))
    assert set(failures) == {"sc", "tso"} and "gone" in failures["sc"]


def test_forgetting_by_the_feed_first_is_found(found):
    bug = planted(
        Channel._forget,
        "    needed = {self.record.offer, 0}\n    current = self.record.feed\n",
        "    current = self.record.feed\n    needed = {self.record.offer, 0}\n",
    )
    failures = found(*splits(2, forget=bug), models=("tso", "sc"))
    assert set(failures) == {"sc", "tso"}


def test_forgetting_what_is_being_claimed_is_found(found):
    bug = planted(Channel._forget, " or held.feed.address == current", "")
    assert set(found(*splits(1, forget=bug))) == {"sc", "tso", "weak"}


# ---- batches and blocks --------------------------------------------------------------------


def lend(pool, ports, readers, users, shelf, rounds):
    """A source: the strings of its block lie in a batch, which its split holds until it ends."""
    for i in range(rounds):
        block = take(pool)
        while block == 0:
            pause()
            block = take(pool)
        if i == 0:
            borrow(block, users.address)
        retain(block, readers)
        for reader in range(readers):
            while not open_rows(ports[reader], block, 0, 1, 1, i, 0):
                pause()
        release(block)
        if i == 0:
            fetch_add(users, "count", -1)


def read_strings(port, got, shelf, rounds):
    for i in range(rounds):
        while not peek(port, got):
            pause()
        gone = load_relaxed(shelf, "gone") if i == 0 else 0
        if gone != 0:
            raise ValueError("the batch is gone before its strings were read")
        block = consume(port, got, 1)
        release(block)


def drop(users, shelf):
    """The host, as soon as nobody needs the batch."""
    count = load_acquire(users, "count")
    while count != 0:
        pause()
        count = load_acquire(users, "count")
    store_relaxed(shelf, "gone", 1)


def lending(readers=1, rounds=1, **bugs):
    pool, block = new_pool(1), NodeBlock.allocate()
    adopt(pool, block.address)
    users, shelf = FeedUsers.allocate(), Shelf.allocate()
    users.count = 1  # the split
    ports, slices = [new_port(1) for _ in range(readers)], Slice.allocate(readers)
    source, host = interpreted(lend, TRIES=2, **bugs), interpreted(drop, **bugs)
    reader = interpreted(read_strings, TRIES=2, **bugs)
    bodies = [
        lambda: source(pool, ports, readers, users, shelf, rounds),
        lambda: host(users, shelf),
    ]
    bodies += [lambda p=ports[k], g=slices[k]: reader(p, g, shelf, rounds) for k in range(readers)]

    def check(results):
        assert users.count == 0, f"{users.count} users are left"
        assert available(pool) == 1 and block.lender == 0

    return bodies, check


def test_a_batch_is_kept_for_the_strings_of_blocks(explored):
    explored("a block with strings of a batch", *lending())
    explored("the same, then a block of its own", *lending(rounds=2), models=("tso", "sc"))


def test_a_batch_is_kept_for_two_readers(explored):
    explored("a block with strings and 2 readers", *lending(readers=2), models=("sc",))


RETURN = (
    "        if held.lender != 0:\n"
    '            fetch_add(FeedUsers(held.lender), "count", -1)\n'
    "            held.lender = 0\n"
)


def test_giving_strings_back_before_the_last_reader_is_found(found):
    early = RETURN.replace("\n    ", "\n").removeprefix("    ")
    bug = planted(release, RETURN, "")
    bug = planted(bug, '    readers = load_acquire(held, "readers")\n',
                  early + '    readers = load_acquire(held, "readers")\n')  # fmt: skip
    failures = found(*lending(release=bug), models=("tso", "sc"))
    assert set(failures) == {"sc", "tso"} and "gone" in failures["sc"]


def test_strings_that_are_not_borrowed_are_found(found):
    bug = planted(borrow, '    fetch_add(FeedUsers(users), "count", 1)\n', "")
    assert set(found(*lending(borrow=bug), models=("tso", "sc"))) == {"sc", "tso"}


def test_giving_back_strings_twice_is_found(found):
    bug = planted(release, "            held.lender = 0\n", "")
    failures = found(*lending(rounds=2, release=bug), models=("sc",))
    assert "-1 users" in failures["sc"] or "deadlock" in failures["sc"]
