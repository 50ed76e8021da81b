"""Run the interpreted mode of lock-free code through all interleavings, for small bounds.

    report = explore([writer, reader], model="tso")
    assert not report.failure, report

Each body is a function without arguments over interpreted twins (`interpreted(push)`) and records
that were set up before; it gives a result, and an error that it raises is a failure. `check` gets
the results at the end of each interleaving, and may read the records. All threads blocked is a
failure too: `pause` waits for a store of another thread unless there was one since the last pause,
and sleeping has no time-out here, so that a lost wake-up shows as a deadlock.

States are visited once. Three kinds of accesses are no place to switch threads: to an address that
only one thread uses or that nobody stores to (which these are is found out on the way; the
exploration starts again when it was wrong), a load of what only the thread itself stores, and plain
accesses, which are done together with the thread's next atomic one. That is sound where no plain
access races; the weak model checks it, and in this order finds every race: explore under it too.
"""

from __future__ import annotations

import inspect
import linecache
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from numba import njit
from tests.node.models import MODELS, Race, with_item
from tests.node.scripts import Node, Operation, Script

# FRESH, STALE: a thread that runs, without and with a store of another since it last paused.
FRESH, STALE, PAUSED, ASLEEP = range(4)
NULL_PAGE = 1 << 12
AFTER_STORE = (STALE, STALE, FRESH, ASLEEP)


@dataclass
class Report:
    """What an exploration has found."""

    model: str
    states: int = 0
    steps: int = 0
    interleavings: int = 0  # from start to end, without those that come back to a state
    seconds: float = 0.0
    failure: str = ""
    trace: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        said = (
            f"{self.model}: {self.states:,} states, {self.steps:,} steps, "
            f"{self.interleavings:.3g} interleavings, {self.seconds:.1f} s"
        )
        if self.failure:
            said += "\n".join([f"\n{self.failure}", *self.trace])
        return said


class TooLarge(Exception):
    """The bounds of an exploration are not small enough."""


class _Restart(Exception):
    """An address is used in another way than was thought."""


class _Failure(Exception):
    pass


def explore(
    bodies: Sequence[Callable[[], Any]],
    check: Callable[[list[Any]], None] | None = None,
    model: str = "sc",
    limit: int = 400_000,
) -> Report:
    """All interleavings of the bodies under a model of memory: "sc", "tso" or "weak"."""
    return Exploration(bodies, check).run(model, limit)


class Exploration:
    """Threads that are explored; several models share what is learnt about the threads."""

    def __init__(
        self,
        bodies: Sequence[Callable[[], Any]],
        check: Callable[[list[Any]], None] | None = None,
    ) -> None:
        self.scripts = [Script(body) for body in bodies]
        self.check = check
        self.users: dict[int, set[int]] = {}  # of each address, the threads
        self.stored: dict[int, Any] = {}  # ctypes of the addresses that somebody stores to
        self.writers: dict[int, set[int]] = {}
        self.first: dict[int, Any] = {}  # initial values

    def run(self, model: str, limit: int = 400_000) -> Report:
        started = time.perf_counter()
        while True:
            report = Report(model)
            try:
                _Round(self, model, report, limit).visit_all()
            except _Restart:
                continue
            except _Failure as failure:
                report.failure = str(failure)
            report.seconds = time.perf_counter() - started
            return report


class _Visit:
    """A state on the path of the search."""

    __slots__ = ("interleavings", "is_end", "state", "ways")

    def __init__(self, state: Any, ways: Iterator[tuple[str, Any]]) -> None:
        self.state, self.ways = state, ways
        self.interleavings, self.is_end = 0, True


