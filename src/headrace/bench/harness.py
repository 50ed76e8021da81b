"""Measuring two programs against each other on a machine that others use as well.

The two run in turns, so that whatever else the machine does hits both, and the ratio is the median
over the pairs of neighbours. Every result is checked, outside the time that is measured. One thread
against several stays flattered where others keep cores busy; the load before the run and the cores
that each program got tell.
"""

from __future__ import annotations

import gc
import importlib
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

Program = Callable[[], pa.Table]
Check = Callable[[pa.Table], bool]


class MissingPackage(Exception):
    """A package that benchmarks need is not installed."""


def needed(module: str, what: str, extra: str = "bench") -> Any:
    """A module of a package that comes with one of our extras.

    >>> needed("json", "a doctest").loads("1")
    1
    >>> needed("no_such_package.part", "a plot", "plot")
    Traceback (most recent call last):
    headrace.bench.harness.MissingPackage: a plot needs no_such_package, which is not installed
      fix: pip install 'headrace[plot]'
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.removeprefix("google.").partition(".")[0]
        raise MissingPackage(
            f"{what} needs {package}, which is not installed\n"
            f"  fix: pip install 'headrace[{extra}]'"
        ) from None


@dataclass
class Duel:
    """The times of two programs that ran in turns over the same rows.

    >>> duel = Duel(rows=100, ours=[1.0, 2.0, 2.0], theirs=[1.0, 1.0, 0.5], correct=True)
    >>> duel.ratio, duel.ratio_best
    (0.5, 0.5)
    >>> duel.rate(duel.ours), duel.median_rate(duel.ours)
    (100.0, 50.0)
    """

    rows: int
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    correct: bool = True
    our_cores: list[float] = field(default_factory=list)  # CPU seconds of the process per second
    their_cores: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Our rate to theirs: the median over the pairs."""
        return statistics.median(theirs / ours for ours, theirs in zip(self.ours, self.theirs))

    @property
    def ratio_best(self) -> float:
        """Our best rate to their best rate."""
        return min(self.theirs) / min(self.ours)

    def rate(self, times: list[float]) -> float:
        """Rows per second of the best run."""
        return self.rows / min(times)

    def median_rate(self, times: list[float]) -> float:
        """Rows per second of the median run."""
        return self.rows / statistics.median(times)


def measure(program: Program) -> tuple[float, float, pa.Table]:
    """Seconds, cores used and result of one run; garbage of earlier ones is collected before."""
    gc.collect()
    cpu, started = time.process_time(), time.perf_counter()
    result = program()
    seconds = time.perf_counter() - started
    return seconds, (time.process_time() - cpu) / max(seconds, 1e-9), result


def duel(
    prepare: Callable[[], Program],
    theirs: Program,
    check: Check,
    *,
    rows: int,
    repeat: int,
    on_round: Callable[[int], None] = lambda number: None,
) -> Duel:
    """Run two programs in turns, once to warm up and then `repeat` times.

    `prepare` sets our program up anew for each run, which is not part of its time; round 0 is the
    warm-up, whose results are checked but not timed.
    """
    if repeat < 1:
        raise ValueError(f"repeat={repeat}: must be at least 1")
    found = Duel(rows)
    for number in range(repeat + 1):
        on_round(number)
        for program, times, shares in (
            (prepare(), found.ours, found.our_cores),
            (theirs, found.theirs, found.their_cores),
        ):
            seconds, cores, result = measure(program)
            found.correct &= check(result)
            if number:
                times.append(seconds)
                shares.append(cores)
    return found
