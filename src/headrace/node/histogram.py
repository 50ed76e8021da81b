"""Histograms of latencies: log-linear buckets, as in HDR histograms.

Every power of two of nanoseconds is cut into 64 buckets of one width, so a value is known to one
part in 64 at worst, and half of that where the middle of its bucket stands for it. Noting a value
is a shift and three additions; nothing is allocated. One writer at a time writes a histogram (a
worker its own, or the owner of a unit); `merge` and `Latencies` put several together.

    >>> histogram = Histogram.allocate()
    >>> for ns in (900, 1_000, 1_100, 50_000):
    ...     note(histogram, ns)
    >>> latencies = Latencies.of(histogram)
    >>> latencies.count, latencies.max, round(latencies.p50 / 1_000, 1)
    (4, 50000, 1.0)
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from headrace.stage.memory.instructions import bit_length
from headrace.stage.memory.records import array, compiled, i64, line, record

SUB_BITS = 6
SUBS = 1 << SUB_BITS  # buckets for each power of two
TOP_BITS = 44  # longer than 2 ** 44 ns, nearly five hours: all in the last bucket
BUCKETS = (TOP_BITS - SUB_BITS + 1) * SUBS
LARGEST = (1 << TOP_BITS) - 1
MILLISECOND = 1_000_000


@record
class Histogram:
    """`Histogram.allocate()` makes an empty one."""

    count: i64 = line()
    sum: i64
    max: i64  # exact, also above the last bucket
    counts: array(i64, BUCKETS) = line()


@compiled
def bucket_of(ns):
    """The number of the bucket of a value from 0 to LARGEST.

    >>> bucket_of(0), bucket_of(63), bucket_of(64), bucket_of(65), bucket_of(LARGEST) == BUCKETS - 1
    (0, 63, 64, 65, True)
    """
    if ns < SUBS:
        return ns
    shift = bit_length(ns) - SUB_BITS - 1
    return shift * SUBS + (ns >> shift)


@compiled
def note(histogram, ns):
    """Count a latency. By one writer at a time. Clocks that disagree make no negative time."""
    if ns < 0:
        ns = 0
    bucket = bucket_of(min(ns, LARGEST))
    histogram.counts[bucket] += 1
    histogram.count += 1
    histogram.sum += ns
    if ns > histogram.max:
        histogram.max = ns


@compiled
def merge(target, source):
    """Add what a histogram has counted to another.

    >>> one, other = Histogram.allocate(), Histogram.allocate()
    >>> note(one, 5); note(other, 7)
    >>> merge(one, other); one.count, one.sum, one.max
    (2, 12, 7)
    """
    for bucket in range(BUCKETS):
        target.counts[bucket] += source.counts[bucket]
    target.count += source.count
    target.sum += source.sum
    target.max = max(target.max, source.max)


@compiled
def reset(histogram):
    """Forget what was counted."""
    for bucket in range(BUCKETS):
        histogram.counts[bucket] = 0
    histogram.count, histogram.sum, histogram.max = 0, 0, 0


def _bucket_ends() -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest value of each bucket."""
    numbers = np.arange(BUCKETS)
    shifts = np.maximum(numbers // SUBS - 1, 0)
    lows = (numbers - shifts * SUBS) << shifts
    return lows, lows + (1 << shifts) - 1


_LOWS, _HIGHS = _bucket_ends()
_COUNTS = Histogram.fields["counts"].offset


class Latencies:
    """What histograms say: a copy of their counts, in nanoseconds.

    A percentile is the smallest latency that so many per cent of the samples do not exceed, to
    within 1 %. Without samples, figures are NaN.

    >>> histogram = Histogram.allocate()
    >>> note(histogram, 2_000_000)
    >>> Latencies.of(histogram).as_dict_ms()
    {'p50': 2.0, 'p99': 2.0, 'max': 2.0, 'samples': 1}
    """

    def __init__(self, counts: np.ndarray, total: int, largest: int) -> None:
        self._counts, self._behind = counts, np.cumsum(counts)  # samples up to each bucket's end
        self._sum, self._max = total, largest

    @classmethod
    def of(cls, *histograms: Any) -> Latencies:
        """The samples of all these Histogram records together, which may go on counting."""
        counts, total, largest = np.zeros(BUCKETS, np.int64), 0, 0
        for histogram in histograms:
            held = (ctypes.c_int64 * BUCKETS).from_address(histogram.address + _COUNTS)
            counts += np.ctypeslib.as_array(held)
            total, largest = total + histogram.sum, max(largest, histogram.max)
        return cls(counts, total, largest)

    def since(self, earlier: Latencies) -> Latencies:
        """What came after an earlier copy; the longest of them is known to within its bucket.

        >>> histogram = Histogram.allocate()
        >>> note(histogram, 50_000)
        >>> earlier = Latencies.of(histogram)
        >>> note(histogram, 40); note(histogram, 60)
        >>> later = Latencies.of(histogram).since(earlier)
        >>> later.count, later.max, later.mean
        (2, 60, 50.0)
        """
        counts = self._counts - earlier._counts
        found = np.flatnonzero(counts)
        largest = min(self._max, int(_HIGHS[found[-1]])) if len(found) else 0
        if self._max > earlier._max:
            largest = self._max  # it came later
        return Latencies(counts, self._sum - earlier._sum, largest)

    def __repr__(self) -> str:
        if not self.count:
            return "Latencies(no samples)"
        p50, p99, most = (f"{ns / MILLISECOND:.3g}" for ns in (self.p50, self.p99, self.max))
        return f"Latencies({self.count:,} samples: p50 {p50}, p99 {p99}, max {most} ms)"

    @property
    def count(self) -> int:
        """How many samples there are."""
        return int(self._behind[-1])

    @property
    def max(self) -> float:
        """The longest, exactly."""
        return self._max if self.count else math.nan

    @property
    def mean(self) -> float:
        """The mean, exactly."""
        return self._sum / self.count if self.count else math.nan

    @property
    def p50(self) -> float:
        """The median."""
        return self.percentile(50)

    @property
    def p99(self) -> float:
        """99 % of the samples are not above this."""
        return self.percentile(99)

    def percentile(self, q: float) -> float:
        """The latency that `q` per cent of the samples do not exceed.

        >>> histogram = Histogram.allocate()
        >>> for ns in range(1, 61): note(histogram, ns)
        >>> [Latencies.of(histogram).percentile(q) for q in (0, 50, 100)]
        [1.0, 30.0, 60.0]
        """
        if not 0 <= q <= 100:
            raise ValueError(f"a percentile is from 0 to 100, not {q}")
        if not self.count:
            return math.nan
        rank = max(1, math.ceil(q * self.count / 100))
        if rank == self.count:
            return float(self._max)
        bucket = int(np.searchsorted(self._behind, rank))
        return float(min((_LOWS[bucket] + _HIGHS[bucket]) / 2, self._max))

    def as_dict_ms(self) -> dict[str, float | int | None]:
        """p50, p99, max and samples, in milliseconds; None where there are no samples."""
        figures = {"p50": self.p50, "p99": self.p99, "max": self.max}
        found = {name: ns / MILLISECOND if self.count else None for name, ns in figures.items()}
        return {**found, "samples": self.count}
