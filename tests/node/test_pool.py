"""Pools and readers' counts over all interleavings: no block is used by two, none is lost."""

import pytest
from tests.node.explore import planted

from headrace.node.blocks import NodeBlock
from headrace.node.pool import above, adopt, available, give, new_pool, take
from headrace.node.port import Slice, consume, new_port, open_rows, peek
from headrace.node.readers import release, retain
from headrace.stage.clock import NEVER
from headrace.stage.memory.atomics import load_relaxed, pause, store_relaxed
from headrace.stage.memory.records import compiled, i64, interpreted, line, record


@record
class Owner:
    """Who has a block, written and read without any order: shows what the code itself orders."""

    name: i64 = line()


def filled_pool(count):
    pool, blocks = new_pool(count), [NodeBlock.allocate() for _ in range(count)]
    for block in blocks:
        assert adopt(pool, block.address)
    return pool, blocks


# ---- one thread ----------------------------------------------------------------------------


def test_a_pool_is_a_stack():
    pool, blocks = filled_pool(3)
    addresses = [block.address for block in blocks]
    assert available(pool) == 3 and not adopt(pool, NodeBlock.allocate().address)
    taken = [take(pool) for _ in range(3)]
    assert taken == addresses[::-1] and take(pool) == 0 and available(pool) == 0
    assert give(pool, taken[1]) and give(pool, taken[0]) and available(pool) == 2
    assert [take(pool), take(pool), take(pool)] == [taken[0], taken[1], 0]


def test_the_last_reader_recycles_and_the_next_maker_starts_anew():
    pool, (block,) = filled_pool(1)
    address = take(pool)
    assert (address, block.readers) == (block.address, 1)
    block.block.rows, block.block.watermark = 5, 9
    retain(address, 2)
    assert not release(address) and not release(address) and available(pool) == 0
    assert release(address) and available(pool) == 1 and block.readers == 0
    assert take(pool) == address and (block.block.rows, block.block.watermark) == (0, NEVER)


# ---- all interleavings: the pool -----------------------------------------------------------


def take_and_give(pool, owners, name, rounds):
    """Whoever has a block is alone with it."""
    taken = 0
    for _ in range(rounds):
        block = take(pool)
        if block != 0:
            number = NodeBlock(block).number
            store_relaxed(owners[number], "name", name)
            owner = load_relaxed(owners[number], "name")
            if owner != name:
                raise ValueError("two have one block")
            taken += 1
            give(pool, block)
    return taken


def take_two_and_give(pool, owners, name):
    """Takes the top and the one below, and gives them back in the same order: this makes ABA."""
    first = take(pool)
    second = take(pool)
    if first != 0:
        give(pool, first)
    if second != 0:
        number = NodeBlock(second).number
        store_relaxed(owners[number], "name", name)
        owner = load_relaxed(owners[number], "name")
        if owner != name:
            raise ValueError("two have one block")
        give(pool, second)


def sharing(blocks, bodies, **bugs):
    pool, kept = filled_pool(blocks)
    owners = Owner.allocate(blocks)
    made = []
    for name, (body, *arguments) in enumerate(bodies, start=1):
        twin = interpreted(body, TRIES=2, **bugs)
        made.append(lambda t=twin, n=name, a=tuple(arguments): t(pool, owners, n, *a))

    def check(results):
        assert available(pool) == blocks, f"{available(pool)} blocks are left of {len(kept)}"
        taken = [take(pool) for _ in range(blocks)]
        assert sorted(taken) == sorted(b.address for b in kept), "the pool is torn"
        for address in taken[::-1]:
            give(pool, address)

    return made, check


@pytest.mark.parametrize("blocks", [1, 2])
def test_two_share_a_pool(explored, blocks):
    what = f"a pool of {blocks} blocks"
    explored(what, *sharing(blocks, [(take_and_give, 2), (take_and_give, 1)]))


def test_two_share_a_pool_where_aba_lurks(explored):
    explored("a pool and ABA", *sharing(2, [(take_and_give, 1), (take_two_and_give,)]))


def test_aba_without_a_version_is_found(found):
    bug = planted(
        above,
        "((top // VERSION + 1) % VERSIONS) * VERSION + number + 1",
        "number + 1",
    )
    bodies = [(take_and_give, 1), (take_two_and_give,)]
    assert set(found(*sharing(2, bodies, above=bug))) == {"sc", "tso", "weak"}


def test_a_relaxed_look_at_the_top_is_found(found):
    """The taker writes into a block before it has seen that the giver was done with it."""
    bug = planted(give, 'cas(pool, "top", top, above(top, given.number))',
                  'store_relaxed(pool, "top", above(top, given.number)) is None')  # fmt: skip
    assert set(found(*sharing(2, [(take_and_give, 1)] * 2, give=bug))) == {"sc", "tso", "weak"}


