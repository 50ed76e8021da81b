"""The compiled functions that the host calls, in their two modes.

Interpreted, the very same loop of a worker runs under Python's debugger and in tests, with
thousands of small pipelines that nobody wants to compile. And a cold start begins with it: kernels
are compiled, but the loop around them, which takes longer to compile than they do, is interpreted
until its machine code is there (`NodeEngine`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.stage.memory.calls import address_of
from headrace.stage.memory.records import interpreted

from .emit import let_go
from .growth import has_asked, wants_more
from .loop import loop
from .pace import Pace, start_pace
from .pool import Pool
from .reading import fill_lent, fill_mixed
from .schedulers.hooks import (
    AWAIT,
    RUN,
    EngineRecord,
    Hooks,
    Worker,
    adopt,
    list_unit,
    next_unit,
    put_in_force,
    ready,
)
from .splits import ChannelFeed, make_offer
from .worker import ask_hook, let_work, stop_all, wake_everybody, work


class Mode:
    """One of the two modes; `swap` puts other functions in place of some, interpreted.

    compiles: kernels are compiled, whatever the loop is.
    """

    def __init__(self, compiled: bool, *, compiles: bool = False, **swap: Any) -> None:
        self.is_compiled, self.compiles, self._swap = compiled, compiled or compiles, swap
        self._made: dict[Any, Any] = {}
        self._begin()

    def _begin(self) -> None:
        self.work, self.ready = self.of(work), self.of(ready)
        self.stop_all, self.wake_all = self.of(stop_all), self.of(wake_everybody)
        self.let_work = self.of(let_work)
        self.adopt, self.next_unit = self.of(adopt), self.of(next_unit)
        self.list_unit, self.put_in_force = self.of(list_unit), self.of(put_in_force)
        self.let_go, self.make_offer = self.of(let_go), self.of(make_offer)

    def become_compiled(self) -> None:
        """Go over to the compiled mode. Nobody may be inside one of the functions."""
        self.is_compiled = True
        self._begin()

    def prepare(self) -> None:
        """Compile what workers need, where it is not in the cache."""
        if self.compiles:
            self.fill(only_lends=True)
        if self.is_compiled:
            loop().load()

    def of(self, function: Any) -> Callable[..., Any]:
        """A compiled function in this mode."""
        if self.is_compiled:
            return function
        if function not in self._made:
            self._made[function] = interpreted(function, **self._swap)
        return self._made[function]

    def address(self, function: Any) -> int:
        """A function of one word, for calls by its address."""
        return address_of(self.of(function))

    def hooks_of(self, scheduler: Any) -> Any:
        """The Hooks of a scheduler, which has `hooks` and `memory`."""
        made = Hooks.allocate()
        made.scheduler = scheduler.memory
        made.on_ready, made.next_task, made.on_done, made.has_work, made.give_back = (
            self.address(hook) for hook in scheduler.hooks
        )
        return made

    def await_hosted(self, worker: Any, ns: int) -> int:
        """Wait for a hosted unit: its number, or NO_UNIT."""
        worker.errand, worker.patience = AWAIT, ns
        return self.work(worker.address)

    def run_hosted(self, worker: Any, unit: int) -> int:
        """One run of a hosted unit."""
        worker.errand, worker.held = RUN, unit
        return self.work(worker.address)

    def proposed(self, hook: int, turn: int) -> int:
        """What a scheduler proposes next, asked by the control thread."""
        return self.of(ask_hook)(hook, turn)

    def fill(self, only_lends: bool) -> int:
        """The function that fills a block from a batch."""
        return self.code(fill_lent if only_lends else fill_mixed)

    def code(self, function: Any) -> int:
        """A function that works on rows: compiled as kernels are, whatever the loop is."""
        return address_of(function) if self.compiles else self.address(function)


def load_the_rest() -> None:
    """Have what is called only now and then in the cache, too: a job that comes to it later would
    load the compiler while it runs."""
    from .features import look_at
    from .schedulers.assigned import Assigned
    from .schedulers.dedicated import Dedicated
    from .schedulers.free_list import FreeUnits
    from .schedulers.priority import Priority

    schedulers: tuple[Any, ...] = (Priority, FreeUnits, Assigned, Dedicated)
    hooks = [hook for scheduler in schedulers for hook in scheduler.hooks]
    for hook in (*hooks, *Assigned.called, look_at):
        hook.load(int)
    for function, *kinds in (
        (fill_mixed, int),
        (has_asked, Pool),
        (let_go, Worker, int),
        (make_offer, ChannelFeed, int),
        (start_pace, Pace, int),
        (wake_everybody, EngineRecord),
        (stop_all, EngineRecord),
        (wants_more, Pool),
    ):
        function.load(*kinds)
