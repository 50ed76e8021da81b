"""Several ranges in one task, each on a thread of its own: the cores of `spark.task.cpus`.

What a range gives is what it would give in a task of its own: its messages carry their sender and
their serials, by which whoever takes them puts them in order. So they are handed on as they come.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence

from .wire import Message

WAITING = 2  # messages of each range that wait to be taken

GoesOn = Callable[[], bool]  # is anybody still waiting for what a range gives?
Reading = Callable[[GoesOn], Iterator[Message]]


class Abandoned(Exception):
    """A range that nobody waits for any more: one before it has failed, or the task is over."""


def side_by_side(ranges: Sequence[Reading]) -> Iterator[Message]:
    """The messages of all ranges, as they come; the error of the first range that fails.

    >>> list(side_by_side([lambda goes_on: iter("ab"), lambda goes_on: iter("c")]))[-1] in "bc"
    True
    """
    given: queue.Queue[Message | None] = queue.Queue(WAITING * len(ranges))  # None: one has ended
    errors: dict[int, BaseException] = {}
    wanted = len(ranges)  # those before it are

    def work(number: int) -> None:
        try:
            for message in ranges[number](lambda: number < wanted):
                given.put(message)
        except BaseException as error:  # whatever it is, the task raises it
            errors[number] = error
        finally:
            given.put(None)

    threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(len(ranges))]
    running = len(threads)
    for thread in threads:
        thread.start()
    try:
        while running:
            message = given.get()
            if message is not None:
                yield message
                continue
            running -= 1
            wanted = min([wanted, *errors])
    finally:
        wanted = 0
        while running:  # those who put have room, and end at their next look
            running -= given.get() is None
        for thread in threads:
            thread.join()
    if errors:
        raise errors[min(errors)]
