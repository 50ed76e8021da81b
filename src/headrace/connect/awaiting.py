"""Asynchronous iterators for code that waits: an event loop on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterable, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

CLOSING_SECONDS = 1.0  # for which an iterator that is cancelled may clean up


class Loop:
    """An event loop that runs on a thread; `run` may be called from any other one.

    >>> loop = Loop()
    >>> loop.run(asyncio.sleep(0, "done"))
    'done'
    >>> loop.close()
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="await", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any], timeout: float | None = None) -> Any:
        """What a coroutine gives, or raises."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout)

    def close(self) -> None:
        """End the loop and its thread; what still runs in it is cancelled."""
        if not self._loop.is_closed():
            with suppress(Exception):
                self.run(_cancel_others(), CLOSING_SECONDS)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CLOSING_SECONDS)

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class Awaited(Iterator[Any]):
    """The items of an asynchronous iterator, one after the other.

    `close` may be called from any thread: the iterator is cancelled where it waits.

    >>> async def numbers():
    ...     for n in range(3):
    ...         yield n
    >>> list(Awaited(numbers()))
    [0, 1, 2]
    """

    interruptible = True

    def __init__(self, items: AsyncIterable[Any]) -> None:
        self.__name__ = getattr(items, "__name__", type(items).__name__)
        self._items = aiter(items)
        self._loop: Loop | None = None
        self._is_closed = False

    def __next__(self) -> Any:
        if self._is_closed:
            raise StopIteration
        self._loop = self._loop or Loop()
        try:
            return self._loop.run(self._next())
        except StopAsyncIteration:
            self.close()
            raise StopIteration from None
        except CancelledError:
            raise StopIteration from None  # by close

    async def _next(self) -> Any:
        return await anext(self._items)

    def close(self) -> None:
        """Let the iterator clean up, and end its loop."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._loop is not None:
            with suppress(Exception):
                self._loop.run(_cancel_others(), CLOSING_SECONDS)
                self._loop.run(self._close_items(), CLOSING_SECONDS)
            self._loop.close()

    async def _close_items(self) -> None:
        close = getattr(self._items, "aclose", None)
        if close is not None:
            await close()