class _Round:
    """One attempt, with what is known about the addresses at its start.

    State: (node of each thread, FRESH/STALE/PAUSED/ASLEEP of each, values of private addresses,
    state of the model).
    """

    def __init__(self, whole: Exploration, model: str, report: Report, limit: int) -> None:
        self.whole, self.report, self.limit = whole, report, limit
        self.count = len(whole.scripts)
        shared = sorted(a for a in whole.stored if len(whole.users[a]) > 1)
        private = sorted(a for a in whole.stored if len(whole.users[a]) == 1)
        self.shared = {address: at for at, address in enumerate(shared)}
        self.private = {address: at for at, address in enumerate(private)}
        users = tuple(frozenset(whole.users[a]) for a in shared)
        self.model = MODELS[model](tuple(whole.first[a] for a in shared), self.count, users)
        self.start_private = tuple(whole.first[a] for a in private)

    # ---- the search ------------------------------------------------------------------------

    def visit_all(self) -> None:
        nodes = tuple(script.root for script in self.whole.scripts)
        for thread, node in enumerate(nodes):
            if node.problem:
                raise _Failure(f"thread {thread}: {node.problem}")
        state = (nodes, (STALE,) * self.count, self.start_private, self.model.start())
        labels: list[str] = []
        try:
            start = self.settled(state)
            interleavings: dict[Any, int | None] = {start: None}  # None: on the path to here
            path = [_Visit(start, self.following(start))]
            while path:
                here = path[-1]
                way = next(here.ways, None)
                if way is None:
                    interleavings[here.state] = found = 1 if here.is_end else here.interleavings
                    path.pop()
                    if path:
                        labels.pop()
                        path[-1].interleavings += found
                    continue
                here.is_end = False
                self.report.steps += 1
                labels.append(way[0])
                after = self.settled(way[1])
                if after in interleavings:
                    here.interleavings += interleavings[after] or 0
                    labels.pop()
                    continue
                interleavings[after] = None
                self.report.states = len(interleavings)
                if len(interleavings) > self.limit:
                    raise TooLarge(f"more than {self.limit:,} states")
                path.append(_Visit(after, self.following(after)))
        except (_Failure, Race) as failure:
            self.report.trace = labels
            raise _Failure(str(failure)) from None
        self.report.states = len(interleavings)
        self.report.interleavings = interleavings[start] or 0

    def following(self, state: Any) -> Iterator[tuple[str, Any]]:
        """The ways on from a state. At an end there are none, and it is checked."""
        nodes, standing, _, memory = state
        stuck = True
        for thread in range(self.count):
            if nodes[thread].operation is not None and standing[thread] <= STALE:
                stuck = False
                ready = self.until_atomic(state, thread)
                node = ready[0][thread]
                if node.operation is None:
                    yield f"thread {thread}: {nodes[thread]}", ready
                    continue
                for after in self.step(ready, thread, node, node.operation):
                    yield f"thread {thread}: {node}", after
        for thread, flushed in self.model.flushes(memory):
            stuck = False
            yield f"thread {thread}: a store is seen", self.told(state, thread, flushed)
        if stuck:
            waiting = [f"{t} at {n}" for t, n in enumerate(nodes) if n.operation is not None]
            if waiting:
                raise _Failure("deadlock: thread " + ", thread ".join(waiting))
            self.end(state)

    def until_atomic(self, state: Any, thread: int) -> Any:
        """The plain accesses before a thread's next atomic one."""
        while True:
            op = state[0][thread].operation
            if op is None or op.order != "plain":
                return state
            (state,) = self.step(state, thread, state[0][thread], op)
            state = self.settled(state, thread)

    def step(self, state: Any, thread: int, node: Node, op: Operation) -> Iterator[Any]:
        """What may come of a thread's next access."""
        nodes, standing, private, memory = state
        model = self.model
        if op.what == "pause":
            newer = model.refreshed(memory, thread)
            after = PAUSED if newer is None and standing[thread] == FRESH else FRESH
            changed = with_item(standing, thread, after)
            state = (nodes, changed, private, memory)
            yield self.advanced(state, thread, None, memory if newer is None else newer)
        elif op.what == "wake":
            yield from self.woken(state, thread, op)
        elif op.what == "wait":
            value, after = self.before_sleep(state, thread, op)
            if value != op.value:
                yield self.advanced(state, thread, 0, after)
            else:
                asleep = with_item(standing, thread, ASLEEP)
                yield self.told((nodes, asleep, private, memory), thread, after)
        elif op.what == "load":
            for value, after in model.load(memory, thread, self.shared[op.address], op.order):
                yield self.advanced(state, thread, value, after)
        elif op.what == "store":
            after = model.store(memory, thread, self.shared[op.address], op.value, op.order)
            yield self.advanced(state, thread, None, after)
        else:
            for old, after in model.update(memory, thread, self.shared[op.address], op):
                yield self.advanced(state, thread, old, after)

    def before_sleep(self, state: Any, thread: int, op: Operation) -> tuple[Any, Any]:
        """The value that the system compares, and memory after the call's barrier."""
        _, _, private, memory = state
        self.note(op, thread)
        if op.address in self.shared:
            return self.model.current(memory, thread, self.shared[op.address])
        at = self.private.get(op.address)
        value = self.whole.first[op.address] if at is None else private[at]
        return value, self.model.barrier(memory, thread)

    def woken(self, state: Any, thread: int, op: Operation) -> Iterator[Any]:
        """Wake sleepers: any one of them, or all."""
        nodes, standing, private, memory = state
        memory = self.model.barrier(memory, thread)
        asleep = [
            t
            for t in range(self.count)
            if standing[t] == ASLEEP and nodes[t].operation.address == op.address
        ]
        groups = [asleep] if op.value > 1 or not asleep else [[t] for t in asleep]
        for group in groups:
            changed = list(nodes)
            up = list(standing)
            for sleeper in group:
                changed[sleeper] = self.whole.scripts[sleeper].after(nodes[sleeper], 0)
                up[sleeper] = STALE
            yield self.advanced((tuple(changed), tuple(up), private, memory), thread, 0, memory)

    def advanced(self, state: Any, thread: int, result: Any, memory: Any) -> Any:
        nodes = state[0]
        node = self.whole.scripts[thread].after(nodes[thread], result)
        if node.problem:
            raise _Failure(f"thread {thread}: {node.problem}")
        nodes = with_item(nodes, thread, node)
        if node.operation is None:
            finished = frozenset(t for t, n in enumerate(nodes) if n.operation is None)
            memory = self.model.ended(memory, finished)
        return self.told((nodes, *state[1:]), thread, memory)

    def told(self, state: Any, thread: int, memory: Any) -> Any:
        """Those that pause go on when another thread's store is seen."""
        nodes, standing, private, before = state
        if self.model.seen(before) != self.model.seen(memory):
            standing = tuple([AFTER_STORE[s] if t != thread else s for t, s in enumerate(standing)])
        return nodes, standing, private, memory

    # ---- addresses -------------------------------------------------------------------------

    def settled(self, state: Any, only: int | None = None) -> Any:
        """The state after all accesses that concern one thread only."""
        nodes, standing, private, memory = state
        for thread in range(self.count) if only is None else (only,):
            node = nodes[thread]
            if standing[thread] <= STALE:
                while (found := self.alone(node, thread, private, memory)) is not None:
                    node, private = found
            if node is not nodes[thread]:
                nodes = with_item(nodes, thread, node)
                if node.problem:
                    raise _Failure(f"thread {thread}: {node.problem}")
                if node.operation is None:
                    finished = frozenset(t for t, n in enumerate(nodes) if n.operation is None)
                    memory = self.model.ended(memory, finished)
        return nodes, standing, private, memory

    def alone(
        self, node: Node, thread: int, private: tuple, memory: Any
    ) -> tuple[Node, tuple] | None:
        """Do an access that other threads neither see nor influence."""
        op = node.operation
        if op is None or op.what not in ("load", "store", "update"):
            return None
        self.note(op, thread)
        if op.address in self.shared:
            if op.what == "load" and self.whole.writers[op.address] == {thread}:
                ((value, _),) = self.model.load(
                    memory, thread, self.shared[op.address], op.order
                )  # its own last store
                return self.whole.scripts[thread].after(node, value), private
            return None
        at = self.private.get(op.address)
        value = self.whole.first[op.address] if at is None else private[at]
        result = value
        if op.what != "load":
            assert at is not None
            if op.what == "store":
                value, result = op.value, None
            else:
                assert op.change is not None
                value = op.change(value)
            private = with_item(private, at, value)
        return self.whole.scripts[thread].after(node, result), private

    def note(self, op: Operation, thread: int) -> None:
        """Who uses an address, and whether it is stored to."""
        whole, address = self.whole, op.address
        if address not in whole.first:
            if address < NULL_PAGE:
                raise _Failure(f"thread {thread}: an access through a null address")
            whole.first[address] = op.ctype.from_address(address).value
        users = whole.users.setdefault(address, set())
        new = address in whole.stored and thread not in users
        users.add(thread)
        if op.what in ("store", "update") and thread not in whole.writers.setdefault(
            address, set()
        ):
            whole.writers[address].add(thread)
            whole.stored[address] = op.ctype
            new = True
        if new:
            raise _Restart

    # ---- the end ---------------------------------------------------------------------------

    def end(self, state: Any) -> None:
        nodes, _, private, memory = state
        if self.whole.check is not None:
            values = dict(zip(self.shared, self.model.values(memory)))
            values.update(zip(self.private, private))
            try:
                self._write(values)
                self.whole.check([node.outcome for node in nodes])
            except AssertionError as error:
                raise _Failure(f"at the end: {error}") from None
            finally:
                self._write({address: self.whole.first[address] for address in values})

    def _write(self, values: dict[int, Any]) -> None:
        for address, value in values.items():
            ctype: Any = self.whole.stored[address]
            ctype.from_address(address).value = value


# ---- planting bugs -------------------------------------------------------------------------


def planted(function: Any, old: str, new: str, **names: Any) -> Any:
    """The function with a piece of its source replaced: a bug, for `interpreted(f, name=bug)`.
    names: what the new piece uses and the function's module does not know."""
    original = getattr(function, "py_func", function)
    source = textwrap.dedent(inspect.getsource(original))
    source = source[source.index("def ") :]
    assert source.count(old) == 1, f"{old!r} is {source.count(old)} times in\n{source}"
    source = source.replace(old, new)
    name = f"<{function.__name__} with {new.strip()!r}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    world = {**original.__globals__, **names}
    exec(compile(source, name, "exec"), world)
    return njit(world[function.__name__])  # never compiled, but `interpreted` looks inside
