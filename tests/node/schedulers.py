"""Schedulers for tests: they decide as nobody would, and every result must be the same."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from headrace.control import Features, Policy, as_policy
from headrace.control.policies import POLICIES, make_policy
from headrace.node import engine
from headrace.node.free_list import NO_UNIT, FreeList, has_work, new_free_list, pick, put
from headrace.node.schedulers.free_list import FreeUnits
from headrace.node.schedulers.hooks import Turn
from headrace.node.schedulers.near import Near
from headrace.options import POLICY_FREE
from headrace.stage.memory.atomics import fetch_add
from headrace.stage.memory.records import compiled, i64, i64s, line, record

LISTS = 4
STRIDE, SCALE = 0x5DEECE66D, 1 << 17
MOST_ROWS = 40  # of a run
PERIOD = 0.01  # seconds from one swap to the next


@record
class RandomRecord:
    """The memory of the scheduler."""

    seed: i64 = line()  # updated by everybody
    lists: i64 = line()  # fixed: address of the addresses of FreeLists


class Random:
    """Puts a unit in one of several lists, and takes one from any: which, and how many rows it may
    take, is chance. Nothing is kept for a worker."""

    hooks: tuple[Any, ...]

    def __init__(self, units: int, workers: int) -> None:
        self._lists = [new_free_list(units) for _ in range(LISTS)]
        self._addresses = np.array([each.address for each in self._lists], np.int64)
        self._record = RandomRecord.allocate()
        self._record.lists = self._addresses.ctypes.data

    @property
    def memory(self) -> int:
        """The address of its record."""
        return self._record.address


@compiled
def chance(record):
    """A number that nobody foresees, not negative."""
    return (fetch_add(record, "seed", STRIDE) // SCALE) & 0xFFFF


@compiled
def on_ready(address):
    """See hooks."""
    turn = Turn(address)
    record = RandomRecord(turn.scheduler)
    put(FreeList(i64s(record.lists)[chance(record) % LISTS]), turn.unit)
    return 1


@compiled
def next_task(address):
    """See hooks."""
    turn = Turn(address)
    record = RandomRecord(turn.scheduler)
    number = chance(record)
    for k in range(LISTS):
        unit = pick(FreeList(i64s(record.lists)[(number + k) % LISTS]))
        if unit != NO_UNIT:
            turn.limit = 1 + number // LISTS % MOST_ROWS
            return unit
    return NO_UNIT


@compiled
def on_done(address):
    """See hooks."""
    return 0


@compiled
def is_ready(address):
    """has_work; see hooks."""
    record = RandomRecord(Turn(address).scheduler)
    for k in range(LISTS):
        if has_work(FreeList(i64s(record.lists)[k])):
            return 1
    return 0


@compiled
def give_back(address):
    """See hooks."""
    return 1


Random.hooks = (on_ready, next_task, on_done, is_ready, give_back)


class Changing(engine.NodeEngine):
    """An engine that is changed again and again, until it is closed."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._over = threading.Event()
        self._swapper = threading.Thread(target=self._swap, name="headrace-swapper", daemon=True)
        self._swapper.start()

    def _swap(self) -> None:
        turn = 0
        while not self._over.wait(PERIOD):
            try:
                self.change(turn)
            except engine.EngineError:  # it was closed meanwhile
                return
            turn += 1

    def change(self, turn: int) -> None:
        """One more change."""
        raise NotImplementedError

    def leave(self) -> None:
        """As the engine does it, and nothing is changed any more."""
        self._over.set()
        super().leave()

    def close(self) -> None:
        """As the engine does it; the last swap ends first."""
        self._over.set()
        super().close()
        self._swapper.join(engine.CLOSE_SECONDS)


class Swapped(Changing):
    """Its scheduler is swapped for another one."""

    def change(self, turn: int) -> None:
        kinds: tuple[Callable[[int, int], Any], ...] = (Random, Near, FreeUnits)
        kind = kinds[turn % len(kinds)]
        self.use(kind(engine.MOST_UNITS, self.workers))


class Suspended(Changing):
    """More or fewer of its workers run."""

    def change(self, turn: int) -> None:
        self.suspend(1 + turn * 7 % self.workers)


def nonsense(features: Features) -> Any:
    """A policy that cannot be used."""
    return [float("nan")] * len(features)


class Governed(Changing):
    """Its policy is swapped for another one; after all of them comes one that is given up."""

    def change(self, turn: int) -> None:
        place = turn % (len(POLICIES) + 1)
        names = list(POLICIES)
        chosen = as_policy(nonsense) if place == len(names) else make_policy(names[place])
        self.use_policy(chosen)


def by_policy(name: str, asking: str = "priority") -> Any:
    """Engines that have a policy, and the scheduler that asks it."""

    def made(
        *given: Any, policy: Policy | None = None, scheduler: str | None = None, **named: Any
    ) -> engine.NodeEngine:
        chosen = policy or (None if scheduler in POLICY_FREE else make_policy(name))
        return NODE_ENGINE(*given, policy=chosen, scheduler=scheduler or asking, **named)

    return made


def dedicated(*given: Any, scheduler: str | None = None, **named: Any) -> engine.NodeEngine:
    """Engines with a thread for each unit."""
    return NODE_ENGINE(*given, scheduler=scheduler or "dedicated", **named)


NODE_ENGINE = engine.NodeEngine
SCHEDULERS = {"near": Near, "random": Random, "free_list": FreeUnits}


@contextmanager
def scheduled(how: str) -> Iterator[None]:
    """Inside, engines begin with a scheduler (one of SCHEDULERS, or "assigned"), or have a policy
    by its name; or their schedulers are "swapped", or their policies, "governed", or their workers
    "suspended", all the time."""
    before = engine.SCHEDULER, engine.NodeEngine
    if how in SCHEDULERS:
        engine.SCHEDULER = SCHEDULERS[how]
    elif how == "swapped":
        engine.NodeEngine = Swapped  # type: ignore[misc]
    elif how == "suspended":
        engine.NodeEngine = Suspended  # type: ignore[misc]
    elif how == "governed":
        engine.NodeEngine = Governed  # type: ignore[misc]
    elif how == "dedicated":
        engine.NodeEngine = dedicated  # type: ignore[misc,assignment]
    elif how == "assigned":
        engine.NodeEngine = by_policy("least_recently_used", how)  # type: ignore[misc]
    else:
        engine.NodeEngine = by_policy(how)  # type: ignore[misc]
    try:
        yield
    finally:
        engine.SCHEDULER, engine.NodeEngine = before  # type: ignore[misc]
