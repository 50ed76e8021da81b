"""The gate: every query of a session asks before its next micro-batch.

It lives in the driver. Planners of queries ask through a socket, before they fix which rows a batch
reads (`permits.py`); batches that no planner of ours has planned (those of DataFrames, and those
that a restart finds in the checkpoint) ask when Spark hands them over, in `foreachBatch`. Who goes
next is decided by `control.admission` whenever somebody asks, ends or leaves; no thread watches.

A place comes back when its batch ends or fails, when its query ends, and when its planner is gone.
"""

from __future__ import annotations

import json
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from headrace.control import Policy
from headrace.control.admission import Admission, Standing, State
from headrace.control.allowance import Allowance

from .errors import SparkError
from .permits import address_of, packed
from .pools import pool_of
from .progress import SparkProgress
from .temporary import folder_of_process

MORE = 2  # batches at once for each core, at most: while one writes its logs, another computes


class Gatekeeper:
    """The places of all queries, behind one lock."""

    def __init__(
        self,
        policy: Policy | None = None,
        running: int | None = None,
        patience: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """running: so many batches at once; None: as many as are worth it."""
        self._clock, self._running = clock, running
        self._lock = threading.Lock()
        self._admission = Admission(Allowance.fixed(running or 1), policy, patience)
        self._places: dict[int, Place] = {}
        self._server: _Server | None = None
        self._closed = False

    def enter(self, name: str, priority: float, cores: int) -> Place:
        """A query that is about to begin, on so many cores."""
        with self._lock:
            if self._closed:
                raise SparkError("this gate is closed\n  fix: make a new hr.Gate()")
            if self._server is None:
                self._server = _Server(self)
                if self._running is None:
                    self._admission.allowance = Allowance(MORE * cores, cores)
            number = self._admission.enter(name, priority, self._clock())
            place = Place(self, number, pool_of(priority), self._server.path)
            self._places[number] = place
            return place

    def use(self, policy: Policy) -> None:
        """From now on another policy."""
        with self._lock:
            self._admission.use(policy)

    @property
    def running(self) -> int:
        """How many batches may run at once, now."""
        with self._lock:
            return self._admission.allowance.running

    def standings(self) -> list[Standing]:
        """What each query does, and why."""
        with self._lock:
            return self._admission.standings(self._clock())

    def said(self) -> str:
        """Who decides, and how many run."""
        with self._lock:
            admission = self._admission
            how = "as many as are worth it, now " if admission.allowance.is_elastic else ""
            said = f"policy {admission.policy.name!r}, {how}{admission.allowance.running} at once"
            return said if admission.error is None else f"{said}: {admission.error}"

    def close(self) -> None:
        """Nobody waits any more: queries that still run go on without a gate."""
        with self._lock:
            self._closed = True
            server, self._server = self._server, None
        for place in list(self._places.values()):
            place.leave()
        if server is not None:
            server.close()

    # ---- for places; the lock is held --------------------------------------------------------

    def _decide(self) -> None:
        """Let those begin who may."""
        for grant in self._admission.grants(self._clock()):
            self._places[grant.query].allow(grant.rows)


class Place:
    """A query at the gate, as the driver sees it."""

    def __init__(self, gate: Gatekeeper, number: int, pool: str, path: str) -> None:
        self._gate, self._number, self.pool = gate, number, pool
        self.address = address_of(path, number)  # for its planner
        self._allowed = threading.Event()
        self._planner: _Planner | None = None  # that asked last
        self._in_batch = False

    def leave(self) -> None:
        """The query ends."""
        gate = self._gate
        with gate._lock:
            if gate._places.pop(self._number, None) is None:
                return
            gate._admission.leave(self._number)
            self._allowed.set()
            if self._planner is not None:
                self._planner.hang_up()
            gate._decide()

    @contextmanager
    def batch(self, progress: Callable[[], SparkProgress]) -> Iterator[None]:
        """A batch of the query, which begins when it may."""
        before = progress()
        self._begin()
        try:
            yield
        finally:
            after = progress()
            self._end(
                after.rows_in - before.rows_in,
                after.rows_out - before.rows_out,
                after.state_bytes,
            )

    def _begin(self) -> None:
        gate = self._gate
        with gate._lock:
            self._in_batch = True
            if self._number not in gate._places:
                return
            if gate._admission.state(self._number) is State.RUNNING:
                return  # its planner has asked
            self._planner = None
            self._allowed.clear()
            gate._admission.ask(self._number, gate._clock())
            gate._decide()
        self._allowed.wait()

    def _end(self, rows: int, rows_out: int, state_bytes: int) -> None:
        gate = self._gate
        with gate._lock:
            self._in_batch = False
            gate._admission.done(self._number, gate._clock(), rows, rows_out, state_bytes)
            gate._decide()

    def allow(self, rows: int | None) -> None:
        """A batch may begin; the lock is held."""
        self._allowed.set()
        if self._planner is not None:
            self._planner.answer(rows)

    # ---- what its planner says ---------------------------------------------------------------

    def asked(self, planner: _Planner, pending: int, waited: float) -> None:
        """The planner waits for an answer."""
        gate = self._gate
        with gate._lock:
            if self._number not in gate._places:
                planner.hang_up()
                return
            self._planner = planner
            now = gate._clock()
            gate._admission.withdraw(self._number, now)  # what it was allowed before is over
            gate._admission.ask(self._number, now, pending, now - waited)
            gate._decide()

    def withdrew(self, planner: _Planner) -> None:
        """The planner waits no more, or is gone."""
        gate = self._gate
        with gate._lock:
            if self._planner is planner and not self._in_batch:
                self._planner = None
                gate._admission.withdraw(self._number, gate._clock())
                gate._decide()


class _Planner(socketserver.StreamRequestHandler):
    """The other end of `Permits`, as long as the planner lives; a thread of its own."""

    server: _Server
    _place: Place | None = None
    _question = 0

    def handle(self) -> None:
        with suppress(OSError, ValueError):  # it is gone, or says what nobody understands
            for line in self.rfile:
                self._hear(json.loads(line))
        if self._place is not None:
            self._place.withdrew(self)

    def _hear(self, said: dict[str, Any]) -> None:
        if "place" in said:
            self._place = self.server.gate._places.get(said["place"])
        if self._place is None:
            self.hang_up()
        elif "ask" in said:
            self._question = said["ask"]
            self._place.asked(self, said["pending"], said["waited"])
        elif "withdraw" in said:
            self._place.withdrew(self)

    def answer(self, rows: int | None) -> None:
        """It may begin."""
        with suppress(OSError):  # gone; its thread will notice
            self.wfile.write(packed({"ask": self._question, "rows": rows}))

    def hang_up(self) -> None:
        """Its query is not at this gate: it need not wait."""
        with suppress(OSError):
            self.connection.shutdown(2)


class _Server(socketserver.ThreadingUnixStreamServer):
    """Listens for planners. The folder of the socket is this user's alone."""

    daemon_threads = True

    def __init__(self, gate: Gatekeeper) -> None:
        self.gate = gate
        self.path = str(folder_of_process("headrace-gate-") / "socket")
        super().__init__(self.path, _Planner)
        self._thread = threading.Thread(
            target=self.serve_forever, args=(0.1,), name="headrace-gate", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        self.shutdown()
        self.server_close()
        self._thread.join()
