"""A source that follows a script of rows and marks."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.connect.arrow import as_table, conform, schema_of_table
from headrace.connect.clock import Clock
from headrace.plan.connector import Batch
from headrace.plan.errors import DataError
from headrace.plan.expressions import Expression
from headrace.plan.schema import Schema

from .clock import VirtualClock

Place = list[int]  # a position: [step of the script, row in it]


class Aborted(Exception):
    """What `ABORT` raises."""


@dataclass(frozen=True)
class End:
    """The channel ends here; a reader that is opened behind it goes on."""


@dataclass(frozen=True)
class Abort:
    """Reading fails here, once: the next reader that comes here goes on."""

    error: Exception | None = None  # what to raise; an Aborted if not given


@dataclass(frozen=True)
class Pause:
    """Nothing comes until `seconds` of the clock have passed (None: any), or `resume()`; once."""

    seconds: float | None = None


END = End()
ABORT = Abort()
PAUSE = Pause()


class TestSource:
    """A source for tests: each channel follows a script of rows and marks.

    A step of a script is a row (a dict; rows that follow each other come together), rows that come
    together (a list of dicts, or anything `read.memory` takes), or a mark: `END`, `ABORT`,
    `Abort(error)`, `PAUSE`, `Pause(seconds)`. A dict of scripts names several channels. A script
    that is over ends its channel.

    Guarantees: replayable; a position is [step, row in it]. What was committed is in
    `commits`, and how often each channel was opened in `opened`.

    >>> source = TestSource([[{"n": 1}, {"n": 2}], ABORT, {"n": 3}])
    >>> reader = source.open("0")
    >>> batch = reader.poll(max_rows=10, timeout=0.0)
    >>> batch.rows.num_rows, batch.position
    (2, [1, 0])
    >>> reader.poll(max_rows=10, timeout=0.0)
    Traceback (most recent call last):
    headrace.testing.source.Aborted: step 1 of channel 0
    >>> source.open("0", batch.position).poll(max_rows=10, timeout=0.0).rows.to_pylist()
    [{'n': 3}]
    """

    __test__ = False  # pytest: this is no test
    replayable = True

    def __init__(
        self,
        script: Iterable[Any] | Mapping[str, Iterable[Any]],
        *,
        schema: Any = None,
        clock: Clock | None = None,
    ) -> None:
        scripts = script if isinstance(script, Mapping) else {"0": script}
        self.clock = VirtualClock() if clock is None else clock
        self.commits: dict[str, Any] = {}
        self.opened: dict[str, int] = dict.fromkeys(scripts, 0)
        self._passed: set[tuple[str, int]] = set()  # marks that have done their work
        self._resumed = threading.Event()
        steps = {channel: _steps(items) for channel, items in scripts.items()}
        given = None if schema is None else Schema.of(schema)
        self._schema = given or _schema_of([s for many in steps.values() for s in many])
        self._scripts = {c: [self._prepared(step) for step in many] for c, many in steps.items()}

    def __str__(self) -> str:
        return "test source"

    def schema(self) -> Schema:
        """The schema given, or that of all the rows."""
        return self._schema

    def channels(self) -> Sequence[str]:
        """The names of the scripts; "0" if there is one without a name."""
        return list(self._scripts)

    def latest(self) -> dict[str, Place]:
        """The ends of the scripts."""
        return {channel: [len(script), 0] for channel, script in self._scripts.items()}

    def open(
        self,
        channel: str,
        start: Place | None = None,
        stop: Place | None = None,
        columns: Sequence[str] | None = None,
        predicate: Expression | None = None,
    ) -> TestReader:
        """Follow a script from `start` on."""
        if channel not in self._scripts:
            raise DataError(f"{self}: no channel {channel!r}")
        self.opened[channel] += 1
        script = self._scripts[channel]
        return TestReader(self, channel, script, start or [0, 0], stop, columns)

    def resume(self) -> None:
        """End the pause that a reader is in (or the next one, if none is)."""
        self._resumed.set()

    def committed(self, channel: str, position: Place) -> None:
        """Remember the position, for tests to look at."""
        self.commits[channel] = position

    def close(self) -> None:
        """Nothing to do."""

    def _prepared(self, step: Any) -> Any:
        if isinstance(step, End | Abort | Pause):
            return step
        return conform(as_table(step, self._schema), self._schema).combine_chunks()

    def _once(self, channel: str, step: int) -> bool:
        """Has a mark still to do its work? True once."""
        if (channel, step) in self._passed:
            return False
        self._passed.add((channel, step))
        return True


class TestReader:
    """Follows one script."""

    __test__ = False

    def __init__(
        self,
        source: TestSource,
        channel: str,
        script: Sequence[Any],
        start: Place,
        stop: Place | None,
        columns: Sequence[str] | None,
    ) -> None:
        self._source, self._channel, self._script = source, channel, script
        self._step, self._row = start
        self._stop = [len(script), 0] if stop is None else stop
        self._columns = None if columns is None else list(columns)
        self._paused_until: float | None = None
        self._closed = threading.Event()

    def poll(self, max_rows: int, timeout: float) -> Batch:
        """The next rows of the step, after what the marks before it ask for."""
        while not self._closed.is_set():
            if self._position() >= self._stop:
                return Batch(None, self._position(), ended=True)
            match self._script[self._step]:
                case End():
                    self._next()
                    return Batch(None, self._position(), ended=True)
                case Abort(error):
                    step = self._step
                    self._next()
                    if self._source._once(self._channel, step):
                        raise error or Aborted(f"step {step} of channel {self._channel}")
                case Pause(seconds):
                    if self._is_paused(seconds, timeout):
                        return Batch(None, self._position())
                    self._next()
                case rows:
                    given = self._give(rows, max_rows)
                    if given is not None:
                        return Batch(given, self._position())
        return Batch(None, self._position())

    def close(self) -> None:
        """Give no more rows; a poll that waits comes back."""
        self._closed.set()

    def _position(self) -> Place:
        return [self._step, self._row]

    def _next(self) -> None:
        self._step, self._row = self._step + 1, 0

    def _give(self, rows: pa.Table, max_rows: int) -> pa.RecordBatch | None:
        end = self._stop[1] if self._step == self._stop[0] else rows.num_rows
        count = min(max_rows, end - self._row)
        part = rows.slice(self._row, count).combine_chunks()
        batch = part.to_batches()[0] if count else None
        self._row += count
        if self._row >= rows.num_rows:
            self._next()
        return batch if batch is None or self._columns is None else batch.select(self._columns)

    def _is_paused(self, seconds: float | None, timeout: float) -> bool:
        """Does a pause go on, after waiting for its end at most `timeout` seconds?"""
        source, clock = self._source, self._source.clock
        if (self._channel, self._step) in source._passed:
            return False
        if self._paused_until is None:
            # A pause without a length is over as soon as the clock has moved at all.
            least = 1e-9 if seconds is None else seconds
            self._paused_until = clock.now() + least
        if clock.now() < self._paused_until and not source._resumed.is_set():
            clock.wait(self._paused_until, timeout, source._resumed)
        if clock.now() < self._paused_until and not source._resumed.is_set():
            return True
        source._resumed.clear()
        source._once(self._channel, self._step)
        self._paused_until = None
        return False


def _steps(items: Iterable[Any]) -> list[Any]:
    """A script with single rows that follow each other put together."""
    steps: list[Any] = []
    gathering = False
    for item in items:
        is_row = isinstance(item, Mapping)
        if is_row and gathering:
            steps[-1].append(item)
        else:
            steps.append([item] if is_row else item)
        gathering = is_row
    return steps


def _schema_of(steps: Sequence[Any]) -> Schema:
    tables = [as_table(s) for s in steps if not isinstance(s, End | Abort | Pause) and len(s)]
    if not tables:
        raise DataError("a test source without rows needs schema=")
    return schema_of_table(pa.concat_tables(tables, promote_options="permissive"))[0]
