"""How long the rows of a light query take beside a query that would hold the workers.

Latencies are those of rows, by the clock of the function that gets them: a row is due by its
number and the rate, whenever the engine comes for it, so that all rows that wait behind a stall
count. The start of the rate is where the fastest row of all took no time.
"""

from __future__ import annotations

import math
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace import col
from headrace.bench.figure import Found
from headrace.bench.latency import latencies_so_far, worst_of
from headrace.bench.queries import END_SECONDS, How, Queries, Results
from headrace.write import Output

from .bench import ENGINE, Bench

RATE = 4_000  # rows per second of the light query
TABLE_ROWS = 1_000
SETTLE_SECONDS = 0.5  # in which rows that were due are worked off
FEWEST_SAMPLES = 1_000
HEAVY_MS = 10
CALLS = 2  # of the source that sleeps
GIVEN_EVERY = 1_000  # rows of a state that grows
FACTOR, MODULUS = 16_807, 2_147_483_647  # of Park and Miller


class Light:
    """A few thousand rows a second through a filter and a map, to a function that looks at the
    clock. Every other row passes.

    It keeps numbers, not batches: tens of thousands of objects that stay make Python's garbage
    collector look at all there are, and that stops every thread which needs the GIL, sinks too,
    for a tenth of a second.
    """

    def __init__(self, rows: int | None = None) -> None:
        self._values, self._came, self._rows = array("q"), array("d"), array("q")
        numbers = hr.read.replay({"n": np.arange(TABLE_ROWS)}, rate=RATE, rows=rows, name="light")
        kept = numbers.filter(col("n") % 2 == 0).map(lambda n: n * 3 + 1, output="m")
        self.output = kept.write.callback(self._take)

    def _take(self, batch: pa.RecordBatch) -> None:
        self._came.append(time.perf_counter())
        self._rows.append(batch.num_rows)
        self._values.frombytes(batch["m"].to_numpy().tobytes())

    def is_right(self, rows: int) -> bool:
        """Did all results of so many rows come, in order?"""
        numbers = np.arange(rows) % TABLE_ROWS
        wanted = numbers[numbers % 2 == 0] * 3 + 1
        return np.array_equal(np.array(self._values), wanted)

    def latencies(self, begin: float, end: float) -> dict[str, Any]:
        """Milliseconds of the rows that were due between two moments."""
        came = np.repeat(np.array(self._came), np.array(self._rows))
        due = (2 * np.arange(len(came)) + 1) / RATE  # row 0 is due after one row's time
        due += (came - due).min(initial=np.inf)
        took = 1e3 * (came - due)[(begin <= due) & (due < end)]
        if not len(took):
            return {"p50": None, "p99": None, "max": None, "samples": 0}
        p50, p99 = np.percentile(took, (50, 99), method="higher")
        found = {"p50": p50, "p99": p99, "max": took.max()}
        return {**{name: round(float(ms), 4) for name, ms in found.items()}, "samples": len(took)}


class Other(Protocol):
    """A query that ends by itself, and is not kind to others."""

    output: Output

    def has_begun(self, job: Any) -> bool:
        """Does it do now what it does to others?"""

    def is_right(self) -> bool:
        """Did all its results come?"""


def spin(seed: int, turns: int) -> int:
    """So many steps of a generator of random numbers, each from the one before.

    >>> spin(7, 1000) == 7 * pow(FACTOR, 1000, MODULUS) % MODULUS
    True
    """
    for _ in range(turns):
        seed = seed * FACTOR % MODULUS
    return seed


def turns_in(seconds: float) -> int:
    """How many turns of `spin`, compiled, take so long."""
    import numba

    compiled, tried, best = numba.njit(spin), 1_000_000, math.inf
    compiled(1, 1)
    for _ in range(3):
        started = time.perf_counter()
        compiled(1, tried)
        best = min(best, time.perf_counter() - started)
    return max(1, round(tried * seconds / best))


class Heavy:
    """Rows of which each takes long, in a compiled loop; a channel for each worker."""

    def __init__(self, rows: int, turns: int, channels: int) -> None:
        self._seeds, self._turns, self._results = np.arange(1, rows + 1), turns, Results()
        table = {"seed": self._seeds, "turns": np.full(rows, turns)}
        events = hr.read.replay(table, rows=rows, channels=channels, name="heavy")
        self.output = events.map(spin, output="end").write.callback(self._results.take)

    def has_begun(self, job: Any) -> bool:
        """It has once it has rows."""
        return job.progress().rows_in > 0

    def is_right(self) -> bool:
        """Compares with what the generator's formula gives."""
        wanted = self._seeds * pow(FACTOR, self._turns, MODULUS) % MODULUS
        found = self._results.table(self.output)["end"].to_numpy()
        return np.array_equal(np.sort(found), np.sort(wanted))


