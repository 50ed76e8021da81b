"""Waiting for a block over all interleavings: who brings one home tells who waits."""

from tests.node.explore import planted

from headrace.node.blocks import NodeBlock
from headrace.node.futex import Word
from headrace.node.pool import adopt, ask_for_blocks, available, new_pool, take, wanted
from headrace.node.readers import release
from headrace.stage.memory.atomics import load_acquire, load_relaxed, pause, store_release
from headrace.stage.memory.records import interpreted


def wait_for_one(pool, told):
    """A unit that found its pool empty; it runs again only when it is told to."""
    heard = load_acquire(told, "value")
    block = take(pool)
    if block == 0:
        block = ask_for_blocks(pool)
    while block == 0:
        value = load_acquire(told, "value")
        while value == heard:
            pause()
            value = load_acquire(told, "value")
        heard = value
        block = take(pool)
        if block == 0:
            block = ask_for_blocks(pool)
    return block


def bring_home(pool, block, told):
    """The last reader of a block."""
    home = release(block)
    if home:
        asked = wanted(pool)
        if asked:
            value = load_relaxed(told, "value")
            store_release(told, "value", value + 1)
    return block


def waiting(**bugs):
    pool, told = new_pool(1), Word.allocate()
    block = NodeBlock.allocate()
    adopt(pool, block.address)
    held = take(pool)
    taker, giver = interpreted(wait_for_one, TRIES=2, **bugs), interpreted(bring_home, **bugs)

    def check(results):
        assert results[0] == held and available(pool) == 0

    return [lambda: taker(pool, told), lambda: giver(pool, held, told)], check


def test_who_waits_for_a_block_is_told(explored):
    explored("a unit that waits for a block", *waiting())


def test_a_wish_after_the_last_look_is_found(found):
    bug = planted(
        ask_for_blocks,
        'exchange(pool, "hungry", 1)  # an update: either the bringer sees it, or we see the '
        "block\n    return take(pool)",
        'block = take(pool)\n    exchange(pool, "hungry", 1)\n    return block',
    )
    failures = found(*waiting(ask_for_blocks=bug))
    assert set(failures) == {"sc", "tso", "weak"} and "deadlock" in failures["sc"]


def test_a_plain_look_at_the_wish_is_found(found):
    bug = planted(
        wanted,
        'exchange(pool, "hungry", 0) != 0',
        'load_relaxed(pool, "hungry") != 0',
        load_relaxed=load_relaxed,
    )
    assert "weak" in found(*waiting(wanted=bug))
