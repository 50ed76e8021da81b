"""Asking for blocks over all interleavings: no question is lost, and no block is used by two."""

from tests.node.explore import planted

from headrace.node.blocks import NodeBlock
from headrace.node.futex import Word
from headrace.node.growth import ask, draw, wants_more
from headrace.node.pool import adopt, available, give, new_pool, take
from headrace.stage.memory.atomics import load_acquire, load_relaxed, pause, store_release
from headrace.stage.memory.records import compiled, interpreted


def make(pool):
    """Draws a block, gives it back and draws two; one that was not there is waited for, without
    asking again, as a unit does that is woken when there is room."""
    first = draw(pool)
    give(pool, first)
    one = draw(pool)
    other = draw(pool)
    if one == 0:
        one = wait_for_block(pool)
    if other == 0:
        other = wait_for_block(pool)
    if one == other:
        raise ValueError("two have one block")


@compiled
def wait_for_block(pool):
    block = take(pool)
    while block == 0:
        pause()
        block = take(pool)
    return block


def serve(pool, bell, spare):
    """The allocator, until it has made the last block."""
    heard = 0
    while True:
        rung = load_acquire(bell, "value")
        while rung == heard:
            pause()
            rung = load_acquire(bell, "value")
        heard = rung
        wanted = wants_more(pool)
        if wanted:
            adopt(pool, spare)
            store_release(pool, "low", 0)
            return


def growing(**bugs):
    pool, bell = new_pool(2), Word.allocate()
    blocks = [NodeBlock.allocate() for _ in range(2)]
    adopt(pool, blocks[0].address)
    pool.low, pool.bell = 1, bell.address
    maker, server = interpreted(make, TRIES=2, **bugs), interpreted(serve, TRIES=2, **bugs)

    def check(results):
        assert available(pool) == 0 and pool.count == len(blocks)

    return [lambda: maker(pool), lambda: server(pool, bell, blocks[1].address)], check


def test_a_pool_grows_while_blocks_are_drawn(explored):
    explored("a pool that grows", *growing())


def test_forgetting_a_question_after_the_look_is_found(found):
    bug = planted(
        wants_more,
        'exchange(pool, "asked", 0)  # first: who asks after our look rings again\n'
        '    return available(pool) < load_relaxed(pool, "low")',
        'wanted = available(pool) < load_relaxed(pool, "low")\n'
        '    exchange(pool, "asked", 0)\n'
        "    return wanted",
    )
    failures = found(*growing(wants_more=bug))
    assert set(failures) == {"sc", "tso", "weak"} and "deadlock" in failures["sc"]


def test_a_relaxed_look_at_the_question_is_found(found):
    bug = planted(
        ask, 'load_sc(pool, "asked")', 'load_relaxed(pool, "asked")', load_relaxed=load_relaxed
    )
    assert set(found(*growing(ask=bug))) == {"weak"}


def test_a_relaxed_look_at_the_top_is_found(found):
    bug = planted(available, 'load_sc(pool, "top")', 'load_acquire(pool, "top")')
    assert set(found(*growing(available=bug))) == {"weak"}


def test_a_bell_that_is_not_rung_is_found(found):
    bug = planted(ask, 'exchange(pool, "asked", 1) == 0', 'exchange(pool, "asked", 1) != 0')
    assert set(found(*growing(ask=bug))) == {"sc", "tso", "weak"}


def test_who_asks_is_not_asked_again():
    pool, bell = new_pool(1), Word.allocate()
    pool.low, pool.bell = 1, bell.address
    assert draw(pool) == draw(pool) == 0
    assert (bell.value, load_relaxed(pool, "asked")) == (1, 1)
    assert wants_more(pool) and pool.asked == 0
    pool.low = 0
    assert draw(pool) == 0 and not wants_more(pool) and (bell.value, pool.asked) == (1, 0)
