"""How many threads: Streams' elasticity (§4.2, figs. 7 and 8), with a memory for noise.

Throughput over the number of threads is taken to rise, to have a best level, and to stay or fall
behind it. Each period the controller is told the throughput, builds up that curve, and climbs it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, sqrt
from statistics import fmean, median


@dataclass
class ThreadRecord:
    """Fig. 7: what was seen at a level. `mean` is over everything since it is trusted."""

    last_time: int = 0
    first: float = 0.0
    last: float = 0.0
    trusted: bool = False
    mean: float = 0.0
    samples: int = 0


@dataclass
class Noise:
    """How much throughput differs from one period to the next while nothing is changed.

    >>> noise = Noise()
    >>> for throughput in (100, 110, 100, 110):
    ...     noise.see(throughput)
    >>> round(noise.deviation, 2)
    0.1
    """

    _differences: deque[float] = field(default_factory=lambda: deque(maxlen=64))
    _last: float | None = None

    def see(self, throughput: float) -> None:
        """One more period at the same level."""
        if self._last is not None and self._last + throughput > 0:
            self._differences.append(2 * abs(throughput - self._last) / (self._last + throughput))
        self._last = throughput

    def moved(self) -> None:
        """The level is another one: the next difference would be its doing."""
        self._last = None

    @property
    def known(self) -> bool:
        """Is there enough to tell?"""
        return len(self._differences) >= 3

    @property
    def deviation(self) -> float:
        """The standard deviation, relative to throughput; the median forgives a change of load."""
        return 1.4826 * median(self._differences) / sqrt(2) if self._differences else 0.0


class Elasticity:
    """Throughput in, number of threads out.

    With `remember=False` it is fig. 8 as printed. The paper leaves open (§5.4) that noisy
    throughput looks like a change of load, wipes all records away and makes the level oscillate.
    With memory, the controller learns how noisy periods are, decides on the mean of as many of them
    as it takes to see a difference of `sensitivity` (at most `most_samples`), compares means over
    all that it knows of a level, and takes for a change only what four deviations do not explain,
    twice in a row.

    >>> elasticity = Elasticity(8, remember=False)
    >>> for _ in range(12):
    ...     level = elasticity.update(throughput=min(elasticity.level, 4) * 100.0)
    >>> level
    4
    """

    def __init__(
        self,
        most: int,
        *,
        least: int = 1,
        levels: Sequence[int] | None = None,
        first: int | None = None,
        sensitivity: float = 0.05,
        cpu_limit: float = 0.8,
        remember: bool = True,
        most_samples: int = 16,
    ) -> None:
        """first: the level to begin with; the paper's is the least one."""
        chosen = range(least, most + 1) if levels is None else levels
        self.levels = tuple(level for level in chosen if least <= level <= most)
        if not self.levels or list(self.levels) != sorted(set(self.levels)) or least < 1:
            raise ValueError(
                f"no levels between least={least} and most={most}: they must rise, from 1 on"
            )
        self.sensitivity, self.cpu_limit, self.remember = sensitivity, cpu_limit, remember
        self.most_samples = most_samples
        self.postponed = 0  # periods in which a thread did not do what it was told
        self._records = [ThreadRecord() for _ in self.levels]
        if first is not None and first not in self.levels:
            raise ValueError(f"first={first}: there is no such level")
        self._place = 0 if first is None else self.levels.index(first)
        self._time = 0
        self._noise = Noise()
        self._window: list[float] = []
        self._suspected = False

    @classmethod
    def for_ports(cls, most: int, input_ports: int) -> Elasticity:
        """The least level is one more than any operator has input ports, against deadlock (§4.2.3).

        >>> Elasticity.for_ports(8, input_ports=2).level
        3
        """
        return cls(most, least=min(input_ports + 1, most))

    @property
    def level(self) -> int:
        """How many threads there should be now."""
        return self.levels[self._place]

    def update(self, throughput: float, cpu: float = 0.0, running: int | None = None) -> int:
        """One period is over: its throughput, the share of the whole machine's CPU in use (by
        everybody), and how many threads really ran; the level for the next period.

        A thread inside an operator that does not return cannot be suspended. While more or fewer
        threads run than were asked for, nothing is learnt and nothing is changed.
        """
        if throughput < 0 or throughput != throughput:
            raise ValueError(f"throughput={throughput}: it must be a number from 0 on")
        if running is not None and running != self.level:
            self.postponed += 1
            self._window.clear()
            self._noise.moved()
            return self.level
        if self.remember:
            self._noise.see(throughput)
        self._window.append(throughput)
        if len(self._window) >= self._samples_needed():
            measured = fmean(self._window)
            before = self._place
            self._decide(measured, len(self._window), cpu)
            self._window.clear()
            if self._place != before:
                self._noise.moved()
        return self.level

    def _samples_needed(self) -> int:
        if not self.remember:
            return 1
        if not self._noise.known:
            return 4
        wanted = ceil(2 * (4 * self._noise.deviation / self.sensitivity) ** 2)
        return min(max(2, wanted), self.most_samples)

    def _decide(self, throughput: float, samples: int, cpu: float) -> None:
        """Fig. 8, `updateThreadLevel`."""
        record = self._records[self._place]
        if self._change_in_load(record, throughput, samples):
            if self.remember and not self._suspected:
                self._suspected = True  # look once more before everything is forgotten
                return
            for each in self._records:
                each.trusted = False
        self._suspected = False
        self._time += 1
        record.last_time, record.last = self._time, throughput
        if not record.trusted:
            record.first, record.mean, record.samples = throughput, throughput, samples
        else:
            total = record.samples + samples
            record.mean += (throughput - record.mean) * samples / total
            record.samples = total
        record.trusted = True
        lowest = self._place == 0
        if (
            (self._trend_below() and not self._trust_above())  # rule 1
            or self._trend_above()  # rule 2
            or (lowest and not self._trust_above())  # rule 3
        ) and cpu <= self.cpu_limit:
            self._place = min(self._place + 1, len(self.levels) - 1)
        elif not self._trust_below() or not self._trend_below():  # rules 4 and 5
            self._place = max(self._place - 1, 0)

    def _change_in_load(self, record: ThreadRecord, throughput: float, samples: int) -> bool:
        """Is it not what this level had? (After Gedik et al.: the paper does not show it.)"""
        if not record.trusted:
            return False
        expected, tolerance = record.first, self.sensitivity
        if self.remember:
            chance = sqrt(1 / samples + 1 / record.samples)
            expected = record.mean
            tolerance = max(tolerance, 4 * self._noise.deviation * chance)
        return abs(throughput - expected) > tolerance * expected

    def _value(self, place: int) -> float:
        record = self._records[place]
        return record.mean if self.remember else record.last

    def _rises(self, below: int, above: int) -> bool:
        low, high = self._value(below), self._value(above)
        return high - low > self.sensitivity * low

    def _trend_below(self) -> bool:
        return self._trust_below() and self._rises(self._place - 1, self._place)

    def _trend_above(self) -> bool:
        return self._trust_above() and self._rises(self._place, self._place + 1)

    def _trust_below(self) -> bool:
        return self._place > 0 and self._records[self._place - 1].trusted

    def _trust_above(self) -> bool:
        return self._place + 1 < len(self.levels) and self._records[self._place + 1].trusted
