"""Who may begin a micro-batch: queries ask, a policy ranks those that wait, so many run at once.

A query is an entry of the policy's graph, with features from what it said when it asked and from
its batches so far. Places are never left free while somebody waits: who is not eligible comes last,
not never. Batches of less important queries take no place from more important ones, which get the
next core that is free anyhow (`spark.pools`): who is first does not wait for them to end. Whoever
has waited for longer than `patience` goes first, the longest wait before others,
whatever the policy says; but of two batches that begin one after the other only one begins like
that, so that overload does not turn every order into that of arrival.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf

import numpy as np

from .allowance import Allowance, BatchRows
from .arrays import Floats
from .errors import PolicyError, PolicyWarning
from .features import Features
from .graph import Graph
from .policy import Policy
from .scheduling import Scheduling

PERIOD = 1.0  # seconds from one `adapt` of a policy to the next, where it does not say it
UNKNOWN_COST = 1e-7  # seconds, of a row before the first one
NO_ROOM_NEEDED = float(1 << 30)  # rows behind a query: nobody waits for what it gives
SMOOTH = 0.3  # how much the last batch counts for costs and rates


def in_turns() -> Policy:
    """The policy of a gate that has none: queries of higher priority first, equals in turns.

    >>> from headrace.control import Features
    >>> graph = Graph.of("abc", [])
    >>> in_turns().priority(
    ...     Features.given(graph, user_priority=[0, 1, 1], last_scheduled=[0, 7, 5])
    ... )
    array([[ 0.,  0.],
           [ 1., -7.],
           [ 1., -5.]])
    """
    return Policy("in_turns", _in_turns)


def _in_turns(features: Features) -> Floats:
    return np.stack([features.user_priority, 0.0 - features.last_scheduled], axis=1)


class State(Enum):
    """What a query does."""

    IDLE = "idle"  # it has not asked
    WAITING = "waits"
    RUNNING = "runs"


@dataclass
class Entry:
    """A query: what it said, and what its batches were like."""

    name: str
    priority: float = 0.0
    state: State = State.IDLE
    since: float = 0.0  # when it came into this state
    pending: float = 0.0  # rows that wait
    head_time: float = inf  # since when the first of them waits
    cost: float = UNKNOWN_COST
    selectivity: float = 1.0
    rate: float = 0.0  # rows per second that reach it
    state_size: float = 0.0
    last_scheduled: float = 0.0
    worker_time: float = 0.0  # seconds of its batches so far
    latency_gradient: float = 0.0
    batches: int = 0
    rows: int = 0
    allowed: BatchRows = field(default_factory=BatchRows)
    _seen: float | None = None  # when it told what waits, last
    _latency: float | None = None  # of the last batch

    def tell(self, now: float, pending: float, head_time: float) -> None:
        """So many rows wait now."""
        if self._seen is not None and now > self._seen:
            arrived = max(pending - self.pending, 0.0) / (now - self._seen)
            self.rate += SMOOTH * (arrived - self.rate)
        self.pending, self.head_time, self._seen = pending, head_time, now

    def ended(self, now: float, rows: int, rows_out: int | None, state_size: float) -> None:
        """A batch that began at `since` is over."""
        seconds = max(now - self.since, 0.0)
        known = SMOOTH if self.batches else 1.0
        if rows:
            self.cost += known * (seconds / rows - self.cost)
            if rows_out is not None:
                self.selectivity += known * (rows_out / rows - self.selectivity)
            self.allowed.took(rows, seconds)
            self._follow(now)
        self.batches, self.rows = self.batches + 1, self.rows + rows
        self.worker_time += seconds
        self.last_scheduled, self.state_size = now, state_size
        self.pending = max(self.pending - rows, 0.0)
        if not self.pending:
            self.head_time = inf

    def _follow(self, now: float) -> None:
        """How its latency changes: of the oldest row of a batch, from batch to batch."""
        latency = now - min(self.head_time, now)
        if self._latency is not None and now > self.last_scheduled:
            self.latency_gradient = (latency - self._latency) / (now - self.last_scheduled)
        self._latency = latency


@dataclass(frozen=True)
class Grant:
    """A query may begin a batch of so many rows; None: as many as it likes."""

    query: int
    rows: int | None


@dataclass(frozen=True)
class Standing:
    """A line of the table: what a query does, and why.

    >>> Standing("clicks", "waits", 1.5, 0.0, 100, 3, "1 may run: views runs").state
    'waits'
    """

    query: str
    state: str
    seconds: float  # for which it does that
    priority: float
    pending: int
    batches: int
    why: str


class Admission:
    """Places for batches, and who gets the next one. Times are what the caller calls now.

    >>> admission = Admission(Allowance.fixed(1))
    >>> low, high = admission.enter("low"), admission.enter("high", priority=1.0)
    >>> for query in (low, high):
    ...     admission.ask(query, now=0.0, pending=10)
    >>> [grant.query == high for grant in admission.grants(now=0.0)], admission.grants(now=0.1)
    ([True], [])
    >>> admission.done(high, now=1.0, rows=10)
    >>> [grant.query == low for grant in admission.grants(now=1.0)]
    [True]
    """

    def __init__(
        self, allowance: Allowance, policy: Policy | None = None, patience: float = 5.0
    ) -> None:
        self.allowance, self.patience = allowance, patience
        self._entries: dict[int, Entry] = {}
        self._next = 0
        self._aged = False  # did the last batch begin because of its age?
        self.error: PolicyError | None = None  # of a policy that was given up
        self.use(policy or in_turns())

    # ---- queries -----------------------------------------------------------------------------

    def enter(self, name: str, priority: float = 0.0, now: float = 0.0) -> int:
        """A query comes; its number."""
        self._next += 1
        if any(name == entry.name for entry in self._entries.values()):
            name = f"{name} ({self._next})"
        self._entries[self._next] = Entry(name, priority, since=now)
        self._update()
        return self._next

    def leave(self, query: int) -> None:
        """It ends, in whatever way: its place is free."""
        if self._entries.pop(query, None) is not None:
            self._update()

    def ask(
        self, query: int, now: float, pending: float = 1.0, head_time: float | None = None
    ) -> None:
        """It has rows for a batch, the first of which waits since `head_time`. Asking once more
        only tells what has changed."""
        entry = self._entries[query]
        entry.tell(now, pending, now if head_time is None else head_time)
        if entry.state is State.IDLE:
            entry.state, entry.since = State.WAITING, now

    def withdraw(self, query: int, now: float) -> None:
        """It asks no more, or does not begin the batch that it was allowed."""
        self._become(query, State.IDLE, now)

    def done(
        self,
        query: int,
        now: float,
        rows: int,
        rows_out: int | None = None,
        state_size: float = 0.0,
    ) -> None:
        """Its batch is over: rows that it read and gave, and the bytes of its state."""
        entry = self._entries.get(query)
        if entry is None or entry.state is not State.RUNNING:
            return
        entry.ended(now, rows, rows_out, state_size)
        self.allowance.read(rows)
        self._become(query, State.IDLE, now)

    def _become(self, query: int, state: State, now: float) -> None:
        entry = self._entries.get(query)
        if entry is not None and entry.state is not state:
            entry.state, entry.since = state, now

    def state(self, query: int) -> State:
        """What a query does; one that has left is idle."""
        entry = self._entries.get(query)
        return State.IDLE if entry is None else entry.state

    def _in(self, state: State) -> list[int]:
        return [query for query, entry in self._entries.items() if entry.state is state]

    # ---- who goes next -----------------------------------------------------------------------

    def use(self, policy: Policy) -> None:
        """From now on this policy ranks those that wait."""
        self.policy, self.error = policy, None
        self._update()

    def _update(self) -> None:
        """Haren's `update`: other queries, or another policy."""
        self._order = list(self._entries)
        names = [entry.name for entry in self._entries.values()]
        graph = Graph.of(names, [], self._order)
        self._scheduling = Scheduling(self, graph, self.policy, period=PERIOD)
        self._adapted = -inf

    def grants(self, now: float) -> list[Grant]:
        """Who may begin now."""
        made: list[Grant] = []
        waiting = self._in(State.WAITING)
        if waiting:
            ranked = self._ranked(now)
            while waiting and (query := self._chosen(waiting, ranked, now)) is not None:
                waiting.remove(query)
                self._become(query, State.RUNNING, now)
                made.append(Grant(query, self._rows(query)))
        self.allowance.look(now, busy=bool(waiting))
        return made

    def _is_free(self, query: int) -> bool:
        """Is there a place for it, among those that are as important?"""
        least = self._entries[query].priority
        running = [self._entries[each].priority for each in self._in(State.RUNNING)]
        return sum(priority >= least for priority in running) < self.allowance.running

    def _chosen(self, waiting: Sequence[int], ranked: Iterable[int], now: float) -> int | None:
        """Who begins next; None: there is no place."""
        oldest = min(waiting, key=lambda query: (self._entries[query].since, query))
        overdue = now - self._entries[oldest].since >= self.patience
        if overdue and not self._aged and self._is_free(oldest):
            self._aged = True
            return oldest
        first = next(query for query in ranked if query in waiting)
        if not self._is_free(first):
            return None
        self._aged = False
        return first

    def _ranked(self, now: float) -> list[int]:
        """All queries, by the policy; by the default, where it answers nonsense."""
        try:
            return self._by_policy(now)
        except PolicyError as error:
            if self.error is not None:  # the default, too
                raise
            self.use(in_turns())
            self.error = error
            said = f"{error}\n  it is given up: queries of higher priority go first"
            warnings.warn(said, PolicyWarning, stacklevel=2)
            return self._by_policy(now)

    def _by_policy(self, now: float) -> list[int]:
        everybody = range(len(self._order))
        if now - self._adapted >= self._scheduling.period:
            self._adapted = now
            self._scheduling.adapt(everybody, now)
        decision = self._scheduling.decide(everybody, now)
        ranked = sorted(decision.order.tolist(), key=lambda place: not decision.eligible[place])
        return [self._order[place] for place in ranked]

    def _rows(self, query: int) -> int | None:
        """No more than may be worked on in the time, and than the policy's batch, if it has one:
        its limits are for engines that ask it every millisecond."""
        allowed = self._entries[query].allowed.most(self.allowance.seconds)
        found = [rows for rows in (self.policy.batch, allowed) if rows is not None]
        return min(found, default=None)

    # ---- what policies are told --------------------------------------------------------------

    def can_run(self, operator: int) -> bool:
        """Does the query wait for a place?"""
        return self._entries[self._order[operator]].state is State.WAITING

    def features(self, names: Sequence[str], operators: Sequence[int]) -> Floats:
        """See `Observed`: a query is an operator."""
        rows = [self._entries[self._order[operator]] for operator in operators]
        return np.array([[FEATURES[name](entry) for name in names] for entry in rows]).reshape(
            len(rows), len(names)
        )

    # ---- the table ---------------------------------------------------------------------------

    def standings(self, now: float) -> list[Standing]:
        """What each query does, and why: those that run, then those that wait, the next first."""
        running, waiting = self._in(State.RUNNING), self._in(State.WAITING)
        ranked = [query for query in self._ranked(now) if query in waiting] if waiting else []
        names = ", ".join(self._entries[query].name for query in running)
        made = []
        for query in [*running, *ranked, *self._in(State.IDLE)]:
            entry = self._entries[query]
            why = "it is its turn"
            if entry.state is State.IDLE:
                why = "between two batches" if entry.pending else "no rows"
            if query in ranked:
                place = f"{ranked.index(query) + 1} of {len(ranked)} by {self.policy.name}"
                why = f"{place}; {self.allowance.running} may run: {names}"
                if now - entry.since >= self.patience:
                    why = f"waits for longer than {self.patience:g} s, so soon; {why}"
            made.append(
                Standing(
                    entry.name, entry.state.value, now - entry.since, entry.priority,
                    int(min(entry.pending, 1e15)), entry.batches, why,
                )
            )  # fmt: skip
        return made


FEATURES: dict[str, Callable[[Entry], float]] = {
    "cost": lambda e: e.cost,
    "selectivity": lambda e: e.selectivity,
    "pending": lambda e: e.pending,
    "head_time": lambda e: e.head_time,
    "arrival_time": lambda e: e.head_time,  # when the others came, nobody knows
    "rate": lambda e: e.rate,
    "input_queue": lambda e: e.pending,
    "output_queue": lambda e: 0.0,
    "output_room": lambda e: NO_ROOM_NEEDED,
    "latency_gradient": lambda e: e.latency_gradient,
    "state_size": lambda e: e.state_size,
    "last_scheduled": lambda e: e.last_scheduled,
    "workers": lambda e: float(e.state is State.RUNNING),
    "worker_time": lambda e: e.worker_time,
    "busy_time": lambda e: e.worker_time,
    "parallelism": lambda e: 1.0,
    "user_priority": lambda e: e.priority,
    "query_class": lambda e: e.priority,
    "deadline": lambda e: inf,  # of a micro-batch there is none
}
