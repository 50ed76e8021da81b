"""Coroutines that are called for rows, many at a time: lookups in services and databases."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.plan.errors import DataError
from headrace.plan.schema import Schema

from .arrow import column_of
from .awaiting import Loop

FIRST_PAUSE = 0.1  # seconds before a call is made again; each time twice as long
LONGEST_PAUSE = 10.0


@dataclass(eq=False)
class AsyncCalls:
    """A function of record batches that awaits a coroutine for each row.

    limit: how many calls are under way at a time. timeout: seconds that one may take. retries: how
    often one that raised, or took longer, is made again. ordered: results come in the order of
    their rows, else as they are there. A call that fails for good fails the batch: the others are
    cancelled.

    >>> async def double(n):
    ...     return 2 * n
    >>> calls = AsyncCalls(double, ("n",), (), Schema.of({"n": int}))
    >>> calls(pa.record_batch({"n": [1, 2]})).to_pydict()
    {'n': [2, 4]}
    """

    function: Callable[..., Awaitable[Any]]
    columns: Sequence[str]  # of the arguments
    carry: Sequence[str]  # columns that go along
    schema: Schema  # of the results
    limit: int = 64
    timeout: float | None = 30.0
    retries: int = 0
    ordered: bool = True
    _loop: Loop | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not asyncio.iscoroutinefunction(self.function):
            raise DataError(f"{self.function!r} is not a coroutine function (async def)")
        if self.limit < 1 or self.retries < 0 or (self.timeout is not None and self.timeout <= 0):
            raise DataError(
                f"limit={self.limit}, timeout={self.timeout}, retries={self.retries}: there is at "
                "least one call at a time, it takes some time, and retries are not less than none"
            )
        self.__name__ = self.function.__name__

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loop": None}  # each process has its own

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The results for the rows of a batch."""
        if self._loop is None:
            self._loop = Loop()
            weakref.finalize(self, self._loop.close)
        given = list(zip(*(rows[name].to_pylist() for name in self.columns)))
        results = self._loop.run(self._all(given))
        order = range(len(given)) if self.ordered else list(results)
        values = list(zip(*(self._values(results[row]) for row in order)))
        made = {
            each.name: column_of(each.name, column, each.type, what="the result")
            for each, column in zip(self.schema, values or [()] * len(self.schema))
        }
        carried = rows.select(list(self.carry))
        if not self.ordered:
            carried = carried.take(pa.array(order, pa.int64()))
        return pa.record_batch({**dict(zip(self.carry, carried.columns)), **made})

    async def _all(self, rows: Sequence[tuple[Any, ...]]) -> dict[int, Any]:
        """The results by the places of their rows, as they came."""
        gate, results = asyncio.Semaphore(self.limit), {}

        async def call(place: int) -> None:
            async with gate:
                results[place] = await self._tried(rows[place])

        try:
            async with asyncio.TaskGroup() as group:
                for place in range(len(rows)):
                    group.create_task(call(place))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return results

    async def _tried(self, row: tuple[Any, ...]) -> Any:
        pause = FIRST_PAUSE
        for tries_left in range(self.retries, -1, -1):
            try:
                async with asyncio.timeout(self.timeout):
                    return await self.function(*row)
            except TimeoutError:
                if not tries_left:
                    what = f"{self.__name__} took longer than {self.timeout} s"
                    raise TimeoutError(f"{what}, {self._said(row)}") from None
            except Exception as error:
                if not tries_left:
                    error.add_note(self._said(row))
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _said(self, row: tuple[Any, ...]) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in zip(self.columns, row))
        return f"called{f' {self.retries + 1} times' * bool(self.retries)} with {given}"

    def _values(self, result: Any) -> tuple[Any, ...]:
        if len(self.schema) == 1 and not isinstance(result, tuple):
            return (result,)
        if not isinstance(result, tuple) or len(result) != len(self.schema):
            raise DataError(
                f"{self.__name__} gave {result!r}, and should give a tuple with a value for each "
                f"of {', '.join(self.schema.names)}"
            )
        return result
