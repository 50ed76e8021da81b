"""The node engine: worker threads that run the units of many queries.

Each worker is a Python thread inside one compiled loop (`worker.work`), without the GIL; it comes
out only for memory and for the error of a row. What calls Python runs on threads of the host
(`hosts`). Queries come and go while others run.

The memory of a query that ends is unmapped when all its units are *home*: no thread runs them. One
that is not, because its kernel takes long for a row or its connector blocks, does not hold up the
end of the query: what the unit still uses goes to the *graveyard*, and is freed when it comes home,
by a thread that is there for as long as the graveyard is not empty.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.plan.planner import Plan

from .allocator import Allocator
from .claims import IDLE, UnitState
from .elastic import Elastic
from .free_list import NO_UNIT, new_free_list
from .graph import Operator
from .graveyard import Graveyard, Remains
from .hook_sets import HookSets
from .hosts import Hosts
from .loop import loop
from .memory import BlockPool, Memory
from .mode import Mode
from .pool import Pool
from .query import Query
from .refusals import EngineError, check_told, check_units, refuse_forked, refuse_policies
from .schedulers.dedicated import Dedicated
from .schedulers.free_list import FreeUnits
from .schedulers.hooks import ARRIVED, Desk, EngineRecord, Hooks, Worker
from .schedulers.near import Near
from .threads import daemon
from .unit import HOST, HOSTED, SOURCE, QueryRecord, Run, Unit

if TYPE_CHECKING:
    from headrace.control import Policy

    from .steering import Steering

MOST_UNITS = 8192
OWNERS = 0  # of key groups in a query; 0: as many as workers
RUN_NS = 200_000  # of a run, about; 0: as long as there is work
INTERPRETED_RUN_NS = 100_000_000
SCHEDULER: Any = Near
WITHOUT_POLICY: dict[str | None, Any] = {"near": Near, "manual": Near, "free_list": FreeUnits}
CONTROL = -1  # the number of the control thread; those of host threads are below
CLOSE_SECONDS = 0.4  # that `close` waits for threads, in all; most end at once
WAKE_SECONDS = 0.02  # a worker may have been about to fall asleep


def _mode(compiled: bool) -> Mode:
    """Interpreted; or compiled, as soon as the loop's machine code is there."""
    return Mode(compiled and loop().is_there, compiles=compiled)


