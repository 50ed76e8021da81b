"""Schedulers for tests: they decide as nobody would, and every result must be the same."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from headrace.node import engine
from headrace.node.free_list import NO_UNIT, FreeList, has_work, new_free_list, pick, put
from headrace.node.schedulers.hooks import Turn
from headrace.node.schedulers.near import Near
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


class Swapped(engine.NodeEngine):
    """An engine whose scheduler is swapped for another one again and again, until it is closed."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._over = threading.Event()
        self._swapper = threading.Thread(target=self._swap, name="headrace-swapper", daemon=True)
        self._swapper.start()

    def _swap(self) -> None:
        kinds: list[Callable[[int, int], Any]] = [Random, Near]
        while not self._over.wait(PERIOD):
            try:
                self.use(kinds[0](engine.MOST_UNITS, self.workers))
            except engine.EngineError:  # it was closed meanwhile
                return
            kinds.reverse()

    def close(self) -> None:
        """As the engine does it; the last swap ends first."""
        self._over.set()
        super().close()
        self._swapper.join(engine.CLOSE_SECONDS)


@contextmanager
def scheduled(how: str) -> Iterator[None]:
    """Inside, engines begin with a scheduler: "near", "random", or one that is "swapped"."""
    before = engine.SCHEDULER, engine.NodeEngine
    if how == "random":
        engine.SCHEDULER = Random
    elif how == "swapped":
        engine.NodeEngine = Swapped  # type: ignore[misc]
    try:
        yield
    finally:
        engine.SCHEDULER, engine.NodeEngine = before  # type: ignore[misc]
