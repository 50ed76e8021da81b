"""A lock for compiled code: who does not get it sleeps until it is free.

Nothing in the engine waits for another thread, but for the lock-based reordering of Ordered,
fig. 2, which is kept to be compared with (`reorder.send_locked`). A word is 0 (free), 1 (taken) or
2 (taken, and somebody may sleep), so that only who leaves sleepers behind calls the system.
"""

from __future__ import annotations

from headrace.node.futex import SECOND, Word, wait, wake
from headrace.stage.memory.atomics import cas, exchange
from headrace.stage.memory.records import compiled, line, record

FREE, TAKEN, CONTENDED = range(3)


@record
class Lock:
    """The lock; written by everybody.

    >>> lock = Lock.allocate()
    >>> acquire(lock); lock.word.value
    1
    >>> release(lock); lock.word.value
    0
    """

    word: Word = line()


@compiled
def acquire(lock):
    """Wait until the lock is free, and take it."""
    got = cas(lock.word, "value", FREE, TAKEN)
    if got:
        return
    while True:
        before = exchange(lock.word, "value", CONTENDED)
        if before == FREE:
            return
        wait(lock.word.address, CONTENDED, SECOND)


@compiled
def release(lock):
    """Let it go; one who sleeps is woken."""
    before = exchange(lock.word, "value", FREE)
    if before == CONTENDED:
        wake(lock.word.address, 1)
