"""The allocator: one thread of an engine that makes the next chunk before it is needed.

Enjima §3.1.1 (eager allocation): who takes one of the last free blocks of a pool rings a bell
(`growth.draw`) and goes on; this thread wakes, lets the pool grow, and tells the engine that there
is room, since a unit may already wait for a block. It sleeps as long as no bell rings, so an idle
engine does not notice it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from headrace.node.futex import HAS_FUTEX, Word, wait
from headrace.node.growth import hang_bell, has_asked, ring_bell, times_rung, wants_more
from headrace.node.memory import BlockPool, Memory
from headrace.stage.memory.records import compiled

LOOK_NS = 100_000_000  # looks at the bell at least this often
LOOK_SECONDS = 0.02  # where there is no futex, and nobody can wake it
JOIN_SECONDS = 10.0


@compiled
def sleep_on(bell, ticket, ns):
    """Sleep, without the GIL, until the bell rings or the time is over."""
    wait(bell.address, ticket, ns)


class Allocator:
    """Grows the pools of the memories that are attached to it.

    `on_room(pool)` is called, on the allocator's thread, when a pool has got blocks. The thread
    starts with the first memory. Use it as a context, or `close` it.

    >>> with Allocator() as allocator:
    ...     allocator.attach(Memory("clicks"))
    """

    def __init__(self, on_room: Callable[[BlockPool], None] | None = None) -> None:
        self._on_room = on_room
        self._bell = Word.allocate()
        self._memories: list[Memory] = []
        self._changed = threading.Condition()  # guards what follows
        self._serving: Memory | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def attach(self, memory: Memory) -> None:
        """Let the pools of a memory grow, those that it has and those to come."""
        with self._changed:
            if self._stop.is_set():
                raise ValueError("the allocator is closed")
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="headrace-allocator", daemon=True
                )
                self._thread.start()
            self._memories.append(memory)
            memory._allocator = self
        for pool in list(memory.pools):
            self.watch(pool)

    def watch(self, pool: BlockPool) -> None:
        """Hear the bell of a pool. If it has asked before, it is served now."""
        pool.bell = self._bell  # lives as long as a worker may ring it
        if hang_bell(pool.record, self._bell.address):
            ring_bell(self._bell.address)

    def detach(self, memory: Memory) -> None:
        """Leave a memory alone: after this, `on_room` is not called for its pools. Hold no lock
        that `on_room` takes, since this waits for a call that is under way."""
        with self._changed:
            if memory in self._memories:
                self._memories.remove(memory)
            while self._serving is memory and threading.current_thread() is not self._thread:
                self._changed.wait(LOOK_SECONDS)

    def close(self) -> None:
        """End the thread and wait for it. Pools do not grow any more."""
        with self._changed:
            self._stop.set()
            self._memories.clear()
            thread = self._thread
        ring_bell(self._bell.address)
        if thread is not None and thread is not threading.current_thread():
            thread.join(JOIN_SECONDS)

    def __enter__(self) -> Allocator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        heard = 0
        while not self._stop.is_set():
            rung = times_rung(self._bell.address)
            if rung != heard:
                heard = rung
                self._answer()
            elif HAS_FUTEX:
                sleep_on(self._bell, heard, LOOK_NS)
            else:
                self._stop.wait(LOOK_SECONDS)

    def _answer(self) -> None:
        """Serve every pool that has asked."""
        with self._changed:
            memories = list(self._memories)
        for memory in memories:
            asking = [pool for pool in list(memory.pools) if has_asked(pool.record)]
            if not asking:
                continue
            with self._changed:
                if memory not in self._memories:
                    continue
                self._serving = memory
            try:
                for pool in asking:
                    self._serve(memory, pool)
            finally:
                with self._changed:
                    self._serving = None
                    self._changed.notify_all()

    def _serve(self, memory: Memory, pool: BlockPool) -> None:
        grown = False
        while wants_more(pool.record) and memory.grow(pool):
            grown = True
        if grown and self._on_room is not None:
            self._on_room(pool)
