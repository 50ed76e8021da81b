"""Measuring sides against each other on a machine that others use as well.

The sides run in turns, so that whatever else the machine does hits all of them, and the ratio of
two is the median over the pairs of neighbours. Every result is checked, outside the time that is
measured. One thread against several stays flattered where others keep cores busy; the load before
the run and the cores that each side got tell.
"""

from __future__ import annotations

import gc
import importlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from .saying import Said, say_nothing

TRIES, DISTURBED = 3, 0.1  # of a measurement; cores that other processes use
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


@dataclass(frozen=True)
class Run:
    """One run of a side: its rows and seconds, and whether its result was right."""

    rows: int
    seconds: float
    correct: bool = True
    cores: float = 0.0  # CPU seconds of the process per second
    most: float | None = None  # rows per second of its best part, where it has parts
    seen: dict[str, Any] = field(default_factory=dict)  # what else was found

    @property
    def rate(self) -> float:
        """Rows per second.

        >>> Run(rows=10, seconds=4.0).rate
        2.5
        """
        return self.rows / max(self.seconds, 1e-9)

    @property
    def best(self) -> float:
        """Rows per second of its best part."""
        return self.rate if self.most is None else self.most


@dataclass(frozen=True)
class Duel:
    """The runs of two sides that took turns.

    >>> ours = [Run(100, 1.0), Run(100, 2.0), Run(100, 2.0)]
    >>> duel = Duel("ours", ours, "theirs", [Run(100, 1.0), Run(100, 1.0), Run(100, 0.5)])
    >>> duel.ratio, duel.ratio_best
    (0.5, 0.5)
    >>> duel.said()["sides"]["ours"]
    {'best': 100, 'median': 50}
    """

    name: str
    ours: Sequence[Run]
    their_name: str
    theirs: Sequence[Run]

    @property
    def ratios(self) -> list[float]:
        """Our rate to theirs, pair by pair."""
        return [_to(ours.rate, theirs.rate) for ours, theirs in zip(self.ours, self.theirs)]

    @property
    def ratio(self) -> float:
        """Our rate to theirs: the median over the pairs."""
        return statistics.median(self.ratios)

    @property
    def ratio_best(self) -> float:
        """Our best rate to their best rate."""
        return _to(max(run.best for run in self.ours), max(run.best for run in self.theirs))

    def said(self) -> dict[str, Any]:
        """What is reported: both ratios, those of all pairs, and the rates of both sides."""
        return {
            "ratio_median": round(self.ratio, 3),
            "ratio_best": round(self.ratio_best, 3),
            "ratios": [round(ratio, 3) for ratio in self.ratios],
            "sides": {self.name: _rates(self.ours), self.their_name: _rates(self.theirs)},
        }


def _to(ours: float, theirs: float) -> float:
    """A ratio of rates; a side that did nothing in its time counts as one row per second."""
    return ours / max(theirs, 1.0)


def _rates(runs: Sequence[Run]) -> dict[str, int]:
    """Rows per second of the best and of the median run."""
    median = statistics.median(run.rate for run in runs)
    return {"best": round(max(run.best for run in runs)), "median": round(median)}


@dataclass
class Turns:
    """The timed runs of several sides, by name, and whether all results were right."""

    runs: dict[str, list[Run]]
    correct: bool = True

    def duel(self, ours: str, theirs: str) -> Duel:
        """Two of the sides."""
        return Duel(ours, self.runs[ours], theirs, self.runs[theirs])


def in_turns(
    sides: Mapping[str, Callable[[], Run]],
    rounds: int,
    *,
    warm_up: bool = True,
    say: Said = say_nothing,
) -> Turns:
    """Run sides in turns, so many rounds; the results of a round to warm up are only checked.

    >>> turns = in_turns({"a": lambda: Run(1, 1.0), "b": lambda: Run(1, 0.5)}, 2)
    >>> turns.correct, turns.duel("a", "b").ratio
    (True, 0.5)
    """
    if rounds < 1:
        raise ValueError(f"rounds={rounds}: must be at least 1")
    found = Turns({name: [] for name in sides})
    for number in range(0 if warm_up else 1, rounds + 1):
        for name, side in sides.items():
            say(f"{name}, {f'round {number} of {rounds}' if number else 'warming up'}")
            run = side()
            found.correct &= run.correct
            if number:
                found.runs[name].append(run)
    return found


class Seen(Protocol):
    """What was measured."""

    @property
    def correct(self) -> bool:
        """Were its results right?"""

    @property
    def others(self) -> float | None:
        """Cores that other processes used meanwhile; None: not known."""


S = TypeVar("S", bound=Seen)


def undisturbed(observe: Callable[[], S]) -> S:
    """Measure, and once more, twice at most, where other processes took too much of the machine."""
    for _ in range(TRIES):
        seen = observe()
        if not seen.correct or seen.others is None or seen.others <= DISTURBED:
            break
    return seen


def timed(program: Program, check: Check, rows: int) -> Run:
    """One run of a program; garbage of earlier ones is collected before, the result is checked."""
    gc.collect()
    cpu, started = time.process_time(), time.perf_counter()
    result = program()
    seconds = time.perf_counter() - started
    cores = (time.process_time() - cpu) / max(seconds, 1e-9)
    return Run(rows, seconds, check(result), cores)
