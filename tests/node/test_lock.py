"""The lock, over all interleavings: one at a time has it, and who sleeps is woken."""

from tests.node.explore import planted

from headrace.node.lock import Lock, acquire, release
from headrace.stage.memory.atomics import store_relaxed
from headrace.stage.memory.records import compiled, i64, interpreted, line, record

ALL = {"sc", "tso", "weak"}


@record
class Till:
    """Counted without atomics, by who has the lock."""

    count: i64 = line()


@compiled
def add(lock, till):
    acquire(lock)
    till.count += 1
    release(lock)


def adding(threads, **bugs):
    lock, till = Lock.allocate(), Till.allocate()
    body = interpreted(add, **bugs)

    def check(results):
        assert till.count == threads, f"counted {till.count}"

    return [lambda: body(lock, till)] * threads, check


def test_one_at_a_time_has_it(explored):
    explored("two threads", *adding(2))
    explored("three threads", *adding(3))


def test_nobody_is_woken_is_found(found):
    bug = planted(release, "if before == CONTENDED:", "if False:")
    failures = found(*adding(2, release=bug))
    assert set(failures) == ALL and failures["sc"].startswith("deadlock")


def test_sleeping_without_saying_so_is_found(found):
    """It is taken as if nobody slept, and one of several who sleep is never woken."""
    bug = planted(
        acquire, 'before = exchange(lock.word, "value", CONTENDED)',
        'before = exchange(lock.word, "value", TAKEN)',
    )  # fmt: skip
    bug = planted(bug, "wait(lock.word.address, CONTENDED", "wait(lock.word.address, TAKEN")
    assert set(found(*adding(2, acquire=bug))) == ALL


def test_a_relaxed_release_is_found(found):
    bug = planted(
        release, 'before = exchange(lock.word, "value", FREE)',
        'before = CONTENDED\n    store_relaxed(lock.word, "value", FREE)',
        store_relaxed=store_relaxed,
    )  # fmt: skip
    assert "races" in found(*adding(2, release=bug))["weak"]