# ---- all interleavings: readers ------------------------------------------------------------


def make_blocks(pool, ports, readers, rounds):
    """Fill a block, pass it to each port, let go of it; the value tells which round it was."""
    for i in range(rounds):
        block = take(pool)
        while block == 0:
            pause()
            block = take(pool)
        NodeBlock(block).block.watermark = i + 1
        retain(block, readers)
        for reader in range(readers):
            while not open_rows(ports[reader], block, 0, 1, 1, i, 0):
                pause()
        release(block)


def read_blocks(port, got, rounds):
    for i in range(rounds):
        while not peek(port, got):
            pause()
        block = read_one(port, got, i)
        release(block)


@compiled
def read_one(port, got, round):
    value = NodeBlock(got.block).block.watermark
    if value != round + 1:
        raise ValueError("the block was recycled before it was read")
    return consume(port, got, 1)


def release_then_read(port, got, rounds):
    """Early recycle: the block is given back before it is read."""
    for i in range(rounds):
        while not peek(port, got):
            pause()
        release(got.block)
        read_one(port, got, i)


def passing(readers, blocks, rounds, reader=read_blocks, **bugs):
    pool, kept = filled_pool(blocks)
    ports = [new_port(1) for _ in range(readers)]
    slices = [Slice.allocate() for _ in range(readers)]
    make, read = interpreted(make_blocks, TRIES=2, **bugs), interpreted(reader, TRIES=2, **bugs)
    bodies = [lambda: make(pool, ports, readers, rounds)]
    bodies += [lambda p=p, g=g: read(p, g, rounds) for p, g in zip(ports, slices)]

    def check(results):
        assert available(pool) == len(kept), f"{available(pool)} blocks are left of {len(kept)}"
        assert all(block.readers == 0 for block in kept), "somebody still reads"

    return bodies, check


@pytest.mark.parametrize(("readers", "blocks", "rounds"), [(1, 1, 2), (1, 2, 2), (2, 1, 1)])
def test_blocks_come_home_when_all_have_read(explored, readers, blocks, rounds):
    what = f"{blocks} blocks with {readers} readers"
    explored(what, *passing(readers, blocks, rounds))


def test_blocks_of_two_readers_come_home_twice(explored):
    explored("a block with 2 readers, twice", *passing(2, 1, 2), models=("sc",))


def test_early_recycle_is_found(found):
    failures = found(*passing(1, 1, 2, release_then_read))
    assert set(failures) == {"sc", "tso", "weak"}
    assert "recycled" in failures["sc"]


@pytest.mark.parametrize("wrong", [-1, 1])
def test_a_reader_count_off_by_one_is_found(found, wrong):
    bug = planted(retain, '"readers", readers)', f'"readers", readers + {wrong})')
    failures = found(*passing(1, 1, 2, retain=bug))
    assert set(failures) == {"sc", "tso", "weak"}


def test_counting_down_without_an_update_is_found(found):
    bug = planted(
        release,
        'readers = fetch_add(held, "readers", -1)',
        'store_relaxed(held, "readers", readers - 1)',
    )
    assert set(found(*passing(1, 1, 2, release=bug))) == {"sc", "tso", "weak"}


def write_on(pool, port):
    """A maker that goes on writing into a block after it was pushed, as with an open slice."""
    block = take(pool)
    retain(block, 1)
    open_rows(port, block, 0, 1, 1, 0, 0)
    NodeBlock(block).block.watermark = 5
    release(block)


def read_and_take(pool, port, got):
    """A reader that, when it was the last, uses the block anew."""
    while not peek(port, got):
        pause()
    block = consume(port, got, 1)
    release(block)
    take(pool)


def writing_on(**bugs):
    pool, _ = kept = filled_pool(1)
    port, got = new_port(1), Slice.allocate()
    write, read = (
        interpreted(write_on, TRIES=2, **bugs),
        interpreted(read_and_take, TRIES=2, **bugs),
    )

    def check(results):
        assert kept

    return [lambda: write(pool, port), lambda: read(pool, port, got)], check


def test_the_last_reader_has_seen_what_the_others_did(explored):
    explored("a maker that goes on writing", *writing_on())


def test_a_relaxed_look_at_the_count_is_found(found):
    old, new = 'load_acquire(held, "readers")', 'load_relaxed(held, "readers")'
    bug = planted(release, old, new, load_relaxed=load_relaxed)
    failures = found(*writing_on(release=bug))
    assert set(failures) == {"weak"} and "races" in failures["weak"]
