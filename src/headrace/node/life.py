"""The compiled functions that the host calls, in their two lives.

Interpreted, the very same loop of a worker runs under Python's debugger and in tests, with
thousands of small pipelines that nobody wants to compile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

from headrace.stage.memory.calls import address_of
from headrace.stage.memory.records import interpreted

from .emit import finish_mark, finish_slice, let_go
from .parking import stop_all
from .reading import fill_copied, fill_mixed, unlock
from .running import next_input
from .schedulers.hooks import ready
from .worker import work


class Life:
    """One of the two lives; `swap` puts other functions in place of some, interpreted."""

    def __init__(self, compiled: bool, **swap: Any) -> None:
        self.is_compiled, self._swap = compiled, swap
        self._made: dict[Any, Any] = {}
        self.work, self.ready, self.stop_all = map(self.of, (work, ready, stop_all))
        self.next_input, self.unlock = self.of(next_input), self.of(unlock)
        self.let_go = self.of(let_go)
        self.finish_slice, self.finish_mark = self.of(finish_slice), self.of(finish_mark)

    @cached_property
    def _prepared(self) -> bool:
        if self.is_compiled:
            self.address(work)
            self.address(fill_copied)
        return True

    def prepare(self) -> None:
        """Compile what every query needs, where it is not in the cache: it takes seconds."""
        assert self._prepared

    def of(self, function: Any) -> Callable[..., Any]:
        """A compiled function in this life."""
        if self.is_compiled:
            return function
        if function not in self._made:
            self._made[function] = interpreted(function, **self._swap)
        return self._made[function]

    def address(self, function: Any) -> int:
        """A function of one word, for calls by its address."""
        return address_of(self.of(function))

    def fill(self, only_copies: bool) -> int:
        """The function that fills a block from a batch."""
        return self.address(fill_copied if only_copies else fill_mixed)


@cache
def life_of(compiled: bool) -> Life:
    """The life that is asked for; the interpreted twins are made once."""
    return Life(compiled)
