"""A thread that waits in an iterator, so that nobody else has to."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

GATHER_SECONDS = 0.004  # for which a row waits for others, as long as they keep coming
LOOK_SECONDS = 0.001
IDLE_SECONDS = 1.0  # after which a thread that nobody asks for rows ends


class Pump:
    """Takes items from an iterator on a thread of its own, but only as many as are asked for.

    An iterator that waits for its next item cannot be interrupted; here, what it gave before is not
    held up by that, and what it gives later is kept until somebody asks again. One that has an
    attribute `interruptible = True` may be closed while it waits, from any thread.

    >>> pump = Pump(iter([1, 2, 3]))
    >>> items = []
    >>> while not pump.has_ended:
    ...     items += pump.take(2, 1.0)
    >>> items
    [1, 2, 3]
    """

    def __init__(self, iterator: Iterator[Any], first: Iterable[Any] = ()) -> None:
        self._iterator = iterator
        self._items: deque[Any] = deque(first)
        self._wanted = 0  # items that may wait here
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_over = self._is_closed = False
        self._is_inside = False  # is the thread in the iterator?
        self._failure: BaseException | None = None

    @property
    def has_ended(self) -> bool:
        """Is there nothing left, and was there no error?"""
        return self._is_over and not self._items and self._failure is None

    @property
    def failure(self) -> BaseException | None:
        """What the iterator has raised, once all items before it were taken."""
        return None if self._items else self._failure

    def take(self, most: int, timeout: float, closed: threading.Event | None = None) -> list[Any]:
        """The next items; none if there was none for `timeout` seconds, or after the end.

        The first one waits a few ms for others that follow it closely.
        """
        self._ask(most)
        self._await(most, time.monotonic() + timeout, closed or threading.Event())
        items = self._items
        taken = [items.popleft() for _ in range(min(most, len(items)))]
        self._wanted = 0 if taken else 1  # what is on its way comes with the next call
        return taken

    def close(self) -> None:
        """Let the iterator free what it holds: now, or when it comes back."""
        with self._changed:
            self._wanted, self._is_closed = 0, True
            if not self._is_inside or getattr(self._iterator, "interruptible", False):
                self._close_iterator()
            self._changed.notify_all()

    def _await(self, most: int, deadline: float, closed: threading.Event) -> None:
        gathered_at, before, looks = None, 0, 0
        with self._changed:
            while not self._is_over and not closed.is_set() and len(self._items) < most:
                now, there = time.monotonic(), len(self._items)
                if there:
                    gathered_at = gathered_at or now + GATHER_SECONDS
                    if now >= gathered_at or (looks and there == before):
                        return
                elif now >= deadline and (looks or self._is_inside):
                    return
                before, looks = there, looks + 1
                self._changed.wait(LOOK_SECONDS)

    def _ask(self, most: int) -> None:
        with self._changed:
            self._wanted = most
            if self._thread is None and not self._is_over and len(self._items) < most:
                self._thread = threading.Thread(target=self._run, name="iterate", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            while self._may_go_on():
                for item in self._iterator:
                    self._items.append(item)
                    if len(self._items) >= self._wanted:
                        break
                else:
                    self._end()
        except BaseException as error:  # whatever it is, who waits for items is to have it
            self._end(error)

    def _may_go_on(self) -> bool:
        """Wait until more is wanted; False: not for long, and the thread is let go."""
        with self._changed:
            if self._is_inside and self._is_closed:
                self._close_iterator()
            self._is_inside = False
            self._changed.notify_all()
            if not self._is_over:
                self._changed.wait_for(self._is_asked, IDLE_SECONDS)
            self._is_inside = (
                not self._is_over and not self._is_closed and len(self._items) < self._wanted
            )
            if not self._is_inside:
                self._thread = None
            return self._is_inside

    def _is_asked(self) -> bool:
        return self._is_closed or len(self._items) < self._wanted

    def _end(self, error: BaseException | None = None) -> None:
        with self._changed:
            self._is_over, self._failure = True, error
            if error is not None:
                self._thread, self._is_inside = None, False
            self._changed.notify_all()

    def _close_iterator(self) -> None:
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()
