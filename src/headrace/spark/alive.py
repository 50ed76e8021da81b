"""A line on the terminal while Spark takes its time: what it does, and for how long already.

    starting Spark: 4 s (engine="node" needs none)

It stands on the last line, and is gone when there is something else to see. Where nobody looks, in
a log, a pipe or a test, nothing is written.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

STANDARD_ERROR = 2
FIRST_SECONDS = 1.0  # what is over sooner needs no words
EVERY_SECONDS = 0.5
CLEAR = b"\r\x1b[K"


class Line:
    """The line; `end` takes it away, once."""

    def __init__(self, doing: str, terminal: int) -> None:
        self._doing, self._terminal = doing, terminal
        self._since = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="headrace-alive", daemon=True)
        self._thread.start()

    def _tell(self) -> None:
        wait = FIRST_SECONDS
        while not self._ended.wait(wait):
            self._write(CLEAR + self.text().encode())
            wait = EVERY_SECONDS
        self._write(CLEAR)

    def text(self) -> str:
        """What stands there."""
        passed = time.monotonic() - self._since
        return f'{self._doing}: {passed:.0f} s (engine="node" needs none)'

    def _write(self, what: bytes) -> None:
        with suppress(OSError):  # the terminal is gone
            os.write(self._terminal, what)

    def end(self) -> None:
        """Take it away."""
        if not self._ended.is_set():
            self._ended.set()
            self._thread.join()
            os.close(self._terminal)


@contextmanager
def alive(doing: str) -> Iterator[Line | None]:
    """Show what is being done, on a terminal; None elsewhere.

    >>> with alive("starting Spark") as shown:
    ...     "is shown" if shown else "nobody looks"
    'nobody looks'
    """
    if not os.isatty(STANDARD_ERROR):
        yield None
        return
    line = Line(doing, os.dup(STANDARD_ERROR))  # Spark's start sends the other one elsewhere
    try:
        yield line
    finally:
        line.end()
