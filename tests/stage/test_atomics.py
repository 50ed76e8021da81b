"""Atomics among threads, and through a replaced memory; each one is in test_records."""

import threading

from headrace.stage.memory import access as memory
from headrace.stage.memory.atomics import (
    cas,
    fetch_add,
    load_acquire,
    load_sc,
    pause,
    store_release,
)
from headrace.stage.memory.records import compiled, i32, i64, interpreted, line, record


@record
class Port:
    head: i64 = line()
    tail: i32 = line()


def test_four_threads_count_and_lock():
    @record
    class Shared:
        count: i64 = line()
        lock: i64 = line()
        guarded: i64 = line()

    @compiled
    def work(shared, rounds):
        for _ in range(rounds):
            fetch_add(shared, "count", 1)
            while not cas(shared, "lock", 0, 1):
                pause()
            shared.guarded += 1
            store_release(shared, "lock", 0)

    shared, rounds = Shared.allocate(), 50_000
    work(shared, 0)
    threads = [threading.Thread(target=work, args=(shared, rounds)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (shared.count, shared.guarded) == (4 * rounds, 4 * rounds)


def test_a_finalizer_may_update_memory_in_the_middle_of_an_update():
    """The garbage collector runs finalizers wherever it likes: nothing hangs, nothing is lost."""
    port, finalizers = Port.allocate(), [5, 7]

    def change(old):
        if finalizers:
            fetch_add(port, "head", finalizers.pop())
        return old + 1

    kind, address = port._at("head")
    thread = threading.Thread(
        target=memory.Memory.update,
        args=(memory.current, address, kind.ctype, change),
        daemon=True,
    )
    thread.start()
    thread.join(20)
    assert not thread.is_alive() and load_sc(port, "head") == 13


def test_memory_can_be_replaced(monkeypatch):
    seen = []

    class Spy(memory.Memory):
        def load(self, address, ctype, order):
            seen.append(order)
            return super().load(address, ctype, order)

        def pause(self):
            seen.append("pause")

    @compiled
    def look(port):
        pause()
        return port.head + load_acquire(port, "tail") + load_sc(port, "head")

    monkeypatch.setattr(memory, "current", Spy())
    assert interpreted(look)(Port.allocate()) == 0
    assert seen == ["pause", "plain", "acquire", "sc"]
