"""The control thread of an engine that has a policy: features in, an order of units out.

Every period it looks at the units (`features`) and asks the policy, while workers work on in the
order before, and puts what it answers in force: at once (`schedulers.priority`), or at a meeting of
all workers (`schedulers.assigned`). Who is not eligible comes behind all who are, instead of not at
all: an answer is as old as a period, and a worker does not wait for the next one while there is
something to do.

Python is not fast. So that workers keep the machine, the thread takes at most a small part of one
core: where an answer takes long, the next question comes later than the period says. Where nothing
runs it looks less often.

A policy that answers nonsense, or raises, is given up with a warning: its engine goes on in the
order that engines without a policy have, and no row is lost. One that does not answer at all leaves
the last order in force.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

from headrace.control import Policy, PolicyError
from headrace.control.compiling import Priorities
from headrace.control.errors import PolicyWarning
from headrace.control.policies.user_priority import user_priority
from headrace.control.scheduling import Scheduling

from .features import NodeFeatures, Scheduled, look_at
from .schedulers.assigned import Assigned, Calling
from .schedulers.priority import Priority

BATCH = 0  # rows of a run: as the engine bounds it
SHARE = 0.02  # of a core, at the most
LONGEST_PAUSE = 0.05  # seconds, where nothing runs
JOIN_SECONDS = 0.2
PATIENCE = 1.0  # seconds of waiting that make a query more important by one


def important_first() -> Policy:
    """The policy of an engine that has none, once a query has a priority."""
    return user_priority(PATIENCE)


class Steering:
    """A policy at work, on a thread of its own, from the first query on until `stop`."""

    def __init__(
        self,
        policy: Policy,
        scheduler: Priority | Assigned,
        features: Callable[[Sequence[Scheduled]], NodeFeatures],
        calling: Calling,
        give_up: Callable[[], None],
    ) -> None:
        """features: of queries. calling: a context in which the engine stays in its mode; it gives
        compiled functions. give_up: called, on the thread, when the policy cannot be used."""
        self._scheduler, self._new_features = scheduler, features
        self._calling, self._give_up = calling, give_up
        self._lock = threading.Lock()  # of what follows
        self._features = features([])
        self._choose(policy)
        self._changed, self._over = threading.Event(), False
        self.error: PolicyError | None = None
        self._thread = threading.Thread(target=self._run, name="headrace-steering", daemon=True)
        self._begun = False

    def stop(self) -> None:
        """Ask no more. A policy that is thinking is not waited for, or not for long."""
        self._over = True
        self._changed.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(JOIN_SECONDS)

    def update(self, queries: Sequence[Scheduled]) -> None:
        """Queries come and go (Haren's `update`). When this is done, nobody looks at those that
        went, and nobody waits for the policy."""
        with self._lock:
            self._features.forget()
            self._features = self._new_features(queries)
            self._begin()
            if queries and not self._begun and not self._over:
                self._begun = True
                self._thread.start()
        self._changed.set()

    def swap(self, policy: Policy) -> None:
        """From now on another policy."""
        with self._lock:
            self._choose(policy)
        self._changed.set()

    def again(self) -> None:
        """Ask at once: there are more workers, or fewer."""
        self._changed.set()

    def said(self) -> str:
        """What `explain` says about it."""
        if self.error is not None:
            return f"the default: {self.error}"
        how = "compiled by Numba" if self._priorities.is_compiled else "in Python"
        period = f"every {1e3 * self._scheduling.period:g} ms at most"
        said = f"policy {self.policy.name!r}, asked {period}, {how}"
        named = self._scheduler.name
        return said if named == Priority.name else f"scheduler {named!r}, {said}"

    def _choose(self, policy: Policy) -> None:
        self.policy, self._priorities = policy, Priorities(policy)
        self._begin()

    def _begin(self) -> None:
        asked = replace(self.policy, priority=self._priorities)
        features, period = self._features, self._scheduler.period
        self._scheduling = Scheduling(features, features.graph, asked, period=period, batch=BATCH)

    # ---- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        idle = 0.0
        while not self._over:
            self._changed.clear()
            began = time.thread_time()
            try:
                pause, ran = self._epoch()
            except BaseException as error:
                if not self._over:
                    self._fail(error)
                return
            if pause is not None:
                idle = 0.0 if ran else min(2 * max(idle, pause), LONGEST_PAUSE)
                pause = max(pause, idle, (time.thread_time() - began) / SHARE)
            self._priorities.compile()
            self._changed.wait(pause)

    def _epoch(self) -> tuple[float | None, bool]:
        """Look, ask, and put the answer in force. Gives how long to wait (None: until something
        changes), and whether anything has run."""
        with self._lock:
            scheduling, features = self._scheduling, self._features
            if not len(features):
                return None, False
            with self._calling() as of:
                ran, window_ended = features.look(of(look_at), time.monotonic_ns())
        now = time.monotonic()
        if window_ended:
            scheduling.adapt(ran, now)
        scheduling.features.next_period = now + scheduling.period
        decision = scheduling.decide(ran, now)
        order = self._scheduler.order(scheduling, decision, features)
        with self._lock:
            if scheduling is self._scheduling:  # else it is about others
                self._scheduler.rank(features.units, *order)
        return scheduling.period, bool(ran)

    def _fail(self, error: BaseException) -> None:
        if not isinstance(error, PolicyError):
            what = f"it raised {type(error).__name__}: {error}"
            error = PolicyError(self.policy.name, "priority", what)
        self.error = error
        self._give_up()
        said = f"{error}\n  it is given up: units run in the order of an engine without a policy"
        warnings.warn(said, PolicyWarning, stacklevel=2)
