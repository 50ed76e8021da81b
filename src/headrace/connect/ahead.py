"""Iterators that several threads go through ahead of whoever takes what they give, in order."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

CLOSING_SECONDS = 0.2  # for what a thread is in the middle of

T = TypeVar("T")
Making = Callable[[], Iterator[T]]


class _Lane(Generic[T]):
    """One iterator: what it gave and nobody has taken yet, and how it ended."""

    def __init__(self, making: Making[T]) -> None:
        self.making = making
        self.items: deque[T] = deque()
        self.size = 0
        self.is_over = False
        self.error: BaseException | None = None


class Ahead(Generic[T]):
    """What some iterators give, one after the other, as if nobody had gone ahead.

    Each of the threads goes through one iterator, at most until what lies there has a size: memory
    is bounded by the number of threads. An error comes where it would have come, behind all that
    was given before it. The iterators are made one by one, by one thread at a time.

    threads: how many; most: how much may lie there of each; size: how much an item is.

    >>> makings = iter([lambda: iter("ab"), lambda: iter("c")])
    >>> "".join(Ahead(makings, threads=2, most=10, size=len))
    'abc'
    """

    def __init__(
        self, makings: Iterator[Making[T]], *, threads: int, most: int, size: Callable[[T], int]
    ) -> None:
        self._makings, self._most, self._size = makings, most, size
        self._making = threading.Lock()  # held while the next iterator is made
        self._lanes: deque[_Lane[T]] = deque()
        self._changed = threading.Condition()
        self._is_closed = self._is_last = False
        self._threads = [
            threading.Thread(target=self._run, name="headrace-ahead", daemon=True)
            for _ in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def __iter__(self) -> Ahead[T]:
        return self

    def __next__(self) -> T:
        with self._changed:
            while not self._is_closed:
                lane = self._lanes[0] if self._lanes else None
                if lane is not None and lane.items:
                    item = lane.items.popleft()
                    lane.size -= self._size(item)
                    self._changed.notify_all()
                    return item
                if lane is not None and lane.is_over:
                    self._lanes.popleft()
                    self._changed.notify_all()
                    if lane.error is not None:
                        self._is_closed = True  # nothing comes behind an error
                        raise lane.error
                elif lane is None and self._is_last:
                    break
                else:
                    self._changed.wait()
        raise StopIteration

    def close(self) -> None:
        """Let the threads end; from any thread. Whoever waits for an item is told the end.

        It waits a moment for the threads, but not for a file that does not answer: one that is in
        Arrow when Python ends takes the process along.
        """
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        until = time.monotonic() + CLOSING_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _run(self) -> None:
        while (lane := self._next_lane()) is not None:
            error: BaseException | None = None
            try:
                for item in lane.making():
                    if not self._put(lane, item):
                        return
            except BaseException as raised:  # whatever it is, who takes the items is to have it
                error = raised
            with self._changed:
                lane.error, lane.is_over = error, True
                self._changed.notify_all()

    def _next_lane(self) -> _Lane[T] | None:
        with self._making:
            with self._changed:
                self._changed.wait_for(self._may_begin)
                if self._is_closed or self._is_last:
                    return None
            try:
                making = next(self._makings, None)
            except BaseException as raised:
                making = _raising(raised)
            with self._changed:
                if making is None:
                    self._is_last = True
                    self._changed.notify_all()
                    return None
                lane = _Lane(making)
                self._lanes.append(lane)
                return lane

    def _may_begin(self) -> bool:
        """Are there no more lanes than threads? Those that are over wait to be taken, too."""
        return self._is_closed or self._is_last or len(self._lanes) < len(self._threads)

    def _put(self, lane: _Lane[T], item: T) -> bool:
        """Add an item; False: nobody will take it."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or lane.size < self._most)
            if self._is_closed:
                return False
            lane.items.append(item)
            lane.size += self._size(item)
            self._changed.notify_all()
            return True


class Users:
    """How many still use something that is closed behind the last of them."""

    def __init__(self, count: int, close: Callable[[], None]) -> None:
        self._count, self._close, self._lock = count, close, threading.Lock()

    def leave(self) -> None:
        """One of them is done with it."""
        with self._lock:
            self._count -= 1
            last = self._count == 0
        if last:
            self._close()


def _raising(error: BaseException) -> Making[T]:
    def making() -> Iterator[T]:
        raise error

    return making