class Sleeper:
    """A source in Python of which each call sleeps."""

    def __init__(self, calls: int, seconds: float) -> None:
        self._calls, self._seconds = calls, seconds
        self._sleeps, self._results = threading.Event(), Results()
        rows = hr.read.iterate(self._rows(), schema={"call": int}, name="sleeper")
        self.output = rows.write.callback(self._results.take)

    def _rows(self) -> Iterator[tuple[int]]:
        for call in range(self._calls):
            self._sleeps.set()
            time.sleep(self._seconds)
            yield (call,)

    def has_begun(self, job: Any) -> bool:
        """It has once it sleeps."""
        return self._sleeps.is_set()

    def is_right(self) -> bool:
        """One row for each call."""
        found = self._results.table(self.output)["call"].to_pylist()
        return bool(found == list(range(self._calls)))


class Growing:
    """A state that gets a new key with every row."""

    def __init__(self, keys: int) -> None:
        self._keys, self._results = keys, Results()

        def seen(state: Any, key: int) -> Iterator[int]:
            state.n += 1
            if key % GIVEN_EVERY == 0:
                yield state.n

        rows = hr.read.memory({"key": np.arange(keys)}, name="growing").key_by("key")
        counted = rows.process(seen, state={"n": int}, output="n")
        self.output = counted.write.callback(self._results.take)

    def has_begun(self, job: Any) -> bool:
        """It has once it has rows."""
        return job.progress().rows_in > 0

    def is_right(self) -> bool:
        """Every key was new."""
        found = self._results.table(self.output)
        wanted = np.arange(0, self._keys, GIVEN_EVERY)
        same = np.array_equal(np.sort(found["key"].to_numpy()), wanted)
        return same and bool((found["n"].to_numpy() == 1).all())


def _beside(
    bench: Bench,
    workers: int,
    warm_up: Callable[[], Other],
    made: Callable[[], Other],
    value: str = "p99",
) -> Found:
    """The light query alone, then for as long as the other one runs."""
    how = How(ENGINE, workers)
    bench.say("warming up")
    with Queries([Light(rows=TABLE_ROWS).output, warm_up().output], how) as queries:
        queries.await_end()
        queries.await_warm()
    light, other = Light(), made()
    with Queries([light.output], how) as queries:
        queries.await_rows()
        time.sleep(SETTLE_SECONDS)
        bench.say("alone")
        began = time.perf_counter()
        time.sleep(bench.settings.seconds)
        alone = began, time.perf_counter()
        time.sleep(SETTLE_SECONDS)  # so that none of these rows waits for the other query
        job = queries.submit(other.output)
        queries.await_that(lambda: other.has_begun(job))
        bench.say("beside the other")
        began, before = time.perf_counter(), latencies_so_far(queries.jobs[:1])
        job.await_termination(END_SECONDS)
        ended = time.perf_counter()
        queries.stop()
        engine = worst_of(latencies_so_far(queries.jobs[:1]), before)
        correct = light.is_right(queries.rows()[0]) and other.is_right()
    beside = light.latencies(began, ended)
    details = {
        "sides": {"beside": beside, "alone": light.latencies(*alone)},
        "rows_per_s": RATE,
        "seconds": round(ended - began, 3),
        "by_the_engine_ms": engine,
    }
    return Found(beside[value], correct, details, beside["samples"] >= FEWEST_SAMPLES)


def light_beside_heavy(bench: Bench) -> dict[str, Found]:
    """Beside rows that take 10 ms each; as many as keep two workers busy for some seconds."""
    workers, turns = 2, turns_in(HEAVY_MS / 1e3)
    rows = workers * math.ceil(2 * bench.settings.seconds * 1e3 / HEAVY_MS)
    found = _beside(
        bench, workers, lambda: Heavy(workers, 1, workers), lambda: Heavy(rows, turns, workers)
    )
    return {"light_beside_heavy": found}


def growing_state(bench: Bench) -> dict[str, Found]:
    """The longest wait beside a state that grows, on one worker: what it takes to grow is short."""
    keys = bench.settings.grown_keys
    found = _beside(bench, 1, lambda: Growing(1), lambda: Growing(keys), "max")
    return {"growing_state": found}


def python_beside(bench: Bench) -> dict[str, Found]:
    """Beside a source in Python that sleeps."""
    seconds = bench.settings.sleep_seconds
    found = _beside(bench, 1, lambda: Sleeper(1, 0.0), lambda: Sleeper(CALLS, seconds))
    return {"python_beside": found}
