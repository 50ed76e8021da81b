"""What policies are told about an engine: the features of its operators.

Workers do nothing for it: the control thread looks at the counters that they write anyway, unit by
unit, in one call of compiled code (`look_at`). Copies of an operator (replicas, owners, crews) are
one entry. Costs, selectivities and rates are those of windows of 50 ms (Enjima §4), all else is
read when it is asked for. What is read while workers write it is true for a moment only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any

import numpy as np

from headrace.control import Graph
from headrace.control.arrays import Floats
from headrace.stage.memory.atomics import load_acquire, load_relaxed
from headrace.stage.memory.records import compiled, i64, i64s, line, record

from .claims import LISTED, RUNNING, UnitState
from .graph import Operator
from .pace import NEVER_DUE, Pace, due_time, rows_due
from .port import ROWS, Port, pending
from .splits import ChannelFeed, SplitRecord, SplitsRecord
from .unit import READER, SOURCE, SUFFIXES, Edge, Output, Run, Unit
from .unit import ROWS as IN_SPLIT
from .worklist import Worklist

WINDOW = 0.05  # seconds; Enjima §4
UNKNOWN_COST = 1e-7  # seconds, of a row before the first one
ENDLESS = 1 << 40  # rows of a source that goes as fast as it can
NO_ROOM_NEEDED = 1 << 30  # places behind an operator that gives to nobody
MOST_WAITING = 1 << 20  # rows whose waiting is added up
MICROSECOND = 1_000  # ns
SECOND = 1e9  # ns


# ---- looking -------------------------------------------------------------------------------


@record
class Sight:
    """What was seen of one unit."""

    runs: i64
    rows_in: i64
    rows_out: i64
    busy: i64  # ns
    ended: i64  # ns: its last run; 0: it never ran
    state: i64  # of the claim on it
    pending: i64  # rows that wait
    waited: i64  # µs that they have waited, added up
    head: i64  # ns: when the first of them was due; NEVER_DUE: there is none
    arrived: i64  # rows so far
    queued: i64  # rows in the fullest port behind it
    room: i64  # places in the fullest port behind it


@record
class Look:
    """Where to look."""

    count: i64 = line()
    numbers: i64  # address of the numbers of units
    firsts: i64  # address of flags: the unit is the first copy of its operator
    units: i64
    states: i64
    sights: i64
    now: i64


@compiled
def look_at(address):
    """See all units that are to be seen."""
    look = Look(address)
    for k in range(look.count):
        number, sight = i64s(look.numbers)[k], Sight(look.sights)[k]
        unit = Unit(look.units)[number]
        sight.runs, sight.rows_in, sight.busy = unit.runs, unit.rows_in, unit.busy
        sight.ended = unit.seen if unit.runs > 0 else 0
        sight.state = load_relaxed(UnitState(look.states)[number], "state")
        sight.pending, sight.waited, sight.head, sight.arrived = 0, 0, NEVER_DUE, 0
        if unit.kind == SOURCE:
            see_splits(unit, sight, look.now, i64s(look.firsts)[k])
        else:
            see_ports(unit, sight, look.now)
        see_outputs(unit, sight)
    return 0


@compiled
def see_ports(unit, sight, moment):
    """What waits before a unit. Its ports are read and written meanwhile."""
    for k in range(unit.edge_count):
        port = Port(Edge(unit.edges)[k].port)
        taken, tail = port.taken, load_acquire(port, "tail")
        for at in range(load_acquire(port, "head"), tail):
            place = port.ring[at & port.mask]
            if place.kind == ROWS:
                see_rows(
                    sight, load_relaxed(place, "last") - place.first - taken, place.due, moment
                )
                taken = 0
        sight.arrived += load_relaxed(port, "sent")


@compiled
def see_splits(unit, sight, moment, is_first):
    """What waits before a source: the split that a copy has claimed, and what is there to be
    claimed, which belongs to all copies and is seen by the first."""
    run = Run(unit.run)
    split = SplitRecord(run.task)
    sight.arrived = unit.rows_in
    if run.phase == IN_SPLIT:
        see_rows(sight, split.end - split.request.offset, split.since, moment)
    if is_first == 0:
        return
    shared = SplitsRecord(split.shared)
    for k in range(shared.count):
        channel = ChannelFeed(shared.channels)[k]
        over = load_relaxed(channel, "over")
        if over == 0:
            see_channel(channel, sight, moment)


@compiled
def see_channel(channel, sight, moment):
    """Rows of a channel that are due. Of a batch that is only offered nobody knows how many."""
    left = channel.end - channel.offset
    if channel.rounds != 0:
        left = ENDLESS if channel.count < 0 else channel.count - channel.claimed
    offer = load_relaxed(channel, "offer")
    if left == 0 and offer != 0:
        left = 1
    due = moment
    if channel.pace != 0:
        left = min(left, rows_due(Pace(channel.pace), moment) - channel.claimed)
        due = due_time(Pace(channel.pace), channel.claimed)
    see_rows(sight, left, due, moment)


@compiled
def see_rows(sight, rows, due, moment):
    """Rows that wait since they were due."""
    if rows > 0:
        sight.pending += rows
        sight.waited += min(rows, MOST_WAITING) * (max(moment - due, 0) // MICROSECOND)
        sight.head = min(sight.head, due)


@compiled
def see_outputs(unit, sight):
    """What was given, and how full the ports behind are."""
    own = behind = Output(Run(unit.run if unit.own_run == 0 else unit.own_run).outputs)
    if unit.worklist != 0:  # what it gives goes through the reorder buffer
        behind = Output(Worklist(unit.worklist).buffer.outputs)
    sight.rows_out, sight.queued, sight.room = 0, 0, NO_ROOM_NEEDED
    for k in range(unit.output_count):
        output = behind[k]
        sight.rows_out += own[k].rows
        for place in range(output.count):
            port = Port(i64s(output.ports)[place])
            used = load_acquire(port, "tail") - load_acquire(port, "head")
            sight.queued = max(sight.queued, pending(port))
            sight.room = min(sight.room, port.capacity - used)


# ---- features ------------------------------------------------------------------------------


COLUMNS = {name: field.offset // i64.size for name, field in Sight.fields.items()}


class Counters:
    """The sights of all units, added up for each operator."""

    def __init__(self, sights: np.ndarray, starts: np.ndarray, owned: np.ndarray) -> None:
        """owned: by how many copies the rows before an operator are read, each all of them."""
        self._sights, self._starts, self._owned = sights, starts, owned

    def sum(self, name: str) -> Floats:
        """Of all copies."""
        added = np.add.reduceat(self._sights[:, COLUMNS[name]], self._starts)
        return np.asarray(added, np.float64)

    def each(self, name: str) -> Floats:
        """Of rows that wait: once, though every owner has them in a port of its own, or those who
        share them see the same port."""
        return self.sum(name) / self._owned

    def least(self, name: str) -> Floats:
        """The least of all copies."""
        found = np.minimum.reduceat(self._sights[:, COLUMNS[name]], self._starts)
        return np.asarray(found, np.float64)

    def most(self, name: str) -> Floats:
        """The largest of all copies."""
        found = np.maximum.reduceat(self._sights[:, COLUMNS[name]], self._starts)
        return np.asarray(found, np.float64)

    def having(self, bits: int) -> Floats:
        """How many copies have one of these bits in their state."""
        held = (self._sights[:, COLUMNS["state"]] & bits != 0).astype(np.int64)
        return np.asarray(np.add.reduceat(held, self._starts), np.float64)


class Scheduled:
    """One query, as policies see it: its units, its priority, and how long its rows took."""

    def __init__(
        self,
        number: int,
        operators: Iterable[Operator],
        priority: float,
        latency: Any,
        capacity: int,
        deadline: float = inf,
    ) -> None:
        """number: as no other query has it. latency: a Histogram. capacity: rows in a block.
        deadline: seconds that a row may take."""
        self.number, self.priority, self.capacity = number, priority, capacity
        self.deadline = deadline
        self._latency = latency
        self.entries: dict[tuple[int, int, str], list[Operator]] = {}
        for operator in operators:
            if operator.kind != READER:  # a part of its source
                key = (operator.stage, operator.kind, operator.name)
                self.entries.setdefault(key, []).append(operator)
        self._before = (0, 0)
        self._mean: float | None = None
        self.gradient = 0.0

    def end_window(self, seconds: float) -> None:
        """Compare the mean latency of a window with that of the one before."""
        count, total = self._latency.count, self._latency.sum
        samples, added = count - self._before[0], total - self._before[1]
        self._before, self.gradient = (count, total), 0.0
        if samples > 0:
            mean = added / samples / SECOND
            if self._mean is not None:
                self.gradient = (mean - self._mean) / seconds
            self._mean = mean


class NodeFeatures:
    """The features of the operators of some queries, for `headrace.control`; `look` sees how they
    stand. Other queries have other features."""

    def __init__(self, queries: Sequence[Scheduled], units: int, states: int) -> None:
        """units, states: addresses of those of the engine."""
        entries = [
            (place, key, copies)
            for place, query in enumerate(queries)
            for key, copies in query.entries.items()
        ]
        place = {id(copy): at for at, (_, _, copies) in enumerate(entries) for copy in copies}
        edges = {
            (at, place[id(reader)])
            for at, (_, _, copies) in enumerate(entries)
            for copy in copies
            for out in copy.outs
            for reader in out.readers
        }
        names = [key[2] + SUFFIXES.get(key[1], "") for _, key, _ in entries]
        self.graph = Graph.of(names, sorted(edges), [queries[n].number for n, _, _ in entries])
        self._queries, self._copies = queries, [copies for _, _, copies in entries]
        self.units = np.array([c.number for copies in self._copies for c in copies], np.int64)
        counts = np.array([len(copies) for copies in self._copies], np.int64)
        self.entry = np.repeat(np.arange(len(counts)), counts)  # of each unit
        starts = np.cumsum(counts) - counts
        self.copy = np.arange(len(self.units)) - starts[self.entry]  # which one of its operator
        self._firsts = np.zeros(len(self.units), np.int64)
        self._firsts[starts] = 1
        self._sights = np.zeros((len(self.units), len(COLUMNS)), np.int64)
        owned = [len(copies) if _read_the_same(copies) else 1 for copies in self._copies]
        self._counters = Counters(self._sights, starts, np.array(owned, np.float64))
        self._query = np.array([n for n, _, _ in entries], np.int64)
        self._capacity = np.array([q.capacity for q in queries], np.float64)[self._query]
        self._priority = np.array([q.priority for q in queries], np.float64)[self._query]
        self._deadline = np.array([q.deadline for q in queries], np.float64)[self._query]
        self._parallelism = counts.astype(np.float64)
        self._gives = np.array([len(copies[0].outs) > 0 for copies in self._copies], np.bool_)
        self._look = look = Look.allocate()
        look.units, look.states = units, states
        look.count, look.numbers = len(self.units), self.units.ctypes.data
        look.firsts, look.sights = self._firsts.ctypes.data, self._sights.ctypes.data
        self._cost = np.full(len(counts), UNKNOWN_COST)
        self._selectivity = np.ones(len(counts))
        self._rate, self._gradient = np.zeros(len(counts)), np.zeros(len(counts))
        self._runs = self._state = np.zeros(len(counts))
        self._sees_state = False  # it is asked for
        self._began, self._window = 0.0, [np.zeros(len(counts))] * 4
        self._now = 0.0

    def __len__(self) -> int:
        return len(self.graph)

    def forget(self) -> None:
        """Let go of the operators, which must not outlive their query: a policy may still be
        thinking about what was seen of them."""
        self._queries, self._copies = [], []

    def look(self, see: Callable[[int], Any], ns: int) -> tuple[list[int], bool]:
        """See how all units stand; gives the operators that ran since the last look, and whether a
        window has ended. While all units are there. see: `look_at` in the mode of the engine."""
        self._look.now, self._now = ns, ns / SECOND
        see(self._look.address)
        if self._sees_state:
            self._state = np.array([_state_bytes(copies) for copies in self._copies], np.float64)
        before, self._runs = self._runs, self._counters.sum("runs")
        ended = self._now - self._began >= WINDOW
        if ended:
            self._end_window(self._now - self._began)
        return np.flatnonzero(self._runs != before).tolist(), ended

    def _end_window(self, seconds: float) -> None:
        counters, before = self._counters, self._window
        arrived = counters.each("arrived")
        now = [counters.sum("rows_in"), counters.sum("rows_out"), counters.sum("busy"), arrived]
        self._window, first = now, self._began == 0.0
        self._began = self._now
        rows_in, rows_out, busy, arrived = (a - b for a, b in zip(now, before, strict=True))
        ran = rows_in > 0
        self._cost[ran] = np.maximum(busy[ran], 1) / SECOND / rows_in[ran]
        gives = ran & self._gives
        self._selectivity[gives] = rows_out[gives] / rows_in[gives]
        if not first:
            self._rate = arrived / seconds
            for query in self._queries:
                query.end_window(seconds)
            gradients = np.array([query.gradient for query in self._queries])
            self._gradient = gradients[self._query]

    def unseen(self, seconds: float) -> np.ndarray:
        """Operators before which rows wait, and which have not run for so long."""
        waited = self._now - self._counters.most("ended") / SECOND
        return (waited > seconds) & (self._pending() > 0)

    # ---- the interface of the control plane

    def can_run(self, operator: int) -> bool:
        """Is a copy of it listed, so that workers will run it?"""
        return bool(self._counters.having(LISTED)[operator])

    def features(self, names: Sequence[str], operators: Sequence[int]) -> Floats:
        """The values at the last look: a row for each operator, a column for each name."""
        chosen = np.asarray(operators, np.int64)
        return np.stack([_COLUMNS[name](self)[chosen] for name in names], axis=1)

    def _pending(self) -> Floats:
        return self._counters.each("pending")

    def _head_time(self) -> Floats:
        head = self._counters.least("head")
        return np.where(head >= NEVER_DUE, np.inf, head / SECOND)

    def _arrival_time(self) -> Floats:
        rows, waited = self._counters.sum("pending"), self._counters.sum("waited")
        mean = self._now - waited / np.maximum(rows, 1) / (SECOND / MICROSECOND)
        return np.where(rows > 0, mean, np.inf)

    def _output_room(self) -> Floats:
        return self._counters.least("room") * self._capacity

    def _worker_time(self) -> Floats:
        return (self._counters.sum("busy") - self._window[2]) / SECOND

    def _state_size(self) -> Floats:
        self._sees_state = True  # from the next look on
        return self._state


def _read_the_same(copies: Sequence[Operator]) -> bool:
    """Are they owners, or units that share a worklist?"""
    return copies[0].groups is not None or bool(copies[0].crew)


def _state_bytes(copies: Sequence[Operator]) -> int:
    kernels = [kernel for copy in copies for kernel in copy.kernels]
    return sum(kernel.state_size()["state_bytes"] for kernel in kernels)


_COLUMNS: dict[str, Callable[[NodeFeatures], Floats]] = {
    "cost": lambda f: f._cost,
    "selectivity": lambda f: f._selectivity,
    "pending": NodeFeatures._pending,
    "head_time": NodeFeatures._head_time,
    "arrival_time": NodeFeatures._arrival_time,
    "rate": lambda f: f._rate,
    "input_queue": NodeFeatures._pending,  # rows in work are in their port until they are done
    "output_queue": lambda f: f._counters.most("queued"),
    "output_room": NodeFeatures._output_room,
    "latency_gradient": lambda f: f._gradient,
    "state_size": NodeFeatures._state_size,
    "last_scheduled": lambda f: f._counters.most("ended") / SECOND,
    "workers": lambda f: f._counters.having(RUNNING),
    "worker_time": NodeFeatures._worker_time,
    "busy_time": lambda f: f._counters.sum("busy") / SECOND,
    "parallelism": lambda f: f._parallelism,
    "user_priority": lambda f: f._priority,
    "query_class": lambda f: f._priority,
    "deadline": lambda f: f._deadline,
}