class NodeEngine:
    """Workers for queries. Use it as a context, or `close` it.

    >>> with NodeEngine(workers=2) as engine:
    ...     engine.workers
    2
    """

    def __init__(
        self,
        workers: int | None = None,
        compiled: bool = True,
        run_ns: int | None = None,
        policy: Policy | None = None,
        elastic: bool = False,
        scheduler: str | None = None,
    ) -> None:
        """elastic: as many of the workers run as are worth it (see `elastic`). scheduler: the name
        of one; None: the default, and with a policy the one that asks it."""
        self.workers = 1 if scheduler == "manual" else workers or os.cpu_count() or 1
        self.owners = OWNERS or self.workers
        self.mode = _mode(compiled)
        self._pid = os.getpid()
        self._states = UnitState.allocate(MOST_UNITS)
        self.table = Unit.allocate(MOST_UNITS)
        self._nobody = QueryRecord.allocate()  # the query of units that belong to none
        self._nobody.cancelled = 1
        self._no_run = Run.allocate()
        self.blank = Unit.allocate()
        self.blank.query, self.blank.run = self._nobody.address, self._no_run.address
        self._timed = np.zeros(MOST_UNITS, np.int64)
        self._record = record = EngineRecord.allocate()
        record.states, record.units = self._states.address, self.table.address
        self._dedicated = Dedicated(MOST_UNITS) if scheduler == "dedicated" else None
        most = self.workers if self._dedicated is None else MOST_UNITS
        record.timed, record.active = self._timed.ctypes.data, most
        self._waiting = new_free_list(MOST_UNITS)
        record.permits.left = max(1, most - 1)
        record.permits.waiting = self._waiting.address
        self._run_ns = RUN_NS if run_ns is None else run_ns
        self._named = scheduler if policy is None else None  # one that asks no policy
        self._assigns = scheduler == "assigned"
        made = WITHOUT_POLICY.get(self._named, SCHEDULER)
        self._scheduler = self._dedicated or made(MOST_UNITS, self.workers)
        self._host_scheduler = Near(MOST_UNITS, 0)
        self._made: list[Any] = []  # the Workers of all threads
        self.hosts = Hosts(self.mode, self._worker, self._serve, self.close)
        self._sets = HookSets(self.mode, self.hosts)
        self._prepare()
        self._lock = threading.RLock()
        self._swapping = threading.Lock()  # of schedulers, or of modes: one after the other
        self._control, self._control_lock = self._worker(CONTROL), threading.Lock()
        self._numbers = list(range(MOST_UNITS - 1, -1, -1))
        self._queries: dict[int, Query] = {}  # by the number of a unit
        self._timed_numbers: set[int] = set()  # of units that may want to be woken
        first = self.workers if self._dedicated is None else 0
        self._workers = [self._worker(number) for number in range(first)]
        self._threads: list[threading.Thread] = []
        self._memories: list[Memory] = []
        self._allocator = Allocator(self._on_room)
        self._graveyard = Graveyard(self._are_home, self._free)
        self._closed = False
        self._warming: threading.Thread | None = None
        self._steering: Steering | None = None
        self._looks: tuple[Any, ...] = ()  # what the control thread calls
        self._choosing = threading.Lock()  # of policies: one after the other
        self._telling = threading.Lock()  # the present one about queries
        if policy is not None:
            self.use_policy(policy)
        self._elastic = Elastic(self) if elastic else None

    def _prepare(self) -> None:
        """Put hooks of the present mode in force. Interpreted, a run is mostly the loop itself, so
        it gets more time; it has a bound, since kernels may take long for a row."""
        self._record.run_ns = self._run_ns if self.mode.is_compiled else INTERPRETED_RUN_NS
        self._sets.clear()
        self._record.workers.hooks = self._sets.add(self._scheduler)
        self._record.hosts.hooks = self._sets.add(self._host_scheduler)
        for worker in self._made:  # the same schedulers: nothing has to be given back
            worker.hooks = Desk(worker.desk).hooks

    def _worker(self, number: int) -> Any:
        made = Worker.allocate()
        made.number, made.engine, made.held = number, self._record.address, NO_UNIT
        desk = self._record.hosts if number < CONTROL else self._record.workers
        made.desk, made.turn.worker = desk.address, number
        made.turn.units, made.lot = self.table.address, desk.lot.address
        if self._dedicated is not None and number >= 0:
            made.lot = self._dedicated.lot(number)
        made.hooks = desk.hooks
        self._made.append(made)
        return made

    # ---- schedulers --------------------------------------------------------------------------

    def use(self, scheduler: Any) -> None:
        """Put another scheduler in force, while all workers run (see `schedulers.hooks`).

        `scheduler` has `hooks` and `memory`, as `Near` has.
        """
        with self._swapping:
            with self._lock, self.hosts.engine_entered():
                self.check()
                old, self._scheduler = self._record.workers.hooks, scheduler
                new = self._sets.add(scheduler)
                self.mode.put_in_force(self._record.workers, new)
            if self._move_until_adopted(old, new):
                self._sets.retire(old)

    def _move_until_adopted(self, old: int, new: int) -> bool:
        """Let no unit stay in the old scheduler; have all workers adopted the new one?"""
        mover = self._worker(CONTROL)
        self._made.remove(mover)
        mover.hooks = old
        while True:
            adopted = all(worker.hooks == new or worker.hooks == 0 for worker in self._workers)
            with self.hosts.engine_entered(), self._control_lock:
                self.mode.adopt(self._control)
                self._move(mover, new)
                self.mode.wake_all(self._record)
            if adopted or self._closed or not self._threads:
                return adopted
            time.sleep(0.0002)

    def _move(self, mover: Any, new: int) -> None:
        """What lies in the old scheduler goes to the new one."""
        old = mover.hooks
        while True:
            hooks = Hooks(old)
            mover.turn.scheduler = hooks.scheduler
            unit = self.mode.proposed(hooks.next_task, mover.turn.address)
            if unit == NO_UNIT:
                return
            mover.hooks = new
            self.mode.list_unit(mover, unit, ARRIVED)
            mover.hooks = old

    def use_policy(self, policy: Policy) -> None:
        """Let a policy say who comes first, while all workers run (see `steering`)."""
        if self._dedicated is not None:
            refuse_policies()
        with self._choosing:
            self.check()
            if self._steering is not None and self._steering.error is None:
                self._steering.swap(policy)
                return
            from .steered import steer

            scheduler, steering, self._looks = steer(self, self._record, policy, self._assigns)
            self.use(scheduler)
            with self._telling:
                self._steering, self._named = steering, None
            self._tell_steering()

    def give_up(self, steering: Steering) -> None:
        """A policy cannot be used: go on without."""
        with self._choosing, suppress(EngineError):  # it may be closed
            if self._steering is steering:
                self.use(Near(MOST_UNITS, self.workers))

    def _tell_steering(self) -> None:
        """Let the policy know which queries there are; nobody looks at others any more."""
        with self._telling:
            if self._steering is not None:
                self._steering.update([query.scheduled for query in self.queries])

    def scheduling(self) -> str:
        """Who says who comes first."""
        if self._steering is not None:
            return self._steering.said()
        return "the default" if self._named is None else f"scheduler {self._named!r}"

    def suspend(self, workers: int) -> None:
        """Let only so many workers run; the others give back what they have begun, and sleep."""
        with self.hosts.engine_entered():
            self.mode.let_work(self._record, max(1, min(workers, self.workers)))
        if self._steering is not None:
            self._steering.again()

    @property
    def meeting_seconds(self) -> float:
        """How long workers have met so far, to be assigned units (`schedulers.assigned`)."""
        return getattr(self._scheduler, "meeting_ns", 0) / 1e9

    @property
    def active(self) -> int:
        """Workers that are not suspended."""
        return min(int(self._record.active), len(self._workers))

    @property
    def running(self) -> int:
        """Workers that run, also those that are suspended as soon as their unit lets them."""
        return self.active + sum(w.held != NO_UNIT for w in self._workers[self.active :])

    @property
    def queries(self) -> list[Query]:
        """Those that run."""
        with self._lock:
            return list(dict.fromkeys(self._queries.values()))

    @property
    def is_warm(self) -> bool:
        """Do the workers run machine code, and is nothing compiled beside them?"""
        return self.mode.is_compiled and not loop().is_busy

    def __enter__(self) -> NodeEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancel what still runs, stop the threads and wait for them, but not for long: those that
        are in a long run, or in a call that blocks, end behind it. From any thread, ours too."""
        deadline = time.monotonic() + CLOSE_SECONDS

        def left() -> float:
            return max(0.0, deadline - time.monotonic())

        with self._lock:
            self._closed = True
            queries = set(self._queries.values())
        for control in (self._elastic, self._steering):
            if control is not None:
                control.stop()
        for query in queries:
            query.fail(EngineError("the engine was closed"))
        for query in queries:
            query.await_end(left())
        self._allocator.close()
        with self.hosts.engine_entered():
            self.mode.stop_all(self._record)
        self.hosts.close(left())
        for thread in (*self._threads, self._warming):
            if thread is not None and thread is not threading.current_thread():
                thread.join(left())
        self._graveyard.tidy()

    def leave(self) -> None:
        """Nobody will need this engine any more: its threads end soon. Takes no lock and waits for
        nothing, since garbage may be collected anywhere."""
        self.hosts.leave()

    # ---- queries -----------------------------------------------------------------------------

    def query(
        self,
        plan: Plan,
        capacity: int,
        budget: int | None = None,
        idle: int | None = None,
        priority: float | None = None,
        reorder: str = "non-blocking",
        transport: str = "blocks",
        deadline: int | None = None,
    ) -> Query:
        """A query for this engine; it begins when it is run. idle, deadline: in µs."""
        self.check()
        check_told(self._named, self._steering is not None, priority, deadline)
        patience = None if idle is None else max(1, 1000 * idle)
        locks, queues = reorder == "lock", transport == "queues"
        rows = 1 if queues else capacity
        return Query(self, plan, rows, budget, patience, priority, locks, queues, deadline)

    def refuse(self) -> None:
        """Take no more queries."""
        with self._lock:
            self._closed = True

    def check(self) -> None:
        """An engine that cannot take a query is an EngineError."""
        if os.getpid() != self._pid:
            refuse_forked()
        if self._closed:
            raise EngineError("the engine is closed\n  fix: make a new one")

    def take_numbers(self, count: int) -> list[int]:
        """Numbers for units."""
        with self._lock:
            self.check()
            check_units(count, len(self._numbers), MOST_UNITS)
            return [self._numbers.pop() for _ in range(count)]

    def give_numbers(self, numbers: Iterable[int]) -> None:
        """Numbers that are free again."""
        with self._lock:
            self._numbers.extend(numbers)

    def add(self, query: Query, memory: Memory) -> None:
        """Let the workers know the units of a query."""
        with self._lock:
            self.check()
            self._queries.update((number, query) for number in query.operators)
            kinds = (SOURCE, *HOSTED)
            timed = [n for n, operator in query.operators.items() if operator.kind in kinds]
            self._timed_numbers.update(timed)
            self._tell_timed()
            self.hosts.start()
            self._memories.append(memory)
            if self.mode.is_compiled:
                self._allocator.attach(memory)
            if self._dedicated is not None:
                self._dedicate(query)
            if not self._threads:
                self._start()
                if self._elastic is not None:
                    self._elastic.start()
                if self.mode.compiles and not self.mode.is_compiled:
                    self._warming = daemon("warming", self._warm)
        if query.priority is not None and self._steering is None:
            from .steering import important_first

            self.use_policy(important_first())
        self._tell_steering()

    def remove(
        self, query: Query, operators: dict[int, Operator], memory: Memory, kept: Any
    ) -> None:
        """Forget a query. Its memory is freed at once if its units are home soon; if not, later.

        The allocator comes first: when a pool has grown, it makes units ready.
        """
        with self._lock:
            if memory in self._memories:
                self._memories.remove(memory)
        self._allocator.detach(memory)
        for operator in operators.values():
            operator.unit.wake_at = 0
        with self._lock:
            for number in operators:
                self._queries.pop(number, None)
                self._timed_numbers.discard(number)
            self._tell_timed()
        self._tell_steering()  # from now on no policy looks at its units
        self._graveyard.bury(Remains(operators, memory, kept))

    def _free(self, remains: Remains) -> None:
        """Nobody can use these units any more."""
        for operator in remains.operators.values():
            # a worker may be about to wake it, if it is timed
            operator.unit.query = self._nobody.address
            operator.unit.run = self._no_run.address
        remains.memory.close()
        self.give_numbers(remains.operators)

    def _are_home(self, numbers: Iterable[int]) -> bool:
        """Is no unit claimed or listed, or is no thread left to run it, in a closed engine?"""
        gone = self._closed and not any(thread.is_alive() for thread in self._threads)
        hosts_gone = self._closed and not self.hosts.are_alive
        return all(
            self._states[number].state == IDLE
            or (hosts_gone if self.table[number].hosted else gone)
            for number in numbers
        )

    def _tell_timed(self) -> None:
        self._timed[: len(self._timed_numbers)] = sorted(self._timed_numbers)
        self._record.timed_count = len(self._timed_numbers)

    def ready(self, numbers: Iterable[int]) -> None:
        """Units that may have something to do, from the host."""
        with self.hosts.engine_entered(), self._control_lock:
            self.mode.adopt(self._control)
            for number in numbers:
                self.mode.ready(self._control, number)

    def let_go(self, block: int) -> None:
        """The host is done with a block."""
        with self.hosts.engine_entered(), self._control_lock:
            self.mode.adopt(self._control)
            self.mode.let_go(self._control, block)

    def _on_room(self, pool: BlockPool) -> None:
        record = Pool(pool.address)
        users = (ctypes.c_int64 * record.user_count).from_address(record.users)
        self.ready(list(users))

    # ---- workers -----------------------------------------------------------------------------

    def _start(self) -> None:
        self._threads = [daemon(each.number, self._work, each) for each in self._workers]

    def _dedicate(self, query: Query) -> None:
        """A thread for each unit of a query. It stays, for the next unit that has its number."""
        there = {worker.number for worker in self._workers}
        for number, operator in query.operators.items():
            if number not in there and operator.kind not in HOSTED:
                self._workers.append(worker := self._worker(number))
                if self._threads:
                    self._threads.append(daemon(number, self._work, worker))

    def _warm(self) -> None:
        """Let the workers go over to the compiled loop, as soon as there is one."""
        if not loop().await_machine_code(lambda: self._closed):
            return
        for function in (*self._scheduler.hooks, *self._looks):  # while the workers work
            function.load(int)
        with self._swapping:
            self._go_over()

    def _go_over(self) -> None:
        """All workers come out first: the two modes have their own ways to be atomic. Each goes on
        with what is on its stack."""
        self._record.leaving = 1
        for thread in self._threads:
            while thread.is_alive() and not self._closed:
                self.mode.wake_all(self._record)
                thread.join(WAKE_SECONDS)
        with self._lock, self.hosts.shut_out():
            if self._closed:
                return
            self.mode.become_compiled()
            self._prepare()
            self._record.leaving = 0
            for memory in self._memories:
                self._allocator.attach(memory)
            self._start()

    def _work(self, worker: Any) -> None:
        while self.mode.work(worker.address) == HOST:
            self._serve(worker.held)

    def _serve(self, unit: int) -> None:
        """Do what a unit asks for."""
        query = self._queries.get(unit)
        if query is not None:
            query.serve(unit)
