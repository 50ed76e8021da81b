"""What threads make of things while more of them come, given on in the order of the things."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LEAVING_SECONDS = 0.2  # for what nobody needs any more


class Behind:
    """Makes things on some threads, and gives them on one by one, in the order of the calls.

    An error of one thing is raised by whoever asks next, and by all behind: what should have
    followed it makes no sense any more.

    threads: how many things may be in the making; a call waits for the first one before it adds
    another.

    >>> import time
    >>> found = []
    >>> behind = Behind(threads=2)
    >>> for seconds in (0.01, 0.0):
    ...     behind.do(lambda: time.sleep(seconds) or seconds, found.append)
    >>> behind.wait()
    >>> len(found)
    2
    """

    def __init__(self, threads: int) -> None:
        self._most = threads
        self._threads: deque[threading.Thread] = deque()  # each waits for the one before
        self._error: BaseException | None = None

    def do(self, make: Callable[[], T], give: Callable[[T], None]) -> None:
        """Make a thing, and give it on when all before it were given."""
        while len(self._threads) >= self._most:
            self._threads.popleft().join()
        self._raise()
        before = self._threads[-1] if self._threads else None

        def run() -> None:
            try:
                made = make()
                if before is not None:
                    before.join()
                if self._error is None:
                    give(made)
            except BaseException as error:  # whatever it is, who asks next is to have it
                self._error = self._error or error

        self._start(run)

    def wait(self) -> None:
        """Wait until all was given."""
        while self._threads:
            self._threads.popleft().join()
        self._raise()

    def leave(self, call: Callable[[], None]) -> None:
        """Make a last call, when nothing is in the making any more.

        This waits but a moment for it: a disk may block for as long as it likes. It does wait,
        since a thread that is in Arrow when Python ends takes the process along.
        """
        before = list(self._threads)

        def run() -> None:
            for thread in before:
                thread.join()
            call()

        self._start(run)
        self._threads[-1].join(LEAVING_SECONDS)

    def _start(self, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, name="headrace-behind", daemon=True)
        thread.start()
        self._threads.append(thread)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error
